"""Answers of a map on the terminal: the place and how sure it is, then what that rests on."""

from __future__ import annotations

from rich.padding import Padding
from rich.table import Table

from samespot.cli.console import complain, out, plain
from samespot.maps.answer import Answer, Match, Pose, Trouble, percent


def answer_page(answer: Answer) -> None:
    """All about one photo."""
    out.print(f"[bold]{plain(answer.photo)}[/]", highlight=False)
    _indented(_headline(answer))
    if answer.pose is not None:
        _indented(_pose(answer.pose))
    elif answer.no_pose is not None:
        _indented(f"[yellow]no pose[/]: {plain(answer.no_pose)}")
    if answer.matches:
        out.print(_matches(answer))


def answer_line(outcome: Answer | Trouble) -> None:
    """One of many."""
    if isinstance(outcome, Trouble):
        complain(outcome.why)
        return
    mark = "[green]✓[/]" if outcome.found else "[yellow]–[/]"
    if outcome.no_match is not None:
        told = plain(outcome.no_match)  # and no probability: nothing was compared
    else:
        where = str(outcome.position) if outcome.found else "not in this map"
        told = f"{where}  [dim]{percent(outcome.probability)}[/]"
    out.print(f"{mark} {plain(outcome.photo)}  {told}", highlight=False, soft_wrap=True)


def footing(answer: Answer) -> None:
    """What the probabilities rest on, if there are any."""
    if answer.no_match is not None:
        return
    share = "half" if answer.outside == 0.5 else f"{100 * answer.outside:g} %"
    whose = {
        "map": "They come from questions to the map's own photos.",
        "model": "They come from towns in which the model was tried: this map could not calibrate itself.",
        "another model": "They come from towns and another model: this map could not calibrate itself.",
    }
    line = f"Probabilities hold if {share} of the photos asked about are not in the map."
    _indented(f"[dim]{line} {whose[answer.calibration]}[/]")


def _headline(answer: Answer) -> str:
    if answer.no_match is not None:
        return f"[bold yellow]not found[/]: {plain(answer.no_match)}"
    if not answer.found:
        return (
            f"[bold yellow]not in this map[/], as far as can be told. The best guess, {answer.position}, is right with"
            f" a probability of {percent(answer.probability)}."
        )
    facing = "" if answer.heading is None else f", facing {answer.heading:.0f}°"
    typical = (
        "" if answer.typical_error is None else f"; half of such answers within {answer.typical_error:.0f} m"
    )
    return (
        f"[bold green]{answer.position}[/]{facing}\n"
        f"within {answer.radius:g} m with a probability of [bold]{percent(answer.probability)}[/]{typical}"
    )


def _pose(pose: Pose) -> str:
    at, turned = (
        ", ".join(f"{number:.{d}f}" for number in one) for one, d in ((pose.centre, 3), (pose.quaternion, 4))
    )
    metres, degrees = pose.within
    sure = (
        "how sure is not known: the map could not ask itself"
        if pose.probability is None
        else f"within {metres:g} m and {degrees:g}° with a probability of [bold]{percent(pose.probability)}[/]"
    )
    lens = f"; lens of {pose.fov:.0f}°, estimated" if pose.fov_estimated else ""
    return (
        f"camera at ({at}), turned by ({turned})\n{sure};"
        f" {pose.inliers:,} of {pose.matches:,} keypoints agree, {100 * pose.deviation:.1f} cm deviation{lens}"
    )


def _matches(answer: Answer) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="dim")
    table.add_column("  most alike", overflow="fold")
    verified = any(match.verified is not None for match in answer.matches)
    for name in ("distance", *(("verified", "overlap") if verified else ())):
        table.add_column(name, justify="right", no_wrap=True)
    for match in answer.matches:
        checks = _checks(match) if verified else ()
        table.add_row(f"  {plain(match.image)}", f"{match.distance:.2f}", *checks)
    return table


def _checks(match: Match) -> tuple[str, str]:
    if match.verified is None:
        return "", ""
    seen = match.overlap
    shared = (
        "" if seen is None else f"{100 * seen.share:.0f} % [dim]{100 * seen.low:.0f}–{100 * seen.high:.0f}[/]"
    )
    return str(match.verified), shared


def _indented(text: str) -> None:
    out.print(Padding(text, (0, 0, 0, 2)), highlight=False)
