"""How much memory is free: the machine's, and what a container leaves of it."""

from pathlib import Path

import pytest
import torch

from samespot import memory
from samespot.errors import InputError
from samespot.memory import free_in_container, free_memory, require_room

CPU = torch.device("cpu")
GIB = 1 << 30


def group(folder, files, stat):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {**files, "memory.stat": stat}.items():
        (folder / name).write_text(f"{text}\n")


def own(folder, text):
    path = folder / "cgroup"
    path.write_text(text)
    return path


def test_what_would_not_fit_is_refused_first():
    with pytest.raises(
        InputError,
        match=r"all images in memory need 1,000 TB, but only .* GB of memory is free; leave it out",
    ):
        require_room(10**15, CPU, "all images in memory", "leave it out")


def test_each_limit_of_a_control_group_and_of_those_above_it(tmp_path):
    top = tmp_path / "v2"
    group(top / "a", {"memory.max": 8 * GIB, "memory.current": 5 * GIB}, f"anon 1\ninactive_file {GIB}")
    group(top / "a" / "b", {"memory.max": "max", "memory.current": 2 * GIB}, "inactive_file 0")
    group(top / "a" / "b" / "c", {"memory.max": 4 * GIB, "memory.current": GIB}, "inactive_file 0")
    assert list(free_in_container(top, own(tmp_path, "0::/a/b/c\n"))) == [3 * GIB, 4 * GIB]


def test_within_a_container_the_files_lie_at_the_top(tmp_path):
    top = tmp_path / "v1"
    limits = {"memory.limit_in_bytes": 2 * GIB, "memory.usage_in_bytes": GIB}
    group(top / "memory", limits, f"total_inactive_file {GIB // 2}")
    told = "5:devices:/docker/1f\n4:memory:/docker/1f\n1:cpu:/docker/1f\n"
    assert list(free_in_container(top, own(tmp_path, told))) == [3 * GIB // 2]


def test_without_control_groups_the_machine_counts(tmp_path, monkeypatch):
    assert list(free_in_container(tmp_path, tmp_path / "none")) == []
    monkeypatch.setattr(memory, "free_in_container", lambda: [])
    whole = free_memory(CPU)
    told = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    assert 0 < whole <= int(told["MemTotal"].split()[0]) * 1024
    monkeypatch.setattr(memory, "free_in_container", lambda: [whole // 3, whole // 2])
    assert free_memory(CPU) <= whole // 3
