"""`make bench` knows every script of benchmarks/: it runs it, or says what it lacks."""

import importlib.util
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def load(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_script_is_run_or_left_out_for_a_reason():
    bench = load("__main__")
    scripts = {path.stem for path in BENCHMARKS.glob("*.py")} - {"__main__"}
    assert sorted([*bench.QUICK, *bench.LEFT_OUT, *bench.SHARED]) == sorted(scripts)


def test_one_that_is_run_leaves_its_numbers(tmp_path, capfd):
    assert load("__main__").run("visibility", tmp_path)
    assert "packed sets" in capfd.readouterr().out
    assert (tmp_path / "visibility.json").is_file()


def test_a_script_that_breaks_is_told(tmp_path, monkeypatch, capfd):
    bench = load("__main__")
    monkeypatch.setitem(bench.QUICK, "visibility", "--cameras none")
    assert not bench.run("visibility", tmp_path)
