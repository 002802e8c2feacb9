"""What is written into a segment is read back, to the bit; a file that is not whole is none."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from samespot.errors import InputError
from samespot.maps.segments import KEY, Described, Segment, read_array, write_segment
from samespot.matching.keypoints import Keypoints


def photo(seed, keypoints=5):
    dice = np.random.default_rng(seed)
    found = None
    if keypoints is not None:
        xy = dice.integers(0, 640 * 64, (keypoints, 2)) / 64
        local = dice.integers(-127, 128, (keypoints, 8)).astype(np.int8)
        found = Keypoints(xy.astype(np.float32), local, (480, 640 + seed))
    return Described(
        dice.bytes(KEY), dice.normal(size=7).astype(np.float16), dice.bytes(20 + 3 * seed), found
    )


def assert_same(one, other):
    assert one.key == other.key
    assert one.thumbnail == other.thumbnail
    np.testing.assert_array_equal(one.descriptor, other.descriptor)
    assert (one.keypoints is None) == (other.keypoints is None)
    if one.keypoints is not None:
        np.testing.assert_array_equal(one.keypoints.xy, other.keypoints.xy)
        np.testing.assert_array_equal(one.keypoints.descriptors, other.keypoints.descriptors)
        assert one.keypoints.size == other.keypoints.size


@pytest.mark.parametrize("keypoints", [5, 0, None])
def test_every_photo_is_read_back(tmp_path, keypoints):
    photos = [photo(seed, keypoints) for seed in range(4)]
    size = write_segment(tmp_path / "a.safetensors", photos)
    assert size == (tmp_path / "a.safetensors").stat().st_size
    segment = Segment(tmp_path / "a.safetensors")
    assert [key.tobytes() for key in read_array(segment.path, "keys")] == [one.key for one in photos]
    np.testing.assert_array_equal(read_array(segment.path, "descriptors"), segment.descriptors)
    for row, one in enumerate(photos):
        assert_same(segment.described(row), one)


def test_photos_of_different_numbers_of_keypoints(tmp_path):
    photos = [photo(0, 3), photo(1, 0), photo(2, 9)]
    write_segment(tmp_path / "a.safetensors", photos)
    segment = Segment(tmp_path / "a.safetensors")
    assert [len(segment.keypoints(row)) for row in range(3)] == [3, 0, 9]
    assert_same(segment.described(2), photos[2])


def test_the_file_is_one_that_the_library_reads(tmp_path):
    write_segment(tmp_path / "a.safetensors", [photo(0), photo(1)])
    ours, theirs = Segment(tmp_path / "a.safetensors").arrays, load_file(tmp_path / "a.safetensors")
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        np.testing.assert_array_equal(ours[name], values)
        assert ours[name].dtype == values.dtype


def test_positions_are_rounded_to_a_sixty_fourth_of_a_pixel(tmp_path):
    keypoints = Keypoints(np.array([[1.01, 639.99]], np.float32), np.zeros((1, 8), np.int8), (640, 640))
    write_segment(
        tmp_path / "a.safetensors", [Described(bytes(KEY), np.ones(3, np.float16), b"x", keypoints)]
    )
    found = Segment(tmp_path / "a.safetensors").keypoints(0).xy
    np.testing.assert_allclose(found, keypoints.xy, atol=1 / 128)
    np.testing.assert_array_equal(found, [[65 / 64, 640 - 1 / 64]])


def test_a_keypoint_that_does_not_fit_is_refused_rather_than_moved(tmp_path):
    for at in (-1.0, 1024.0):
        keypoints = Keypoints(np.array([[at, 0]], np.float32), np.zeros((1, 8), np.int8), (640, 640))
        with pytest.raises(ValueError, match="outside"):
            write_segment(tmp_path / "a", [Described(bytes(KEY), np.ones(3, np.float16), b"x", keypoints)])


def test_it_is_read_on_when_the_file_is_removed(tmp_path):
    one = photo(3)
    write_segment(tmp_path / "a.safetensors", [one])
    segment = Segment(tmp_path / "a.safetensors")
    (tmp_path / "a.safetensors").unlink()
    assert_same(segment.described(0), one)


@pytest.mark.parametrize("left", [0, 5, 8, 100, -1])
def test_a_file_that_is_cut_off_is_refused(tmp_path, left):
    path = tmp_path / "a.safetensors"
    write_segment(path, [photo(0), photo(1)])
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(InputError, match="not whole"):
        Segment(path)


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"\xff" * 1000)
    with pytest.raises(InputError, match="not whole"):
        Segment(tmp_path / "a")
