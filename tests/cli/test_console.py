"""What stays on a terminal where a bar and a result are written at the same time."""

import io
import re

import pytest

from samespot.cli import console


class Terminal(io.StringIO):
    """As wide as need be."""

    def lines(self):
        """What is seen in the end, by the few codes that are used: a line up, erase this one, back to its start."""
        rows, at, column = [""], 0, 0
        for piece in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.getvalue()):
            if piece == "\n":
                at, column = at + 1, 0
                rows += [""] * (at + 1 - len(rows))
            elif piece == "\r":
                column = 0
            elif piece.endswith("A"):
                at -= int(piece[2:-1] or 1)
            elif piece.endswith("K"):
                rows[at] = ""
            elif not piece.startswith("\x1b"):
                rows[at] = rows[at][:column].ljust(column) + piece + rows[at][column + len(piece) :]
                column += len(piece)
        return [row.rstrip() for row in rows if row.strip()]


@pytest.mark.parametrize("width", [60, 80])
def test_a_bar_makes_room_for_results_and_leaves_nothing_behind(monkeypatch, width):
    monkeypatch.setattr("sys.stdout", (terminal := Terminal()))
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    for one in (console.out, console.err):
        for name, value in (("_force_terminal", True), ("is_interactive", True), ("_width", width)):
            monkeypatch.setattr(one, name, value)
    with console.progress_bar() as progress:
        progress("photos", 1, 3)
        console.out.print("first.jpg")
        progress("photos", 2, 3)
        console.say("a note")
        console.out.print("second.jpg")
        assert any("photos" in line for line in terminal.lines())
    console.out.print("all")
    assert terminal.lines() == ["first.jpg", "a note", "second.jpg", "all"]
