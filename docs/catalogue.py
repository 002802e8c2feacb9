"""Writes docs/protocols.md from the protocols themselves: `python docs/catalogue.py`. A test keeps the page true."""

from __future__ import annotations

from pathlib import Path

from samespot.evaluation.protocol import Protocol
from samespot.evaluation.protocols import list_protocols

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


if __name__ == "__main__":
    (Path(__file__).parent / "protocols.md").write_text(page())
