"""Tables of places that are broken, hostile or odd: csv, parquet and the files beside them."""

import gzip
import os

import numpy as np
import pandas as pd
import pytest

HEAD = "image,easting,northing,heading\n"
GPS = "image,latitude,longitude,heading\n"
LONG = "x" * 5000

BROKEN = {
    "nothing": (b"", "the file is empty; a table of places has a header line"),
    "a line break": (b"\n", "the file is empty"),
    "header alone": (HEAD, "the table has no rows; give it one for each image"),
    "BOM alone": (b"\xef\xbb\xbf", "the file is empty"),
    "UTF-16 BOM alone": (b"\xff\xfe", "the file is empty"),
    "half a UTF-16 letter": (HEAD.encode("utf-16") + b"a", "save it as UTF-8"),
    "NUL bytes": (b"\0" * 64, "binary data, not the text of a table; save it as .csv"),
    "binary": (bytes(range(256)) * 4, "binary data, not the text of a table"),
    "a JPEG": (b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(range(200)), "binary data, not the text of a table"),
    "a zip": (b"PK\x03\x04" + b"\0" * 60, "binary data, not the text of a table"),
    "latin-1": (
        (HEAD + "stra\xdfe.jpg,1,2,3\n").encode("latin-1"),
        "not a text in UTF-8 (byte 35); save it as UTF-8",
    ),
    "json": ('{"image": "a.jpg"}', "missing columns image, easting, northing"),
    "html": ("<html><body>404</body></html>\n", "missing columns image, easting, northing"),
    "one column": ("image\na.jpg\n", "it has image; needed: image, easting, northing"),
    "no image": ("easting,northing\n1,2\n", "missing column image; it has easting, northing"),
    "no position": ("image,heading\na.jpg,2\n", "missing columns easting, northing; it has image, heading"),
    "half a position": ("image,easting,heading\na.jpg,2,3\n", "missing column northing"),
    "half degrees": ("image,latitude,heading\na.jpg,2,3\n", "(or latitude and longitude for the position)"),
    "typo": ("imagee,easting,northing\na.jpg,1,2\n", "is imagee the image?"),
    "column twice": (
        "image,easting,northing,easting\na.jpg,1,2,3\n",
        "the column easting appears 2 times; keep one",
    ),
    "short line": (
        HEAD + "a.jpg,1,2\nb.jpg,1,2,3\n",
        "line 2: 3 fields where the header has 4; fix the line",
    ),
    "long line": (HEAD + "a.jpg,1,2,3,4\n", "line 2: 5 fields where the header has 4; fix the line"),
    "long line later": (
        HEAD + "a.jpg,1,2,3\nb.jpg,1,2,3,4\n",
        "Expected 4 fields in line 3, saw 5; fix the file",
    ),
    "open quote": (HEAD + '"a.jpg,1,2,3\n', "inside string starting at row 1; fix the file"),
    "text easting": (
        HEAD + "a.jpg,east,2,3\n",
        "row 1: easting 'east' is not a finite number; write it as 12.5",
    ),
    "unit in easting": (HEAD + "a.jpg,12m,2,3\n", "easting '12m' is not a finite number"),
    "hexadecimal easting": (HEAD + "a.jpg,0x10,2,3\n", "easting '0x10' is not a finite number"),
    "underscored easting": (HEAD + "a.jpg,1_000,2,3\n", "easting '1_000' is not a finite number"),
    "infinite easting": (HEAD + "a.jpg,inf,2,3\n", "easting inf is not a finite number"),
    "infinite northing": (HEAD + "a.jpg,1,-inf,3\n", "northing -inf is not a finite number"),
    "overflowing easting": (HEAD + "a.jpg,1e400,2,3\n", "easting inf is not a finite number"),
    "huge whole easting": (HEAD + f"a.jpg,{10**30},2,3\n", "easting 1e+30 m is off the earth; give metres"),
    "beyond the earth": (HEAD + "a.jpg,2e8,2,3\n", "easting 2e+08 m is off the earth"),
    "empty easting": (
        HEAD + "a.jpg,,2,3\n",
        "row 1: no position (1 rows lack one); fill them in or delete them",
    ),
    "nan northing": (HEAD + "a.jpg,1,nan,3\n", "no position (1 rows lack one)"),
    "heading 360": (HEAD + "a.jpg,1,2,360\n", "pass --wrap-headings to accept it"),
    "heading -1": (HEAD + "a.jpg,1,2,-1\n", "heading -1 is not in [0, 360)"),
    "heading N": (HEAD + "a.jpg,1,2,N\n", "heading 'N' is not a finite number"),
    "heading inf": (HEAD + "a.jpg,1,2,inf\n", "heading inf is not a finite number"),
    "latitude 91": (GPS + "a.jpg,91,2,3\n", "latitude 91 is not in [-90, 90]"),
    "longitude 181": (GPS + "a.jpg,1,181,3\n", "longitude 181 is not in [-180, 180]"),
    "latitude in words": (GPS + "a.jpg,48°08'N,11,3\n", "is not a number of degrees; write it as 48.1372"),
    "latitude inf": (GPS + "a.jpg,inf,11,3\n", "latitude inf is not in [-90, 90]"),
    "no latitude at all": (GPS + "a.jpg,,,3\n", "every latitude or longitude is empty; fill them in"),
    "one latitude missing": (GPS + "a.jpg,48,11,3\nb.jpg,,11,3\n", "row 2: no position"),
    "degrees as metres": (
        HEAD + "a.jpg,11.57,48.13,0\nb.jpg,11.58,48.14,0\n",
        "look like degrees, not metres; name the columns longitude and latitude",
    ),
    "two zones": (
        "image,easting,northing,zone\na.jpg,5e5,5e6,32\nb.jpg,5e5,5e6,33\n",
        "give latitude and longitude columns instead",
    ),
    "no name": (HEAD + ",1,2,3\n", "row 1: no image name (1 rows lack one); fill them in"),
    "blank name": (HEAD + "   ,1,2,3\n", "row 1: no image name"),
    "same image twice": (HEAD + "a.jpg,1,2,3\na.jpg,1,2,3\n", "row 2: image a.jpg is in the table twice"),
    "same image by another path": (
        HEAD + "a.jpg,1,2,3\n./a.jpg,1,2,3\n",
        "image ./a.jpg is in the table twice",
    ),
    "NUL in a name": (HEAD + "a\0b.jpg,1,2,3\n", "binary data"),
    "pano maybe": (
        "image,easting,northing,pano\na.jpg,1,2,maybe\n",
        "pano 'maybe' is neither true nor false",
    ),
    "no rotation": (
        "image,easting,northing,tx,ty,tz,qw,qx,qy,qz\na.jpg,1,2,0,0,0,0,0,0,0\n",
        "qw qx qy qz are all 0; not turned at all is 1 0 0 0",
    ),
    "text in a pose": (
        "image,easting,northing,tx,ty,tz,qw,qx,qy,qz\na.jpg,1,2,a,0,0,1,0,0,0\n",
        "tx 'a' is not a finite number",
    ),
    "pose off the earth": (
        "image,easting,northing,tx,ty,tz,qw,qx,qy,qz\na.jpg,1,2,1e99,0,0,1,0,0,0\n",
        "tx 1e+99 m is off the earth",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_csv_is_told_in_one_line(refused, here, name):
    content, said = BROKEN[name]
    (here / "p.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    refused(["places", "p.csv"], "p.csv", said)


ODD = {
    "absolute name": (HEAD + "/etc/hostname,1,2,3\n", "with position 1"),
    "name above the root": (HEAD + "../../a.jpg,1,2,3\n", "(../../a.jpg)"),
    "long name": (HEAD + f"{LONG}.jpg,1,2,3\n", "xxx…xxx"),
    "line break in a name": (HEAD + '"a\nb.jpg",1,2,3\n', "1 of 1 images are not under . (a b.jpg)"),
    "tab in a name": (HEAD + '"a\tb.jpg",1,2,3\n', "(a b.jpg)"),
    "right-to-left name": (HEAD + "\u202egpj.a,1,2,3\n", "(\\u202egpj.a)"),
    "combining letters": (HEAD + "a\u0301.jpg,1,2,3\nb.jpg,2,2,3\n", "b.jpg)"),
    "emoji": (HEAD + "\U0001f3d9.jpg,1,2,3\n", "🏙.jpg"),
    "markup in a name": (HEAD + "[bold red]a[/].jpg,1,2,3\n", "([bold red]a[/].jpg)"),
    "escape codes in a name": (HEAD + "\x1b[31ma.jpg,1,2,3\n", "(\\x1b[31ma.jpg)"),
    "quotes": (HEAD + '"a ""b"".jpg",1,2,3\n', '(a "b".jpg)'),
    "formula": (HEAD + "=cmd|'/c calc'!A1,1,2,3\n", "(=cmd|'/c calc'!A1)"),
    "digits": (HEAD + "000829,1,2,3\n", "(000829)"),
    "true": (HEAD + "True,1,2,3\n", "(True)"),
    "tiny numbers": (HEAD + "a.jpg,1e-300,-1e-300,1e-300\n", "with position"),
    "negative metres": (HEAD + "a.jpg,-5,-9,3\n", "with position"),
    "blank lines": (HEAD + "\na.jpg,1,2,3\n\n\n", "with position"),
    "windows line ends": (HEAD.replace("\n", "\r\n") + "a.jpg,1,2,3\r\n", "with position"),
    "old mac line ends": (HEAD.replace("\n", "\r") + "a.jpg,1,2,3\r", "with position"),
    "no last line end": (HEAD + "a.jpg,1,2,3", "with position"),
    "spaces after commas": (HEAD.replace(",", ", ") + "a.jpg, 1, 2, 3\n", "with position"),
    "poles": (
        GPS + "a.jpg,90,0,3\nb.jpg,-90,0,3\n",
        "images lie up to 10,002 km from their middle; are all positions right?",
    ),
    "date line": (GPS + "a.jpg,0,179.999,3\nb.jpg,0,-179.999,3\n", "223 m × 0 m"),
    "no heading": ("image,easting,northing\na.jpg,1,2\n", "with heading 0"),
    "extra columns": ("image,easting,northing,a b,,x\na.jpg,1,2,3,4,5\n", "with position"),
    "all at one spot": (HEAD + "a.jpg,1,2,3\nb.jpg,1,2,3\n", "with position"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_csv_is_read(done, here, name):
    content, said = ODD[name]
    (here / "p.csv").write_bytes(content.encode())
    facts = done(["places", "p.csv", "--out", "again.csv"], said)
    if facts is None:
        return
    assert facts["images"] == facts["with position"]
    assert done(["places", "again.csv"])["digest"] == facts["digest"]


def test_a_plane_that_is_not_made_for_these_positions_is_noted(done, here):
    """Metres of UTM zone 1 mean nothing in Munich."""
    (here / "p.csv").write_text(GPS + "a.jpg,48,11,3\nb.jpg,48.001,11,3\n")
    done(
        ["places", "p.csv", "--projection", "EPSG:32601"],
        "outside the area of EPSG:32601",
        "choose another projection",
    )
    done(["places", "p.csv", "--projection", "EPSG:32633"], "EPSG:32633")  # the next zone will do


SIDECARS = {
    "no json": ("{", "not valid json"),
    "binary": ("\x00\x01", "not valid json"),
    "a list": ("[]", "holds no json object; delete it or fix it"),
    "a number": ("7", "holds no json object"),
    "root is a number": ('{"root": 7}', "expected root, a folder; delete it or fix it"),
    "root is null": ('{"root": null}', "expected root, a folder"),
    "projection is a number": ('{"projection": 32632}', "expected projection, a name or null"),
    "dropped is a list": ('{"dropped": [1]}', "expected dropped, numbers by reason"),
    "dropped holds words": ('{"dropped": {"a": "many"}}', "expected dropped, numbers by reason"),
    "notes is a number": ('{"notes": 7}', "expected notes, a list of lines"),
    "notes is a string": ('{"notes": "abc"}', "expected notes, a list of lines"),
    "notes hold numbers": ('{"notes": [7]}', "expected notes, a list of lines"),
}


@pytest.mark.parametrize("name", SIDECARS)
def test_a_broken_file_beside_a_table(refused, here, name):
    content, said = SIDECARS[name]
    (here / "p.csv").write_text(HEAD + "a.jpg,1,2,3\n")
    (here / "p.csv.meta.json").write_text(content)
    refused(["places", "p.csv", "--projection", "EPSG:32632"], "p.csv.meta.json", said)


def gps(rows=2, **columns):
    table = {"image": [f"{i}.jpg" for i in range(rows)], "easting": np.arange(rows) * 1.0, "northing": 0.0}
    return pd.DataFrame({**table, **columns})


PARQUET = {
    "nothing": (b"", "cannot be read as parquet"),
    "text": (b"image,easting\n", "cannot be read as parquet"),
    "cut off": (None, "cannot be read as parquet"),
    "no rows": (gps(0), "the table has no rows"),
    "no columns": (pd.DataFrame({"a": [1]}), "missing columns image, easting, northing; it has a"),
    "lists as easting": (gps(easting=[[1.0], [2.0]]), "easting [1.] is not a finite number"),
    "times as easting": (
        gps(easting=pd.to_datetime(["2020-01-01", "2020-01-02"])),
        "easting 2020-01-01 00:00:00 is not a finite number",
    ),
    "true as easting": (gps(easting=[True, False]), "easting True is not a finite number"),
    "words as easting": (gps(easting=["a", "b"]), "easting 'a' is not a finite number"),
    "none as image": (gps(image=["a.jpg", None]), "row 2: no image name"),
    "infinite": (gps(easting=[1.0, np.inf]), "row 2: easting inf is not a finite number"),
    "NUL in a name": (gps(image=["a.jpg", "b\0.jpg"]), "row 2: the image name holds a NUL byte"),
    "dictionaries as image": (
        gps(image=[{"a": 1}, {"a": 2}]),
        "image {'a': 1} is not a name; give the path of a photo",
    ),
}


@pytest.mark.parametrize("name", PARQUET)
def test_a_broken_parquet_is_told_in_one_line(refused, here, name):
    content, said = PARQUET[name]
    path = here / "p.parquet"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is None:
        gps().to_parquet(path)
        path.write_bytes(path.read_bytes()[:-100])
    else:
        content.to_parquet(path)
    refused(["places", "p.parquet"], "p.parquet", said)


PACKED = {
    "cut off .csv.gz": (
        "p.csv.gz",
        gzip.compress(HEAD.encode() * 100)[:-20],
        "ended before the end-of-stream marker",
    ),
    "no .csv.gz": ("p.csv.gz", b"image,easting\n", "Not a gzipped file"),
    "no .csv.bz2": ("p.csv.bz2", b"junk", "Invalid data stream; fix the file, or save it again as .csv"),
    "no .csv.xz": ("p.csv.xz", b"junk", "cannot be read as csv"),
    "no .csv.zip": ("p.csv.zip", b"junk", "not a zip file"),
    "no .csv.zst": ("p.csv.zst", b"junk", "cannot be read as csv"),
    "a spreadsheet": (
        "p.xlsx",
        b"PK\x03\x04" + bytes(range(100)),
        "binary data, not the text of a table; save it as .csv",
    ),
    "a picture": ("p.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "binary data"),
    "geojson": (
        "p.geojson",
        b'{"type": "FeatureCollection", "features": []}',
        "missing columns image, easting, northing",
    ),
}


@pytest.mark.parametrize("name", PACKED)
def test_a_file_of_another_kind(refused, here, name):
    file, content, said = PACKED[name]
    (here / file).write_bytes(content)
    refused(["places", file], file, said)


def a_folder(path):
    path.mkdir()


def a_loop(path):
    path.symlink_to(path)


def a_pipe(path):
    os.mkfifo(path)


def a_device(path):
    path.symlink_to("/dev/zero")


def a_dead_link(path):
    path.symlink_to("nowhere.csv")


@pytest.mark.parametrize("make", [a_folder, a_loop, a_pipe, a_device, a_dead_link], ids=lambda m: m.__name__)
def test_what_is_no_file(refused, here, make):
    make(here / "p.csv")
    refused(["places", "p.csv"], "p.csv")


WISHES = {
    "unknown projection": (
        ["--projection", "moon"],
        "projection 'moon' is not known; give one like EPSG:32633",
    ),
    "projection in degrees": (["--projection", "EPSG:4326"], "is not in metres on a plane"),
    "projection of no number": (["--projection", "EPSG:999999"], "projection 'EPSG:999999' is not known"),
    "a part of a table": (["--part", "train"], "not a folder, so it cannot be a data set with parts"),
    "a data set of a table": (["--dataset", "msls"], "not a folder"),
    "unknown data set": (["--dataset", "kitti"], "--dataset 'kitti' is unknown; choose one of msls"),
    "missing images are errors": (["--missing-images", "error"], "or drop them with --missing-images drop"),
    "all images missing": (["--missing-images", "drop"], "none would be left, so fix the root"),
    "unknown policy": (
        ["--missing-images", "maybe"],
        "--missing-images 'maybe' is unknown; choose one of error",
    ),
    "out of another kind": (["--out", "x.txt"], "x.txt: a table of places is written as .csv or .parquet"),
    "out without a suffix": (["--out", "x"], "x: a table of places is written as .csv or .parquet"),
    "out of another kind, of photos that are not there": (
        ["--out", "x.txt", "--missing-images", "error"],
        "x.txt: a table of places is written as .csv or .parquet",
    ),
    "out is a folder": (["--out", "."], "--out .: is a folder; give the name of a file"),
    "out under a file": (["--out", "p.csv/x.csv"], "cannot be written (p.csv is a file)"),
    "out where nobody writes": (["--out", "/proc/x.csv"], "--out /proc/x.csv: cannot be written"),
    "json is a folder": (["--json", "."], "--json .: is a folder; give the name of a file"),
    "json under a file": (["--json", "p.csv/x.json"], "--json p.csv/x.json: cannot be written"),
    "json where nobody writes": (["--json", "/proc/x.json"], "--json /proc/x.json: cannot be written"),
    "two tables": (["p.csv"], "unexpected extra argument"),
    "typo": (["--wrap-heading"], "No such option: --wrap-heading (Possible options: --wrap-headings)"),
}


@pytest.mark.parametrize("name", WISHES)
def test_wishes_of_places_that_cannot_be_met(refused, here, name):
    words, said = WISHES[name]
    (here / "p.csv").write_text(GPS + "a.jpg,48,11,3\n")
    refused(["places", "p.csv", *words], said)


SPLITS = {
    "train 0": (["--train", "0"], "--train 0 must be above 0"),
    "train 1": (["--train", "1"], "--train 1 must be below 1"),
    "train nan": (["--train", "nan"], "--train nan is not a finite number"),
    "train in percent": (["--train", "60%"], "Invalid value for '--train'"),
    "queries 2": (["--queries", "2"], "--queries 2 must be below 1"),
    "negative gap": (["--gap", "-1"], "--gap -1 must be at least 0"),
    "infinite gap": (["--gap", "inf"], "--gap inf is not a finite number"),
    "wide gap": (
        ["--gap", "1e6"],
        "no photo is left for train and map and query; change --train, --queries or --gap",
    ),
    "gap by time": (["--by", "time", "--gap", "3"], "--gap has no effect with --by time"),
    "by colour": (["--by", "colour"], "--by 'colour' is unknown; choose one of area, sequence, time"),
    "by sequence without": (["--by", "sequence"], "no column sequence to cut by; cut by area or time"),
    "negative seed": (["--seed", "-1"], "--seed -1 must be at least 0"),
    "out is a file": (["--out", "STREET/places.csv"], "is a file; give the name of a folder"),
    "no room for queries": (["--train", "0.999"], "no photo is left for map and query"),
}


@pytest.mark.parametrize("name", SPLITS)
def test_splits_that_cannot_be_made(refused, name):
    words, said = SPLITS[name]
    refused(["split", "PLACES", *words], said)


def test_one_photo_cannot_be_split(refused, here):
    (here / "p.csv").write_text(HEAD + "a.jpg,1,2,3\n")
    refused(["split", "p.csv"], "no photo is left for")


def test_a_split_by_time_without_times(refused, here):
    (here / "p.csv").write_text("image,easting,northing,time\na.jpg,1,2,\nb.jpg,2,2,5\n")
    refused(["split", "p.csv", "--by", "time"], "not every photo has a time")
