"""What a wrong address gets: one line, and no cluster."""

import os
import platform
import signal
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from samespot import cluster
from samespot.cluster import ClusterOptions, joined_cluster
from samespot.errors import InputError

pytest.importorskip("ray", reason="ray is not installed")
TOKEN = "cannot join a Ray cluster at this address; if it asks for a token, .* RAY_AUTH_MODE=token"


@pytest.fixture(autouse=True)
def no_address(monkeypatch):
    """In the environment of these tests."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def refuses(address, words):
    with pytest.raises(InputError, match=words) as refused, joined_cluster(address):
        pass
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "words", ["here", "ray://10.0.0.1:10001", "10.0.0.1", "10.0.0.1:port", "10.0.0.1:99999", ""]
)
def test_what_is_no_address(words):
    with pytest.raises(InputError, match=r"is no address; give auto, local, or the head's host and port"):
        ClusterOptions(ray=words)


@pytest.mark.parametrize("address", ["10.0.0..1:6379", f"{'a' * 64}.net:6379"])
def test_what_looks_like_an_address_and_can_be_none(address):
    """Python raises UnicodeError."""
    ClusterOptions(ray=address)
    refuses(address, f"^`ray={address}` is no address; give auto, local, or the head's host and port")


def test_nothing_at_an_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refuses(address, f"`ray={address}`: nothing answers there .*ray start --head")


def test_something_else_at_an_address(monkeypatch):
    """A web server, and one that says nothing, as a head that was stopped; Ray itself would try for minutes."""
    monkeypatch.setattr(cluster, "KNOCK", 0.5)
    web = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    serving = threading.Thread(target=web.handle_request)
    serving.start()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        refuses(
            f"127.0.0.1:{web.server_port}", "what answers there is not the head of a Ray cluster; check the"
        )
        refuses(
            f"127.0.0.1:{silent.getsockname()[1]}", r"nothing answers there \(timed out\); start a cluster"
        )
    serving.join()
    web.server_close()


def test_a_cluster_that_asks_for_a_token(monkeypatch):
    import ray

    def refuse(**_):
        raise ConnectionError("Failed to connect to Ray cluster")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(cluster, "_speaks_http2", lambda there: True)
    with socket.create_server(("127.0.0.1", 0)) as head:
        refuses(f"127.0.0.1:{head.getsockname()[1]}", TOKEN)


def test_a_token_that_is_not_there(monkeypatch):
    """Ray looks for it before it joins, and what it raises then is no ConnectionError."""
    import ray

    def refuse(**_):
        raise ray.exceptions.RayError("Token authentication is enabled but no authentication token was found")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(cluster, "_knock", lambda *_: None)
    found_on_this_machine(monkeypatch, "10.0.0.1:6379")
    refuses("auto", f"^`ray=auto`, which is 10.0.0.1:6379: {TOKEN}")


def test_auto_is_the_address_that_the_environment_names(monkeypatch):
    """As in Ray itself, which would wait there for minutes; errors say where it came from."""
    import ray

    joined = []
    monkeypatch.setattr(ray, "init", lambda **how: joined.append(how["address"]) or fail())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        refuses("auto", f"^RAY_ADDRESS={address}: nothing answers there .*ray start --head")
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:8265")
    refuses("auto", r"^RAY_ADDRESS=http://127\.0\.0\.1:8265 is no address; give auto, local, or the head's")
    assert joined == []
    monkeypatch.setattr(cluster, "_speaks_http2", lambda there: True)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        refuses("auto", f"^RAY_ADDRESS={address}: {TOKEN}")
    monkeypatch.setenv("RAY_ADDRESS", "")  # is none
    found_on_this_machine(monkeypatch, None)
    refuses("auto", "^`ray=auto`: no Ray cluster runs on this machine")
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    refuses("local", "^`ray=local`: cannot join")  # only auto is looked up there
    assert joined == [address, "local"]


def fail():
    raise ConnectionError("Failed to connect to Ray cluster")


def found_on_this_machine(monkeypatch, address):
    """Not by Ray itself: it would find the cluster of the tests beside this one."""

    def find(asked):
        assert asked == "auto"
        return address or fail()

    monkeypatch.setattr("ray._private.services.canonicalize_bootstrap_address", find)


def test_no_cluster_on_this_machine(monkeypatch):
    found_on_this_machine(monkeypatch, None)
    refuses("auto", "`ray=auto`: no Ray cluster runs on this machine; start one")


def test_a_cluster_of_this_machine_whose_head_has_died(monkeypatch):
    """What it started here runs on for a minute, and names its address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        found_on_this_machine(monkeypatch, address)
        refuses(
            "auto", rf"^`ray=auto`, which is {address}: nothing answers there \(Connection refused\); start"
        )


