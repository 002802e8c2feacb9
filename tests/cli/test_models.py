"""The list of models fits the terminal, folds variants, and says all about one."""

import json

import pytest

from samespot.cli import console


@pytest.fixture(params=[60, 80, 160])
def width(request, monkeypatch):
    monkeypatch.setattr(console.out, "width", request.param)
    return request.param


def test_names_are_whole_and_variants_folded(samespot, width):
    code, out, _ = samespot("models")
    assert code == 0
    assert max(len(line) for line in out.splitlines()) <= width
    rows = [line.split()[0] for line in out.splitlines() if line.startswith("  ") and line.strip()]
    assert {"megaloc", "salad", "boq-dinov2", "efficientnet_lite0-gem"} <= set(rows)
    assert not any(row.startswith("eigenplaces-") for row in rows)
    assert "eigenplaces has 12 variants: `samespot models eigenplaces`" in out


def test_a_word_lists_the_variants_and_a_name_says_all(samespot, width, tmp_path):
    code, out, _ = samespot("models", "eigenplaces", "--json", tmp_path / "models.json")
    assert code == 0
    assert "eigenplaces-resnet101-2048" in out
    assert "27,704,385" in out
    told = json.loads((tmp_path / "models.json").read_text())
    assert len(told) == 13
    assert told[0]["name"] == "eigenplaces"
    assert told[0]["address"].endswith("/ResNet50_2048_eigenplaces.pth")
