"""What all tests share: hypothesis without deadlines (kernels compile on first use), and the real data."""

import gc
import os
import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image
from scipy.io import savemat

from tests.warm import keep_threads

settings.register_profile("samespot", deadline=None, max_examples=200)
settings.load_profile("samespot")


# Files that take longest, first to last: a process that gets one of them at the end works on while the others rest.
# Those that mostly wait for a server or a cluster take turns with those that compute.
LONGEST = (
    "test_docs.py",
    "maps/engines/test_milvus.py",
    "service/test_page.py",
    "cluster/test_two_nodes.py",
    "cluster/test_head.py",
    "test_demo.py",
    "figures/test_report_page.py",
    "maps/test_poses.py",
    "service/test_server.py",
    "test_wheel.py",
    "maps/test_folder.py",
    "model/test_convert.py",
    "training/test_processes.py",
    "service/test_fuzz.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    order = {here / name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(LONGEST)))


def pytest_collection_finish() -> None:
    """What the imports left lives to the end: looking through it again and again took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def threads_as_asked() -> None:
    """`make test` asks for one thread in each process, but the first parallel kernel of numba gives torch as many as
    there are cores: both count by the same OpenMP. Two teams that wait for each other took ten times as long."""
    if "OMP_NUM_THREADS" in os.environ:
        keep_threads()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real photos and poses; tests that ask for it skip, and say so, where it is absent."""
    folder = Path(os.environ.get("SAMESPOT_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set SAMESPOT_DATA")
    return folder


@pytest.fixture(scope="module")
def one_thread():
    """For networks so small that they are slower on several threads, and far slower on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def browser():
    """A real Chromium, where there is one."""
    chromium = (
        os.environ.get("SAMESPOT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    )
    if chromium is None:
        pytest.skip("no Chromium on this machine; install it, or name it with SAMESPOT_CHROMIUM")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def wall_scene(tmp_path) -> Path:
    """7Scenes' layout, scene `heads`: two training frames and a test frame before a flat wall 2 m away."""
    root = tmp_path
    for sequence, frames in (("seq-01", 2), ("seq-02", 1)):
        folder = root / "heads" / sequence
        folder.mkdir(parents=True)
        for i in range(frames):
            pose = np.eye(4)
            pose[0, 3] = 0.5 * i  # half a metre to the right
            np.savetxt(folder / f"frame-{i:06d}.pose.txt", pose)
            Image.new("RGB", (640, 480)).save(folder / f"frame-{i:06d}.color.png")
            wall = np.full((480, 640), 2000, np.uint16)
            Image.fromarray(wall).save(folder / f"frame-{i:06d}.depth.png")
    (root / "heads" / "TrainSplit.txt").write_text("sequence1\n")
    (root / "heads" / "TestSplit.txt").write_text("sequence2\n")
    return root


@pytest.fixture(scope="session")
def save_struct():
    """Writes a .mat file with NetVLAD's dbStruct: names and UTM positions (n, 2) of map and queries, and more."""

    def save(path, database, utm_database, queries, utm_queries, **more):
        struct = {
            "whichSet": "test",
            "dbImageFns": _cells(database),
            "utmDb": np.asarray(utm_database, dtype=float).T,
            "qImageFns": _cells(queries),
            "utmQ": np.asarray(utm_queries, dtype=float).T,
            **more,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        savemat(path, {"dbStruct": struct})

    return save


def _cells(names):
    column = np.empty((len(names), 1), dtype=object)
    column[:, 0] = names
    return column


@pytest.fixture
def samespot(command):
    """Runs a command of samespot in this process; returns exit code, output and error output."""
    from samespot.cli import run

    return partial(command, run)


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs an entry point with these words; returns exit code, output and error output."""

    def call(run, *words):
        monkeypatch.setattr(sys, "argv", ["command", *map(str, words)])
        code = 0
        try:
            run()
        except SystemExit as stop:
            code = stop.code or 0
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
