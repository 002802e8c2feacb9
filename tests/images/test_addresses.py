"""Photos at addresses of fsspec: described, mapped and asked about like files."""

import fsspec
import numpy as np
import pytest
import torch
from PIL import Image

from samespot.errors import InputError
from samespot.images.reading import read_image
from samespot.maps import build
from samespot.maps.build import update_map
from samespot.model.network import PlaceNet
from samespot.photo_files import address_of, full_name, photo_at
from samespot.places.table import Places
from samespot.retrieval.describe import describe

pytestmark = pytest.mark.usefixtures("one_thread")
COUNT = 5


@pytest.fixture
def photos(tmp_path):
    """Some in the memory of this process, one at file://, and the same as plain files."""
    dice, memory = np.random.default_rng(0), fsspec.filesystem("memory")
    for i in range(COUNT):
        Image.fromarray(dice.integers(0, 256, (48, 64, 3), dtype=np.uint8)).save(tmp_path / f"{i}.png")
        memory.pipe_file(f"/photos/{i}.png", (tmp_path / f"{i}.png").read_bytes())
    addresses = [f"memory://photos/{i}.png" for i in range(COUNT - 1)]
    addresses.append(f"file://{tmp_path / f'{COUNT - 1}.png'}")
    yield tmp_path, addresses
    memory.rm("/photos", recursive=True)


def table(root, names):
    at = np.arange(len(names)) * 9.0
    return Places.build(root, {"image": names, "easting": 0.0, "northing": at, "heading": 0.0})


def small():
    torch.manual_seed(0)
    return PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(48, 64)).eval()


@pytest.mark.parametrize(
    "address", ["s3://bucket/a.jpg", "https://host/a.jpg", "memory://a.jpg", "gs://b/c/d.png"]
)
def test_an_address_outlives_a_path(address, tmp_path):
    assert address_of(photo_at(tmp_path, address)) == address
    assert full_name(photo_at(tmp_path, address)) == address


@pytest.mark.parametrize("name", ["a.jpg", "c:/a.jpg", "a:b.jpg", "../x/a.jpg", "/abs/a.jpg", "walk:"])
def test_a_path_is_a_path(name, tmp_path):
    assert address_of(name) is None
    assert photo_at(tmp_path, name) == tmp_path / name


def test_they_are_described_as_files_are(photos):
    root, addresses = photos
    places = table(root, addresses)
    assert places.notes == ()  # none is missing
    files = table(root, [f"{i}.png" for i in range(COUNT)])
    how = {"device": "cpu", "batch_size": 4}
    found, expected = describe(small(), places, **how), describe(small(), files, **how)
    np.testing.assert_array_equal(found.vectors, expected.vectors)


def test_a_map_of_them_sees_what_changed_and_what_is_gone(photos, tmp_path, monkeypatch):
    root, addresses = photos
    monkeypatch.setattr(build._Work, "_calibration", lambda self, generation: None)
    places, net, memory = table(root, addresses), small(), fsspec.filesystem("memory")
    how = {"device": "cpu", "verify": False, "whiten": "none", "dims": 4, "model": net}
    assert update_map(places, tmp_path / "map", **how).described == COUNT
    assert update_map(places, tmp_path / "map", **how).described == 0
    memory.pipe_file("/photos/1.png", (root / "0.png").read_bytes())
    assert update_map(places, tmp_path / "map", **how).described == 1
    memory.rm("/photos/2.png")
    after = update_map(places, tmp_path / "map", **how)
    assert (after.gone, after.generation.meta["left_out"]) == (1, {"image file missing": 1})
    assert list(after.generation.places.table["image"]) == [one for one in addresses if "/2.png" not in one]


def test_a_storage_that_does_not_answer_loses_no_photo(photos, tmp_path, monkeypatch):
    root, addresses = photos
    monkeypatch.setattr(build._Work, "_calibration", lambda self, generation: None)
    how = {"device": "cpu", "verify": False, "whiten": "none", "dims": 4, "model": small()}
    update_map(table(root, addresses), tmp_path / "map", **how)

    def refuse(address):
        raise ConnectionError("no route to host")

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(InputError, match=r"memory://.*cannot read the image \(no route to host\)"):
        update_map(table(root, addresses), tmp_path / "map", **how)


@pytest.mark.parametrize("name", ["s3://bucket//a.jpg", "zip://a.jpg::s3://bucket/x.zip"])
def test_an_address_that_would_be_lost_is_refused(name, tmp_path):
    with pytest.raises(InputError, match="are not understood"):
        photo_at(tmp_path, name)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("memory://photos/none.jpg", "no such photo; check the address"),
        ("nosuch://photos/none.jpg", "Protocol not known"),
        ("memory://photos", "is a folder"),
        ("memory://photos/empty.jpg", "the file is empty"),
        ("memory://photos/text.jpg", "not an image"),
        ("memory://photos/large.jpg", "MB is too large for a photo"),
    ],
)
def test_what_cannot_be_read_is_one_line(photos, monkeypatch, address, words):
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/photos/empty.jpg", b"")
    memory.pipe_file("/photos/text.jpg", b"hello")
    memory.pipe_file("/photos/large.jpg", bytes(2_000_001))
    monkeypatch.setattr("samespot.photo_files.MOST_BYTES", 2_000_000)
    with pytest.raises(InputError, match=words) as refused:
        read_image(photo_at(photos[0], address))
    assert str(refused.value).startswith(address)
    assert "\n" not in str(refused.value)


def test_a_storage_whose_package_is_missing_says_which(photos, monkeypatch):
    def missing(address):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(InputError, match=r"^s3://bucket/a\.jpg: Install s3fs to access S3$"):
        read_image(photo_at(photos[0], "s3://bucket/a.jpg"))
