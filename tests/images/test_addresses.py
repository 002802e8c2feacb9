"""Photos at addresses of fsspec: described, mapped and asked about like files."""

import errno
import os
import threading
from pathlib import Path

import fsspec
import numpy as np
import pytest
import torch
from PIL import Image

from samespot import storage
from samespot.errors import InputError
from samespot.images import readers, sources
from samespot.images.listing import ImageList, PathList
from samespot.images.preprocess import Preprocessing
from samespot.images.reading import read_image
from samespot.images.sources import FileImages
from samespot.maps import build
from samespot.maps.build import update_map
from samespot.maps.looking import Looking, looks
from samespot.model.network import PlaceNet
from samespot.places.table import Places
from samespot.retrieval.describe import describe
from samespot.retrieval.descriptors import Descriptors
from samespot.storage import AT_ONCE, StorageError, address_of, full_name, photo_at
from samespot.training.cache import fingerprint_of
from samespot.training.planning import photo_size

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
        asked.append(address)
        raise ConnectionError("no route to host")

    asked = []
    monkeypatch.setattr("samespot.storage.WAITS", (0, 0))

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(InputError, match=r"memory://.*cannot read the image \(no route to host\)"):
        update_map(table(root, addresses), tmp_path / "map", **how)
    assert asked.count(addresses[0]) == 3  # it might have come back


@pytest.fixture
def failing(monkeypatch):
    """Photos whose bytes nobody gets, by the ends of their names: the storage says no."""
    names, original = set(), storage._bytes_of

    def refuse(photo):
        if any(str(photo).endswith(name) for name in names):
            raise PermissionError(errno.EACCES, "token expired")
        return original(photo)

    monkeypatch.setattr(storage, "_bytes_of", refuse)
    return names


def mapped(places, out, net):
    how = {"device": "cpu", "verify": False, "whiten": "none", "dims": 4, "workers": 1}
    return update_map(places, out, model=net, **how)


@pytest.mark.parametrize("named", ["addresses", "files"])
def test_a_storage_that_fails_ends_an_index_and_what_is_done_is_kept(
    photos, tmp_path, monkeypatch, failing, named
):
    monkeypatch.setattr(build._Work, "_calibration", lambda self, generation: None)
    monkeypatch.setattr("samespot.retrieval.describe.ON_CPU", 1)  # photos at once
    root, names = photos
    places = table(root, names if named == "addresses" else [f"{i}.png" for i in range(COUNT)])
    failing.add("3.png")
    with pytest.raises(
        StorageError, match=r"3\.png: .*token expired.*; the same command again resumes"
    ) as said:
        mapped(places, tmp_path / "map", small())
    assert "\n" not in str(said.value)
    failing.clear()
    built = mapped(places, tmp_path / "map", small())
    assert built.described == COUNT - 3  # the first three are there
    assert built.generation.meta["photos"] == COUNT


