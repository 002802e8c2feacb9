"""Folders of photos, COLMAP models and data sets that are broken, hostile or odd."""

import json
import os
import struct

import pytest
from PIL import Image

GPS_IFD, EXIF_IFD, TAKEN = 0x8825, 0x8769, 0x9003
MUNICH = {1: "N", 2: (48.0, 8.0, 13.0), 3: "E", 4: (11.0, 34.0, 31.0)}


def photo(path, gps=None, size=(8, 6), **more):
    exif = Image.Exif()
    if gps is not None:
        exif[GPS_IFD] = gps
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size).save(path, exif=exif, **more)


LEFT_OUT = {
    "no GPS": (None, "1 photos left out, no GPS in EXIF (odd.jpg)"),
    "no hemispheres": (
        {2: MUNICH[2], 4: MUNICH[4]},
        "1 photos left out, GPS in EXIF does not say north or south, east or",
    ),
    "junk hemispheres": (
        {**MUNICH, 1: "X", 3: "?"},
        "1 photos left out, GPS in EXIF does not say north or south, east or",
    ),
    "swapped hemispheres": (
        {**MUNICH, 1: "E", 3: "N"},
        "1 photos left out, GPS in EXIF does not say north or south, east or",
    ),
    "latitude 91": (
        {**MUNICH, 2: (91.0, 0.0, 0.0)},
        "1 photos left out, GPS in EXIF makes no sense (odd.jpg)",
    ),
    "latitude of minutes": (
        {**MUNICH, 2: (48.0, 75.0, 0.0)},
        "1 photos left out, GPS in EXIF makes no sense (odd.jpg)",
    ),
    "latitude of two numbers": (
        {**MUNICH, 2: (48.0, 8.0)},
        "1 photos left out, GPS in EXIF makes no sense (odd.jpg)",
    ),
    "no fix": (
        {1: "N", 2: (0.0, 0.0, 0.0), 3: "E", 4: (0.0, 0.0, 0.0)},
        "1 photos left out, GPS in EXIF is 0, 0 (odd.jpg)",
    ),
    "longitude alone": ({3: "E", 4: MUNICH[4]}, "1 photos left out, no GPS in EXIF (odd.jpg)"),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_photos_whose_gps_cannot_be_believed_are_left_out_and_counted(done, here, name):
    gps, said = LEFT_OUT[name]
    photo(here / "photos" / "good.jpg", MUNICH)
    photo(here / "photos" / "odd.jpg", gps)
    facts = done(["places", "photos"], said, "1 photos left out", "odd.jpg")
    assert facts["images"] == 1


def truncated(path):
    photo(path, MUNICH, (200, 200))
    path.write_bytes(path.read_bytes()[:300])


def empty(path):
    path.touch()


def words(path):
    path.write_text("no photo")


def page(path):
    path.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")


def folder(path):
    path.mkdir()


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def loop(path):
    path.symlink_to(path.name)


def dead_link(path):
    path.symlink_to("nowhere.jpg")


def broken_exif(path):
    Image.new("RGB", (8, 6)).save(path, exif=b"Exif\0\0II*\0\xff\xff\xff\xff" + b"\xff" * 40)


def bomb(path):
    """A header that announces 60,000 x 60,000 pixels."""
    Image.new("RGB", (8, 6)).save(path, "png")
    data = bytearray(path.read_bytes())
    data[16:24] = struct.pack(">II", 60_000, 60_000)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "make",
    [truncated, empty, words, page, folder, pipe, device, loop, dead_link, broken_exif, bomb],
    ids=lambda m: m.__name__,
)
def test_what_is_no_photo_is_left_out(done, here, make):
    photo(here / "photos" / "good.jpg", MUNICH)
    make(here / "photos" / "odd.jpg")
    facts = done(["places", "photos"])
    assert facts["images"] == 1


def test_a_folder_with_a_way_back_to_itself_is_read_once(done, here):
    photo(here / "photos" / "good.jpg", MUNICH)
    (here / "photos" / "again").symlink_to(here / "photos", target_is_directory=True)
    facts = done(["places", "photos"])
    assert facts["images"] == 1


