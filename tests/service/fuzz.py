"""Fuzz a service: requests made from its OpenAPI document, and images that were tampered with.

    python -m tests.service.fuzz MAP [requests] [images]        10,000 of each by default

Prints how often each status came back. Ends with 1 where one was 500 or more, did not fit the document, or the service
stopped answering.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def requests(app: Any, count: int) -> Counter[int]:
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
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [one.ok() for one in schema.get_all_operations()]
    codes: Counter[int] = Counter()
    for operation in operations:
        each = max(1, count // len(operations)) + 1

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
            told = case.call(base_url="http://localhost")
            codes[told.status_code] += 1
            case.validate_response(told, checks=checks)

        ask()
    dice = np.random.default_rng(0)
    while sum(codes.values()) < count:  # what has few parameters has few examples
        told = (
            next(iter(operations))
            .Case(query={"map": str(dice.integers(9))})
            .call(base_url="http://localhost")
        )
        codes[told.status_code] += 1
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
    from starlette.testclient import TestClient

    from samespot.service.app import create_app
    from samespot.service.options import ServeOptions

    words = sys.argv[1:]
    counts = [int(word) for word in words[1:]] + [10_000, 10_000]
    app = create_app(ServeOptions(maps=[str(Path(words[0]))], rate=100_000_000))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        for name, codes in (("requests", requests(app, counts[0])), ("images", images(client, counts[1]))):
            print(f"{name}: {sum(codes.values()):,}", dict(sorted(codes.items())), flush=True)
            if any(code >= 500 for code in codes):
                sys.exit(1)


if __name__ == "__main__":
    main()
