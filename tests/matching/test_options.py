"""Options of re-ranking: words are read, and what would do nothing is refused."""

import pytest

from samespot import InputError
from samespot.matching.options import PatchOptions, RerankOptions, XFeatOptions, parse_patches


def test_patches_are_read_with_their_weights():
    assert parse_patches("2:0.45,5:0.15,8:0.4") == ((2, 0.45), (5, 0.15), (8, 0.4))
    assert parse_patches("3,6") == ((3, 0.5), (6, 0.5))
    asked = RerankOptions.of({"rerank": "patch-netvlad", "rerank_patches": "3,6"})
    assert asked.patch_options() == PatchOptions((3, 6), (0.5, 0.5))
    with pytest.raises(InputError, match="none may be below 0"):
        RerankOptions.of({"rerank": "patch-netvlad", "rerank_patches": "2:-1,5:2"})


def test_nothing_typed_is_the_default_of_either_method():
    asked = RerankOptions()
    assert asked.rerank is None
    assert (asked.patch_options(), asked.xfeat_options()) == (PatchOptions(), XFeatOptions())


def test_the_size_that_was_asked_for_wins_over_that_of_the_photos():
    assert RerankOptions(rerank="xfeat").xfeat_options((96, 128)).size == (96, 128)
    assert RerankOptions(rerank="xfeat", rerank_size="64x96").xfeat_options((96, 128)).size == (64, 96)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"rerank_top": 5}, "`rerank_top` has no effect without `rerank`"),
        ({"rerank": "xfeat", "rerank_dims": 64}, "`rerank_dims` has no effect with `rerank=xfeat`"),
        ({"rerank": "patch-netvlad", "rerank_size": "32x32"}, "`rerank_size` has no effect with"),
        ({"rerank": "xfeat", "rerank_keypoints": 3}, "3 keypoints per photo: a fundamental needs 8 or more"),
        ({"rerank": "sift"}, "`rerank` 'sift' is unknown; choose one of patch-netvlad, xfeat"),
    ],
)
def test_a_mistake_names_the_option(typed, said):
    with pytest.raises(InputError, match=said):
        RerankOptions.of(typed)
