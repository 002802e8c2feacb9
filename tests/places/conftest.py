"""What the readers' tests share: miniature trees of files."""

import pytest
from PIL import Image


@pytest.fixture(scope="session")
def save_images():
    """Writes small images of these names below a folder."""

    def save(folder, names):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8)).save(folder / name)

    return save
