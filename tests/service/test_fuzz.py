"""Requests and images that nobody sane would send: a short form of `python -m tests.service.fuzz`."""

import pytest

from samespot.service.app import create_app
from samespot.service.options import ServeOptions
from tests.service import fuzz

pytestmark = pytest.mark.usefixtures("one_thread")


def test_requests_made_from_the_openapi_document(street):
    app = create_app(ServeOptions(maps=[str(street / "map")], rate=1_000_000))
    with fuzz.served(app) as address:
        counts = fuzz.requests(address, 150)
    assert sum(counts.values()) >= 80
    assert not any(code >= 500 for code in counts)


def test_images_that_were_tampered_with(serving):
    with serving(maps=("map",), rate=1_000_000) as client:
        counts = fuzz.images(client, 150)
    assert set(counts) <= {200, 422}
    assert counts[422] > 10
