"""What all tests share: hypothesis without deadlines (kernels compile on first use), and the real data."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("samespot", deadline=None, max_examples=200)
settings.load_profile("samespot")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real photos and poses; tests that ask for it skip, and say so, where it is absent."""
    folder = Path(os.environ.get("SAMESPOT_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set SAMESPOT_DATA")
    return folder
