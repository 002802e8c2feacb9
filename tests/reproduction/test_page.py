"""The page is a function of results: made-up ones give the page that is stored beside this test."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from reproduction.claims import claims
from reproduction.experiment import Answers, Cost, Result, Store, written
from reproduction.judgement import Better, Calibrated, Cheaper, Claim, judge_all, side
from reproduction.matrix import experiments
from reproduction.page import explanations, in_short, page, write_page
from samespot.errors import InputError

STORED = Path(__file__).with_name("page.md")
GRADED, BINARY, TRIPLET = (f"campus/vgg16-gem-{name}" for name in ("graded", "binary", "triplet-rate-0.04"))
SMALL = [
    Claim(
        "graded-beats-binary", "Graded beats binary", "60.3 → 77.8 R@5", "Table 1",
        (Better("campus: graded − binary", side(GRADED), side(BINARY), group="graded − another"),
         Better("campus: graded − triplets", side(GRADED), side(TRIPLET), group="graded − another"),
         Better("campus: graded − soft", side(GRADED), side("campus/vgg16-gem-soft-0"))),
    ),
    Claim(
        "whitening-helps", "Whitening helps", "77.8 → 83.1 R@5", "Table 1",
        (Better("campus: whitened − plain", side(GRADED, descriptor="128"), side(GRADED)),),
    ),
    Claim(
        "cheaper-than-mining", "No mining is cheaper", "5 h, 22 days", "Table 6",
        (Cheaper("forward passes", side(GRADED), side(TRIPLET), "passes"),
         Cheaper("seconds", side(GRADED), side(TRIPLET), "seconds")),
        rule="At most half.",
    ),
    Claim("calibrated-overlap", "Overlap is calibrated", "not in the paper", "ours",
          (Calibrated("1 − d/τ", side(GRADED), "calibration"),)),
    Claim("two-blocks", "Two blocks beat one", "64.6, 78.9 R@5", "Table 5",
          (Better("two − one", side("campus/a"), side("campus/b")),)),
]  # fmt: skip


@pytest.fixture
def judged(seeds):
    mined = Cost(30.0, 166, 2000, 3000, 5.0)
    runs = [
        *seeds(GRADED, 0.75, whitened={"the map": (128, 0.5)}, ece=0.3),
        *seeds(BINARY, 0.5),
        *seeds(TRIPLET, 0.6, cost=mined),
        *seeds("campus/vgg16-gem-as-it-comes", 0.4, 1, cost=Cost()),
    ]
    return judge_all(SMALL, runs, beyond={"campus/vgg16-gem-soft-0"})


def test_the_page_of_made_up_results_is_the_stored_one(judged):
    """REGENERATE=1 writes it anew; then read the difference."""
    why = {"whitening-helps": "The map is small."}
    made = page(
        judged, "python -m reproduction claims --data DATA", {"campus/b": "needs weights of vgg16"}, why
    )
    if os.environ.get("REGENERATE"):
        STORED.write_text(made)
    assert made == STORED.read_text()


def test_each_claim_has_its_word_in_the_table(judged):
    table = page(judged, "", {}, {}).partition("## Claims")[2].partition("##")[0]
    words = [row.split("|")[-2].strip() for row in table.splitlines() if row.startswith("| [")]
    assert words == ["✓ holds", "✗ does not hold", "✓ holds", "✗ does not hold", "– not run"]


def test_one_comparison_holds_and_two_hold(seeds):
    """Counted in words that fit."""
    runs = [*seeds("x/a", 0.9), *seeds("x/b", 0.5), *seeds("x/c", 0.4)]
    better, worse = Better("", side("x/a"), side("x/b")), Better("", side("x/c"), side("x/a"))

    def short(*comparisons):
        return in_short(judge_all([Claim("", "", "", "", comparisons)], runs).verdicts[0]).partition(";")[0]

    assert short(better, worse) == "2 comparisons: 1 holds, 1 does not hold"
    assert short(better, better, worse, worse) == "4 comparisons: 2 hold, 2 do not hold"


def test_what_did_not_reproduce_is_said_with_its_explanation(judged):
    text = page(judged, "", {}, {"whitening-helps": "The map is small."})
    part = text.partition("## What did not reproduce")[2].partition("\n## ")[0]
    assert "**[Whitening helps](#whitening-helps): does not hold.** The map is small." in part
    assert "is calibrated](#calibrated-overlap): does not hold.**\n" in part
    assert "No mining" not in part


def test_links_lead_to_headings(judged):
    text = page(judged, "", {}, {})
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) == set(re.findall(r'<a id="([^"]+)">', text))


def test_explanations_are_read_from_a_file(tmp_path):
    file = tmp_path / "why.toml"
    file.write_text('two-blocks = """\nsince\n"""')
    assert explanations(file, claims()) == {"two-blocks": "since"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('three-blocks = "since"', r"why.toml explains 'three-blocks', which is not a claim"),
        ("two-blocks = 2", r"why.toml: the explanation of 'two-blocks' is not text"),
        ("two-blocks", r"why.toml: not a toml file"),
        (None, r"why.toml: No such file"),
    ],
)
def test_explanations_that_are_none_are_refused(tmp_path, text, said):
    file = tmp_path / "why.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=said):
        explanations(file, claims())


def full_result(one, seed):
    """Random answers that depend on the experiment's name and seed."""
    dice = np.random.default_rng([seed, *one.key.encode()])
    queries = 60
    answers = {}
    for size, on in [(512, None), *((size, "the map") for size in one.whiten)]:
        columns = {"first_hit": dice.integers(0, 12, queries).astype(float)}
        if on is None:
            columns |= {
                "metres": dice.uniform(0, 80, queries),
                "shared": dice.random(queries),
                "precision": dice.random(queries),
            }
        answers[f"{size} {on}"] = Answers(size, on, None, columns)
    if one.rerank:
        answers["re-ranked"] = Answers(512, None, one.rerank, {"first_hit": np.ones(queries)})
    bins = {
        "predicted": written(np.linspace(0, 1, 5)),
        "true": written(dice.random(5)),
        "counts": "1 1 1 1 1",
        "ece": 0.2,
    }
    return Result(
        one.key, seed, "d", one.data,
        {"counted": np.ones(queries), "metres": np.full(queries, 3.0), "shared": np.full(queries, 0.95)},
        answers, {"calibration": bins, "calibration, isotonic": bins},
        Cost(float(dice.uniform(5, 20)), 1000, 2000, 300 if "triplet" in one.name else 0) if one.trained else Cost(),
        {"device": "a machine", "options": {}},
    )  # fmt: skip


