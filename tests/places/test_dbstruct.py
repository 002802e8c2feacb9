"""NetVLAD's dbStruct in both kinds of MATLAB files."""

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from samespot.errors import InputError
from samespot.places.dbstruct import find_images, read_listing, struct_files

NAMES = ["000/a_long_name.jpg", "000/b.jpg", "001/ü.jpg"]
UTM = np.array([[1.25, 2.5, 3.0], [10.0, 20.0, 30.0]])


def cells(names):
    """A column of MATLAB cells, (n, 1)."""
    column = np.empty((len(names), 1), dtype=object)
    column[:, 0] = names
    return column


def save_5(path, **fields):
    struct = {
        "whichSet": "test",
        "dbImageFns": cells(NAMES),
        "utmDb": UTM,
        "qImageFns": cells(NAMES[:1]),
        "utmQ": UTM[:, :1],
        "numImages": 3,
        "numQueries": 1,
        "posDistThr": 25,
        "posDistSqThr": 625,
        "nonTrivPosDistSqThr": 100,
        **fields,
    }
    savemat(path, {"dbStruct": {k: v for k, v in struct.items() if v is not None}}, do_compression=True)
    return path


def save_73(path):
    """As MATLAB 7.3 does: HDF5 behind 512 bytes, axes reversed, cells as references to 16-bit text."""
    with h5py.File(path, "w", userblock_size=512) as file:
        refs = np.empty((1, len(NAMES)), dtype=h5py.ref_dtype)
        for i, name in enumerate(NAMES):
            text = np.frombuffer(name.encode("utf-16-le"), dtype=np.uint16)[:, None]
            refs[0, i] = file.create_dataset(f"#refs#/{i}", data=text).ref
        struct = file.create_group("dbStruct")
        struct.create_dataset("dbImageFns", data=refs, dtype=h5py.ref_dtype)
        struct["utmDb"] = UTM.T
        struct["dbTimeStamp"] = np.array([[200912.0], [201306.0], [201503.0]])
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64"
    with path.open("r+b") as file:
        file.write(header.ljust(512))
    return path


def test_both_kinds_of_matlab_files_give_the_same_listing(tmp_path):
    for path in (save_5(tmp_path / "five.mat"), save_73(tmp_path / "seven.mat")):
        listing = read_listing(path, "database")
        assert listing.images == NAMES
        np.testing.assert_array_equal(listing.utm, UTM.T)


def test_the_query_side(tmp_path):
    listing = read_listing(save_5(tmp_path / "a.mat"), "query")
    assert listing.images == NAMES[:1]
    assert listing.utm.tolist() == [[1.25, 10.0]]
    assert listing.month is None


def test_time_stamps_are_months(tmp_path):
    path = save_5(tmp_path / "a.mat", dbTimeStamp=np.array([[200912, 201306, 201503]], dtype=np.int32))
    assert read_listing(path, "database").month == ["2009-12", "2013-06", "2015-03"]
    assert read_listing(save_73(tmp_path / "b.mat"), "database").month == ["2009-12", "2013-06", "2015-03"]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"utmDb": UTM[:, :2]}, r"utmDb is \(2, 2\) where 2 × 3, two rows per image, is expected"),
        ({"utmDb": UTM.T}, r"utmDb is \(3, 2\) where 2 × 3"),
        ({"utmDb": None}, "its dbStruct has no utmDb; is it"),
        ({"utmDb": None, "dbImageFns": None}, "its dbStruct has no dbImageFns and no utmDb; is it"),
        ({"dbTimeStamp": np.array([[201306, 201306]])}, "2 values of dbTimeStamp for 3 images"),
        (
            {"dbTimeStamp": np.array([[201306, 201313, 201306]])},
            "time stamp 201313 is not a year and month as 201306",
        ),
    ],
)
def test_a_struct_that_does_not_fit_is_told(tmp_path, fields, fault):
    path = save_5(tmp_path / "a.mat", **fields)
    with pytest.raises(InputError, match=rf"a\.mat: {fault}"):
        read_listing(path, "database")


def test_broken_files_are_told(tmp_path):
    path = save_5(tmp_path / "a.mat")
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"nothing of the kind", b""):
        path.write_bytes(broken)
        with pytest.raises(
            InputError, match=r"a\.mat: not a readable MATLAB file \(.+\); fetch it again"
        ) as error:
            read_listing(path, "database")
        assert "\n" not in str(error.value)
    savemat(path, {"other": 1})
    with pytest.raises(InputError, match=r"a\.mat: holds no struct called dbStruct"):
        read_listing(path, "database")
    with pytest.raises(InputError, match=r"none\.mat: cannot be opened: No such file"):
        read_listing(tmp_path / "none.mat", "database")


def test_broken_73_files_are_told(tmp_path):
    path = save_73(tmp_path / "a.mat")
    whole = path.read_bytes()
    path.write_bytes(whole[:1500])
    with pytest.raises(InputError, match=r"a\.mat: not a readable MATLAB 7\.3 file \(.+\); fetch it again"):
        read_listing(path, "database")
    with h5py.File(path, "w", userblock_size=512) as file:
        file["other"] = 1
    with pytest.raises(InputError, match=r"a\.mat: holds no struct called dbStruct"):
        read_listing(path, "database")


def test_struct_files_lie_in_root_or_datasets(tmp_path):
    (tmp_path / "datasets").mkdir()
    for name in ("pitts30k_val.mat", "datasets/pitts30k_test.mat", "datasets/other.mat"):
        (tmp_path / name).touch()
    found = struct_files(tmp_path, "pitts*.mat")
    assert {stem: path.relative_to(tmp_path).as_posix() for stem, path in found.items()} == {
        "pitts30k_test": "datasets/pitts30k_test.mat",
        "pitts30k_val": "pitts30k_val.mat",
    }
    assert struct_files(tmp_path / "nowhere", "pitts*.mat") == {}


def test_images_are_found_in_the_first_folder_and_type_that_has_one(tmp_path):
    (tmp_path / "b/000").mkdir(parents=True)
    (tmp_path / "b/000/b.png").touch()
    listed = ["000/a.jpg", "000/b.jpg"]
    assert find_images(tmp_path, listed, ("a", "b"), ("", ".png")) == (["b/000/a.png", "b/000/b.png"], True)
    assert find_images(tmp_path, listed, ("", "a"), ("",)) == (listed, False)