def test_a_nonsense_compass_is_no_heading(done, here):
    photo(here / "photos" / "a.jpg", {**MUNICH, 17: float("inf")})
    photo(here / "photos" / "b.jpg", {**MUNICH, 16: "M", 17: 725.0})
    facts = done(["places", "photos"])
    assert facts["with heading"] == 1


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda f: None, "nothing here that samespot reads; `samespot datasets` lists"),
        (
            lambda f: photo(f / "a.jpg"),
            "none of the photos says where it was taken (1 no GPS in EXIF); copy the originals",
        ),
        (lambda f: (f / "a.heic").write_bytes(b"\0\0\0\x18ftypheic"), "1 unreadable image file"),
        (lambda f: (f / "a.txt").write_text("hello"), "nothing here that samespot reads"),
        (lambda f: photo(f / ".hidden.jpg", MUNICH), "nothing here that samespot reads"),
        (lambda f: (f / "places.csv").mkdir(), "nothing here that samespot reads"),
    ],
    ids=["nothing", "no gps", "heic", "no photos", "hidden", "a folder called places.csv"],
)
def test_folders_without_places(refused, here, make, said):
    (here / "photos").mkdir()
    make(here / "photos")
    refused(["places", "photos"], "photos", said)


# ---- COLMAP ----

CAMERA = "1 PINHOLE 64 48 50 50 32 24\n"
IMAGE = "1 1 0 0 0 0 0 0 1 a.jpg\n\n"
POINT = "1 0 0 5 255 0 0 0.1 1 0\n"


def colmap(folder, cameras=CAMERA, images=IMAGE, points=POINT):
    folder.mkdir(exist_ok=True)
    for name, text in (("cameras", cameras), ("images", images), ("points3D", points)):
        if text is not None:
            (folder / f"{name}.txt").write_bytes(text.encode() if isinstance(text, str) else text)


COLMAP = {
    "empty cameras": (
        {"cameras": ""},
        "image a.jpg has camera 1, which is not among the 0 cameras of the model",
    ),
    "empty images": ({"images": ""}, "the table has no rows; give it one for each image"),
    "camera of few words": (
        {"cameras": "1 PINHOLE\n"},
        "line 1: a camera is CAMERA_ID MODEL WIDTH HEIGHT PARAMETERS, not '1",
    ),
    "unknown camera model": ({"cameras": "1 HOLE 64 48 1 1\n"}, "line 1: unknown camera model 'HOLE'"),
    "too many parameters": ({"cameras": CAMERA.strip() + " 7\n"}, "line 1: PINHOLE has 4 parameters, not 5"),
    "text as a parameter": (
        {"cameras": CAMERA.replace("50 50", "x 50")},
        "line 1: 'x' is not a finite number; export the model again",
    ),
    "infinite focal length": (
        {"cameras": CAMERA.replace("50 50", "inf 50")},
        "line 1: 'inf' is not a finite number; export the model again",
    ),
    "size of text": (
        {"cameras": CAMERA.replace("64", "wide")},
        "line 1: 'wide' is not a whole number; export the model again",
    ),
    "camera that is not there": (
        {"images": IMAGE.replace("1 a.jpg", "9 a.jpg")},
        "image a.jpg has camera 9, which is not among the 1 cameras of the model",
    ),
    "image of few words": (
        {"images": "1 1 0 0\n\n"},
        "line 1: an image is ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, not '1 1 0",
    ),
    "zero quaternion": (
        {"images": IMAGE.replace("1 1 0 0 0", "1 0 0 0 0")},
        "image a.jpg has no valid pose (a quaternion of length 0); export the",
    ),
    "long quaternion": (
        {"images": IMAGE.replace("1 1 0 0 0", "1 9 0 0 0")},
        "image a.jpg has no valid pose (a quaternion of length 9); export the",
    ),
    "nan translation": (
        {"images": IMAGE.replace("0 0 0 1 a", "nan 0 0 1 a")},
        "line 1: 'nan' is not a finite number; export the model again",
    ),
    "keypoints not in threes": (
        {"images": "1 1 0 0 0 0 0 0 1 a.jpg\n1 2\n"},
        "line 2: the keypoints of a.jpg are not triples X Y POINT3D_ID",
    ),
    "same image twice": (
        {"images": IMAGE + IMAGE.replace("1 1 0", "2 1 0")},
        "row 2: image a.jpg is in the table twice (1 repeated rows); keep",
    ),
    "binary as text": (
        {"images": bytes(range(256))},
        "line 1: an image is ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, not",
    ),
    "huge id": (
        {"images": IMAGE.replace("1 1 0", f"{10**30} 1 0", 1)},
        "line 1: '1000000000000000000000000000000' is not a whole number; export",
    ),
}


@pytest.mark.parametrize("name", COLMAP)
def test_a_broken_colmap_model(refused, here, name):
    changed, said = COLMAP[name]
    colmap(here / "model", **changed)
    refused(["places", "model"], "model", said)


