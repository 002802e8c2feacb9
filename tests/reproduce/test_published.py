"""The page in the docs is what the published runs give, to the letter: written by the command that it names."""

import re
import tarfile
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FIGURE = re.compile(r"(?<![\d,.])\d+\.\d+(?![\d.])")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    from typer.testing import CliRunner

    from samespot.cli import app

    runs = tmp_path_factory.mktemp("runs")
    with tarfile.open(DOCS / "results" / "reproduce.tgz") as archive:
        archive.extractall(runs, filter="data")
    page, why = runs / "reproduce.md", DOCS / "results" / "reproduce.toml"
    words = ["reproduce", "--collect", "--out", runs, "--explained", why, "--page", page]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return page


def test_the_page_is_not_typed(written):
    assert written.read_text() == (DOCS / "reproduce.md").read_text()


def test_its_figures_are_there(written):
    drawn = {file.name for file in (written.parent / "images").iterdir()}
    assert drawn == {file.name for file in (DOCS / "images").glob("reproduce_*.png")}


def test_the_whole_matrix_was_run(written):
    """But for the trunk whose weights were not at hand."""
    text = written.read_text()
    assert "**Not finished:**" not in text
    missing = text.partition("\n## Not run\n")[2].partition("\n## ")[0]
    assert all("/resnet50-" in name for name in re.findall(r"`([^`]+)`", missing))


def test_what_did_not_reproduce_is_explained_by_figures_that_are_there():
    """Every figure of an explanation stands elsewhere on the page, or a command that prints it is named beside it."""
    text = (DOCS / "reproduce.md").read_text()
    before, _, rest = text.partition("\n## What did not reproduce\n")
    told, _, after = rest.partition("\n## ")
    known = set(FIGURE.findall(before + after))
    parts = re.split(r"\n(?=\*\*\[)", told)[1:]
    table = before.partition("\n## Claims\n")[2]
    assert len(parts) == table.count("| ✗ does not hold |") + table.count("| ? cannot tell |") > 0
    for part in parts:
        words = re.sub(r"^- .*$", "", part, flags=re.MULTILINE)
        assert len(words.partition("** ")[2].split()) > 15, words  # said plainly
        if "`python benchmarks/" not in words:
            assert set(FIGURE.findall(words)) <= known, set(FIGURE.findall(words)) - known


def test_the_readme_says_what_the_page_says():
    page, readme = ((DOCS / name).read_text() for name in ("reproduce.md", "../README.md"))
    runs, value, low, high = re.search(
        r"by (\d+) runs .*? by ([\d.]+) points of R@5 \[([\d.]+), ([\d.]+)\] on average of nine",
        readme,
        re.DOTALL,
    ).groups()
    assert f"from {runs} runs of" in page
    assert f"| campus, R@5: the average of 9 | +{value} [+{low}, +{high}] R@5 |" in page
