"""The labelled sets of a preset, as `samespot train` opens or makes them."""

import numpy as np
from PIL import Image

from samespot import Places
from samespot.commands.train import training_data
from samespot.training.options import TrainingData
from samespot.training.presets import preset_options


def test_outdoors_the_soft_loss_learns_from_labels_by_distance(tmp_path):
    for i in range(18):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{i}.jpg")
    places = Places.build(
        tmp_path,
        {
            "image": [f"{i}.jpg" for i in range(18)],
            "easting": np.arange(18) * 10.0,
            "northing": np.zeros(18),
            "heading": np.zeros(18),
            "split": ["train"] * 4 + ["map"] * 12 + ["query"] * 2,
            "time": ["15:00"] * 16 + ["16:00"] * 2,
        },
    )
    places.save(tmp_path / "places.csv")
    asked = TrainingData(tmp_path, preset="campus", labels=tmp_path / "labels")
    (soft,), _ = training_data(asked, preset_options("campus", loss="soft-contrastive"))
    assert soft.labels.meta["measure"] == "distance"
    # 10 m and 20 m apart, ½ at 15 m with 0.8 / m: e⁴ and e⁻⁴ to one; 30 m is nothing
    np.testing.assert_allclose(soft.labels.dense()[0, 1:], [0.98201, 0.01799, 0], atol=1e-5)
    (graded,), _ = training_data(asked, preset_options("campus", loss="ap"))
    assert graded.labels.meta["measure"] == "overlap"