BINARY = {
    "empty": (b"", b"", "cut short: its 0 bytes end inside the 0 records announced; copy it again"),
    "count alone": (
        struct.pack("<Q", 3),
        struct.pack("<Q", 3),
        "cut short: its 8 bytes end inside the 3 records announced; copy it again",
    ),
    "huge count": (
        struct.pack("<Q", 2**63),
        struct.pack("<Q", 2**63),
        "cut short: its 8 bytes end inside the 9223372036854775808 records",
    ),
    "unknown model id": (
        struct.pack("<QIiQQ", 1, 1, 77, 64, 48) + b"\0" * 32,
        struct.pack("<Q", 0),
        "camera 1 has the unknown model id 77; known: 0 to 17",
    ),
    "more than counted": (
        struct.pack("<Q", 0) + b"rest",
        struct.pack("<Q", 0),
        "4 bytes follow the 0 records announced; is it a COLMAP file?",
    ),
    "name without end": (
        struct.pack("<QIiQQ4d", 1, 1, 1, 64, 48, 50, 50, 32, 24),
        struct.pack("<QI7dI", 1, 1, 1, 0, 0, 0, 0, 0, 0, 1) + b"a.jpg",
        "cut short: its 77 bytes end inside the 1 records announced; copy it",
    ),
    "huge number of keypoints": (
        struct.pack("<QIiQQ4d", 1, 1, 1, 64, 48, 50, 50, 32, 24),
        struct.pack("<QI7dI", 1, 1, 1, 0, 0, 0, 0, 0, 0, 1) + b"a.jpg\0" + struct.pack("<Q", 2**60),
        "cut short: its 86 bytes end inside the 1 records announced; copy it",
    ),
}


@pytest.mark.parametrize("name", BINARY)
def test_a_broken_binary_colmap_model(refused, here, name):
    cameras, images, said = BINARY[name]
    (here / "model").mkdir()
    (here / "model" / "cameras.bin").write_bytes(cameras)
    (here / "model" / "images.bin").write_bytes(images)
    refused(["places", "model"], "model", said)


# ---- data sets ----


def msls(folder, **changed):
    """One city, one side."""
    part = folder / "train_val" / "cph" / "query"
    part.mkdir(parents=True)
    files = {
        "raw": "key,lon,lat,ca,captured_at,pano\na,12.5,55.6,10,2018-01-01,False\n",
        "postprocessed": "key,easting,northing,night,view_direction\na,342400,6164000,False,Forward\n",
        "seq_info": "key,sequence_key,frame_number\na,s,0\n",
        "subtask_index": "all,s2w\nTrue,False\n",
    }
    for name, text in {**files, **changed}.items():
        if text is not None:
            (part / f"{name}.csv").write_text(text)


MSLS = {
    "no raw.csv": ({"raw": None}, "no such file; unpack metadata.zip of MSLS there"),
    "empty raw.csv": ({"raw": ""}, "the file is empty; a table of places has a header line with the names"),
    "no key": (
        {"raw": "lon,lat,ca,captured_at,pano\n12.5,55.6,10,x,False\n"},
        "line 1: no column key; unpack metadata.zip of MSLS again",
    ),
    "text as longitude": (
        {"raw": "key,lon,lat,ca,captured_at,pano\na,east,55.6,10,x,False\n"},
        "line 2: lon east is not a number; unpack metadata.zip of MSLS again",
    ),
    "infinite latitude": (
        {"raw": "key,lon,lat,ca,captured_at,pano\na,12.5,inf,10,x,False\n"},
        "line 2: lat inf is not a number; unpack metadata.zip of MSLS again",
    ),
    "infinite compass": (
        {"raw": "key,lon,lat,ca,captured_at,pano\na,12.5,55.6,inf,x,False\n"},
        "line 2: ca inf is not a number; unpack metadata.zip of MSLS again",
    ),
    "night maybe": (
        {"postprocessed": "key,easting,northing,night,view_direction\na,1,2,maybe,F\n"},
        "line 2: night maybe is neither True nor False; unpack metadata.zip of",
    ),
    "pano maybe": (
        {"raw": "key,lon,lat,ca,captured_at,pano\na,12.5,55.6,10,x,maybe\n"},
        "row 1: pano 'maybe' is neither true nor false",
    ),
    "key twice": (
        {"seq_info": "key,sequence_key,frame_number\na,s,0\na,s,1\n"},
        "line 3: key a stands there twice; unpack metadata.zip of MSLS again",
    ),
    "other keys": (
        {"seq_info": "key,sequence_key,frame_number\nb,s,0\n"},
        "no key stands in all of postprocessed.csv, raw.csv, seq_info.csv,",
    ),
    "frame of text": (
        {"seq_info": "key,sequence_key,frame_number\na,s,first\n"},
        "line 2: frame_number first is not a number; unpack metadata.zip of MSLS",
    ),
    "subtasks of other length": (
        {"subtask_index": "all\nTrue\nTrue\n"},
        "2 rows, without keys, for the 1 rows of seq_info.csv; unpack",
    ),
    "subtask maybe": (
        {"subtask_index": "all\nperhaps\n"},
        "line 2: all perhaps is neither True nor False; unpack metadata.zip of",
    ),
    "no rows": (
        {"raw": "key,lon,lat,ca,captured_at,pano\n"},
        "no key stands in all of postprocessed.csv, raw.csv, seq_info.csv,",
    ),
}


