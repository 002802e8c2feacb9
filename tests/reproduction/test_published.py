"""The page in the docs is what the published runs give: written by the command that it names, not typed."""

import re
import tarfile
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"\d+(?:\.\d+)?")
FIGURE = re.compile(r"(?<![\d,.])\d+\.\d+(?![\d.])")
SLACK = 0.25  # should another NumPy draw other samples


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    from typer.testing import CliRunner

    from reproduction.cli import app

    runs = tmp_path_factory.mktemp("runs")
    with tarfile.open(DOCS / "results" / "reproduce.tgz") as archive:
        archive.extractall(runs, filter="data")
    page, why = runs / "reproduce.md", DOCS / "results" / "reproduce.toml"
    words = ["claims", "--collect", "--out", runs, "--explained", why, "--page", page]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return page


@pytest.fixture(scope="module")
def page():
    return (DOCS / "reproduce.md").read_text()


def section(text, heading):
    _, found, after = text.partition(f"\n## {heading}\n")
    assert found, heading
    return after.partition("\n## ")[0]


def test_the_page_is_not_typed(written, page):
    made = written.read_text()
    assert NUMBER.sub("#", made) == NUMBER.sub("#", page)
    first, second = ([float(one) for one in NUMBER.findall(text)] for text in (made, page))
    np.testing.assert_allclose(first, second, atol=SLACK)


def test_its_figures_are_there(written):
    drawn = {file.name for file in (written.parent / "images").iterdir()}
    assert drawn == {file.name for file in (DOCS / "images").glob("reproduce_*.png")}


def test_the_whole_matrix_was_run(page):
    """But for the trunk whose weights were not at hand."""
    assert "**Not finished:**" not in page
    assert all("/resnet50-" in name for name in re.findall(r"`([^`]+)`", section(page, "Not run")))


def test_what_did_not_reproduce_is_explained_by_figures_that_are_there(page):
    """Those of the claim's own comparisons or of the comparators, unless a command that prints them is named."""
    parts = re.split(r"\n(?=\*\*\[)", section(page, "What did not reproduce, or is inconclusive"))[1:]
    table, comparators = section(page, "Claims"), section(page, "Comparators")
    assert len(parts) == table.count("| ✗ does not hold |") + table.count("| ? inconclusive |") > 0
    for part in parts:
        name = re.search(r"\]\(#([^)]+)\)", part).group(1)
        row = next(line for line in table.splitlines() if f"(#{name})" in line)
        own = page.partition(f'<a id="{name}"></a>')[2].partition('<a id="')[0]
        words = re.sub(r"^- .*$", "", part, flags=re.MULTILINE)
        assert len(words.partition("** ")[2].split()) > 15, name  # said plainly
        if "`python benchmarks/" not in words:
            told, known = (set(FIGURE.findall(text)) for text in (words, row + own + comparators))
            assert told <= known, (name, told - known)


def test_the_readme_says_what_the_page_says(page):
    readme = " ".join((DOCS.parent / "README.md").read_text().split())
    said = r"(\d+) runs of equal .*? by ([\d.]+) points of R@5 \[([\d.]+), ([\d.]+)\].*? seven .*?by ([\d.]+) after"
    runs, value, low, high, whitened = re.search(said, readme).groups()
    assert f"from {runs} runs of" in page
    rates = "| campus, at the paper's rates"
    assert f"{rates}: the average of 7 | +{value} [+{low}, +{high}] R@5 |" in page
    assert f"{rates}, 128 whitened: the average of 7 | +{whitened} [" in page
