"""Maps of made-up vectors and places: what an engine finds does not depend on photos."""

from pathlib import Path

import numpy as np
import pytest

from samespot.maps.engines.engine import asked_for, make_engine, open_engine
from samespot.maps.folder import VECTORS, Generation, generation_folder
from samespot.progress import silent
from tests.maps.test_limits import places

COUNT, DIMS = 3000, 32


def cloud(count, seed, dims=DIMS):
    """Unit vectors in 60 clusters, as photos of 60 places, as a map keeps them; some photos are there several times."""
    centres = np.random.default_rng(99).standard_normal((60, dims))
    dice = np.random.default_rng(seed)
    vectors = centres[dice.integers(0, 60, count)] + 0.5 * dice.standard_normal((count, dims))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[5:60] = vectors[4]
    return vectors.astype(np.float16)


@pytest.fixture(scope="session")
def vectors():
    return cloud(COUNT, 1)


@pytest.fixture(scope="session")
def queries(vectors):
    """Vectors as of photos, and some of the map itself, one of them many times in it."""
    return np.concatenate([cloud(20, 2), vectors[[4, 9, 700]]]).astype(np.float32)


@pytest.fixture(scope="session")
def there():
    return places(count=COUNT)


def generation_of(folder, vectors, there, **typed):
    """A generation with its engine, without photos."""
    here = generation_folder(Path(folder), 1)
    here.mkdir(parents=True, exist_ok=True)
    np.save(here / VECTORS, vectors)
    facts = make_engine(asked_for(typed, None), Path(folder), here, vectors, there, silent)
    rows = np.zeros(len(vectors))
    return Generation(Path(folder), 1, {"engine": facts}, there, vectors, None, rows, ())


def engine_of(generation):
    return open_engine(generation, lambda: pytest.fail("no index was opened"))
