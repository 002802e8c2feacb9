"""Reading image files: what is refused before it is decoded, and the photos of phones."""

import io
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from samespot import InputError, photo_files
from samespot.images import reading
from samespot.images.preprocess import Preprocessing
from samespot.images.reading import as_image, read_image


def bomb(width, height):
    """A PNG of one colour that says it has this size; its few bytes unpack to height rows."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0" * (height * (1 + (width + 7) // 8)), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def test_a_small_file_that_unpacks_to_gigabytes_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    (tmp_path / "bomb.png").write_bytes(bomb(20_000, 20_000))
    monkeypatch.setattr(reading, "_decode_with_torchvision", lambda *_: pytest.fail("decoded"))
    monkeypatch.setattr(reading, "_decode_with_pillow", lambda *_: pytest.fail("decoded"))
    with pytest.raises(InputError, match=r"bomb.png: has more than 179 megapixels; shrink it"):
        read_image(tmp_path / "bomb.png")


def test_the_limit_that_is_told_is_pillows():
    assert round(2 * Image.MAX_IMAGE_PIXELS / 1e6) == photo_files.MOST_MEGAPIXELS


def test_a_photo_of_a_large_phone_camera_is_not(tmp_path):
    (tmp_path / "large.png").write_bytes(bomb(4_000, 3_000))
    assert read_image(tmp_path / "large.png").shape == (3, 3_000, 4_000)


def test_devices_and_pipes_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "zero.jpg").symlink_to("/dev/zero")
    for name in ("pipe.jpg", "zero.jpg"):
        with pytest.raises(InputError, match=f"{name}: is not a plain file"):
            read_image(tmp_path / name)


def test_a_file_of_gigabytes_is_no_photo(tmp_path):
    with (tmp_path / "disk.jpg").open("wb") as file:
        file.truncate(3_000_000_000)  # sparse: takes no room
    with pytest.raises(InputError, match="3 GB is too large for a photo"):
        read_image(tmp_path / "disk.jpg")


def test_heic_photos_are_read_or_their_package_is_named(tmp_path, monkeypatch):
    pytest.importorskip("pillow_heif")
    photo_files.accept_heic()
    photo = Image.fromarray(np.tile(np.arange(64, dtype=np.uint8)[:, None, None] * 3, (1, 96, 3)))
    photo.save(tmp_path / "a.heic", quality=95)
    image = read_image(tmp_path / "a.heic")
    assert image.shape == (3, 64, 96)
    assert int(image[0, 60].float().mean()) == pytest.approx(180, abs=6)
    monkeypatch.setattr(photo_files, "accept_heic", lambda: False)
    with pytest.raises(InputError, match=r"a.heic: HEIC photos need the package pillow-heif"):
        reading._decode_with_pillow((tmp_path / "a.heic").read_bytes(), tmp_path / "a.heic")


def test_no_network_takes_images_of_ten_billion_pixels():
    with pytest.raises(InputError, match="image size 100000x100000 is beyond any network"):
        Preprocessing(size=(100_000, 100_000))


def test_an_image_of_nothing_but_a_header_is_one_line(tmp_path):
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64)).save(buffer, "PNG")
    (tmp_path / "cut.png").write_bytes(buffer.getvalue()[:60])
    with pytest.raises(InputError, match="cannot decode the image"):
        read_image(tmp_path / "cut.png")


def test_a_png_with_too_few_pixels_does_not_end_the_process(tmp_path):
    """torchvision's decoder does, so PNG files are not given to it."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header, pixels = struct.pack(">IIBBBBB", 64, 48, 8, 2, 0, 0, 0), zlib.compress(b"\0" * 1000)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    (tmp_path / "short.png").write_bytes(content)
    with pytest.raises(InputError, match=r"short\.png: cannot decode the image"):
        read_image(tmp_path / "short.png")


def test_a_photo_is_the_same_however_a_program_hands_it_over(tmp_path):
    import torch

    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    path = tmp_path / "a.png"
    Image.fromarray(pixels).save(path)
    ways = [
        path,
        str(path),
        path.read_bytes(),
        Image.open(path),
        pixels,
        torch.from_numpy(pixels).permute(2, 0, 1),
    ]
    for way in ways:
        assert np.array_equal(as_image(way).permute(1, 2, 0).numpy(), pixels)


def test_a_pillow_image_is_turned_upright_as_its_file_would_be(tmp_path):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 12, 3), dtype=np.uint8))
    exif = image.getexif()
    exif[274] = 6
    image.save(tmp_path / "turned.png", exif=exif)
    with Image.open(tmp_path / "turned.png") as opened:
        assert np.array_equal(as_image(opened), read_image(tmp_path / "turned.png"))


@pytest.mark.parametrize(
    "nonsense",
    [
        b"",
        b"no image",
        7,
        None,
        np.zeros((4, 4)),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_what_is_no_photo_is_one_line(nonsense):
    with pytest.raises(InputError):
        as_image(nonsense)


def test_a_jpeg_files_size_is_read_from_its_header(tmp_path):
    """As Pillow reads it, whatever lies before it, and refused where it is too large."""
    thumbnail = Image.Exif()
    thumbnail[0x010E] = "a word" * 3000  # a long segment before the frame
    for words in ({}, {"progressive": True}, {"exif": thumbnail}, {"comment": b"\xff\xc0" * 9}):
        Image.new("RGB", (123, 45)).save(tmp_path / "a.jpg", **words)
        encoded = (tmp_path / "a.jpg").read_bytes()
        assert photo_files._jpeg_pixels(encoded) == 123 * 45
        assert photo_files._jpeg_pixels(encoded[:100]) is None
    frame = encoded.rindex(b"\xff\xc0\x00\x11")
    large = encoded[: frame + 5] + (60_000).to_bytes(2, "big") * 2 + encoded[frame + 9 :]
    with pytest.raises(InputError, match="more than 179 megapixels"):
        photo_files.refuse_large(large, "a.jpg")
    assert photo_files._jpeg_pixels(b"\x89PNG") is None
