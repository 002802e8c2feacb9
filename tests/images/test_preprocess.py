"""Pixels in, numbers out: by hand, against Pillow, and for files in every shape."""

import numpy as np
import pytest
import torch
from PIL import Image

from samespot.errors import InputError
from samespot.images.preprocess import Normalise, Preprocessing
from samespot.images.reading import read_image

CAFFE = Preprocessing(
    size=(2, 2), mean=(103.939, 116.779, 123.68), std=(1, 1, 1), channels="BGR", value_range=255.0
)


@pytest.fixture
def photo():
    """(40, 60, 3), smooth, so that JPEG keeps it; the top left corner is red."""
    y, x = np.mgrid[0:40, 0:60]
    image = np.stack([250 - 4 * y, 3 * x, 2 * y + x], axis=-1).astype(np.uint8)
    image[:16, :16] = (255, 0, 0)
    return image


def test_normalisation_by_hand():
    red = torch.tensor([255, 51, 0], dtype=torch.uint8).reshape(1, 3, 1, 1)
    rgb = Preprocessing(size=(1, 1))(red).flatten()
    assert rgb.tolist() == pytest.approx(
        [(1 - 0.485) / 0.229, (0.2 - 0.456) / 0.224, -0.406 / 0.225], rel=1e-5
    )
    bgr = CAFFE.normalise(red).flatten()
    assert bgr.tolist() == pytest.approx([0 - 103.939, 51 - 116.779, 255 - 123.68], rel=1e-5)


def test_a_network_on_the_device_gets_the_same_numbers(photo):
    """Whole batches in training and describing, single images elsewhere: one arithmetic."""
    pixels = torch.from_numpy(photo).permute(2, 0, 1)[None].repeat(3, 1, 1, 1)
    for how in (Preprocessing(size=(40, 60)), CAFFE):
        whole = Normalise(how, torch.device("cpu"))(pixels)
        assert torch.equal(
            whole, Normalise(how, torch.device("cpu"))(pixels.float())
        )  # augmented ones are floats
        assert torch.equal(whole[:1], how.normalise(pixels[:1]))
        assert whole.is_contiguous(memory_format=torch.channels_last)


def test_resize_agrees_with_pillow(photo):
    found = Preprocessing(size=(15, 20)).resize(torch.from_numpy(photo).permute(2, 0, 1)[None])
    expected = np.array(Image.fromarray(photo).resize((20, 15), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert found.dtype == torch.uint8
    assert np.abs(found[0].numpy().astype(int) - expected).max() <= 1


def test_images_of_the_right_size_are_not_touched(photo):
    pixels = torch.from_numpy(photo).permute(2, 0, 1)[None]
    assert Preprocessing(size=(40, 60)).resize(pixels) is pixels


@pytest.mark.parametrize("images", [torch.rand(1, 3, 4, 4), torch.zeros((3, 4, 4), dtype=torch.uint8)])
def test_only_decoded_pixels_are_taken(images):
    with pytest.raises(InputError, match="uint8 RGB"):
        CAFFE(images)


def test_settings_survive_a_round_trip():
    assert Preprocessing.from_dict(CAFFE.to_dict()) == CAFFE


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"channels": "GRB"}, "GRB"),
        ({"std": [0, 1, 1]}, "std"),
        ({"size": [0, 3]}, "positive"),
        ({"mean": [1]}, "3 numbers"),
        ({"crop": 1}, "crop"),
        ({"mean": ["a", 1, 1]}, "wrong kind"),
    ],
)
def test_wrong_settings_are_named(change, match):
    with pytest.raises(InputError, match=match):
        Preprocessing.from_dict({**CAFFE.to_dict(), **change})


@pytest.mark.parametrize(
    ("suffix", "tolerance"), [("png", 0), ("jpg", 40), ("webp", 40), ("bmp", 0), ("tiff", 0)]
)
def test_every_format_gives_the_same_picture(tmp_path, photo, suffix, tolerance):
    path = tmp_path / f"photo.{suffix}"
    Image.fromarray(photo).save(path)
    found = read_image(path)
    assert found.shape == (3, 40, 60)
    assert np.abs(found.permute(1, 2, 0).numpy()[4:12, 4:12].astype(int) - (255, 0, 0)).max() <= tolerance


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_photos_are_turned_upright(tmp_path, photo, suffix):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side: turn by 90 degrees clockwise
    path = tmp_path / f"photo.{suffix}"
    Image.fromarray(photo).save(path, exif=exif)
    found = read_image(path)
    assert found.shape == (3, 60, 40)
    corner = found[:, 4:12, -12:-4].float().mean((1, 2))  # the red corner is now at the top right
    assert corner[0] > 230
    assert corner[1:].max() < 30


def test_grey_palette_transparent_and_deep_images_become_rgb(tmp_path, photo):
    grey = photo[..., 0]
    pictures = {
        "grey.jpg": Image.fromarray(grey),
        "grey.png": Image.fromarray(grey),
        "deep.png": Image.fromarray(grey.astype(np.uint16) * 257),
        "alpha.png": Image.fromarray(np.dstack([photo[..., :1]] * 3 + [255 - photo[..., :1]])),
        "palette.png": Image.fromarray(grey).convert("P"),
    }
    for name, picture in pictures.items():
        picture.save(tmp_path / name)
        found = read_image(tmp_path / name)
        assert found.shape == (3, 40, 60)
        assert found.dtype == torch.uint8
        assert np.abs(found.numpy().astype(int) - grey).max() <= (6 if name.endswith("jpg") else 0), name


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "bmp"])
def test_a_truncated_image_is_named(tmp_path, photo, suffix):
    path = tmp_path / f"half.{suffix}"
    Image.fromarray(photo).save(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=f"half.{suffix}") as caught:
        read_image(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not an image at all"])
def test_what_is_no_image_is_named(tmp_path, content):
    (tmp_path / "text.jpg").write_bytes(content)
    with pytest.raises(InputError, match=r"text.jpg: (the file is empty|cannot decode)"):
        read_image(tmp_path / "text.jpg")


def test_a_missing_image_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.jpg: cannot read"):
        read_image(tmp_path / "nowhere.jpg")
