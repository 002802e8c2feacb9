"""Options, presets and the learning rate, against the paper's settings."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from samespot.errors import InputError
from samespot.overlap.task import preset_named
from samespot.places.catalogue import DATA_SETS
from samespot.training.losses import loss_names
from samespot.training.options import TrainingOptions, asked_for, preset_options
from samespot.training.schedule import schedule_of, total_steps

PRESETS = [known.name for known in DATA_SETS if known.preset]


def options_of(name: str | None = None, **typed: object) -> TrainingOptions:
    return TrainingOptions.of(typed, None if name is None else preset_options(name))


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
        ({"batch_pairs": 0}, "`batch_pairs` 0 must be at least 1"),
        ({"learning_rate": -1.0}, "`learning_rate` -1 must be above 0"),
        ({"schedule": "linear"}, "`schedule` 'linear' is unknown; choose one of step, cosine, constant"),
        ({"batches": "Z"}, "'Z' is not understood"),
        ({"crop": 1.0}, "`crop` 1 must be below 1"),
        ({"class_weights": (1.0, 0.0)}, "`class_weights` .* three numbers"),
        ({"class_weights": "0.5,0.5"}, "three numbers"),
        ({"class_weights": "1,x,1"}, "`class_weights` '1,x,1' is not understood"),
        ({"image_size": "4y4"}, "`image_size` '4y4' is not understood"),
        ({"image_size": (64,)}, "`image_size` .* must be height and width"),
        ({"pretrained": "maybe"}, "`pretrained` 'maybe' is not understood"),
        ({"train_blocks": "some"}, "`train_blocks` 'some' is not understood"),
        ({"augment": 5.0}, "`augment` 5 must be at most 1"),
        ({"steps": 2.5}, "`steps` 2.5 is not a whole number"),
        ({"loss": "hinge"}, "`loss` 'hinge' is unknown; choose one of contrastive, ap"),
        ({"loss": "ap", "batches": "A"}, "`loss=ap` .* `batches=A` cannot serve it; leave `batches` out"),
        ({"loss": "ap", "ap_bins": 1}, "`ap_bins` 1 must be at least 2"),
        ({"loss": "triplet", "negatives": 0}, "`negatives` 0 must be at least 1"),
        ({"loss": "triplet", "triplet_margin": 0.0}, "`triplet_margin` 0 must be above 0"),
        ({"loss": "triplet", "mining": "soft"}, "`mining` 'soft' is unknown; choose one of hard, random"),
    ],
)
def test_wrong_options_are_one_clear_line(changes, complaint):
    with pytest.raises(InputError, match=complaint):
        TrainingOptions(**changes)


def test_batches_fit_the_loss_unless_they_are_chosen():
    assert TrainingOptions().batches == "A"
    assert {loss: TrainingOptions(loss=loss).batches for loss in loss_names("batch")} == {
        "ap": "all:D", "soft-contrastive": "all", "log-ratio": "all", "multi-similarity": "all:D",
        "graded-multi-similarity": "all:A",
    }  # fmt: skip
    assert TrainingOptions(loss="ap", batches="all:C").batches == "all:C"
    assert preset_options("campus", loss="ap").batches == "all:D"
    assert preset_options("campus", loss="ap", batches="all").batches == "all"
    assert TrainingOptions(loss="ap").with_changes(loss="contrastive").batches == "A"
    chosen = TrainingOptions(batches="B")
    assert chosen.with_changes(loss="contrastive", seed=3).batches == "B"


@pytest.mark.parametrize("name", PRESETS)
def test_nothing_typed_leaves_a_preset_as_it_is(name):
    assert options_of(name) == preset_options(name)


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
        (None, {"steps": 5, "epochs": 2.0}, "`epochs` has no effect with `steps`"),
        (None, {"drop_pairs": 9, "drop_epochs": 2.0}, "`drop_pairs` has no effect with `drop_epochs`"),
        (None, {"schedule": "cosine", "drop_pairs": 9}, "`drop_pairs` has no effect with `schedule=cosine`"),
        ("campus", {"drop_epochs": 2.0}, "`drop_epochs` has no effect with `schedule=constant`"),
        ("campus", {"drop_factor": 0.5}, "`drop_factor` has no effect with `schedule=constant`"),
        (None, {"optimiser": "adamw", "momentum": 0.9}, "`momentum` has no effect with `optimiser=adamw`"),
        (None, {"class_weights": "1,1,1"}, "`class_weights` has no effect with `batches=A`, only with all"),
        (
            None,
            {"loss": "triplet", "batches": "A"},
            "`batches` has no effect with `loss=triplet`, whose tuples",
        ),
        (None, {"loss": "sare-ind", "order": "refill"}, "`order` has no effect with `loss=sare-ind`"),
        (
            None,
            {"loss": "sare-ind", "triplet_margin": 0.2},
            "`triplet_margin` has no effect with `loss=sare-ind`, only with triplet",
        ),
        (
            None,
            {"mine_pool": 9},
            "`mine_pool` has no effect with `loss=contrastive`, only with sare-ind, sare-joint, triplet",
        ),
        (None, {"loss": "ap", "margin": 0.4}, "`margin` has no effect with `loss=ap`, only with contrastive"),
        (None, {"loss": "ap", "class_weights": "1,1,1"}, "`class_weights` has no effect with `loss=ap`"),
        (
            None,
            {"loss": "log-ratio", "ap_bins": 9},
            "`ap_bins` has no effect with `loss=log-ratio`, only with ap",
        ),
        (
            None,
            {"loss": "ap", "batches": "binary"},
            "`loss=ap` compares every image of a batch with all others",
        ),
        (None, {"refill": 100}, "`refill` has no effect with `order=uniform`"),
        ("msls", {"order": "uniform", "refill": 100}, "`refill` has no effect with `order=uniform`"),
        *(
            (None, {"model": "m", name: word}, f"`{name}` has no effect with `model`")
            for name, word in {"backbone": "vgg16", "pool": "gap", "pretrained": "no"}.items()
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
    read = {"class_weights": (0.5, 0.25, 0.25)}
    for name, value in typed.items():
        assert getattr(options, name) == read.get(name, value)


def test_another_loss_brings_its_batches_and_its_rate_into_a_preset():
    options = options_of("campus", loss="ap")
    assert (options.batches, options.first_rate, options.steps) == ("all:D", 0.04, 500)
    assert options_of("campus", loss="log-ratio", learning_rate=0.5).first_rate == 0.5


def test_words_are_read():
    options = options_of(
        image_size="240x320", class_weights="1,1,2", batches="all", train_blocks="all", pretrained="no"
    )
    assert (options.image_size, options.class_weights) == ((240, 320), (0.25, 0.25, 0.5))
    assert (options.train_blocks, options.pretrained) == ("all", False)
    assert options_of(train_blocks="3", pretrained="hub").train_blocks == 3


def test_a_model_keeps_its_image_size_and_margin_unless_they_are_typed():
    net = SimpleNamespace(margin=0.8, preprocessing=SimpleNamespace(size=(96, 128)))
    options = options_of("campus", model="m").of_network(net)
    assert (options.image_size, options.margin) == ((96, 128), 0.8)
    typed = options_of("campus", model="m", image_size="64", margin=0.4).of_network(net)
    assert (typed.image_size, typed.margin) == ((64, 64), 0.4)
    assert (TrainingOptions().image_size, TrainingOptions().margin) == ((480, 640), 0.5)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"only": "london"}, "`only` has no effect without `preset`"),
        ({"map": "m.csv", "preset": "campus"}, "`map` has no effect with `preset=campus`"),
        ({"validate_map": "m.csv"}, "`validate_map` has no effect without `validate`"),
        ({"within": "5m"}, "`within` has no effect without `validate`"),
        ({"validate": "q.csv"}, "`validate` needs `validate_map`"),
        ({"preset": "mars"}, "`preset` 'mars' is unknown; choose one of msls, tb-places, 7scenes, campus"),
        ({"labls": "x"}, "unknown option 'labls'; did you mean `labels`?"),
    ],
)
def test_data_that_cannot_be_meant_is_one_clear_line(typed, message):
    with pytest.raises(InputError) as caught:
        asked_for({"places": "places.csv", "labels": "labels", **typed})
    assert str(caught.value).startswith(message)


def test_options_load_nothing_heavy():
    """`samespot train --help` reads these classes."""
    script = "import sys, samespot.training.options; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "pandas", "numba", "numpy"} & set(loaded.stdout.split())


def test_a_recipe_is_a_start_that_whatever_is_typed_overrides():
    plain = asked_for({"places": "p", "labels": "l"})[1]
    strong = asked_for({"places": "p", "labels": "l", "recipe": "strong"})[1]
    own = asked_for({"places": "p", "labels": "l", "recipe": "strong", "learning_rate": 3e-4, "pool": "gem"})[
        1
    ]
    assert plain == TrainingOptions()
    assert (strong.loss, strong.pool, strong.optimiser) == ("graded-multi-similarity", "multi", "adamw")
    assert (own.loss, own.pool, own.learning_rate) == ("graded-multi-similarity", "gem", 3e-4)
    other = asked_for({"places": "p", "labels": "l", "recipe": "strong", "loss": "triplet"})[1]
    assert other.kind == "tuples"


def test_a_recipe_goes_on_top_of_a_preset():
    asked = asked_for({"places": "p", "preset": "campus", "recipe": "strong"})[1]
    assert (asked.backbone, asked.image_size, asked.loss) == ("vgg16", (224, 224), "graded-multi-similarity")


def test_an_unknown_recipe_is_refused():
    with pytest.raises(InputError, match="`recipe` 'best' is unknown; choose one of paper, strong"):
        asked_for({"places": "p", "labels": "l", "recipe": "best"})


@pytest.mark.parametrize("scales", [(), (0.0,), (1.0, 9.0), (float("nan"),)])
def test_scales_are_numbers_above_zero(scales):
    with pytest.raises(InputError, match="`scales`"):
        TrainingOptions(scales=scales)
