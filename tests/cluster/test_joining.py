"""What a wrong address gets: one line, and no cluster."""

import signal
import socket
import sys

import pytest

from samespot import cluster
from samespot.cluster import ClusterOptions, joined_cluster
from samespot.errors import InputError

pytest.importorskip("ray", reason="ray is not installed")


def refuses(address, words):
    with pytest.raises(InputError, match=words) as refused, joined_cluster(address):
        pass
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("words", ["here", "ray://10.0.0.1:10001", "10.0.0.1", "10.0.0.1:port", ""])
def test_what_is_no_address(words):
    with pytest.raises(InputError, match=r"is no address; give auto, local, or the head's host and port"):
        ClusterOptions(ray=words)


def test_nothing_at_an_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refuses(address, f"`ray={address}`: nothing answers there .*ray start --head")


def test_a_cluster_that_asks_for_a_token(monkeypatch):
    import ray

    def refuse(**_):
        raise ConnectionError("Failed to connect to Ray cluster")

    monkeypatch.setattr(ray, "init", refuse)
    with socket.create_server(("127.0.0.1", 0)) as head:
        refuses(
            f"127.0.0.1:{head.getsockname()[1]}",
            "lets us in there; if it asks for a token, .* RAY_AUTH_MODE=token",
        )


def test_no_cluster_on_this_machine(monkeypatch):
    """As Ray says it. Not by Ray itself: it would find the cluster of the tests beside this one."""
    import ray

    def refuse(**asked):
        assert asked["address"] == "auto"
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(ray, "init", refuse)
    refuses("auto", "`ray=auto`: no Ray cluster runs on this machine; start one")


def test_the_command_says_it_in_one_line(samespot, tmp_path):
    code, out, err = samespot("describe", "samespot-lite", tmp_path / "none.csv", "--ray", "nowhere")
    assert (code, out) == (2, "")
    assert "--ray 'nowhere' is no address" in err


def test_without_ray(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'samespot\[ray\]'"), joined_cluster("local"):
        pass


def test_not_together_with_torchrun(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="use one of them"), joined_cluster("local"):
        pass


def test_another_ray_or_python_on_the_head(monkeypatch):
    import ray

    said = (
        "Version mismatch: The cluster was started with:\n    Ray: 2.9.0\n    Python: 3.10.4\n"
        "This process on node 10.0.0.2 was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
    )

    def refuse(**_):
        raise RuntimeError(said)

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(InputError) as refused, joined_cluster("local"):
        pass
    assert str(refused.value) == (
        "`ray=local`: the cluster runs Ray 2.9.0 and Python 3.10.4, and this machine Ray 2.60.0 and Python 3.11.7;"
        " install the same on both"
    )


def test_signals_are_as_before_when_it_is_left(monkeypatch):
    import ray

    def take(**_):
        signal.signal(signal.SIGTERM, lambda *_: None)

    monkeypatch.setattr(ray, "init", take)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(cluster.Cluster, "check", lambda self: None)
    before = signal.getsignal(signal.SIGTERM)
    with joined_cluster("local"):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_is_told_stays_out_of_a_result(monkeypatch):
    """Ray prints news of dead workers to standard output, where `--json -` writes."""
    import ray

    monkeypatch.setattr(ray, "init", lambda **_: print("news"))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(cluster.Cluster, "check", lambda self: None)
    before = sys.stdout
    with joined_cluster("local"):
        assert sys.stdout is sys.stderr
    assert sys.stdout is before
