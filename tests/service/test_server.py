"""The whole thing as a process: started, asked, stopped, killed."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from samespot.maps.map import open_map
from tests import warm


@pytest.fixture
def started(street):
    """Starts `samespot serve`, by itself or with all imports behind it; the process and its address."""
    running = []

    def start(by_itself=False):
        words = ["-m", "samespot", "serve", str(street / "map"), "--port", "0", "--log", "json"]
        if by_itself:
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            process = subprocess.Popen([sys.executable, *words], **pipes)
        else:
            process = warm.Popen(words)
        running.append(process)
        line = next(one for one in process.stdout if "http://" in one)
        return process, re.search(r"http://\S+?(?=/)", line)[0]

    yield start
    for process in running:
        process.kill()
        process.wait()


def ask(address, encoded):
    request = urllib.request.Request(f"{address}/v1/locate", encoded, {"content-type": "image/png"})
    with urllib.request.urlopen(request, timeout=60) as told:
        return json.load(told)


def test_what_is_in_work_is_finished_before_it_stops(started, photo):
    process, address = started(by_itself=True)
    assert ask(address, photo(3))["found"]
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(address, photo(4)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert process.wait(60) in (0, -signal.SIGTERM)
    assert [one["found"] for one in answers] == [True] * 4
    lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    requests = [line for line in lines if line["message"] == "request"]
    assert {line["status"] for line in requests} == {200}
    assert all({"time", "level", "request", "route", "ms"} <= set(line) for line in requests)


def test_a_kill_loses_nothing_and_a_new_start_answers(started, photo, street):
    process, _ = started()
    process.kill()
    process.wait()
    assert len(open_map(street / "map")) == 36
    _, again = started()
    assert ask(again, photo(3))["found"]


def test_a_port_in_use_and_what_is_no_map_are_one_line(samespot, street, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, error = samespot("serve", street / "map", "--port", taken.getsockname()[1])
    assert code == 2
    assert "Address already in use" in error
    code, _, error = samespot("serve", tmp_path, "--port", 0)
    assert (code, error.count("\n")) == (2, 1)
    assert "no map here" in error
    code, _, error = samespot("serve", street / "map", "--host", "0.0.0.0", "--port", 0)
    assert code == 2
    assert "give --keys, or --no-auth" in error
