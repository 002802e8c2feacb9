"""Options of re-ranking: words are read, and what would do nothing is refused."""

from typing import get_args

import pytest

from samespot import InputError
from samespot.matching.options import KEYPOINTS, By, Matcher, PatchOptions, RerankOptions, parse_patches


def test_patches_are_read_with_their_weights():
    assert parse_patches("2:0.45,5:0.15,8:0.4") == ((2, 0.45), (5, 0.15), (8, 0.4))
    assert parse_patches("3,6") == ((3, 0.5), (6, 0.5))
    asked = RerankOptions.of({"rerank": "patch-netvlad", "rerank_patches": "3,6"})
    assert asked.patch_options() == PatchOptions((3, 6), (0.5, 0.5))
    with pytest.raises(InputError, match="none may be below 0"):
        RerankOptions.of({"rerank": "patch-netvlad", "rerank_patches": "2:-1,5:2"})


def test_nothing_typed_is_the_default_of_each_method():
    asked = RerankOptions()
    assert asked.rerank is None
    assert (asked.patch_options(), asked.rerank_keypoints) == (PatchOptions(), KEYPOINTS)


def test_every_matcher_re_ranks():
    """One list for maps and evaluations: what verifies an answer also orders a list."""
    assert set(get_args(By)) == {"patch-netvlad", *get_args(Matcher)}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"rerank_top": 5}, "`rerank_top` has no effect without `rerank`"),
        ({"rerank": "xfeat", "rerank_dims": 64}, "`rerank_dims` has no effect with `rerank=xfeat`"),
        ({"rerank": "patch-netvlad", "rerank_keypoints": 64}, "`rerank_keypoints` has no effect with"),
        ({"rerank": "xfeat", "rerank_keypoints": 3}, "`rerank_keypoints` 3 must be at least 5"),
        (
            {"rerank": "sift"},
            "`rerank` 'sift' is unknown; choose one of patch-netvlad, xfeat, lighterglue",
        ),
    ],
)
def test_a_mistake_names_the_option(typed, said):
    with pytest.raises(InputError, match=said):
        RerankOptions.of(typed)
