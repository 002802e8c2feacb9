"""Who works: cores and GPUs of a worker, and the worker that a process of a node keeps. No Ray runs."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from samespot import cluster
from samespot.cluster import AHEAD, FARTHEST, Cluster, own_gpu
from samespot.errors import InputError
from samespot.retrieval import describe as describing
from samespot.retrieval.describe import WAITING, OnDevice, blocks_left, on_nodes, spans_of
from samespot.retrieval.options import DescribeOptions

ray = pytest.importorskip("ray", reason="ray is not installed")


class Ray:
    """A cluster of nodes with so many cores and GPUs."""

    def __init__(self, nodes):
        self._nodes = nodes

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": cores, "GPU": gpus}} for cores, gpus in self._nodes]


def test_a_cluster_has_the_cores_and_gpus_of_its_nodes():
    made = Cluster(Ray([(16, 8), (4, 0), (0, 1)]))
    assert (made.cores, made.gpus) == (20, 9)
    assert Cluster(Ray([(0, 0)])).cores == 1  # what is divided by it must not end


@pytest.mark.parametrize(
    ("nodes", "gpu", "each", "workers"),
    [
        ([(16, 8)], True, 2, 8),
        ([(64, 8), (64, 0)], True, 4, 8),
        ([(0, 1)], True, 0, 1),
        ([(64, 0), (1, 0)], False, 4, 16),  # one core idles, and the large node is not cut up for it
        ([(8, 0), *[(2, 0)] * 20], False, 2, 24),
        ([(4, 0), (2, 0)], False, 2, 3),
        ([(6, 0)], False, 3, 2),
        ([(13, 0)], False, 4, 3),  # 12 of 13 are in use
        ([(2, 0), (1, 0)], False, 1, 3),
        ([(0, 0), (8, 0)], False, 4, 2),
        ([(0, 0)], False, 1, 1),
    ],
)
def test_every_gpu_gets_a_worker_and_hardly_a_core_idles(nodes, gpu, each, workers):
    made = Cluster(Ray(nodes))
    assert (made.cores_each(gpu), made.workers(gpu)) == (each, workers)


def test_few_cores_idle_whatever_the_nodes():
    dice = np.random.default_rng(0)
    for _ in range(200):
        nodes = [(int(cores), 0) for cores in dice.integers(1, 40, dice.integers(1, 9))]
        each = Cluster(Ray(nodes)).cores_each(False)
        total = sum(cores for cores, _ in nodes)
        used = [sum(cores // one * one for cores, _ in nodes) for one in range(1, 5)]
        assert used[each - 1] >= 0.9 * total
        assert all(more < 0.9 * total for more in used[each:])


def test_results_wait_for_their_turn():
    assert list(cluster.in_order(iter([(2, "c"), (0, "a"), (1, "b")]))) == ["a", "b", "c"]


@pytest.mark.parametrize("workers", [1, 16, 250])
def test_so_many_photos_may_wait_for_their_turn(workers):
    """Whatever the number of workers: many of them get shorter spans."""
    count = 1_000_000
    spans = spans_of(blocks_left(count, 16), [""] * count, workers)
    assert sum(len(span.photos) for span in spans) == count
    assert FARTHEST * AHEAD * workers * max(len(span.photos) for span in spans) <= WAITING


@pytest.mark.parametrize(
    ("given", "all_seen", "visible", "number"),
    [
        ([], None, None, -1),
        (["3"], None, "3", 0),  # the process sees no other
        (["3"], "1", None, 3),
        ([1], "1", None, 1),
        (["5"], "1", "4,5", 1),  # a node that was started with some of its GPUs
    ],
)
def test_the_gpu_of_a_worker_by_the_number_that_torch_knows(monkeypatch, given, all_seen, visible, number):
    monkeypatch.setattr(ray, "get_gpu_ids", lambda: given)
    for name, value in ((cluster._ALL_GPUS, all_seen), ("CUDA_VISIBLE_DEVICES", visible)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert own_gpu() == number


def test_a_process_makes_its_worker_once_for_each_gpu_that_it_is_given(monkeypatch):
    """Ray may give a process that is kept another GPU for the next span."""
    made, emptied = [], []

    class OnGpu:
        def __init__(self, name):
            made.append((name, own_gpu()))
            self.gpu = own_gpu()

        def __call__(self, span):
            return span, self.gpu

    import torch

    monkeypatch.setattr(cluster, "_HELD", {})
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(len(made)))
    monkeypatch.setattr(ray, "get", lambda one: one)
    monkeypatch.setenv(cluster._ALL_GPUS, "1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def run(span, name, gpu):
        monkeypatch.setattr(ray, "get_gpu_ids", lambda: [] if gpu is None else [str(gpu)])
        found = cluster._by_held(span, name, [(OnGpu, (name,))])
        assert len(cluster._HELD) == 1  # they are large
        return found

    assert [run("a", "x", 0), run("b", "x", 0), run("c", "x", 1)] == [("a", 0), ("b", 0), ("c", 1)]
    assert made == [("x", 0), ("x", 1)]
    assert emptied == [0, 1]  # before each is made
    assert run("d", "y", 1) == ("d", 1)
    assert run("e", "y", None) == ("e", -1)
    assert made[2:] == [("y", 1), ("y", -1)]
    assert len(emptied) == 3  # no GPU, nothing to empty


class OneWorker:
    """A cluster whose only worker is this process; notes whether a GPU was asked for."""

    def __init__(self, gpus):
        self.gpus, self.asked = gpus, []

    def through(self, worker, made_with, spans, *, gpu=False):
        self.asked.append(gpu)
        made = worker(*made_with)
        yield from enumerate(made(span) for span in spans)


@pytest.mark.parametrize(
    ("device", "gpus", "there"),
    [
        ("auto", 2, "cuda:1"),
        ("cuda", 2, "cuda:1"),
        ("cuda:0", 2, "cuda:1"),  # numbers are Ray's to give
        ("auto", 0, "cpu"),
        ("cpu", 2, "cpu"),
    ],
)
def test_a_node_says_what_suits_the_gpu_it_was_given(monkeypatch, device, gpus, there):
    seen = []

    def on_device(asked, precision):
        seen.append((asked.device, asked.ray))
        return OnDevice(asked.device, precision, 64)

    monkeypatch.setattr(describing, "on_device", on_device)
    monkeypatch.setattr(describing, "own_gpu", lambda: 1)
    nodes = OneWorker(gpus)
    found = on_nodes(nodes, DescribeOptions(device=device, ray="auto"), "16")
    gpu = there != "cpu"
    assert (seen, nodes.asked) == ([(there, None)], [gpu])
    assert found == OnDevice("cuda" if gpu else "cpu", "16", 64)  # each worker has a number of its own


def test_a_gpu_that_no_node_has():
    with pytest.raises(InputError, match="`device=cuda`: no node of the cluster has a GPU; use `device=cpu`"):
        on_nodes(OneWorker(0), DescribeOptions(device="cuda"), "auto")


class Silent(Ray):
    """A cluster whose head answers only at times."""

    def __init__(self):
        super().__init__([(2, 0)])
        self.answers, self.questions = threading.Event(), 0
        self.answers.set()

    def nodes(self):
        self.questions += 1
        self.answers.wait(60)
        return super().nodes()

    def get_runtime_context(self):
        return SimpleNamespace(gcs_address="10.0.0.1:6379")


def test_a_head_that_is_silent_is_given_up_after_a_while(monkeypatch):
    monkeypatch.setattr(cluster, "GLANCE", 0.0)
    ray = Silent()
    made = Cluster(ray)
    assert made.cores == 2
    ray.answers.clear()
    assert [made.cores for _ in range(9)] == [2] * 9  # as before
    assert ray.questions == 2  # one waits for its answer
    ray.answers.set()
    made._asked[0].result()
    assert made.cores == 2
    ray.answers.clear()
    assert made.cores == 2
    monkeypatch.setattr(cluster, "SILENCE", 0.0)
    for asked in (made, Cluster(ray)):
        with pytest.raises(
            InputError, match=r"^the head of the cluster, 10.0.0.1:6379, has not answered for .* resumes"
        ):
            asked.workers(gpu=False)
        with pytest.raises(InputError, match="has not answered"):
            asked._patiently(ray.nodes)
    ray.answers.set()
    assert made._patiently(lambda: 3) == 3


def test_ray_that_has_stopped_on_this_machine_is_told():
    died = ray.exceptions.LocalRayletDiedError()
    with (
        pytest.raises(InputError, match=r"^Ray on this machine has stopped; start it again .* resumes"),
        cluster.one_line(ray),
    ):
        raise died
