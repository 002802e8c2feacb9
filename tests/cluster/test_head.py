"""A real head that dies, and a driver that is asked to end: commands in processes of their own."""

import csv
import os
import signal

import pytest

from samespot.cluster import _found, _is_address, joined_cluster, signals_kept
from samespot.errors import InputError
from samespot.overlap.labels import PairLabels
from tests import warm

pytest.importorskip("ray", reason="ray is not installed")
VIEWS, TILE = 640, 20  # cut in halves

# the driver takes its time with each tile, so that there is work left for a while; after the first, something happens
LABEL = f"""
import os, signal, sys, time
from samespot import cluster
from samespot.cli import run
from samespot.overlap import tiles

number, process, *sys.argv[1:] = sys.argv[1:]
cluster.SILENCE, tiles.TILE = 3.0, {TILE}
keep = tiles._OnDisk.keep

def slowly(self, *part):
    keep(self, *part)
    print("kept", file=sys.stderr)
    if int(number):
        if len(self._there) == 1:
            os.kill(int(process) or os.getpid(), int(number))
        time.sleep(0.5)

tiles._OnDisk.keep = slowly
run()
"""


@pytest.fixture(scope="module")
def head():
    from ray.cluster_utils import Cluster

    with signals_kept():
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        yield cluster
        cluster.shutdown()


@pytest.fixture
def gcs(head):
    """The process of the head that others ask."""
    return head.head_node.all_processes["gcs_server"][0].process.pid


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    at = tmp_path_factory.mktemp("head")
    with (at / "places.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "easting", "northing", "heading"])
        rows.writerows([f"{row}.jpg", 0, 3 * row, 0] for row in range(VIEWS))
    return at


def label(folder, address, out, happens=0, process=0):
    """Returns its code, the lines of its error output, and how many tiles it labelled."""
    words = [happens, process, "label", folder / "places.csv", "--out", folder / out, "--ray", address]
    done = warm.run(["-c", LABEL, *words, "--missing-images", "ignore", "--no-figures"], timeout=120)
    said = [line for line in done.stderr.splitlines() if not line.startswith(("labelling", "kept"))]
    return done.returncode, said, done.stderr.count("kept")


@pytest.mark.parametrize("kill", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_is_ended_is_one_line(head, folder, kill):
    """Not a stack trace of Ray's core; and a line also where nothing can be said in Python."""
    code, (line,), _ = label(folder, head.address, kill.name, int(kill))
    assert code == -kill
    assert line == (
        "samespot: the process was ended, from outside or because Ray has stopped on this machine; the same command"
        " again resumes where it left off"
    )


def test_a_head_that_is_stopped_is_not_waited_for(head, gcs, monkeypatch):
    monkeypatch.setattr("samespot.cluster.KNOCK", 0.5)
    os.kill(gcs, signal.SIGSTOP)
    try:
        with pytest.raises(InputError, match="nothing answers there"), joined_cluster(head.address):
            pass
    finally:
        os.kill(gcs, signal.SIGCONT)


def test_auto_has_an_address(head, monkeypatch):
    """Which may be that of the cluster of a test beside this one."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    address, named = _found("auto", "`ray=auto`")
    assert address not in ("auto", "local")
    assert _is_address(address)
    assert named == f"`ray=auto`, which is {address}"


def test_a_head_that_dies_in_the_middle_is_one_line_and_the_same_command_resumes(head, gcs, folder):
    code, (line,), first = label(folder, head.address, "out", int(signal.SIGKILL), gcs)
    assert code == 2
    assert f"the head of the cluster, {head.address}, has not answered for 3 s;" in line
    assert line.endswith("the same command again resumes where it left off")
    assert 1 <= first < VIEWS / TILE
    code, _, then = label(folder, "local", "out")
    assert (code, first + then) == (0, VIEWS / TILE)
    assert len(PairLabels.open(folder / "out" / "labels")) == VIEWS
    assert [path.name for path in (folder / "out").iterdir()] == ["labels"]