def test_the_whole_matrix_fits_a_page_with_light_figures(tmp_path):
    """And no claim is left without an answer."""
    names = ("campus", "town", "redkitchen")
    store = Store(tmp_path)
    for one in experiments(names):
        for seed in one.seeds(1):
            store.save(full_result(one, seed))
    results = store.all()
    files = write_page(
        tmp_path / "docs" / "reproduce.md",
        judge_all(claims(names), results),
        "python -m reproduction claims",
        {},
    )
    text = files[0].read_text()
    assert "not run" not in text.partition("## Claims")[2].partition("\n## ")[0].replace("resnet50", "")
    drawn = re.findall(r"!\[[^\]]+\]\(images/([^)]+)\)", text)
    assert len(drawn) == 6
    assert set(drawn) == {file.name for file in files[1:]}
    assert all(5_000 < file.stat().st_size < 200_000 for file in files[1:])
    for one in (
        "AP-GeM",
        "SARE, joint",
        "log-ratio",
        "Patch-NetVLAD",
        "XFeat",
        "soft contrastive",
        "multi-similarity",
    ):
        assert one in text.partition("## Comparators")[2].partition("\n## ")[0]


def test_without_results_the_page_says_what_is_needed():
    text = page(
        judge_all(claims(), []),
        "python -m reproduction claims",
        {"campus/x": "needs the data set campus"},
        {},
    )
    assert "none yet" in text
    assert "– not run" in text
    assert "- needs the data set campus: `campus/x`" in text
