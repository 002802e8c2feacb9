"""Shows the parameters that a docstring explains as a list: mkdocstrings loads it for the API page.

Docstrings here explain parameters in running text, `theta: opening angle [deg]; radius: how far a camera sees [m]`.
Only the names of the object's own parameters and fields count, so other colons stay what they are.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_NAMES = r"`?[a-z_]\w*`?(?:, `?[a-z_]\w*`?)*"
_ITEM = re.compile(rf"(?:^|(?<=[.;] ))({_NAMES}): ")


class ParameterLists(griffe.Extension):
    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        show(func)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        show(cls)


def show(obj: griffe.Object) -> None:
    if obj.docstring is not None:
        obj.docstring.value = listed(obj.docstring.value, names_of(obj))


def names_of(obj: Any) -> set[str]:
    """Parameters of a function; of a class its fields and what it is made from."""
    functions = [obj] if obj.is_function else [m for name, m in obj.members.items() if name == "__init__"]
    found = {parameter.name for function in functions for parameter in function.parameters}
    return found | (
        {name for name, member in obj.members.items() if member.is_attribute} if obj.is_class else set()
    )


def listed(text: str, names: set[str]) -> str:
    return "\n\n".join(_paragraph(part, names) for part in re.split(r"\n\s*\n", text))


def _paragraph(text: str, names: set[str]) -> str:
    line = re.sub(r"(?<![.;:,])\n(?=" + _NAMES + r": )", ". ", text)  # an item on a line of its own
    line = " ".join(line.split())
    starts = [one for one in _ITEM.finditer(line) if set(re.findall(r"\w+", one[1])) <= names]
    if not starts or "|---" in line:
        return text
    ends = [*(one.start() for one in starts[1:]), len(line)]
    items = [
        f"- **{one[1].replace('`', '')}**: {line[one.end() : end].strip().rstrip(';.')}"
        for one, end in zip(starts, ends, strict=True)
    ]
    before = line[: starts[0].start()].strip()
    return "\n".join([*([before, ""] if before else []), *items])
