"""Mistakes that are told without a network must not wait for the seconds that torch takes to load."""

import subprocess
import sys


def refused_without_torch(mistakes, folder):
    """Run commands one after the other in a fresh process, in this folder: each ends with code 2, and torch is not
    loaded. Returns what was said of each."""
    lines = ["import os, sys", f"os.chdir({str(folder)!r})", "from samespot.cli import run"]
    lines += [f"for words in {tuple(mistakes)!r}:", "    sys.argv[1:] = words.split()"]
    lines += ["    print('told:', words, file=sys.stderr)"]
    lines += ["    try: run()", "    except SystemExit as stop: assert stop.code == 2, (words, stop.code)"]
    lines += ["    else: raise AssertionError(words)", "    assert 'torch' not in sys.modules, words"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = done.stderr.split("told: ")[1:]
    return {words: line.strip() for words, _, line in (one.partition("\n") for one in said)}