def test_photos_of_a_map_stay_when_their_disk_fails(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(build._Work, "_calibration", lambda self, generation: None)
    monkeypatch.setattr(storage, "WAITS", (0, 0))
    root, _ = photos
    places, net, original = table(root, [f"{i}.png" for i in range(COUNT)]), small(), os.stat
    mapped(places, tmp_path / "map", net)
    for number in (errno.ESTALE, errno.EIO, errno.EACCES):

        def failing(path, *more, number=number, **how):
            if str(path).endswith("2.png"):
                raise OSError(number, os.strerror(number))
            return original(path, *more, **how)

        monkeypatch.setattr(os, "stat", failing)
        with pytest.raises(StorageError, match=rf"2\.png: .*{os.strerror(number)}"):
            mapped(places, tmp_path / "map", net)
        monkeypatch.setattr(os, "stat", original)
    (root / "1.png").unlink()
    after = mapped(places, tmp_path / "map", net)
    assert (after.described, after.gone) == (0, 1)
    assert after.generation.meta["left_out"] == {"image file missing": 1}


def test_a_storage_that_fails_is_no_bad_image(photos, tmp_path, failing):
    """With `skip`, its row would be zero for ever."""
    root, addresses = photos
    places, net = table(root, addresses), small()
    how = {"device": "cpu", "batch_size": 1, "on_bad_image": "skip", "workers": 1}
    failing.add("3.png")
    with pytest.raises(StorageError, match=r"3\.png: .*token expired.*; the same command again resumes"):
        describe(net, places, tmp_path / "d", **how)
    with pytest.raises(InputError):
        Descriptors.open(tmp_path / "d")
    failing.clear()
    found = describe(net, places, tmp_path / "d", **how)
    assert found.meta["bad"] == {}
    np.testing.assert_array_equal(found.vectors, describe(net, places, **how).vectors)


def test_as_many_photos_are_waited_for_as_are_said_and_few_are_decoded_at_once(photos, monkeypatch):
    root, _ = photos
    encoded, addresses = (root / "0.png").read_bytes(), [Path(f"s3:/b/{i}.png") for i in range(AT_ONCE)]
    decoding, most = threading.Semaphore(2), []

    def decoded(content, named):
        most.append(decoding.acquire(blocking=False))
        try:
            return read_image(root / "0.png")
        finally:
            decoding.release()

    all_there = threading.Barrier(AT_ONCE)
    for module in (sources, readers):
        monkeypatch.setattr(module, "read_encoded", lambda path: (all_there.wait(20) and b"") or encoded)
        monkeypatch.setattr(module, "decode_image", decoded)
    how = Preprocessing((48, 64))
    files = FileImages(PathList(addresses), how, torch.device("cpu"), workers=2)
    assert files.load(np.arange(AT_ONCE)).good.all()
    files.close()
    assert len(list(looks(Looking(how, 16, None), addresses, 2))) == AT_ONCE
    threads = readers.Readers(2, addresses)
    assert list(threads.pool.map(lambda photo: threads.look(photo, torch.numel), addresses)) != []
    threads.pool.shutdown()
    assert most == [True] * 3 * AT_ONCE


def test_kept_features_are_of_photos_as_they_are(photos):
    root, addresses = photos
    images, how = ImageList([table(root, addresses)]), Preprocessing((48, 64))
    before = fingerprint_of(torch.nn.Identity(), how, images, "32")
    assert fingerprint_of(torch.nn.Identity(), how, images, "32") == before
    fsspec.filesystem("memory").pipe_file("/photos/1.png", (root / "0.png").read_bytes())
    assert fingerprint_of(torch.nn.Identity(), how, images, "32") != before


def test_the_size_of_photos_at_addresses(photos):
    root, addresses = photos
    assert photo_size(table(root, addresses[:2]).images) == (48, 64)


@pytest.mark.parametrize("name", ["s3://bucket//a.jpg", "zip://a.jpg::s3://bucket/x.zip"])
def test_an_address_that_would_be_lost_is_refused(name, tmp_path):
    with pytest.raises(InputError, match="are not understood"):
        photo_at(tmp_path, name)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("memory://photos/none.jpg", "no such photo; check the address"),
        ("nosuch://photos/none.jpg", "Protocol not known"),
        ("memory://photos", "no such photo"),  # a folder, but storages of objects know none
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
    monkeypatch.setattr("samespot.storage.MOST_BYTES", 2_000_000)
    with pytest.raises(InputError, match=words) as refused:
        read_image(photo_at(photos[0], address))
    assert str(refused.value).startswith(address)
    assert "\n" not in str(refused.value)


def test_a_storage_whose_package_is_missing_says_which(photos, monkeypatch):
    def missing(address, **how):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(StorageError, match=r"^s3://bucket/a\.jpg: Install s3fs .*'samespot\[addresses\]'"):
        read_image(photo_at(photos[0], "s3://bucket/a.jpg"))
