"""Many machines, by Ray: it hands out the work and replaces what dies. Here is what it is told, and how it fails.

Every node needs the same Python and the same samespot, and must see the photos where this machine sees them. Results
travel back to the process that asked, which alone writes files: nodes need no folder in common to write to.
"""

from __future__ import annotations

import atexit
import os
import platform
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from samespot.alike import (
    Alike,
    node_facts,
    own_facts,
    refuse_other_facts,
    refuse_other_sight,
    sample_of,
    where_alike,
)
from samespot.errors import InputError
from samespot.files import RESUMES
from samespot.options import Options, option
from samespot.progress import Progress, silent
from samespot.signals import signals_kept

RETRIES = 5  # of work whose worker or node died; more deaths than that are the work's own doing
AHEAD = 2  # jobs given out per core, so that none waits for the next
FARTHEST = 2  # times as many may be begun beyond one that is not done
CORES_EACH = 4  # of a worker that holds a network on processors: one a core would hold a network each
NEARLY_ALL = 0.9  # of the cluster's cores should be in use: nodes rarely have a multiple of that
PATIENCE = 120.0  # [s] for a node to answer, or for one to join that can do the work
GLANCE = 1.0  # [s] after which one looks whether such a node is still there
KNOCK = 5.0  # [s] for an address to answer
SILENCE = 20.0  # [s] without an answer of the head, after which it is given up; Ray ends the process after 60
MOST_PORT = 65_535
SOON = 5.0  # [s] without a node for the work, after which that is told
# how HTTP/2 begins, and an empty frame of settings; what speaks it answers with such a frame: Ray's heads do
_HELLO, _SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), 4
_WITNESS = "import sys; sys.stdin.read() or sys.exit(sys.argv[1])"  # a word means that all is well
_ALL_GPUS = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"
_HOST_PORT = re.compile(r"(?:[\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}")


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(Options):
    """Where the heavy part of the work is done."""

    ray: str | None = option(
        None,
        "Share the work among the machines of a Ray cluster: the address of its head, such as 10.0.0.1:6379; auto for"
        " the cluster that this machine is part of; local for the cores of this machine.",
        default="this process does it all",
        metavar="ADDRESS",
        panel="How it runs",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ray is not None and not _is_address(self.ray):
            raise InputError(_no_address(f"`ray={self.ray}`"))


def _is_address(words: str) -> bool:
    port = words.rpartition(":")[2]
    return words in ("auto", "local") or bool(_HOST_PORT.fullmatch(words) and int(port) <= MOST_PORT)


def _no_address(named: str) -> str:
    return f"{named} is no address; give auto, local, or the head's host and port such as 10.0.0.1:6379"


@contextmanager
def joined_cluster(address: str, progress: Progress | None = None) -> Iterator[Cluster]:
    """The cluster at an address, see `ClusterOptions`; left again afterwards, unless it was joined before."""
    tell = progress or silent
    _refuse_unable()
    if "ray" not in sys.modules:  # to import it takes a second
        refuse_absent(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what its core tells its own authors
    os.environ.setdefault("RAY_COLOR_PREFIX", "0")  # its lines may go to a file
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))  # else for ever
    import ray

    with ExitStack() as stack:
        if ray.is_initialized():
            _refuse_other_cluster(ray, address)
        else:
            tell("starting Ray" if address == "local" else "joining the cluster", 0, 0)
            stack.enter_context(_part_of(ray, address))
        cluster = Cluster(ray, tell)
        with _checked_once(cluster):
            yield cluster


@contextmanager
def joined_where_asked(address: str | None, progress: Progress | None = None) -> Iterator[Cluster | None]:
    """The same; nothing where no cluster is asked for."""
    if address is None:
        yield None
    else:
        with joined_cluster(address, progress) as cluster:
            yield cluster


@contextmanager
def _part_of(ray: Any, address: str) -> Iterator[None]:
    # Ray tells of workers that died on standard output, where a result may go
    with redirect_stdout(sys.stderr), _witnessed():
        try:
            with signals_kept():
                _join(ray, address)
            # it would reset its colours in the end, as text in a progress bar
            if colours := sys.modules.get("colorama.initialise"):
                atexit.unregister(colours.reset_all)
            yield
        finally:
            _leave(ray)  # where it failed, too: it remembers the nodes of a cluster that did not let it in


@contextmanager
def _witnessed() -> Iterator[None]:
    """Ray's core ends this process on the spot where Ray stops on this machine, and in Python nobody can say a word. So
    another process does."""
    command = [sys.executable, "-ISc", _WITNESS, f"samespot: {_ended()}"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    ) as witness:
        try:
            yield
        finally:
            with suppress(OSError):  # it is gone itself
                witness.communicate(b"left")


