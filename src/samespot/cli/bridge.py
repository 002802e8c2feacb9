"""From an `Options` class to a command: every field becomes a flag with its help and default; nothing is typed twice.

    @command(app, TrainingData, TrainingOptions)
    def train(typed): ...           # typed: only what the user gave, by name; returns what `--json` writes

Why not a library such as cyclopts or tyro: a preset's value must give way to what was typed but not to a default, so
a command has to know which options were typed; typer's context knows it, and its screens stay as they are.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from samespot.errors import InputError
from samespot.options import About, Options, about, choices, hints, option

Handler = Callable[[dict[str, Any]], Any]
_PLAIN = (bool, int, float, str, Path)
SHORT = 18  # letters of choices that fit beside a flag


@dataclass(frozen=True)
class JsonOutput(Options):
    """What every command can do."""

    json: Path | None = option(
        None, "Also write the result to this json file; - is standard output.", writes="file"
    )


class Failed(Exception):  # noqa: N818
    """Part of the work failed: what there is goes to `--json`, and the exit code is 1."""

    def __init__(self, result: Any) -> None:
        super().__init__("part of the work failed")
        self.result = result


def command(
    app: typer.Typer, *classes: type[Options], name: str | None = None
) -> Callable[[Handler], Handler]:
    """Make a command of a function that takes what was typed. Its help is the function's docstring."""

    def register(handler: Handler) -> Handler:
        known = {one.name: one for cls in (*classes, JsonOutput) for one in _own_first(cls)}
        types = {key: hint for cls in (*classes, JsonOutput) for key, hint in hints(cls).items()}
        flags = flags_of(*classes)

        def run(ctx: typer.Context, **values: Any) -> None:
            typed = {key: value for key, value in values.items() if _was_typed(ctx, key)}
            to = typed.pop("json", None)
            from samespot.cli.console import tables_for

            try:
                with tables_for(to):
                    result = handler(typed)
            except InputError as error:
                raise InputError(with_flags(str(error), flags)) from error
            except Failed as failed:
                _write(failed.result, to)
                raise typer.Exit(1) from None
            _write(result, to)

        given = [_parameter(one, types[key], flags) for key, one in known.items()]
        given.sort(key=lambda one: not _is_argument(known[one.name]))  # stable: arguments first
        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        run.__signature__ = inspect.Signature([context, *given])  # type: ignore[attr-defined]
        run.__annotations__ = {"ctx": typer.Context, **{one.name: one.annotation for one in given}}
        run.__doc__ = handler.__doc__
        app.command(name or handler.__name__.replace("_", "-"))(run)
        return handler

    return register


def _write(result: Any, to: Path | None) -> None:
    if to is not None:
        from samespot.cli.console import write_json  # rich: not before it is needed

        write_json(result, to)


def _own_first(cls: type[Options]) -> list[Field[Any]]:
    """The fields of a class, those it inherits last: help begins with what is special about a command."""
    return sorted(fields(cls), key=lambda one: one.name not in cls.__annotations__)


def flags_of(*classes: type[Options]) -> dict[str, str]:
    """Each option as it is typed."""
    return {one.name: flag_of(one) for cls in (*classes, JsonOutput) for one in fields(cls)}


def flag_of(one: Field[Any]) -> str:
    """How an option is typed: map_part -> --map-part; an argument by its name in the help."""
    told = about(one) or About("")
    if told.argument:
        return told.metavar or one.name.upper()
    return told.flag or "--" + one.name.replace("_", "-")


def words_of(typed: Mapping[str, Any]) -> list[str]:
    """Options as one would type them again: --part london --from-pose."""
    words: list[str] = []
    for name, value in typed.items():
        flag = "--" + name.replace("_", "-")
        words += [flag] if value is True else [flag, str(value)]
    return words


def with_flags(line: str, flags: Mapping[str, str]) -> str:
    """The parameters that an error names, `micro_pairs` or `on_bad_image=skip`, as flags of the command."""

    def flag(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if name not in flags:
            return found[0]
        if value == "False":
            return f"--no-{flags[name][2:]}"
        return flags[name] if value in (None, "", "True") else f"{flags[name]} {value}"

    return re.sub(r"`(?P<name>[a-z_0-9]+)(?:=(?P<value>[^`]*))?`", flag, line)


def _was_typed(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")


def _is_argument(one: Field[Any]) -> bool:
    told = about(one)
    return told is not None and told.argument


def _parameter(one: Field[Any], hint: Any, flags: Mapping[str, str]) -> inspect.Parameter:
    told = about(one)
    assert told is not None, f"{one.name} says nothing of itself"
    kind, default = _shown_type(hint, told), one.default
    if isinstance(default, tuple):
        default = [] if told.many else ",".join(str(part) for part in default)
    shown, metavar = _help(with_flags(told.help, flags), told.metavar, choices(hint, told))
    more: dict[str, Any] = {"help": shown, "rich_help_panel": told.panel or None}
    if kind is Path:
        more["parser"] = _path
        metavar = metavar or (flag_of(one) if told.argument else "PATH")
    if metavar:
        more["metavar"] = metavar
    if told.default is not None:
        more["show_default"] = told.default
    if told.writes:
        more["callback"] = _writable(flag_of(one), told.writes)
    if told.argument:
        info = typer.Argument(**more)
    else:
        flag = flag_of(one)
        both = kind is bool and not told.switch
        info = typer.Option(f"{flag}/--no-{flag[2:]}" if both else flag, **more)
    required = default is MISSING
    typed: Any = kind if required or default is not None else kind | None
    annotated = Annotated[typed, info]
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=annotated,
        default=inspect.Parameter.empty if required else default,
    )


def _path(word: str | Path) -> Path:
    """An empty word, as an unset variable of a shell is, would mean the folder one is in."""
    if not str(word):
        raise typer.BadParameter("an empty name; give a file or folder")
    return Path(word)


def _help(text: str, metavar: str | None, words: tuple[Any, ...]) -> tuple[str, str | None]:
    """Help and metavar. Few short choices are the metavar; many would squeeze the help beside them into a column."""
    shown = text.replace("[", r"\[")  # units, not markup
    joined = "|".join(str(word) for word in words)
    if metavar or len(joined) <= SHORT:
        return shown, metavar or joined or None
    return f"{shown} One of {', '.join(str(word) for word in words)}.", "WORD"


def _shown_type(hint: Any, told: About) -> Any:
    """What typer makes of the words: text where the option reads them itself or there are choices."""
    if told.many:
        return list[str]
    named = [kind for kind in _PLAIN if hint in (kind, kind | None)]
    return named[0] if named and told.parse is None else str


def _writable(flag: str, kind: str) -> Callable[[Path | None], Path | None]:
    """Options that name a file or folder to write are tried before any work is done."""

    def check(path: Path | None) -> Path | None:
        from samespot.cli.outputs import check_file, check_folder

        if path is not None and path != Path("-"):
            (check_file if kind == "file" else check_folder)(flag, path)
        return path

    return check
