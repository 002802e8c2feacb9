"""How a service is run, and what it bears. No torch and no web framework in here: `samespot serve --help` reads it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from samespot.errors import InputError
from samespot.options import Options, option

_WHO, _MOST, _HOW = "Access", "Limits", "How it runs"
KEYS = "SAMESPOT_KEYS"  # environment variable: keys, separated by commas
NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


@dataclass(frozen=True)
class ServeOptions(Options):
    """A service."""

    maps: list[str] = option(
        ...,
        "Map folders, as `samespot index` writes them; several with a name each: town=map1 campus=map2.",
        argument=True,
        metavar="MAP...",
        many=True,
    )
    host: str = option(
        "127.0.0.1", "Address to listen on. Any but this machine's own needs keys.", panel=_WHO
    )
    port: int = option(8000, "Port to listen on; 0: any free one.", least=0, most=65535, panel=_WHO)
    keys: Path | None = option(
        None,
        f"File with API keys, one on each line, NAME:KEY or KEY; read again when it changes. Also ${KEYS}.",
        panel=_WHO,
    )
    no_auth: bool = option(False, "Let anyone who can reach the address ask.", switch=True, panel=_WHO)
    allow_host: tuple[str, ...] = option(
        (), "Host name that clients may use for this machine. May be given several times.", many=True, panel=_WHO,
        metavar="NAME",
    )  # fmt: skip
    allow_origin: tuple[str, ...] = option(
        (),
        "Web site whose pages may ask, such as https://example.org. May be given several times.",
        many=True,
        panel=_WHO,
        metavar="URL",
    )
    rate: int = option(600, "Most requests per minute from one key (or address).", least=1, panel=_WHO)

    megabytes: float = option(20.0, "Largest photo [MB].", above=0, most=500, panel=_MOST)
    megapixels: float = option(50.0, "Largest photo [megapixels].", above=0, most=179, panel=_MOST)
    images: int = option(20, "Most photos in one request.", least=1, most=1000, panel=_MOST)
    seconds: float = option(30.0, "Longest time for a request [s].", above=0, panel=_MOST)
    waiting: int = option(
        64,
        "Most photos in progress or waiting; further requests are told to come back.",
        least=1,
        panel=_MOST,
    )

    batch: int = option(16, "Most photos that go through the network at once.", least=1, panel=_HOW)
    batch_wait: float = option(
        5.0, "Longest time a photo waits to be batched with others [ms]; only if others are on the way.", least=0,
        panel=_HOW,
    )  # fmt: skip
    device: str = option(
        "auto", "Where the network runs: cpu, cuda, or one GPU as cuda:1. auto: a GPU where there is one.",
        panel=_HOW,
    )  # fmt: skip
    log: Literal["text", "json"] = option("text", "How requests are logged.", panel=_HOW)

    def __post_init__(self) -> None:
        super().__post_init__()
        named_maps(self.maps)
        keyed = self.keys is not None or bool(os.environ.get(KEYS))
        if self.no_auth and keyed:
            raise InputError(
                f"`no_auth` and keys exclude each other; leave out `keys` and ${KEYS}, or `no_auth`"
            )
        if "*" in self.allow_origin and not keyed:
            raise InputError("`allow_origin=*` would let any web page ask; name the sites, or give `keys`")
        if self.images > self.waiting:
            raise InputError(
                f"`images` is {self.images}, more than may wait; give `waiting={self.images}` or more"
            )
        if not self.at_home and not keyed and not self.no_auth:
            raise InputError(
                f"`host={self.host}` can be reached from other machines; give `keys`, or `no_auth` to let everybody ask"
            )

    @property
    def at_home(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def most_bytes(self) -> int:
        return round(1e6 * self.megabytes)

    @property
    def most_pixels(self) -> int:
        return round(1e6 * self.megapixels)


def named_maps(words: list[str]) -> dict[str, Path]:
    """The maps by name: town=map1, or a folder by its own name."""
    found: dict[str, Path] = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if not equals or Path(word).exists():
            name, folder = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(word).resolve().name)[:40] or "map", word
        elif not NAME.fullmatch(name):
            raise InputError(
                f"{word}: the name of a map has letters, digits, - and _, at most 40; write a={folder}"
            )
        if name in found:
            raise InputError(
                f"{word}: there is a map named {name} already; give each a name, such as a={folder}"
            )
        found[name] = Path(folder)
    return found