def _leave(ray: Any) -> None:
    """Ray waits, perhaps for ever, for a head that was stopped or lost its network."""
    code = 0 if sys.exc_info()[0] is None else 2
    left = _aside(ray.shutdown)
    try:
        wait([left], SILENCE)
    finally:
        if not left.done():
            atexit.register(_end, left, code)
    if left.done():
        left.result()


def _end(left: Future[Any], code: int) -> None:
    """Of a process that Ray did not let go: it would end in a crash, with a code of its own."""
    if not left.done():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)


def _aside(call: Callable[[], Any]) -> Future[Any]:
    """A call of Ray's core in a thread of its own: without a head it may wait for ever, and cannot be interrupted."""
    answer = Future[Any]()

    def ask() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    return answer


def _watched(call: Callable[[], Any], look: Callable[[], Any]) -> Any:
    """What such a call returns. look: called now and then meanwhile; raises where it is in vain to wait."""
    answer = _aside(call)
    while not wait([answer], GLANCE).done:
        look()
    return answer.result()


_commands = 0  # that this process is in, one within the other, with a cluster


@contextmanager
def _checked_once(cluster: Cluster) -> Iterator[None]:
    """The first command checks the nodes; not again what it calls."""
    global _commands
    if not _commands:
        cluster.check()
    _commands += 1
    try:
        yield
    finally:
        _commands -= 1


def _refuse_other_cluster(ray: Any, address: str) -> None:
    """Raise unless the cluster that this process is part of is the one that is asked for."""
    joined, here = ray.get_runtime_context().gcs_address, ray.util.get_node_ip_address()
    if address == "local":
        same = all(node["NodeManagerAddress"] == here for node in Cluster(ray).alive())
    else:
        same = address == "auto" or bool(_places(address, here) & _places(joined, here))
    if not same:
        raise InputError(
            f"`ray={address}`: this process is part of the cluster at {joined}; leave that with ray.shutdown() first,"
            " or use `ray=auto`"
        )


def _places(address: str, here: str) -> set[tuple[Any, ...]]:
    """IP addresses and port of a host and port; none where no such host is known."""
    host, _, port = address.rpartition(":")
    host = here if host in ("localhost", "127.0.0.1", "[::1]") else host.strip("[]")
    try:
        return {found[4][:2] for found in socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)}
    except (OSError, OverflowError, ValueError):
        return set()


def _join(ray: Any, asked: str) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    address, named = _meant(asked)
    try:
        with _no_stderr():  # its core greets there
            if address == "local":  # what it starts ends with the thread that starts it
                ray.init(address=address, include_dashboard=False, **quiet)
                return
            address, named = _found(address, named)
            began = time.monotonic()

            def look() -> None:
                if address != "auto":
                    _knock(address, named)
                if time.monotonic() > began + PATIENCE:
                    raise InputError(
                        f"{named}: the cluster has not let this machine in for {PATIENCE:g} s; see Ray's logs"
                    )

            look()
            _watched(partial(ray.init, address=address, **quiet), look)
    except InputError:
        raise
    except (ConnectionError, ray.exceptions.RayError) as error:  # the latter: it looked for a token itself
        if address == "auto" and isinstance(error, ConnectionError):
            raise InputError(
                f"{named}: no Ray cluster runs on this machine; start one with ray start --head, or use `ray=local`"
            ) from None
        raise InputError(
            f"{named}: cannot join a Ray cluster at this address; if it asks for a token, as newer ones do, set"
            " RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to what ray get-auth-token prints on its head"
        ) from None
    except (RuntimeError, ValueError, OSError) as error:  # the first: other versions of Ray and Python
        raise InputError(f"{named}: {_versions(str(error)) or _first_line(error)}") from None


def refuse_absent(address: str) -> None:
    """Raise where no cluster can be joined at an address, as far as that is known without Ray."""
    _refuse_unable()
    meant, named = _meant(address)
    if meant not in ("auto", "local"):
        _knock(meant, named)


def _refuse_unable() -> None:
    if find_spec("ray") is None:
        raise InputError("`ray` needs the package ray; install it with pip install 'samespot[ray]'")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("`ray` and torchrun both distribute the work; use only one of them")


def _meant(asked: str) -> tuple[str, str]:
    """What is asked for, and how errors name that: for `auto`, Ray itself takes what RAY_ADDRESS says."""
    told = os.environ.get("RAY_ADDRESS")
    if asked != "auto" or not told:
        return asked, f"`ray={asked}`"
    if not _is_address(told):  # that of the dashboard, say, which jobs are sent to
        raise InputError(_no_address(f"RAY_ADDRESS={told}"))
    return told, f"RAY_ADDRESS={told}"


