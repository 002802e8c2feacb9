"""Fuzz a service: requests made from its OpenAPI document, and images that were tampered with.

    python -m tests.service.fuzz MAP [requests] [images]        10,000 of each by default

Prints how often each status came back. Ends with 1 where one was 500 or more, did not fit the document, or the service
stopped answering.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The application at an address of its own, in a thread."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def requests(address: str, count: int) -> Counter[int]:
    """So many requests, at least; each answer must fit the document."""
    import hypothesis
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    operations = [one.ok() for one in schema.get_all_operations()]
    codes: Counter[int] = Counter()
    # most of them where most can go wrong; what has few parameters has few different requests anyway
    weights = [4 if one.method == "post" else 1 for one in operations]
    for operation, weight in zip(operations, weights, strict=True):
        each = 1 + count * weight // sum(weights)

        @hypothesis.given(case=operation.as_strategy())
        @hypothesis.settings(
            max_examples=each,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate],
        )
        def ask(case: Any) -> None:
            told = case.call(timeout=60)
            codes[told.status_code] += 1
            case.validate_response(told, checks=checks)

        ask()
    return codes


def originals() -> list[tuple[str, bytes]]:
    """A small picture in each format."""
    dice = np.random.default_rng(0)
    blocks = Image.fromarray(dice.integers(0, 256, (9, 12, 3), dtype=np.uint8)).resize((96, 72))
    found = []
    for kind, mode in (
        ("JPEG", "RGB"), ("JPEG", "CMYK"), ("JPEG", "L"), ("PNG", "RGBA"), ("PNG", "P"), ("PNG", "I;16"),
        ("WEBP", "RGB"), ("GIF", "P"), ("TIFF", "RGB"), ("HEIF", "RGB"),
    ):  # fmt: skip
        out = io.BytesIO()
        picture = (
            Image.fromarray(np.arange(96 * 72, dtype=np.uint16).reshape(72, 96))
            if mode == "I;16"
            else blocks.convert(mode)
        )
        if kind == "HEIF":
            try:
                import pillow_heif
            except ImportError:
                continue
            pillow_heif.register_heif_opener()
        picture.save(out, kind)
        found.append((f"image/{kind.lower()}", out.getvalue()))
    return found


def tampered(encoded: bytes, dice: np.random.Generator) -> bytes:
    """The file with some bytes changed, cut off, doubled, moved or made extreme."""
    data = bytearray(encoded)
    for _ in range(int(dice.integers(1, 12))):
        at, kind = int(dice.integers(len(data))), int(dice.integers(6))
        length = int(dice.integers(1, 40))
        if kind == 0:
            data[at] = int(dice.integers(256))
        elif kind == 1:
            data[at] ^= 1 << int(dice.integers(8))
        elif kind == 2:
            data[at : at + 4] = bytes(dice.choice([0, 255, 127, 128], 4).astype(np.uint8))
        elif kind == 3:
            del data[at : at + length]
        elif kind == 4:
            data[at:at] = data[at : at + length]
        elif dice.random() < 0.3:
            del data[at:]
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


def images(client: Any, count: int, seed: int = 0) -> Counter[int]:
    """So many tampered images; in between, a whole one must be answered."""
    dice, kinds, codes = np.random.default_rng(seed), originals(), Counter[int]()
    for number in range(count):
        kind, encoded = kinds[number % len(kinds)]
        given = {"content-type": kind}
        told = client.post(
            "/v1/locate", content=tampered(encoded, dice), headers=given, params={"verify": number % 5 == 0}
        )
        codes[told.status_code] += 1
        if number % 50 == 49:
            kind, encoded = kinds[0]
            assert (
                client.post("/v1/locate", content=encoded, headers={"content-type": kind}).status_code == 200
            )
    return codes


def main() -> None:
    from samespot.service.app import create_app
    from samespot.service.options import ServeOptions

    words = sys.argv[1:]
    counts = [int(word) for word in words[1:]] + [10_000, 10_000]
    app = create_app(ServeOptions(maps=[str(Path(words[0]))], rate=100_000_000))
    with served(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        for name, ask in (
            ("requests", lambda: requests(address, counts[0])),
            ("images", lambda: images(client, counts[1])),
        ):
            codes = ask()
            print(f"{name}: {sum(codes.values()):,}", dict(sorted(codes.items())), flush=True)
            if any(code >= 500 for code in codes):
                sys.exit(1)


if __name__ == "__main__":
    main()
