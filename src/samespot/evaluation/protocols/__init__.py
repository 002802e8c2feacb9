"""Every named protocol: a file in this package for each data set, called as its reader in `places/`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from samespot.errors import InputError
from samespot.evaluation.protocol import Protocol
from samespot.places.catalogue import DATA_SETS, data_set, protocol_names


def protocol_named(name: str) -> Protocol:
    """The protocol of that name. Only the file of its data set is imported."""
    for known in DATA_SETS:
        if name in known.protocols:
            family: tuple[Protocol, ...] = import_module(f"{__name__}.{known.module}").PROTOCOLS
            return next(protocol for protocol in family if protocol.name == name)
    raise InputError(f"protocol {name!r} is unknown; choose one of {', '.join(protocol_names())}")


def list_protocols() -> list[Protocol]:
    """All of them: which queries, what counts as found, what is never retrieved, whom to cite."""
    return [protocol_named(name) for name in protocol_names()]


def located(root: Path, protocol: Protocol) -> Path:
    """The folder of the protocol's data set: `root` itself, or one directly below it."""
    if not root.is_dir():
        raise InputError(f"`root` {root}: no such folder; give the folder of the data set, or one above it")
    below = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    for folder in (root, *below):
        if data_set(protocol.data_set).parts(folder):
            return folder
    raise InputError(
        f"`root` {root}: {protocol.name} needs {protocol.data_set}, which is not there nor directly below;"
        f" `samespot datasets` says where to ask for it"
    )
