"""Describing: images of every hostile kind, folders of others, models that do not fit."""

import io
import json
import os
import shutil
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

HEAD = "image,easting,northing,heading\n"


def encoded(mode="RGB", size=(64, 48), kind="PNG", **more):
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, kind, **more)
    return buffer.getvalue()


def png_chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def announced(width, height, depth=8, colour=2, pixels=b""):
    """A PNG whose header says this size."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    data = zlib.compress(pixels)
    return (
        b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")
    )


JPEG = encoded(kind="JPEG")
BAD = {
    "empty": ("a.jpg", b"", "the file is empty; copy the image again or take it out of the table; or"),
    "text": ("a.jpg", b"this is no photo", "cannot decode the image"),
    "svg": (
        "a.svg",
        b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
        "cannot decode the image",
    ),
    "pdf": ("a.pdf", b"%PDF-1.4\n%%EOF", "cannot decode the image"),
    "zeros": ("a.png", b"\0" * 200, "cannot decode the image"),
    "JPEG signature": ("a.jpg", b"\xff\xd8\xff", "cannot decode the image"),
    "half a JPEG header": ("a.jpg", JPEG[:100], "cannot decode the image"),
    "JPEG without its end": ("a.jpg", JPEG[:-2], "cannot decode the image"),
    "JPEG cut off": ("a.jpg", encoded(size=(256, 256), kind="JPEG")[:-200], "cannot decode the image"),
    "half a PNG": ("a.png", encoded()[:60], "cannot decode the image"),
    "PNG without pixels": ("a.png", announced(64, 48), "cannot decode the image"),
    "PNG of no width": ("a.png", announced(0, 48), "cannot decode the image"),
    "PNG of odd depth": ("a.png", announced(64, 48, depth=7), "cannot decode the image"),
    "PNG of gigapixels": (
        "a.png",
        announced(60_000, 60_000),
        "has more than 179 megapixels; shrink it; or pass --on-bad-image skip",
    ),
    "PNG beyond all numbers": (
        "a.png",
        announced(2**31 - 1, 2**31 - 1),
        "has more than 179 megapixels; shrink it; or pass --on-bad-image skip",
    ),
    "WebP cut off": ("a.webp", encoded(kind="WEBP")[:20], "cannot decode the image"),
    "GIF cut off": ("a.gif", encoded("P", kind="GIF")[:20], "cannot decode the image"),
    "BMP of gigapixels": (
        "a.bmp",
        b"BM" + struct.pack("<IHHIIiiHHIIiiII", 100, 0, 0, 54, 40, 90_000, 90_000, 1, 24, 0, 0, 0, 0, 0, 0),
        "has more than 179 megapixels; shrink it; or pass --on-bad-image skip",
    ),
    "TIFF pointing outside": ("a.tif", b"II*\0\xff\xff\xff\x7f", "cannot decode the image"),
    "HEIC cut off": ("a.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "cannot decode the image"),
    "AVIF cut off": ("a.avif", b"\0\0\0\x18ftypavif\0\0\0\0mif1avif", "cannot decode the image"),
    "PSD": ("a.psd", b"8BPS\0\1" + b"\0" * 100, "cannot decode the image"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_image_that_cannot_be_read_is_one_line(refused, here, name):
    file, content, said = BAD[name]
    (here / file).write_bytes(content)
    (here / "p.csv").write_text(HEAD + f"{file},1,2,3\n")
    refused(["describe", "MODEL", "p.csv", "--out", "d"], file, "--on-bad-image skip", said)


def missing(path):
    pass


def folder(path):
    path.mkdir()


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def loop(path):
    path.symlink_to(path.name)


def huge(path):
    with path.open("wb") as file:
        file.truncate(3_000_000_000)  # sparse


@pytest.mark.parametrize("make", [missing, folder, pipe, device, loop, huge], ids=lambda m: m.__name__)
def test_what_is_no_image_file(refused, here, make):
    make(here / "a.jpg")
    (here / "p.csv").write_text(HEAD + "a.jpg,1,2,3\n")
    refused(["describe", "MODEL", "p.csv", "--out", "d"], "a.jpg", "--on-bad-image skip")


def test_a_disk_that_fails_is_no_bad_image(refused, here):
    """/proc/self/mem is a file whose first byte is an I/O error."""
    (here / "a.jpg").symlink_to("/proc/self/mem")
    (here / "p.csv").write_text(HEAD + "a.jpg,1,2,3\n")
    words = ["describe", "MODEL", "p.csv", "--out", "d", "--on-bad-image", "skip"]
    refused(words, "a.jpg: cannot read the image (Input/output error)", "the same command again resumes")


def rotated():
    exif = Image.Exif()
    exif[274] = 6
    return encoded(kind="JPEG", exif=exif)


def animated(kind):
    frames = [Image.new("RGB", (32, 24), (i * 90, 0, 0)) for i in range(3)]
    buffer = io.BytesIO()
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:])
    return buffer.getvalue()


def deep():
    buffer = io.BytesIO()
    Image.fromarray(np.full((24, 32), 40_000, np.uint16)).save(buffer, "PNG")
    return buffer.getvalue()


ODD = {
    "1x1": ("a.png", encoded(size=(1, 1))),
    "1x2000": ("a.png", encoded(size=(1, 2000))),
    "2000x1": ("a.jpg", encoded(size=(2000, 1), kind="JPEG")),
    "grey": ("a.png", encoded("L")),
    "grey and alpha": ("a.png", encoded("LA")),
    "alpha": ("a.png", encoded("RGBA")),
    "palette": ("a.png", encoded("P")),
    "one bit": ("a.png", encoded("1")),
    "16 bit": ("a.png", deep()),
    "CMYK": ("a.jpg", encoded("CMYK", kind="JPEG")),
    "YCbCr TIFF": ("a.tif", encoded("YCbCr", kind="TIFF")),
    "floating TIFF": ("a.tif", encoded("F", kind="TIFF")),
    "rotated by EXIF": ("a.jpg", rotated()),
    "animated GIF": ("a.gif", animated("GIF")),
    "animated WebP": ("a.webp", animated("WEBP")),
    "animated PNG": ("a.png", animated("PNG")),
    "BMP": ("a.bmp", encoded(kind="BMP")),
    "progressive JPEG": ("a.jpg", encoded(kind="JPEG", progressive=True)),
    "PNG called JPEG": ("a.jpg", encoded()),
    "JPEG without suffix": ("photo", JPEG),
    "JPEG with a tail": ("a.jpg", JPEG + b"\0" * 1000),
    "name with spaces and umlauts": ("Straße nach Ägypten.jpg", JPEG),
    "name with a line break": ("a\nb.jpg", JPEG),
    "name with markup": ("[red]a.jpg", JPEG),
    "name that starts with a dash": ("-o.jpg", JPEG),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_images_are_described(done, here, name):
    file, content = ODD[name]
    (here / file).write_bytes(content)
    (here / "p.csv").write_text(HEAD + f'"{file}",1,2,3\n')
    told = done(["describe", "MODEL", "p.csv", "--out", "d"], "1 images described")
    assert told["bad"] == {}
    assert np.linalg.norm(np.load(here / "d" / "descriptors.npy")) == pytest.approx(1, abs=1e-5)


def test_bad_images_are_left_out_when_asked_and_counted(done, here):
    for i, (_, content, _) in enumerate(BAD.values()):
        (here / f"{i}.jpg").write_bytes(content)
    (here / "good.jpg").write_bytes(JPEG)
    names = [f"{i}.jpg" for i in range(len(BAD))] + ["good.jpg", "absent.jpg"]
    (here / "p.csv").write_text(HEAD + "".join(f"{name},{i},2,3\n" for i, name in enumerate(names)))
    told = done(
        ["describe", "MODEL", "p.csv", "--out", "d", "--on-bad-image", "skip"],
        f"could not be read {len(BAD) + 1}",
    )
    assert len(told["bad"]) == len(BAD) + 1
    zero = ~np.load(here / "d" / "descriptors.npy").any(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(~zero), [len(BAD)])


WORDS = {
    "no model": (
        ["describe", "absent", "PLACES"],
        "no such folder, and no network of that name; give a model or run",
    ),
    "a table as the model": (
        ["describe", "PLACES", "PLACES"],
        "no model here; give a model or run folder, such as `samespot train`",
    ),
    "a folder without a model": (
        ["describe", "STREET", "PLACES"],
        "no model here; give a model or run folder, such as `samespot train`",
    ),
    "unknown network": (
        ["describe", "resnet9000-gem", "PLACES"],
        "backbone 'resnet9000' is neither vgg16, resnet18, resnet34, resnet50,",
    ),
    "unknown pooling": (
        ["describe", "resnet50-mean", "PLACES"],
        "resnet50-mean: no such folder, and no network of that name; give a",
    ),
    "no size": (
        ["describe", "resnet50-gem@huge", "PLACES"],
        "resnet50-gem@huge: 'huge' is not an image size; write for example",
    ),
    "size 0": (
        ["describe", "resnet50-gem@0x0", "PLACES"],
        "resnet50-gem@0x0: '0x0' is not an image size; write for example",
    ),
    "size of gigapixels": (
        ["describe", f"{'test_resnet.r160_in1k'}-gem@100000x100000", "PLACES"],
        "image size 100000x100000 is beyond any network; photos are rarely above",
    ),
    "no places": (
        ["describe", "MODEL", "absent.csv"],
        "no such file; a table of places is a .csv or .parquet with the columns",
    ),
    "batch of 0": (["describe", "MODEL", "PLACES", "--batch-size", "0"], "--batch-size 0 must be at least 1"),
    "negative batch": (
        ["describe", "MODEL", "PLACES", "--batch-size", "-4"],
        "--batch-size -4 must be at least 1",
    ),
    "no workers": (["describe", "MODEL", "PLACES", "--workers", "0"], "--workers 0 must be at least 1"),
    "precision 8": (
        ["describe", "MODEL", "PLACES", "--precision", "8"],
        "--precision '8' is unknown; choose one of auto, 32, bf16",
    ),
    "dtype int8": (
        ["describe", "MODEL", "PLACES", "--dtype", "int8"],
        "--dtype 'int8' is unknown; choose one of float32, float16",
    ),
    "device tpu": (
        ["describe", "MODEL", "PLACES", "--device", "tpu"],
        "--device 'tpu' is unknown; choose auto, cpu or cuda",
    ),
    "device cuda": (
        ["describe", "MODEL", "PLACES", "--device", "cuda"],
        "--device cuda: torch sees no GPU; check the driver with nvidia-smi, or",
    ),
    "device cuda:x": (
        ["describe", "MODEL", "PLACES", "--device", "cuda:x"],
        "--device 'cuda:x' is unknown; choose auto, cpu or cuda",
    ),
    "decode on no GPU": (
        ["describe", "MODEL", "PLACES", "--decode", "gpu"],
        "--decode gpu needs a CUDA device; leave it out to decode on the",
    ),
    "bad images maybe": (
        ["describe", "MODEL", "PLACES", "--on-bad-image", "maybe"],
        "--on-bad-image 'maybe' is unknown; choose one of fail, skip",
    ),
    "out is a file": (
        ["describe", "MODEL", "PLACES", "--out", "PLACES"],
        "is a file; give the name of a folder",
    ),
    "out is something else": (
        ["describe", "MODEL", "PLACES", "--out", "STREET"],
        "exists and is not a descriptor folder; choose another",
    ),
    "out under a file": (["describe", "MODEL", "PLACES", "--out", "PLACES/d"], "is a file)"),
    "descriptors of another model": (
        ["describe", "OTHER_MODEL", "PLACES", "--out", "DESCRIPTORS"],
        "holds descriptors made with another model (c317c23ca23d, now",
    ),
    "descriptors of another type": (
        ["describe", "MODEL", "PLACES", "--out", "DESCRIPTORS", "--dtype", "float16"],
        "holds descriptors made with another dtype (float32, now float16);",
    ),
    "descriptors of another table": (
        ["describe", "MODEL", "HERE/p.csv", "--out", "DESCRIPTORS"],
        "holds descriptors made with another table of places (9587ebe085bc, now",
    ),
}


@pytest.mark.parametrize("name", WORDS)
def test_descriptions_that_cannot_be_made(refused, world, here, name, monkeypatch):
    words, said = WORDS[name]
    monkeypatch.setattr("samespot.model.weights.hub_is_reachable", lambda: False)
    (here / "p.csv").write_text(HEAD + f"{world.street}/00.jpg,1,2,3\n")
    refused(words, said)


def edited(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def meta(**changes):
    def change(folder):
        facts = json.loads((folder / "meta.json").read_text())
        (folder / "meta.json").write_text(json.dumps({**facts, **changes}))

    return change


def begun_again(folder):
    """As a kill leaves it, before the first block was safe."""
    facts = (folder / "meta.json").read_bytes()
    (folder / "meta.json").unlink()
    (folder / "begun.json").write_bytes(facts)


FOLDERS = {
    "meta no json": (edited("meta.json", b"{"), "not valid json"),
    "meta a list": (edited("meta.json", b"[]"), "holds no json object; delete its folder and describe again"),
    "meta binary": (edited("meta.json", b"\xff\xfe\0"), "not valid json"),
    "meta without model": (
        edited("meta.json", b"{}"),
        "exists and is not a descriptor folder; choose another",
    ),
    "begun no json": (lambda f: (begun_again(f), edited("begun.json", b"{")(f)), "not valid json"),
    "other format": (meta(format=99), "not the format 1 that this version reads; describe the places again"),
    "vectors cut off": (
        lambda f: (f / "descriptors.npy").write_bytes((f / "descriptors.npy").read_bytes()[:-50]),
        "not the whole array of 12 × 96 float32 that meta.json tells of; copy",
    ),
    "vectors gone": (
        lambda f: (f / "descriptors.npy").unlink(),
        "not the whole array of 12 × 96 float32 that meta.json tells of; copy",
    ),
    "vectors of objects": (
        lambda f: np.save(f / "descriptors.npy", np.array([{}] * 12)),
        "not the whole array of 12 × 96 float32 that meta.json tells of; copy",
    ),
    "vectors of another shape": (
        lambda f: np.save(f / "descriptors.npy", np.zeros((3, 3), np.float32)),
        "not the whole array of 12 × 96 float32 that meta.json tells of; copy",
    ),
    "bad rows of words": (
        meta(bad={"first": "why"}),
        "its list of images that could not be read is broken; describe again",
    ),
    "bad rows beyond": (
        meta(bad={"99": "why"}),
        "its list of images that could not be read is broken; describe again",
    ),
    "bad a list": (meta(bad=[1]), "its list of images that could not be read is broken; describe again"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_broken_folder_of_descriptors(refused, world, here, name):
    change, said = FOLDERS[name]
    shutil.copytree(world.descriptors, here / "d")
    change(here / "d")
    refused(["describe", "MODEL", "PLACES", "--out", "d"], "d", said)


def test_a_half_written_folder_is_gone_on_with(done, world, here):
    shutil.copytree(world.descriptors, here / "d")
    before = np.load(here / "d" / "descriptors.npy")
    begun_again(here / "d")
    (here / "d" / "done-00000.jsonl").write_text('{"rows": [0, 16], "bad": {}}\n{"rows": [0, "x"]}\n[]\n{"ro')
    np.save(here / "d" / "descriptors.npy", before)
    done(["describe", "MODEL", "PLACES", "--out", "d"])
    np.testing.assert_array_equal(np.load(here / "d" / "descriptors.npy"), before)
