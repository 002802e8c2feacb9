"""Augmentation depends on (seed, step, place in the batch), and strength 0 is the identity."""

import numpy as np
import pytest
import torch

from samespot.training.augment import draw_augmentation


@pytest.fixture
def photos():
    return torch.randint(
        0, 256, (6, 3, 20, 30), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


def test_nothing_asked_nothing_done(photos):
    same = draw_augmentation(0, 0, 6, strength=0.0)(photos)
    torch.testing.assert_close(same, photos.float(), atol=1e-4, rtol=0)


def test_strong_changes_every_image_within_its_range(photos):
    changed = draw_augmentation(0, 5, 6, strength=1.0)(photos)
    assert changed.min() >= 0
    assert changed.max() <= 255
    assert ((changed - photos.float()).abs().mean(dim=(1, 2, 3)) > 1).all()


def test_an_image_is_treated_alike_in_any_part_of_the_batch(photos):
    whole = draw_augmentation(3, 8, 6, strength=1.0, crop=0.3, flip=True)
    rows = np.array([4, 1])
    assert torch.equal(whole[rows](photos[rows]), whole(photos)[rows])


def test_steps_and_seeds_differ(photos):
    results = [draw_augmentation(seed, step, 6, 1.0)(photos) for seed, step in ((0, 0), (0, 1), (1, 0))]
    assert not torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert torch.equal(results[0], draw_augmentation(0, 0, 6, 1.0)(photos))


def test_some_photos_become_much_darker():
    grey = torch.full((400, 3, 4, 4), 128, dtype=torch.uint8)
    light = draw_augmentation(0, 0, 400, strength=1.0)(grey).mean(dim=(1, 2, 3))
    assert 0.1 < (light < 60).float().mean() < 0.5
    assert (light > 128).float().mean() > 0.2


def test_flip_mirrors_the_whole_batch_or_none_of_it(photos):
    mirrored = 0
    for step in range(40):
        result = draw_augmentation(0, step, 6, strength=0.0, flip=True)(photos)
        if torch.allclose(result, photos.float().flip(3), atol=1e-3):
            mirrored += 1
        else:
            torch.testing.assert_close(result, photos.float(), atol=1e-3, rtol=0)
    assert 8 < mirrored < 32


def test_a_crop_shows_a_part_of_the_photo():
    # brightness is the column: a crop shows a contiguous stretch of them
    ramp = torch.arange(0, 200, 2, dtype=torch.uint8).expand(8, 3, 10, 100).contiguous()
    cropped = draw_augmentation(1, 0, 8, strength=0.0, crop=0.5)(ramp)[:, 0, 5]
    assert (cropped.diff(dim=1) >= -1e-3).all()
    shown = (cropped[:, -1] - cropped[:, 0]) / 198
    assert (shown > 0.45).all()
    assert shown.min() < 0.9
