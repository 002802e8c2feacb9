"""Options of an evaluation: words are read, and what would do nothing is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from samespot import InputError
from samespot.evaluation.options import EvaluateOptions
from samespot.overlap.rules import Within
from samespot.whitening.recipe import Recipe


def test_words_and_values_give_the_same_options():
    typed = EvaluateOptions.of({"map": "map.csv", "whiten": "32,64,32", "within": "25m, 40deg"})
    values = EvaluateOptions(map=Path("map.csv"), whiten=[32, 64], within=Within(25.0, 40.0))
    assert typed == values
    assert EvaluateOptions(map="map.csv", whiten=256).whiten == (Recipe(256),)


def test_what_a_protocol_was_given():
    asked = EvaluateOptions.of({"protocol": "msls-val", "subtask": "d2n"})
    assert asked.of_protocol == {"subtask": "d2n"}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({}, "name a protocol"),
        ({"map": "m", "root": "."}, "`root` has no effect without a protocol"),
        ({"map": "m", "subtask": "all"}, "`subtask` has no effect without a protocol"),
        ({"protocol": "town", "map": "m"}, "`map` has no effect with the protocol town"),
        ({"protocol": "town", "frames": 0}, "`frames` has no effect with the protocol town"),
        ({"protocol": "town", "subtask": "all"}, "protocol town has no option 'subtask'"),
        ({"map": "m", "within": "25m", "overlap": 0.5}, "give one of `within`, `frames` and `overlap`"),
        ({"map": "m", "whiten_on": "map"}, "`whiten_on` has no effect without `whiten`"),
        ({"map": "m", "whiten": 4, "whiten_on": "both"}, "`whiten_on=both` needs `train`"),
        ({"map": "m", "train_split": "x"}, "`train_split` has no effect without `train`"),
        (
            {"map": "m", "acceptance": False, "accept_precision": 0.9},
            "`accept_precision` has no effect with `acceptance=False`",
        ),
        ({"map": "m", "wihten": 4}, "unknown option 'wihten'; did you mean `whiten`"),
    ],
)
def test_a_mistake_names_the_option(typed, said):
    with pytest.raises(InputError, match=said):
        EvaluateOptions.of(typed)


def test_options_load_no_heavy_module():
    code = (
        "import sys, samespot.evaluation.options, samespot.retrieval.options, samespot.matching.options;"
        "print([name for name in ('torch', 'numpy', 'pandas', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