def _found(address: str, named: str) -> tuple[str, str]:
    """For `auto`, the address that Ray finds on this machine, so that one can knock there: the head may be gone, and
    Ray would wait for it."""
    if address != "auto":
        return address, named
    try:
        from ray._private.services import canonicalize_bootstrap_address
    except ImportError:  # it is Ray's own, and another version may have none
        return address, named
    found = str(canonicalize_bootstrap_address(address))
    return found, f"{named}, which is {found}"


@contextmanager
def _no_stderr() -> Iterator[None]:
    """What is written to standard error meanwhile, by C++ too, is lost."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _versions(said: str) -> str | None:
    """Ray's own words on versions that differ, in one line."""
    if "ersion mismatch" not in said:
        return None
    found = re.findall(r"(Ray|Python): ([\w.]+)", said)
    if len(found) != 4:
        return f"this machine has Python {platform.python_version()}, and the cluster another, or another Ray"
    theirs, ours = (
        " and ".join(f"{name} {version}" for name, version in part) for part in (found[:2], found[2:])
    )
    return f"the cluster runs {theirs}, and this machine {ours}; install the same on both"


def _knock(address: str, named: str) -> None:
    """Ray itself waits for half a minute and prints pages."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), KNOCK) as there:
            encrypted = os.environ.get("RAY_USE_TLS", "0") != "0"
            may_be_ray = encrypted or _speaks_http2(there)
    except (OverflowError, ValueError):  # no such port or name can be
        raise InputError(_no_address(named)) from None
    except OSError as error:
        raise InputError(
            f"{named}: nothing answers there ({error.strerror or error}); start a cluster with ray start --head"
        ) from None

    if not may_be_ray:
        raise InputError(
            f"{named}: what answers there is not the head of a Ray cluster; check the port, which is 6379"
            " unless ray start --head was told another"
        )


def _speaks_http2(there: socket.socket) -> bool:
    """Whether Ray would get an answer: to anything else it talks for minutes. Silence is an `OSError`."""
    try:
        there.sendall(_HELLO)
        frame = b""
        while len(frame) < 9 and (more := there.recv(9 - len(frame))):
            frame += more
    except ConnectionError:
        return False
    return len(frame) == 9 and frame[3] == _SETTINGS


class Cluster:
    """A Ray cluster that this process is part of."""

    def __init__(self, ray: Any, tell: Progress = silent) -> None:
        self._ray, self._tell = ray, tell
        self._seen, self._seen_until = list[Any](), 0.0  # nodes, and until when that holds
        self._asked: tuple[Future[Any], float] | None = None  # about them, and since when
        self._samples: dict[str, str] = {}  # photos that every node must see, and their sizes

    @property
    def cores(self) -> int:
        return max(1, sum(cores for cores, _ in self._nodes()))

    @property
    def gpus(self) -> int:
        return sum(gpus for _, gpus in self._nodes())

    def check(self, photos: Sequence[Path | str] = ()) -> None:
        """Raise unless every node has our Python and samespot, and sees some of these photos as we do."""
        with one_line(self._ray):
            self._check(photos)

    def _check(self, photos: Sequence[Path | str]) -> None:
        self._samples = sample_of(photos)
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        asked = {}
        for node in self.alive():
            there = strategy(node["NodeID"], soft=False)
            look = self._ray.remote(_by_value(node_facts)).options(num_cpus=0, scheduling_strategy=there)
            name = node["NodeManagerHostname"] + " " + node["NodeID"][:6]
            asked[name] = self._patiently(partial(look.remote, list(self._samples)))
        for name, answer in asked.items():
            try:
                facts, seen = self._patiently(partial(self._ray.get, answer, timeout=PATIENCE))
            except self._ray.exceptions.GetTimeoutError:
                raise InputError(f"node {name}: did not answer within {PATIENCE:g} s") from None
            except self._ray.exceptions.RayError as error:
                if _gone(error):
                    continue  # it left the cluster meanwhile
                raise InputError(f"node {name}: {_first_line(error)}") from None
            refuse_other_facts(name, facts, own_facts())
            refuse_other_sight(name, seen, self._samples)

    def each(self, work: Callable[..., Any], jobs: Iterable[Any], *shared: Any) -> Iterator[tuple[int, Any]]:
        """`work(job, *shared)` of every job: its number and its result, as they are done.

        shared: sent to each node once. A job whose worker or node dies is done again, here or on another node.
        """
        with one_line(self._ray):
            held = [self._ray.put(one) for one in shared]
            yield from self._done(work, ((job, *held) for job in jobs), 1)

    def through(
        self, worker: Callable[..., Any], made_with: Sequence[Any], spans: Sequence[Any], *, gpu: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """`worker(*made_with)(span)` of every span, likewise. A process makes its worker once, and keeps it: a network,
        for example. gpu: each has one, `own_gpu`.

        Not by actors of Ray Data: it keeps retrying what kills its worker, and six empty spans take it ten seconds;
        these take half a second.
        """
        with one_line(self._ray):
            # in a list, so that Ray does not fetch it for each span
            held = [self._ray.put((worker, tuple(made_with)))]
            name = uuid.uuid4().hex
            yield from self._done(_by_held, ((span, name, held) for span in spans), self.cores_each(gpu), gpu)

    def _alike(self) -> Alike:
        """What a node must have, for those that join when the work has begun."""
        return Alike(uuid.uuid4().hex, own_facts(), self._samples)

    def _task(self, cores: int, gpu: bool) -> Any:
        how: dict[str, Any] = {"num_cpus": cores, "max_retries": RETRIES}
        if gpu:
            # a process is kept for many calls, and may get another GPU for the next: it must see all of them
            how |= {"num_gpus": 1, "max_calls": 0, "runtime_env": {"env_vars": {_ALL_GPUS: "1"}}}
        return self._ray.remote(**how)(where_alike)

    def _done(
        self, work: Callable[..., Any], jobs: Iterator[tuple[Any, ...]], cores: int, gpu: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Numbers and results as they come. None is begun that is far ahead of one that is not done: results may wait
        for their turn in memory.

        Work that nobody waits for any more is not cancelled and runs out by itself: `ray.cancel` aborts this process
        when an answer is under way at that moment (seen in Ray 2.56 and 2.60).
        """
        ray, left, waiting, begun = self._ray, enumerate(jobs), dict[Any, int](), 0
        run, nowhere = self._task(cores, gpu), 0.0  # [s] that there has been no node for it
        alike = self._alike()
        while True:
            most = AHEAD * self._at_once(cores, gpu)  # nodes come and go
            oldest = min(waiting.values(), default=begun)
            room = max(0, min(most - len(waiting), oldest + FARTHEST * most - begun))
            for number, job in islice(left, room):
                waiting[self._patiently(partial(run.remote, alike, work, *job))] = number
                begun = number + 1
            if not waiting:
                return
            done, _ = ray.wait(list(waiting), timeout=GLANCE)
            nowhere = 0.0 if done or self._offered(cores, gpu) else nowhere + GLANCE
            if nowhere >= PATIENCE:  # Ray itself would wait for ever
                raise InputError(_nobody_offers(cores, gpu))
            if nowhere >= SOON:
                self._tell(f"waiting for a node with {_needed(cores, gpu)}", 0, 0)
            for one in done:
                yield waiting.pop(one), ray.get(one)

    def workers(self, gpu: bool) -> int:
        """How many there is room for, of those that hold a network."""
        return self._at_once(self.cores_each(gpu), gpu)

    def cores_each(self, gpu: bool) -> int:
        """Of a worker that holds a network: beside a GPU so few that every GPU of its node gets one; else as many of
        `CORES_EACH` as leave hardly a core of the cluster idle."""
        nodes = self._nodes()
        if gpu:
            return min([CORES_EACH, *(cores // gpus for cores, gpus in nodes if gpus)])
        enough = NEARLY_ALL * sum(cores for cores, _ in nodes)
        used = {each: sum(cores // each * each for cores, _ in nodes) for each in range(1, CORES_EACH + 1)}
        return max((each for each in used if used[each] >= max(1, enough)), default=1)

    def _at_once(self, cores: int, gpu: bool) -> int:
        return max(1, self.gpus if gpu else sum(there // cores for there, _ in self._nodes()))

    def _offered(self, cores: int, gpu: bool) -> bool:
        """Whether some node could run it, now or when it is free."""
        return any(there >= cores and gpus >= gpu for there, gpus in self._nodes())

    def _nodes(self) -> list[tuple[int, int]]:
        """Cores and GPUs of each node."""
        there = (node["Resources"] for node in self.alive())
        return [(int(one.get("CPU", 0)), int(one.get("GPU", 0))) for one in there]

    def alive(self) -> list[Any]:
        """Nodes, as they were a moment ago: in a large cluster it takes long to ask. While the head is silent they are
        as they were before, since work goes on without it, and it may come back."""
        if time.monotonic() >= self._seen_until:
            self._asked = self._asked or (_aside(self._ray.nodes), time.monotonic())
            answer, since = self._asked
            if wait([answer], GLANCE if self._seen else SILENCE).done:
                self._seen, self._asked = [node for node in answer.result() if node["Alive"]], None
            elif not self._seen or time.monotonic() >= since + SILENCE:
                raise InputError(_silent(self._ray.get_runtime_context().gcs_address))
            self._seen_until = time.monotonic() + GLANCE / 2
        return self._seen

    def _patiently(self, call: Callable[[], Any]) -> Any:
        """What a call returns that may need the head."""
        return _watched(call, self.alive)


def in_order(done: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    """Results by their numbers; those that come early wait for their turn."""
    early, turn = dict[int, Any](), 0
    for number, one in done:
        early[number] = one
        while turn in early:
            yield early.pop(turn)
            turn += 1


_HELD: dict[tuple[str, int], Any] = {}  # by a process of a node: the worker it made, by name and GPU


def _by_held(span: Any, name: str, held: list[Any]) -> Any:
    key = name, own_gpu()
    if key not in _HELD:
        import ray

        worker, made_with = ray.get(held[0])
        _HELD.clear()  # one at a time: they are large
        if "torch" in sys.modules and key[1] >= 0:
            sys.modules["torch"].cuda.empty_cache()  # of the GPU that it had before
        _HELD[key] = worker(*made_with)
    return _HELD[key](span)


def own_gpu() -> int:
    """The GPU that Ray gives the work that runs just now, by the number that torch knows it by; -1: none."""
    import ray

    given = ray.get_gpu_ids()
    if not given:
        return -1
    if not os.environ.get(_ALL_GPUS):
        return 0  # the process sees no other
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return seen.split(",").index(str(given[0])) if seen else int(given[0])


def _by_value(function: Any) -> Any:
    """A copy of a function that is sent whole, not as the name of one in a module that a node may not have."""
    import types

    copied = types.FunctionType(function.__code__, {"__builtins__": __builtins__}, function.__name__)
    copied.__module__ = "__main__"
    return copied


# ---- what goes wrong ----


@contextmanager
def one_line(ray: Any) -> Iterator[None]:
    """What Ray raises, as one line of ours."""
    kinds = ray.exceptions
    try:
        yield
    except kinds.RayError as error:
        raise InputError(_said(kinds, error)) from None


def _needed(cores: int, gpu: bool) -> str:
    return " and ".join(["a GPU"] * gpu + [f"{cores} core{'s' * (cores > 1)}"] * (cores > 0))


def _nobody_offers(cores: int, gpu: bool) -> str:
    return (
        f"for {PATIENCE:g} s no node of the cluster has had {_needed(cores, gpu)}, which this work needs; start one"
        f" with ray start, and {RESUMES}"
    )


def _ended() -> str:
    return f"the process was ended, from outside or because Ray has stopped on this machine; {RESUMES}"


def _silent(head: str) -> str:
    return f"the head of the cluster, {head}, has not answered for {SILENCE:g} s; start a cluster again, and {RESUMES}"


def _said(kinds: Any, error: Any) -> str:
    causes = list(_causes(error))
    if isinstance(causes[-1], InputError):  # Ray's own around it is one, too, with pages of text
        return str(causes[-1])
    for cause in causes:
        if isinstance(cause, kinds.OutOfDiskError) or getattr(cause, "errno", None) == 28:
            return f"a node of the cluster is out of disk space; free some, and {RESUMES}"
        if isinstance(cause, kinds.OutOfMemoryError):
            return f"a node of the cluster ran out of memory {RETRIES + 1} times; give nodes fewer cores, and {RESUMES}"
    if any(isinstance(cause, kinds.LocalRayletDiedError) for cause in causes):
        return f"Ray on this machine has stopped; start it again with ray start, and {RESUMES}"
    if any(_gone(cause) for cause in causes):
        return f"the same work killed its worker {RETRIES + 1} times; see Ray's logs, and {RESUMES}"
    return f"Ray: {_first_line(causes[-1])}; {RESUMES}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = getattr(error, "cause", None) or error.__cause__


def _gone(error: BaseException) -> bool:
    """Whether a worker or its node died."""
    died = (
        "WorkerCrashedError",
        "ActorDiedError",
        "ActorUnavailableError",
        "NodeDiedError",
        "ObjectLostError",
    )
    nowhere = ("OwnerDiedError", "TaskUnschedulableError", "ActorUnschedulableError", "LocalRayletDiedError")
    return any(kind.__name__ in (*died, *nowhere) for kind in type(error).__mro__)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
