"""How people say what to whiten to."""

import pytest

from samespot import InputError
from samespot.whitening.recipe import Recipe, parse_recipes, recipes


@pytest.mark.parametrize(
    ("word", "recipe", "again", "words"),
    [
        ("256", Recipe(256), "256", ""),
        (256, Recipe(256), "256", ""),
        ("full", Recipe(None), "full", ""),
        ("auto", Recipe(256, "damped"), "256:damped", "damped"),
        ("256:damped", Recipe(256, "damped"), "256:damped", "damped"),
        ("damped", Recipe(None, "damped"), "full:damped", "damped"),
        ("full:damped=0.3", Recipe(None, "damped", 0.3), "full:damped=0.3", "damping 0.3"),
        ("64:learned", Recipe(64, "learned"), "64:learned", "learned"),
        ("learned=1", Recipe(None, "learned", 1.0), "full:learned=1", "learned, damping 1"),
        ("64:learned=0", Recipe(64, "learned", 0.0), "64:learned=0", "learned, not damped"),
        ("model", Recipe(None, "model"), "full:model", ""),
        ("128:model", Recipe(128, "model"), "128:model", ""),
    ],
)
def test_a_word_and_what_it_means(word, recipe, again, words):
    assert Recipe.of(word) == recipe
    assert str(recipe) == again
    assert Recipe.of(again) == recipe
    assert recipe.words == words


def test_several_each_once():
    assert parse_recipes("32, 64,auto,256:damped,32") == (Recipe(32), Recipe(64), Recipe(256, "damped"))
    assert recipes([32, "auto", Recipe(32)]) == (Recipe(32), Recipe.of("auto"))
    assert recipes(8) == recipes("8") == (Recipe(8),)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("", "'' is not a way to whiten; write SIZE"),
        ("0", "'0' is not a number of dims"),
        ("-4", "'-4' is not a way to whiten"),
        ("1.5", "is not a way to whiten"),
        ("moon", "'moon' is not a way to whiten"),
        ("256:", "is not a way to whiten"),
        (":damped", "'' is not a number of dims"),
        ("x:damped", "'x' is not a number of dims"),
        ("256:moon", "is not a way to whiten"),
        ("256:damped=", "the damping '' is not a number"),
        ("256:damped=-1", "the damping '-1' is not a number of at least 0"),
        ("256:damped=nan", "the damping 'nan'"),
        ("256:model=1", "is not a way to whiten"),
        ("²", "is not a way to whiten"),
        (1.5, "1.5 is not a way to whiten"),
        (True, "True is not a way to whiten"),
        (None, "None is not a way to whiten"),
    ],
)
def test_what_means_nothing(word, says):
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        Recipe.of(word)
