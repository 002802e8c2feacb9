"""Options of a training: what was typed wins over a preset, and what would do nothing is refused."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from samespot import InputError, Places
from samespot.commands.train import TrainRequest, option_changes, training_data, training_options
from samespot.places.catalogue import DATA_SETS
from samespot.training.options import TrainingOptions
from samespot.training.presets import preset_options
from samespot.training.schedule import schedule_of, total_steps

PRESETS = [known.name for known in DATA_SETS if known.preset]


def options_of(preset: str | None = None, **typed: object) -> TrainingOptions:
    return training_options(TrainRequest(Path("places"), preset=preset), option_changes(typed))


@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_typed_leaves_a_preset_as_it_is(preset):
    assert options_of(preset) == preset_options(preset)


def test_typed_epochs_replace_the_steps_of_a_preset():
    # 20 epochs of 640 queries in batches of 64
    assert total_steps(options_of("campus", epochs=20.0), query_count=640) == 200
    assert total_steps(options_of("campus", steps=7), query_count=640) == 7
    assert total_steps(options_of("campus"), query_count=640) == 500


def test_typed_pairs_replace_the_epochs_between_drops():
    assert schedule_of(options_of("tb-places", drop_pairs=1000), query_count=640).drop_pairs == 1000
    assert schedule_of(options_of("tb-places"), query_count=640).drop_pairs == 15 * 640


def test_typed_epochs_replace_the_pairs_between_drops():
    options = options_of("msls", drop_epochs=2.0)
    assert options.drop_pairs is None
    assert schedule_of(options, query_count=640).drop_pairs == 2 * 640


@pytest.mark.parametrize(
    ("preset", "typed", "message"),
    [
        (None, {"steps": 5, "epochs": 2.0}, "--epochs has no effect with --steps"),
        (None, {"drop_pairs": 9, "drop_epochs": 2.0}, "--drop-pairs has no effect with --drop-epochs"),
        (None, {"schedule": "cosine", "drop_pairs": 9}, "--drop-pairs has no effect with --schedule cosine"),
        ("campus", {"drop_epochs": 2.0}, "--drop-epochs has no effect with --schedule constant"),
        ("campus", {"drop_factor": 0.5}, "--drop-factor has no effect with --schedule constant"),
        (None, {"optimiser": "adamw", "momentum": 0.9}, "--momentum has no effect with --optimiser adamw"),
        (None, {"class_weights": "1,1,1"}, "--class-weights has no effect with --batches A, only with all"),
        (
            None,
            {"loss": "triplet", "batches": "A"},
            "--batches has no effect with --loss triplet, whose tuples",
        ),
        (None, {"loss": "sare-ind", "order": "refill"}, "--order has no effect with --loss sare-ind"),
        (
            None,
            {"loss": "sare-ind", "triplet_margin": 0.2},
            "--triplet-margin has no effect with --loss sare-ind, only with triplet",
        ),
        (
            None,
            {"mine_pool": 9},
            "--mine-pool has no effect with --loss contrastive, only with triplet, sare-ind",
        ),
        (None, {"loss": "ap", "margin": 0.4}, "--margin has no effect with --loss ap, only with contrastive"),
        (None, {"loss": "ap", "class_weights": "1,1,1"}, "--class-weights has no effect with --loss ap"),
        (
            None,
            {"loss": "log-ratio", "ap_bins": 9},
            "--ap-bins has no effect with --loss log-ratio, only with ap",
        ),
        (
            None,
            {"loss": "ap", "batches": "binary"},
            "--loss ap compares every image of a batch with all others",
        ),
        (None, {"refill": 100}, "--refill has no effect with --order uniform"),
        ("msls", {"order": "uniform", "refill": 100}, "--refill has no effect with --order uniform"),
        *(
            (None, {"model": "m", name: word}, f"--{name} has no effect with --model")
            for name, word in {"backbone": "vgg16", "pool": "gap", "weights": "w", "pretrained": "no"}.items()
        ),
    ],
)
def test_what_was_typed_and_would_do_nothing_is_refused(preset, typed, message):
    with pytest.raises(InputError) as caught:
        options_of(preset, **typed)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("preset", "typed"),
    [
        ("campus", {"schedule": "step", "drop_pairs": 9, "drop_factor": 0.5}),
        ("campus", {"model": "m"}),  # the preset's own backbone was not typed
        ("tb-places", {"schedule": "cosine"}),
        ("tb-places", {"refill": 100}),
        (None, {"optimiser": "sgd", "momentum": 0.9}),
        (None, {"optimiser": "adamw"}),
        (None, {"batches": "all:C", "class_weights": "0.5,0.25,0.25"}),
        (None, {"loss": "ap", "ap_bins": 9}),
        ("campus", {"loss": "soft-contrastive", "batches": "all:C"}),
    ],
)
def test_what_has_an_effect_is_kept(preset, typed):
    options = options_of(preset, **typed)
    for name, value in option_changes(typed).items():
        assert getattr(options, name) == value


def test_another_loss_brings_its_batches_and_its_rate_into_a_preset():
    options = options_of("campus", loss="ap")
    assert (options.batches, options.first_rate, options.steps) == ("all:D", 0.04, 500)
    assert options_of("campus", loss="log-ratio", learning_rate=0.5).first_rate == 0.5


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
    asked = TrainRequest(tmp_path, preset="campus", labels=tmp_path / "labels")
    (soft,), _ = training_data(asked, options_of("campus", loss="soft-contrastive"))
    assert soft.labels.meta["measure"] == "distance"
    # 10 m and 20 m apart, ½ at 15 m with 0.8 / m: e⁴ and e⁻⁴ to one; 30 m is nothing
    np.testing.assert_allclose(soft.labels.dense()[0, 1:], [0.98201, 0.01799, 0], atol=1e-5)
    (graded,), _ = training_data(asked, options_of("campus", loss="ap"))
    assert graded.labels.meta["measure"] == "overlap"
