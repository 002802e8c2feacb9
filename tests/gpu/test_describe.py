"""Descriptors and whitening on a GPU are the processor's, within what each precision allows."""

import numpy as np
import pytest

from samespot.retrieval.describe import describe
from samespot.whitening.whitening import Whitening


@pytest.mark.parametrize(
    ("precision", "decode", "compiled"),
    [
        ("32", "cpu", False),
        ("bf16", "cpu", False),
        ("bf16", "gpu", False),
        ("bf16", "gpu", True),
        ("32", "cpu", True),
    ],
)
def test_a_gpu_gives_what_the_processor_gives(net, places, tmp_path, precision, decode, compiled):
    (places.root / "6.jpg").write_bytes(b"")
    common = {"batch_size": 4, "on_bad_image": "skip"}
    one = describe(net, places, device="cpu", runtime="torch", **common)
    asked = {"device": "cuda", "precision": precision, "decode": decode, "compile": compiled}
    found = describe(net, places, tmp_path / "d", **asked, **common)
    assert list(found.meta["bad"]) == ["6"]
    assert not found.vectors[6].any()
    alike = (found.vectors[found.good] * one.vectors[one.good]).sum(axis=1)
    assert alike.min() > (0.9999 if precision == "32" else 0.999)


def test_whitening_is_the_same(gpu):
    dice = np.random.default_rng(0)
    vectors = dice.normal(size=(300, 64)) @ np.diag(np.linspace(3, 0.1, 64))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    here, there = (Whitening.fit(vectors, "these", device=where)(vectors, 16) for where in ("cpu", "cuda"))
    np.testing.assert_allclose((here * there).sum(axis=1), 1.0, atol=1e-5)
