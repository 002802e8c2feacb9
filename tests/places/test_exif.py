"""Which camera took a photo, by its EXIF data."""

import io
import math

import pytest
from PIL import Image

from samespot.places.exif import exif_camera

FILM, LENGTH, DENSITY, UNIT, ACROSS, TURNED = 0xA405, 0x920A, 0xA20E, 0xA210, 0xA002, 0x0112


def photo(told, size=(400, 300), turned=None):
    image, exif = Image.new("RGB", size), Image.Exif()
    exif.get_ifd(0x8769).update(told)
    if turned:
        exif[TURNED] = turned
    out = io.BytesIO()
    image.save(out, "JPEG", exif=exif)
    return out.getvalue()


def test_the_focal_length_of_film(tmp_path):
    """27 mm, as phones have: the diagonal of film shows 77 degrees."""
    encoded = photo({FILM: 27})
    (tmp_path / "a.jpg").write_bytes(encoded)
    for given in (encoded, tmp_path / "a.jpg", str(tmp_path / "a.jpg"), Image.open(io.BytesIO(encoded))):
        camera = exif_camera(given)
        assert (camera.width, camera.height) == (400, 300)
        assert camera.fx == camera.fy == pytest.approx(27 / math.hypot(36, 24) * 500)


def test_the_resolution_of_the_sensor():
    """5 mm and 100 pixels a millimetre, of a photo that was halved since."""
    camera = exif_camera(photo({LENGTH: 5.0, DENSITY: 1000.0, UNIT: 3, ACROSS: 800}))
    assert camera.fx == pytest.approx(5 * 100 / 2)


def test_a_photo_on_its_side_is_upright():
    camera = exif_camera(photo({FILM: 27}, turned=6))
    assert (camera.width, camera.height, camera.cx, camera.cy) == (300, 400, 150.0, 200.0)


@pytest.mark.parametrize(
    "told", [{}, {LENGTH: 5.0}, {FILM: 0}, {FILM: 2}, {FILM: 60000}, {LENGTH: 5.0, DENSITY: 0.0}]
)
def test_what_makes_no_sense_is_not_told(told):
    assert exif_camera(photo(told)) is None


@pytest.mark.parametrize("given", [b"", b"no photo", "/no/such/file.jpg", 3, None])
def test_what_is_no_photo_has_no_camera(given):
    assert exif_camera(given) is None
