"""`python docs/catalogue.py` writes docs/protocols.md and the table of docs/models.md, from what they are about.

A test keeps both true.
"""

from __future__ import annotations

from pathlib import Path

from samespot.evaluation.protocol import Protocol
from samespot.evaluation.protocols import list_protocols
from samespot.model.catalogue import list_models
from samespot.model.published import published_models

MODELS_FROM, MODELS_TO = "<!-- models: written by python docs/catalogue.py -->\n", "<!-- end of models -->"
MODELS_HEAD = """\
| name | trunk | dims | photos | parameters | licence of weights | licence of code | paper |
|---|---|---|---|---|---|---|---|
"""
HEAD = """\
# Protocols

A protocol says which queries count, what counts as found, and what is never retrieved. To measure a model by one:

```text
samespot evaluate runs/mine msls-val --root MSLS
```

In Python: `samespot.evaluate("runs/mine", "msls-val", root="MSLS")`. An option below is a flag of the command and a
keyword in Python. To list the protocols:

```sh
samespot protocols
samespot protocols msls-val
```

```python
import samespot

for one in samespot.list_protocols():
    print(one.name, one.positive)
```

This page is written from the protocols themselves by `python docs/catalogue.py`.

| name | data set | what counts as found | ranks |
|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    rows = [
        f"| [`{one.name}`](#{one.name}) | {one.data_set} | {one.positive} | {_ranks(one)} |"
        for one in list_protocols()
    ]
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(_section(one) for one in list_protocols())


def _ranks(protocol: Protocol) -> str:
    if protocol.limits:
        return "; ".join(f"{metres:g} m, {degrees:g}°" for metres, degrees in protocol.limits)
    return ", ".join(str(k) for k in protocol.ks) + ("; AP" if protocol.all_pairs else "")


def _section(protocol: Protocol) -> str:
    lines = [f"## {protocol.name}", "", f"{protocol.title}.", ""]
    lines += [f"- **Queries:** {protocol.queries}", f"- **Found:** {protocol.positive}"]
    lines += [f"- **Never retrieved:** {protocol.exclusions or 'none'}", f"- **Source:** {protocol.citation}"]
    for name, default in protocol.option_defaults().items():
        lines.append(f"- **Option** `--{name.replace('_', '-')}`, by default {default}")
    lines += [f"- {note}" for note in protocol.notes]
    return "\n".join(lines) + "\n"


def with_models(page: str) -> str:
    """The page about models with its table as the models say."""
    before, _, rest = page.partition(MODELS_FROM)
    after = rest.partition(MODELS_TO)[2]
    rows = [
        f"| [`{one.name}`]({one.source}) | {one.backbone} | {one.dims:,} | {one.image_size[0]}x{one.image_size[1]} "
        f"| {one.parameters / 1e6:.1f} M | {one.licence} | {one.code_licence} | {one.paper} |"
        for one in list_models()
        if one.name in published_models() and one.family is None
    ]
    return before + MODELS_FROM + "\n" + MODELS_HEAD + "\n".join(rows) + "\n\n" + MODELS_TO + after


if __name__ == "__main__":
    here = Path(__file__).parent
    (here / "protocols.md").write_text(page())
    (here / "models.md").write_text(with_models((here / "models.md").read_text()))