def test_a_head_that_dies_while_it_is_joined(monkeypatch):
    """Ray would wait for it; likewise where it answers, but lets nobody in."""
    import ray

    over, knocks = threading.Event(), []
    monkeypatch.setattr(ray, "init", lambda **_: over.wait(60))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(cluster, "GLANCE", 0.01)
    monkeypatch.setattr(cluster, "_speaks_http2", lambda there: knocks.append(there) or True)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        with monkeypatch.context() as soon:
            soon.setattr(cluster, "PATIENCE", 0.1)
            refuses(address, f"^`ray={address}`: the cluster has not let this machine in for 0.1 s")
        knocks.clear()
        monkeypatch.setattr(
            cluster, "_speaks_http2", lambda there: knocks.append(there) or head.close() or True
        )
        refuses(address, f"^`ray={address}`: nothing answers there")
    assert len(knocks) == 1
    over.set()


@pytest.mark.parametrize("fails", [False, True])
def test_a_process_that_ray_does_not_let_go_ends_by_itself(monkeypatch, fails):
    """Ray waits for its head, and in the end this process would crash."""
    import ray

    over, registered, ended = threading.Event(), [], []
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "shutdown", lambda: over.wait(60))
    monkeypatch.setattr(cluster.Cluster, "check", lambda self: None)
    monkeypatch.setattr(cluster, "SILENCE", 0.1)
    monkeypatch.setattr(cluster.atexit, "register", lambda *call: registered.append(call))
    monkeypatch.setattr(os, "_exit", ended.append)
    with suppress(KeyError), joined_cluster("local"):
        if fails:
            raise KeyError
    ((end, *given),) = registered
    end(*given)
    assert ended == [2 if fails else 0]
    over.set()
    given[0].result()
    end(*given)  # it was let go after all
    assert len(ended) == 1


def test_the_command_says_it_in_one_line(samespot, tmp_path):
    code, out, err = samespot("describe", "samespot-lite", tmp_path / "none.csv", "--ray", "nowhere")
    assert (code, out) == (2, "")
    assert "--ray nowhere is no address" in err


def test_without_ray(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'samespot\[ray\]'"), joined_cluster("local"):
        pass


def test_not_together_with_torchrun(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="use only one of them"), joined_cluster("local"):
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


def test_another_python_on_a_real_head(ray_start, other_python, monkeypatch):
    how, version = other_python
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else Ray keeps a token in the home folder
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # its sockets need a short name
        where = ("--head", "--port", str(port), "--temp-dir", folder)
        head = ray_start(*where, "--num-cpus", "0", "--include-dashboard", "false", **how)
        ours = platform.python_version()
        refuses(
            f"127.0.0.1:{port}",
            f"the cluster runs Ray .* and Python {version}, and this machine Ray .* and Python {ours}; install the",
        )
        with joined_cluster("local") as here:  # and nothing is left of the other
            assert here.cores == os.cpu_count()
        head.terminate()
        head.wait()


def test_signals_are_as_before(monkeypatch):
    """Ray's core would print a stack trace."""
    import ray

    def take(**_):
        signal.signal(signal.SIGTERM, lambda *_: None)

    monkeypatch.setattr(ray, "init", take)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(cluster.Cluster, "check", lambda self: None)
    before = signal.getsignal(signal.SIGTERM)
    with joined_cluster("local"):
        assert signal.getsignal(signal.SIGTERM) is before
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


class Joined:
    """A process that is part of a cluster already, say by a cell of a notebook."""

    def __init__(self, monkeypatch, at="10.0.0.9:6379", nodes=("10.0.0.9", "10.0.0.2"), here="10.0.0.2"):
        import ray

        self.checks, self.gcs_address = 0, at
        alive = [{"Alive": True, "NodeManagerAddress": one} for one in nodes]
        monkeypatch.setattr(ray, "is_initialized", lambda: True)
        monkeypatch.setattr(ray, "get_runtime_context", lambda: self)
        monkeypatch.setattr(ray, "nodes", lambda: alive)
        monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: here)
        monkeypatch.setattr(ray, "shutdown", lambda: pytest.fail("others are part of it"))
        monkeypatch.setattr(cluster.Cluster, "check", self.check)

    def check(self, photos=()):
        self.checks += 1


def test_another_cluster_than_the_one_joined_is_refused(monkeypatch):
    Joined(monkeypatch)
    left = "leave that with ray.shutdown\\(\\) first, or use `ray=auto`$"
    for other in ("10.0.0.1:6379", "10.0.0.9:6380", "10.0.0..9:6379", "local"):
        refuses(other, f"^`ray={other}`: this process is part of the cluster at 10.0.0.9:6379; {left}")


@pytest.mark.parametrize("address", ["auto", "10.0.0.9:6379"])
def test_the_cluster_that_is_joined_is_used_and_checked_once_a_command(monkeypatch, address):
    joined = Joined(monkeypatch)
    for command in (1, 2):
        with joined_cluster(address), joined_cluster(address):  # a command, and what it calls
            assert joined.checks == command
    with pytest.raises(KeyError), joined_cluster(address):
        raise KeyError
    with joined_cluster(address):
        assert joined.checks == 4


def test_a_cluster_of_this_machine_by_its_names(monkeypatch):
    Joined(monkeypatch, "10.0.0.2:6379", ["10.0.0.2"])
    for address in ("local", "localhost:6379", "127.0.0.1:6379"):
        with joined_cluster(address):
            pass
