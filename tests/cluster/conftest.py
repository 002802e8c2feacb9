"""Ray as one starts it on a machine: by its command, in an environment and with a Python of its own."""

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import samespot


@pytest.fixture
def ray_start():
    """Starts a head or a node, and stops it."""
    started = []

    def start(*words, before=(), python=sys.executable, **environment):
        command = [*before, python, "-m", "ray.scripts.scripts", "start", "--block", *words]
        said = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        told = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
        node = subprocess.Popen(command, env=told, **said)
        started.append(node)
        assert any("Ray runtime started" in line for line in node.stdout)
        return node

    yield start
    for node in started:
        node.terminate()
        node.wait()
        node.stdout.close()


@pytest.fixture(scope="session")
def other_python():
    """A Python of this minor release, so that Ray runs on it, and of another patch release: how to start Ray with it,
    and its version."""
    major, minor, *_ = sys.version_info
    paths = [sysconfig.get_path("platlib"), str(Path(samespot.__file__).parents[1])]
    how = {"python": f"/usr/bin/python{major}.{minor}", "PYTHONPATH": os.pathsep.join(paths)}
    try:
        words = [how["python"], "-c", "import platform, ray; print(platform.python_version())"]
        asked = subprocess.run(words, env={**os.environ, **how}, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no other Python on this machine that Ray runs on")
    if asked.stdout.strip() == platform.python_version():
        pytest.skip("the other Python on this machine is the same")
    return how, asked.stdout.strip()
