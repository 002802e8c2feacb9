"""Many machines, by Ray: it hands out the work and replaces what dies. Here is what it is told, and how it fails.

Every node needs the same Python and the same samespot, and must see the photos where this machine sees them. Results
travel back to the process that asked, which alone writes files: nodes need no folder in common to write to.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.options import Options, option
from samespot.photo_files import is_address

RETRIES = 5  # of work whose worker or node died; more deaths than that are the work's own doing
AHEAD = 2  # jobs given out per core, so that none waits for the next
FARTHEST = 2  # times as many may be begun beyond one that is not done
CORES_EACH = 4  # of a worker that holds a network on processors: one a core would hold a network each
PATIENCE = 120.0  # [s] for a node to answer
KNOCK = 5.0  # [s] for an address to answer
SAMPLES = 8  # photos that every node must see
RESUMES = "the same command again resumes where it left off"
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
        if self.ray is not None and self.ray not in ("auto", "local") and not _HOST_PORT.fullmatch(self.ray):
            raise InputError(
                f"`ray` {self.ray!r} is no address; give auto, local, or the head's host and port such as 10.0.0.1:6379"
            )


@contextmanager
def joined_cluster(address: str) -> Iterator[Cluster]:
    """The cluster at an address, see `ClusterOptions`; left again afterwards, unless it was joined before."""
    if find_spec("ray") is None:
        raise InputError("`ray` needs the package ray; install it with pip install 'samespot[ray]'")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("`ray` and torchrun both share out the work; use one of them")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what its core tells its own authors
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))  # else for ever
    import ray

    if ray.is_initialized():
        yield Cluster(ray)
        return
    # Ray tells of workers that died on standard output, where a result may go
    with redirect_stdout(sys.stderr), signals_kept():
        _join(ray, address)
        try:
            cluster = Cluster(ray)
            cluster.check()
            yield cluster
        finally:
            ray.shutdown()


@contextmanager
def signals_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself and keeps it; afterwards it is as before."""
    if threading.current_thread() is not threading.main_thread():  # where nobody can set it
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


def _join(ray: Any, address: str) -> None:
    if address not in ("auto", "local"):
        _knock(address)
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    alone = {"include_dashboard": False} if address == "local" else {}
    try:
        with _no_stderr():  # its core greets there
            ray.init(address=address, **alone, **quiet)
    except ConnectionError:
        if address != "auto":  # something answers there
            raise InputError(
                f"`ray={address}`: no Ray cluster lets us in there; if it asks for a token, as newer ones do, set"
                " RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to what ray get-auth-token prints on its head"
            ) from None
        raise InputError(
            "`ray=auto`: no Ray cluster runs on this machine; start one with ray start --head, or use `ray=local`"
        ) from None
    except (
        RuntimeError,
        ValueError,
        OSError,
    ) as error:  # of the first kind: other versions of Ray and Python
        raise InputError(f"`ray={address}`: {_versions(str(error)) or _first_line(error)}") from None


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


