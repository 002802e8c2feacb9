"""What a service bears: many clients at once, more than it can do, kills, and a map that changes under its hands.

    python benchmarks/service.py --map map --photos queries           about 5 minutes
    python benchmarks/service.py --map map --photos queries --minutes 10 --json docs/results/service.json

Starts `samespot serve` on this machine and asks it with the photos, so clients and service share the cores. Ratios are
to one client that asks one photo after the other, in the same run. Copies of the map are changed, never the map itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

CLIENTS = 16
SHARE = 0.7  # of the capacity, where waiting times are told
TIMES = 2.0  # the capacity, where it is too much


@dataclass
class Asked:
    """What came back."""

    seconds: list[float] = field(default_factory=list)  # of the answered ones
    codes: Counter[str] = field(default_factory=Counter)
    took: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.seconds) / self.took

    def at(self, share: float) -> float:
        """[ms] within which this share was answered."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")

    def told(self) -> dict[str, Any]:
        return {
            "per second": self.rate,
            "p50 ms": self.at(0.5),
            "p99 ms": self.at(0.99),
            "codes": dict(self.codes),
        }


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Running]:
    """A service of this map, ready to be asked."""
    service = Running(folder, options)
    try:
        yield service
    finally:
        service.stop()


class Running:
    def __init__(self, folder: Path, options: tuple[str, ...]) -> None:
        words = ["serve", f"map={folder}", "--port", "0", "--rate", "100000000", *options]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the service
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "samespot", *words], stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        assert self.process.stdout is not None
        line = next((one for one in self.process.stdout if "http://" in one), "")
        found = re.search(r"http://\S+?(?=/)", line)
        if found is None:
            self.log.seek(0)
            sys.exit(f"the service did not start: {self.log.read()[-2000:]}")
        self.address, self.started = found[0], time.perf_counter() - began

    def memory(self) -> float:
        """[MB] of the process and its children that nobody shares, and its share of the rest."""
        total = 0.0
        for number in [self.process.pid, *children(self.process.pid)]:
            try:
                text = Path(f"/proc/{number}/smaps_rollup").read_text()
            except OSError:
                continue
            total += (
                next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024
            )
        return total

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def children(number: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == number:
            found += [int(path.parent.name), *children(int(path.parent.name))]
    return found


def ask(
    address: str,
    photos: list[bytes],
    seconds: float,
    *,
    clients: int = 1,
    arrivals: float | None = None,
    query: str = "",
    during: Callable[[], Any] | None = None,
) -> Asked:
    """clients: so many ask, each one photo after the other. arrivals: instead, so many photos a second, at random.
    during: done in a thread once half of the time is over."""
    return asyncio.run(_ask(address, photos, seconds, clients, arrivals, query, during))


async def _ask(
    address: str,
    photos: list[bytes],
    seconds: float,
    clients: int,
    arrivals: float | None,
    query: str,
    during: Callable[[], Any] | None,
) -> Asked:
    asked, dice = Asked(), random.Random(0)
    limits = httpx.Limits(max_connections=1000, max_keepalive_connections=100)
    async with httpx.AsyncClient(timeout=90, limits=limits) as client:

        async def once() -> None:
            began = time.perf_counter()
            try:
                told = await client.post(
                    f"{address}/v1/locate?{query}",
                    content=dice.choice(photos),
                    headers={"content-type": "image/jpeg"},
                )
                code = str(told.status_code)
            except httpx.HTTPError as error:
                code = type(error).__name__
            asked.codes[code] += 1
            if code == "200":
                asked.seconds.append(time.perf_counter() - began)

        began = time.perf_counter()
        half = asyncio.create_task(_later(seconds / 2, during))

        async def one_after_the_other() -> None:
            while time.perf_counter() - began < seconds:
                await once()

        if arrivals is None:
            await asyncio.gather(*(one_after_the_other() for _ in range(clients)))
        else:
            under_way = set()
            while time.perf_counter() - began < seconds:
                task = asyncio.create_task(once())
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                await asyncio.sleep(dice.expovariate(arrivals))
            await asyncio.gather(*under_way)
        await half
        asked.took = time.perf_counter() - began
    return asked


async def _later(seconds: float, work: Callable[[], Any] | None) -> None:
    if work is not None:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(work)


def batching(folder: Path, photos: list[bytes], seconds: float) -> dict[str, Any]:
    told: dict[str, Any] = {}
    with running(folder, "--waiting", "256") as service:
        for name, query in (("plain", "verify=false"), ("verified", "verify=true")):
            ask(service.address, photos, 2, clients=4, query=query)  # warm
            alone = ask(service.address, photos, seconds, query=query)
            many = ask(service.address, photos, seconds, clients=CLIENTS, query=query)
            told[name] = {
                "one at a time": alone.told(),
                f"{CLIENTS} clients": many.told(),
                "ratio": many.rate / alone.rate,
            }
            print(
                f"{name}: {alone.rate:.1f} photos/s one at a time (p50 {alone.at(0.5):.0f} ms), {many.rate:.1f} with"
                f" {CLIENTS} clients, {many.rate / alone.rate:.2f} times as many",
                flush=True,
            )
    return told


def waiting(folder: Path, photos: list[bytes], seconds: float, capacity: float) -> dict[str, Any]:
    with running(folder, "--waiting", "256") as service:
        ask(service.address, photos, 2, clients=4)
        asked = ask(service.address, photos, seconds, arrivals=SHARE * capacity)
    ratio = asked.at(0.99) / asked.at(0.5)
    print(
        f"at {SHARE:.0%} of {capacity:.1f} photos/s: p50 {asked.at(0.5):.0f} ms, p99 {asked.at(0.99):.0f} ms,"
        f" {ratio:.2f} times p50",
        flush=True,
    )
    return {**asked.told(), "p99 / p50": ratio}


def too_much(folder: Path, photos: list[bytes], minutes: float, capacity: float) -> dict[str, Any]:
    with running(folder) as service:
        ask(service.address, photos, 20, arrivals=TIMES * capacity)
        before = service.memory()
        asked = ask(service.address, photos, 60 * minutes, arrivals=TIMES * capacity)
        after, alive = service.memory(), service.process.poll() is None
    growth = after / before - 1
    print(
        f"at {TIMES:g} times the capacity for {minutes:g} min: {dict(asked.codes)}, p99 {asked.at(0.99):.0f} ms,"
        f" memory {before:.0f} → {after:.0f} MB ({growth:+.1%}), alive: {alive}",
        flush=True,
    )
    return {**asked.told(), "memory MB": [before, after], "growth": growth, "alive": alive}


def kills(folder: Path, photos: list[bytes], seconds: float) -> dict[str, Any]:
    with running(folder) as service:

        def kill_decoder() -> None:
            below = children(service.process.pid)
            os.kill(below[-1], signal.SIGKILL)  # the forkserver's youngest

        decoder = ask(service.address, photos, seconds, clients=4, during=kill_decoder)
        whole = ask(service.address, photos, seconds, clients=4, during=service.process.kill)
        imports = _seconds_of("import samespot.service.server, samespot.maps.map")
        with running(folder) as again:
            answered = ask(again.address, photos, 2, clients=1)
        back = again.started
    print(
        f"a decoding process killed: {dict(decoder.codes)}; the service killed: {dict(whole.codes)}, back in"
        f" {back:.1f} s, {imports:.1f} s of it imports; then {dict(answered.codes)}",
        flush=True,
    )
    return {
        "decoder": decoder.told(),
        "service": whole.told(),
        "back s": back,
        "imports s": imports,
        "after": answered.told(),
    }


def _seconds_of(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def switch(folder: Path, photos: list[bytes], seconds: float) -> dict[str, Any]:
    table = json.loads((folder / "meta.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "map"
        shutil.copytree(folder, copy)
        with running(copy) as service:

            def remove_one() -> None:
                from samespot.maps.folder import open_generation

                name = str(open_generation(copy).places.table["image"].iloc[0])
                subprocess.run(
                    [sys.executable, "-m", "samespot", "index", "--out", str(copy), "--remove", name],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )

            asked = ask(service.address, photos, max(seconds, 40), clients=4, during=remove_one)
            time.sleep(2)
            now = httpx.get(f"{service.address}/v1/map").json()["generation"]
    print(f"generation {table['generation']} → {now} under load: {dict(asked.codes)}", flush=True)
    return {**asked.told(), "generations": [table["generation"], now]}


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--map", type=Path, required=True)
    arguments.add_argument("--photos", type=Path, required=True, help="folder of query photos (JPEG)")
    arguments.add_argument("--seconds", type=float, default=15, help="of each measurement")
    arguments.add_argument("--minutes", type=float, default=1, help="at twice the capacity")
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    photos = [path.read_bytes() for path in sorted(given.photos.glob("*.jpg"))[:100]]
    told: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "photos": len(photos)}
    told["batching"] = batching(given.map, photos, given.seconds)
    capacity = told["batching"]["verified"][f"{CLIENTS} clients"]["per second"]
    told["waiting"] = waiting(given.map, photos, 2 * given.seconds, capacity)
    told["too much"] = too_much(given.map, photos, given.minutes, capacity)
    told["kills"] = kills(given.map, photos, given.seconds)
    told["switch"] = switch(given.map, photos, given.seconds)
    if given.json:
        given.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
