"""Options, presets and the learning rate, against the paper's settings."""

import pytest

from samespot.errors import InputError
from samespot.overlap.task import preset_named
from samespot.places.catalogue import DATA_SETS
from samespot.training.options import BATCH_LOSSES, TrainingOptions
from samespot.training.presets import preset_options
from samespot.training.schedule import schedule_of, total_steps

PRESETS = [known.name for known in DATA_SETS if known.preset]


def test_presets_hold_the_papers_settings():
    for name in ("msls", "tb-places", "7scenes"):
        options = preset_options(name)
        assert (options.optimiser, options.momentum, options.batch_pairs) == ("sgd", 0.0, 64)
        assert (options.image_size, options.train_blocks, options.margin) == ((480, 640), 2, 0.5)
        assert options.first_rate == 0.1
        assert options.with_changes(batches="binary").first_rate == 0.01
    msls, garden, campus = (preset_named(name) for name in ("msls", "tb-places", "campus"))
    assert (msls.labels["theta"], msls.labels["radius"], msls.binary) == (90.0, 50.0, (25.0, 40.0))
    assert garden.labels["radius"] == 3.5
    assert (campus.labels["radius"], campus.binary) == (30.0, (15.0, 40.0))
    assert (preset_options("campus").steps, preset_options("campus").image_size) == (500, (224, 224))


def test_msls_divides_the_rate_by_ten_every_250k_pairs():
    # 500,000 queries once: 7,813 steps
    options = preset_options("msls")
    assert total_steps(options, 500_000) == 7813
    schedule = schedule_of(options, 500_000)
    assert [schedule(p) for p in (0, 249_999, 250_000, 499_999)] == pytest.approx([0.1, 0.1, 0.01, 0.01])


def test_fifteen_epochs_are_converted_to_pairs():
    schedule = schedule_of(preset_options("tb-places"), 11_000)
    assert schedule(15 * 11_000 - 1) == pytest.approx(0.1)
    assert schedule(15 * 11_000) == pytest.approx(0.01)


def test_the_rate_does_not_depend_on_the_batch_size():
    small, large = (schedule_of(TrainingOptions(batch_pairs=n, epochs=2.0), 200_000) for n in (16, 256))
    assert [small(p) for p in range(0, 400_000, 50_000)] == [large(p) for p in range(0, 400_000, 50_000)]


def test_cosine_ends_at_zero_and_halves_midway():
    schedule = schedule_of(
        TrainingOptions(schedule="cosine", steps=100, batch_pairs=10, learning_rate=2.0), 50
    )
    assert [schedule(0), schedule(500), schedule(1000)] == pytest.approx([2.0, 1.0, 0.0], abs=1e-12)


def test_warmup_rises_to_the_full_rate():
    schedule = schedule_of(TrainingOptions(schedule="constant", warmup_pairs=99, learning_rate=1.0), 1000)
    assert [schedule(0), schedule(49), schedule(99), schedule(5000)] == [0.01, 0.5, 1.0, 1.0]


@pytest.mark.parametrize("name", PRESETS)
def test_options_survive_json(name):
    options = preset_options(name)
    assert TrainingOptions.from_dict(options.to_dict()) == options


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"batch_pairs": 0}, "--batch-pairs 0 must be at least 1"),
        ({"learning_rate": -1.0}, "--learning-rate -1 must be above 0"),
        ({"schedule": "linear"}, "--schedule 'linear' is not known; choose one of step, cosine, constant"),
        ({"batches": "Z"}, "'Z' is not understood"),
        ({"crop": 1.0}, "--crop 1 must be below 1"),
        ({"class_weights": (1.0, 0.0)}, "three numbers"),
        ({"loss": "hinge"}, "--loss 'hinge' is not known; choose one of contrastive, ap"),
        ({"loss": "ap", "batches": "A"}, "--loss ap .* --batches A cannot serve it; leave --batches out"),
        ({"loss": "ap", "ap_bins": 1}, "--ap-bins 1 must be at least 2"),
        ({"loss": "triplet", "negatives": 0}, "--negatives 0 must be at least 1"),
        ({"loss": "triplet", "triplet_margin": 0.0}, "--triplet-margin 0 must be above 0"),
        ({"loss": "triplet", "mining": "soft"}, "--mining 'soft' is not known; choose one of hard, random"),
    ],
)
def test_wrong_options_are_one_clear_line(changes, complaint):
    with pytest.raises(InputError, match=complaint):
        TrainingOptions(**changes)


def test_batches_fit_the_loss_unless_they_are_chosen():
    assert TrainingOptions().batches == "A"
    assert {loss: TrainingOptions(loss=loss).batches for loss in BATCH_LOSSES} == {
        "ap": "all:D", "soft-contrastive": "all", "log-ratio": "all", "multi-similarity": "all:D"
    }  # fmt: skip
    assert TrainingOptions(loss="ap", batches="all:C").batches == "all:C"
    assert preset_options("campus", loss="ap").batches == "all:D"
    assert preset_options("campus", loss="ap", batches="all").batches == "all"
    assert TrainingOptions(loss="ap").with_changes(loss="contrastive").batches == "A"
    chosen = TrainingOptions(batches="B")
    assert chosen.with_changes(loss="contrastive", seed=3).batches == "B"