def _knock(address: str) -> None:
    """Ray itself waits for half a minute and prints pages."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"`ray={address}`: nothing answers there ({_first_line(error)}); start a cluster with ray start --head"
        ) from None


class Cluster:
    """A Ray cluster that this process is part of."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    @property
    def cores(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    @property
    def gpus(self) -> int:
        return int(self._ray.cluster_resources().get("GPU", 0))

    def check(self, photos: Sequence[Path | str] = ()) -> None:
        """Raise unless every node has our Python and samespot, and sees some of these photos as we do."""
        samples = sample_of(photos)
        own = _node_facts(samples.keys())
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        asked = {}
        for node in self._ray.nodes():
            if node["Alive"]:
                there = strategy(node["NodeID"], soft=False)
                look = self._ray.remote(_by_value(_node_facts)).options(num_cpus=0, scheduling_strategy=there)
                asked[node["NodeManagerHostname"] + " " + node["NodeID"][:6]] = look.remote(list(samples))
        for name, answer in asked.items():
            try:
                facts = self._ray.get(answer, timeout=PATIENCE)
            except self._ray.exceptions.GetTimeoutError:
                raise InputError(f"node {name}: did not answer within {PATIENCE:g} s") from None
            except self._ray.exceptions.RayError as error:
                if _gone(error):
                    continue  # it left the cluster meanwhile
                raise InputError(f"node {name}: {_first_line(error)}") from None
            _refuse_other_node(name, facts, own)

    def each(self, work: Callable[..., Any], jobs: Iterable[Any], *shared: Any) -> Iterator[tuple[int, Any]]:
        """`work(job, *shared)` of every job: its number and its result, as they are done.

        shared: sent to each node once. A job whose worker or node dies is done again, here or on another node.
        """
        with one_line(self._ray):
            held = [self._ray.put(one) for one in shared]
            yield from self._done(self._task(work, 1), ((job, *held) for job in jobs), lambda: self.cores)

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
            run = self._task(_by_held, self.cores_each(gpu), gpu)
            jobs = ((span, name, held) for span in spans)
            yield from self._done(run, jobs, lambda: self.workers(gpu))

    def _task(self, work: Callable[..., Any], cores: int, gpu: bool = False) -> Any:
        how: dict[str, Any] = {"num_cpus": cores, "max_retries": RETRIES}
        if gpu:
            # a process is kept for many calls, and may get another GPU for the next: it must see all of them
            how |= {"num_gpus": 1, "max_calls": 0, "runtime_env": {"env_vars": {_ALL_GPUS: "1"}}}
        return self._ray.remote(**how)(work)

    def _done(
        self, run: Any, jobs: Iterator[tuple[Any, ...]], at_once: Callable[[], int]
    ) -> Iterator[tuple[int, Any]]:
        """Numbers and results as they come. None is begun that is far ahead of one that is not done: results may wait
        for their turn in memory."""
        ray, left, waiting, begun = self._ray, enumerate(jobs), dict[Any, int](), 0
        try:
            while True:
                most = AHEAD * at_once()  # nodes come and go
                oldest = min(waiting.values(), default=begun)
                room = max(0, min(most - len(waiting), oldest + FARTHEST * most - begun))
                for number, job in islice(left, room):
                    waiting[run.remote(*job)] = number
                    begun = number + 1
                if not waiting:
                    return
                (done,), _ = ray.wait(list(waiting))
                yield waiting.pop(done), ray.get(done)
        finally:
            for one in waiting if ray.is_initialized() else ():  # else to cancel would start a new Ray
                ray.cancel(one)

    def workers(self, gpu: bool) -> int:
        """How many there is room for, of those that hold a network."""
        each = self.cores_each(gpu)
        return max(1, self.gpus if gpu else sum(cores // each for cores, _ in self._nodes()))

    def cores_each(self, gpu: bool) -> int:
        """Of a worker that holds a network: beside a GPU so few that every GPU of its node gets one; else `CORES_EACH`,
        or what the largest node has."""
        nodes = self._nodes()
        if gpu:
            return min([CORES_EACH, *(cores // gpus for cores, gpus in nodes if gpus)])
        return max(1, min(CORES_EACH, max((cores for cores, _ in nodes), default=1)))

    def _nodes(self) -> list[tuple[int, int]]:
        """Cores and GPUs of each node."""
        there = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return [(int(one.get("CPU", 0)), int(one.get("GPU", 0))) for one in there]


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


# ---- what nodes have ----


def sample_of(photos: Sequence[Path | str]) -> dict[str, int]:
    """Some of these files, from the first to the last, and their sizes; only those that this machine sees."""
    step = max(1, len(photos) // SAMPLES)
    some = [os.path.abspath(one) for one in photos[::step] if not is_address(one)]
    return {path: os.path.getsize(path) for path in some if os.path.isfile(path)}


def refuse_unseen(samples: dict[str, int]) -> None:
    """Raise unless this node sees these files. A node may join, or lose its folders, when the work has begun."""
    for path, size in samples.items():
        if not os.path.isfile(path) or os.path.getsize(path) != size:
            raise InputError(_unseen(platform.node(), path))


def _unseen(node: str, path: str) -> str:
    return (
        f"node {node}: does not see {path} as this machine does; put the photos into a folder that all nodes share"
        " under the same path"
    )


def _node_facts(paths: Iterable[str]) -> dict[str, Any]:
    """What a node has. This function is sent whole: the node may have another samespot, or none."""
    import os
    import platform

    facts: dict[str, Any] = {"python": platform.python_version(), "samespot": None, "source": None}
    try:
        import samespot

        facts["samespot"] = samespot.__version__
        from samespot.cluster import source_digest

        facts["source"] = source_digest()
    except (ImportError, AttributeError, OSError):
        pass
    return {
        **facts,
        "sizes": {path: os.path.getsize(path) if os.path.isfile(path) else None for path in paths},
    }


@cache
def source_digest() -> str:
    """Of the installed samespot's own files: two builds may call themselves by one version."""
    digest, here = hashlib.sha256(), Path(__file__).parent
    for path in sorted(here.rglob("*.py")):
        digest.update(f"{path.relative_to(here)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _refuse_other_node(name: str, facts: dict[str, Any], own: dict[str, Any]) -> None:
    if facts["samespot"] is None:
        raise InputError(f"node {name}: has no samespot; install samespot {own['samespot']} on every node")
    for what in ("python", "samespot"):
        if facts[what] != own[what]:
            raise InputError(
                f"node {name}: has {what} {facts[what]}, and this machine {own[what]}; install the same on both"
            )
    if facts["source"] != own["source"]:
        raise InputError(
            f"node {name}: its samespot {facts['samespot']} has other files than this machine's; install the same on"
            " both"
        )
    for path, size in own["sizes"].items():
        if facts["sizes"][path] != size:
            raise InputError(_unseen(name, path))


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


def _said(kinds: Any, error: Any) -> str:
    causes = list(_causes(error))
    if isinstance(causes[-1], InputError):  # Ray's own around it is one, too, with pages of text
        return str(causes[-1])
    for cause in causes:
        if isinstance(cause, kinds.OutOfDiskError) or getattr(cause, "errno", None) == 28:
            return f"a node of the cluster is out of disk space; free some, and {RESUMES}"
        if isinstance(cause, kinds.OutOfMemoryError):
            return f"a node of the cluster ran out of memory {RETRIES} times; give nodes fewer cores, and {RESUMES}"
    if any(_gone(cause) for cause in causes):
        return f"the same work killed its worker {RETRIES} times; see Ray's logs, and {RESUMES}"
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