@pytest.mark.parametrize("name", MSLS)
def test_a_broken_city_of_msls(refused, here, name):
    changed, said = MSLS[name]
    msls(here / "MSLS", **changed)
    refused(["places", "MSLS"], said)


def at_name(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch()


def seven_scenes(folder, pose="1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1\n"):
    folder.mkdir()
    (folder / "frame-000000.pose.txt").write_text(pose)
    (folder / "frame-000000.color.png").touch()


def tb_places(folder, content):
    folder.mkdir()
    (folder / "W17.json").write_text(content if isinstance(content, str) else json.dumps(content))


POSE = [0.0, 0, 0, 0, 0, 0, 1]
OTHERS = {
    "@ names with one field": (
        lambda f: at_name(f, "@1@.jpg"),
        "1 fields between @ signs where 2 to 14 are expected; the order is",
    ),
    "@ names with text": (
        lambda f: at_name(f, "@east@2@.jpg"),
        "easting 'east' is not a number; rename the file",
    ),
    "@ names with inf": (
        lambda f: at_name(f, "@inf@2@.jpg"),
        "easting 'inf' is not a number; rename the file",
    ),
    "@ names with zone 99": (
        lambda f: at_name(f, "@5@2@99@T@.jpg"),
        "UTM zone 99 is not in [1, 60]; rename the file",
    ),
    "@ names with too many fields": (
        lambda f: at_name(f, "@1@2" + "@" * 20 + ".jpg"),
        "21 fields between @ signs where 2 to 14 are expected; the order is",
    ),
    "@ names twice in two zones": (
        lambda f: at_name(f, "@5e5@5e6@32@U@.jpg", "@5e5@5e6@@@.jpg"),
        "neither a UTM position with zone nor latitude and longitude (1 such",
    ),
    "7Scenes with 15 numbers": (
        lambda f: seven_scenes(f, "1 " * 15),
        "line 1: 15 numbers, not the 16 of a 4x4 matrix",
    ),
    "7Scenes with text": (lambda f: seven_scenes(f, "x " * 16), "line 1: 'x' is not a number"),
    "7Scenes without rotation": (
        lambda f: seven_scenes(f, "2 0 0 0 0 2 0 0 0 0 2 0 0 0 0 1"),
        "the 3x3 part of the matrix is not a rotation",
    ),
    "7Scenes with another last row": (
        lambda f: seven_scenes(f, "1 0 0 0 0 1 0 0 0 0 1 0 1 1 1 1"),
        "line 4: the last row of a pose is 0 0 0 1, not 1 1 1 1",
    ),
    "7Scenes all lost": (lambda f: seven_scenes(f, "nan " * 16), "no image is left (tracking lost: 1)"),
    "7Scenes empty": (lambda f: seven_scenes(f, ""), "line 1: 0 numbers, not the 16 of a 4x4 matrix"),
    "TB-Places no json": (lambda f: tb_places(f, "{"), "not valid json"),
    "TB-Places a list": (
        lambda f: tb_places(f, []),
        "no im_paths and no poses in it; expected im_prefix, im_paths and poses",
    ),
    "TB-Places without poses": (
        lambda f: tb_places(f, {"im_paths": ["a.jpg"]}),
        "no poses in it; expected im_prefix, im_paths and poses",
    ),
    "TB-Places six numbers": (
        lambda f: tb_places(f, {"im_paths": ["a.jpg"], "poses": [[0] * 6]}),
        "poses[0] is not 7 numbers tx ty tz qx qy qz qw",
    ),
    "TB-Places zero rotation": (
        lambda f: tb_places(f, {"im_paths": ["a.jpg"], "poses": [[0] * 7]}),
        "the quaternion of poses[0] has length 0, not 1",
    ),
    "TB-Places huge number": (
        lambda f: tb_places(f, {"im_paths": ["a"], "poses": [[10**400, *POSE[1:]]]}),
        "poses[0] holds a number that is not finite",
    ),
    "TB-Places nan": (
        lambda f: tb_places(f, '{"im_paths": ["a"], "poses": [[NaN,0,0,0,0,0,1]]}'),
        "poses[0] holds a number that is not finite",
    ),
    "TB-Places more images": (
        lambda f: tb_places(f, {"im_paths": ["a", "b"], "poses": [POSE]}),
        "2 im_paths but 1 poses; the file is not whole",
    ),
    "TB-Places images of numbers": (
        lambda f: tb_places(f, {"im_paths": [1], "poses": [POSE]}),
        "im_paths is not a list of paths",
    ),
    "TB-Places nothing": (
        lambda f: tb_places(f, {"im_paths": [], "poses": []}),
        "the table has no rows; give it one for each image",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_broken_data_sets(refused, here, name):
    make, said = OTHERS[name]
    make(here / "data")
    refused(["places", "data"], "data", said)


LISTS = {
    "no pose": ("night/rear/1.jpg\n", "line 1: 0 numbers after night/rear/1.jpg, not 16; expected:"),
    "text in a pose": ("night/rear/1.jpg" + " x" * 16 + "\n", "line 1: 'x' is not a finite number"),
    "no rotation": (
        "night/rear/1.jpg" + " 2" * 16 + "\n",
        "line 1: the 3x3 part of the matrix of night/rear/1.jpg is not a rotation",
    ),
    "odd name": (
        "night.jpg 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1\n",
        "image name 'night.jpg' is not condition/camera/microseconds.jpg",
    ),
    "a time beyond all calendars": (
        f"night/rear/{10**18}.jpg 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1\n",
        "image name 'night/rear/1000000000000000000.jpg' is not",
    ),
    "a time of thirty digits": (
        f"night/rear/{10**30}.jpg 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1\n",
        "image name 'night/rear/1000000000000000000000000000000.jpg' is not",
    ),
    "nothing": ("", "the table has no rows; give it one for each image"),
    "binary": ("\0\1\2\n", "line 1: 0 numbers after \\x00\\x01\\x02, not 16; expected:"),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_broken_list_of_robotcar(refused, here, name):
    content, said = LISTS[name]
    (here / "robotcar").mkdir()
    (here / "robotcar" / "robotcar_v2_train.txt").write_text(content)
    refused(["places", "robotcar"], "robotcar", said)


MAT = {
    "empty": (b"", "not a readable MATLAB file"),
    "junk": (b"MATLAB 5.0 MAT-file" + b"\0" * 200, "not a readable MATLAB file"),
    "text": (b"hello", "not a readable MATLAB file"),
    "hdf5 cut off": (b"\x89HDF\r\n\x1a\n" + b"\0" * 50, "not a readable MATLAB 7.3 file"),
}


@pytest.mark.parametrize("name", MAT)
def test_a_broken_list_of_pittsburgh(refused, here, name):
    content, said = MAT[name]
    (here / "pitts").mkdir()
    (here / "pitts" / "pitts30k_test.mat").write_bytes(content)
    refused(["places", "pitts", "--part", "pitts30k_test/query"], "pitts30k_test.mat", said)


DATASETS = {
    "absent folder": (["datasets", "absent"], "no such folder; give the folder that holds your data sets"),
    "a file": (["datasets", "PLACES"], "no such folder; give the folder that holds your data sets"),
    "unknown layout": (
        ["datasets", "--layout", "kitti"],
        "data set 'kitti' is unknown; choose one of msls, pittsburgh, tokyo,",
    ),
    "typo": (["datasets", "--layot", "msls"], "No such option: --layot (Possible options: --layout)"),
    "no such part": (
        ["places", "STREET", "--dataset", "campus", "--part", "north"],
        "no part 'north' of Campus; the parts are train, map, query",
    ),
    "not that data set": (
        ["places", "STREET", "--dataset", "msls"],
        "no Mapillary Street-Level Sequences here; expected:",
    ),
    "choose a part": (
        ["places", "STREET", "--dataset", "campus"],
        "Campus, phone photos in splits train, map and query with 3 parts",
    ),
}


@pytest.mark.parametrize("name", DATASETS)
def test_words_about_data_sets(refused, name):
    words, said = DATASETS[name]
    refused(words, said)


def test_a_table_of_campus_that_is_no_text(refused, here):
    (here / "c").mkdir()
    (here / "c" / "places.csv").write_bytes(b"\xff\xfesplit")
    refused(
        ["places", "c", "--dataset", "campus"],
        "no Campus, phone photos in splits train, map and query here; expected",
    )


def test_datasets_with_a_loop_below(done, here):
    (here / "loop").symlink_to(here, target_is_directory=True)
    done(["datasets", "."], "not found")
