"""Which experiments? Listed as data, grouped by what they are to decide; every one of a data set has its budget.

The budget is the number of photos that the loss learns from. A step of 64 pairs learns from 128; one of tuples from
their queries, positives and negatives, so there are more or fewer steps until the sum is the same.

Where several learning rates are tried, the first seed chooses among them, and only the chosen one has further seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reproduction.experiment import SMALL_DIMS, Experiment
from samespot.training.losses import loss_names
from samespot.training.options import BINARY_RATE, GRADED_RATE, TrainingOptions

TUPLES = 10  # a step: with ten negatives each about as many photos as 64 pairs
TRUNKS = {"vgg16": "vgg16", "lite0": "efficientnet_lite0", "resnet50": "resnet50"}
POOLS = {
    "vgg16": ("gap", "gem", "netvlad16", "netvlad64"),
    "lite0": ("gap", "gem", "netvlad16"),
    "resnet50": ("gap", "gem"),
}
CHANNELS = {"vgg16": 512, "lite0": 1280, "resnet50": 2048}
# beside the paper's, since what suits one loss may not suit another
OTHER_RATES = {"graded": (0.3, 1.0), "binary": (0.003, 0.03, 0.1)}
ALL_RATES = (0.1, 0.3, 1.0)  # for all pairs of a batch
TOWN_RATE = 1.0
SOFT_SHARES = (0.0, 0.125, 0.5)  # of soft negatives beside one half of positives; batches A have 0.25
# of each comparator about the default, 3 and 10 times it, as for graded; less or more where the best was at an end
# (AP is best at its lowest still). With SARE's defaults recall falls below that of the network as it comes, so it has
# less instead of more
LOSSES: dict[str, tuple[float, ...]] = {
    "ap": (0.004, 0.012, 0.04, 0.12, 0.4),
    "soft-contrastive": (0.01, 0.03, 0.1, 0.3, 1.0),
    "log-ratio": (0.02, 0.06, 0.2, 0.6, 2.0),
    "multi-similarity": (0.1, 0.3, 1.0, 3.0),
    "triplet": (0.012, 0.04, 0.12, 0.4),
    "sare-ind": (0.0015, 0.005, 0.015, 0.05, 0.5),
    "sare-joint": (0.00075, 0.0025, 0.0075, 0.025),
}
NETVLAD_RATES = (0.012, 0.04, 0.12)  # of triplets
DISTANCE_LABELS = "soft-contrastive"  # learns from the distance on the ground, as its authors had it


def experiments(data: Sequence[str]) -> list[Experiment]:
    """All experiments on these data sets."""
    lists = {"campus": _campus, "town": _town, "redkitchen": _redkitchen, "msls": _msls}
    return [one for name in lists if name in data for one in lists[name]()]


def options_of(experiment: Experiment, base: TrainingOptions, steps: int | None = None) -> TrainingOptions:
    """The data set's options with the experiment's changes, for as many photos as all others learn from.

    steps: shorter than the data set's budget, for a try.
    """
    whole = base.steps if steps is None else steps
    assert whole is not None
    usual = base.with_changes(steps=max(1, round(experiment.share * whole)))
    options = usual.with_changes(**experiment.changes)
    if options.kind != "tuples":
        return options
    assert usual.steps is not None
    photos, a_step = 2 * usual.batch_pairs * usual.steps, options.batch_pairs * (2 + options.negatives)
    return options.with_changes(steps=max(1, round(photos / a_step)))


def _campus() -> list[Experiment]:
    both = ("graded", "binary")
    return [
        *(_trained("campus", t, pool, kind) for t in TRUNKS for pool in POOLS[t] for kind in both),
        *(
            _rated("campus", t, kind, rate)
            for t in ("vgg16", "lite0")
            for kind in both
            for rate in OTHER_RATES[kind]
        ),
        *(_rated("campus", "vgg16", "graded", rate, "netvlad64") for rate in OTHER_RATES["graded"]),
        *_batches("campus", "vgg16"),
        *_blocks("campus", "vgg16"),
        *_blocks("campus", "lite0"),
        *(_loss("campus", "vgg16", "gem", loss, rate) for loss, rates in LOSSES.items() for rate in rates),
        *(
            _loss("campus", "vgg16", pool, "triplet", rate)
            for pool in ("netvlad16", "netvlad64")
            for rate in NETVLAD_RATES
        ),
        *_quarter("campus", "vgg16"),
        *_reranked("campus", "vgg16"),
        *(_untrained("campus", t) for t in TRUNKS),
    ]


def _town() -> list[Experiment]:
    """At the demo's rate, which suits few steps; the binary loss also at lower ones."""
    base = _rated("town", "lite0", "graded", TOWN_RATE)
    graded = replace(base, name="lite0-gem-graded", whiten_on_training=True, calibrated=True, rate_of=None)
    return [
        graded,
        *(_like(replace(graded, labels=labels), f"lite0-gem-{labels}", {}) for labels in ("strong", "3d")),
        *(_rated("town", "lite0", "binary", rate) for rate in (BINARY_RATE, 0.1, TOWN_RATE)),
        *(_like(graded, f"lite0-gem-{batches}", {"batches": batches}) for batches in ("all", "D")),
        _untrained("town", "lite0"),
    ]


def _redkitchen() -> list[Experiment]:
    """Without whitening: a film's map spans few dims. The binary loss rounds the same labels, as in the paper."""
    both = [_trained("redkitchen", t, "gap", kind) for t in TRUNKS for kind in ("graded", "binary")]
    plain = [replace(_like(one, one.name, {}), labels="graded", whiten=()) for one in both]
    return [
        *plain,
        *(_at_rate(one, GRADED_RATE) for one in plain if one.changes["batches"] == "binary"),
    ]


def _msls() -> list[Experiment]:
    return [
        *(
            _trained("msls", t, pool, kind)
            for t in TRUNKS
            for pool in ("gap", "gem")
            for kind in ("graded", "binary")
        ),
        *_batches("msls", "vgg16"),
        *_blocks("msls", "vgg16"),
        *_quarter("msls", "vgg16"),
        *(
            _loss("msls", "vgg16", pool, "triplet", rate)
            for pool in ("gem", "netvlad64")
            for rate in NETVLAD_RATES
        ),
    ]


# ---- one experiment ----


def _trained(data: str, trunk: str, pool: str, kind: str) -> Experiment:
    """With graded or binary labels, at the paper's rate."""
    binary = kind == "binary"
    simple = trunk != "resnet50" and not pool.startswith("netvlad")
    return Experiment(
        data,
        f"{trunk}-{pool}-{kind}",
        kind,
        {
            "backbone": TRUNKS[trunk],
            "pool": pool,
            "batches": "binary" if binary else "A",
            "learning_rate": BINARY_RATE if binary else GRADED_RATE,
        },
        whiten=_many(trunk) if simple and pool == "gem" else _sizes(trunk, pool),
        whiten_on_training=simple,
        calibrated=simple and pool == "gem",
    )


def _rated(data: str, trunk: str, kind: str, rate: float, pool: str = "gem") -> Experiment:
    base = _trained(data, trunk, pool, kind)
    rated = _at_rate(base, rate)
    small = (data, trunk, pool, kind) == (
        "campus",
        "vgg16",
        "gem",
        "graded",
    )  # stands against NetVLAD's 4096 dims
    sizes = (SMALL_DIMS, CHANNELS[trunk]) if small else (SMALL_DIMS,)
    return replace(_like(rated, rated.name, {}), whiten=sizes, whiten_on_training=small, rate_of=base.key)


def _at_rate(base: Experiment, rate: float) -> Experiment:
    return replace(base, name=f"{base.name}-rate-{rate:g}", changes={**base.changes, "learning_rate": rate})


def _quarter(data: str, trunk: str) -> list[Experiment]:
    """For the price of learning: a quarter of the photos that others learn from."""
    base = _trained(data, trunk, "gem", "graded")
    short = replace(_like(base, f"{base.name}-quarter", {}), share=0.25)
    rated = [replace(_at_rate(short, rate), rate_of=short.key) for rate in OTHER_RATES["graded"]]
    return [short, *rated]


def _sizes(trunk: str, pool: str) -> tuple[int, ...]:
    """128, and as many as there are; of NetVLAD as many as a small map spans."""
    return (128, 1024) if pool.startswith("netvlad") else (128, CHANNELS[trunk])


def _many(trunk: str) -> tuple[int, ...]:
    """For the figure of recall over dims."""
    return tuple(size for size in (32, 64, 128, 256, 512, 1280) if size <= CHANNELS[trunk])


def _batches(data: str, trunk: str) -> list[Experiment]:
    """Strategies, all pairs, and shares of soft negatives."""
    base = _trained(data, trunk, "gem", "graded")
    tried: dict[str, dict[str, Any]] = {name: {"batches": name} for name in ("B", "C", "D")}
    tried |= {f"soft-{share:g}": {"batches": _soft(share)} for share in SOFT_SHARES}
    all_pairs = [
        _like(base, f"{trunk}-gem-all-rate-{rate:g}", {"batches": "all", "learning_rate": rate})
        for rate in ALL_RATES
    ]
    return [
        *(_like(base, f"{trunk}-gem-{name}", changes) for name, changes in tried.items()),
        *(replace(one, rate_of=f"{data}/{trunk}-gem-all") for one in all_pairs),
    ]


def _soft(share: float) -> str:
    rest = {"soft": share, "hard": 0.5 - share}
    return ",".join(["pos=0.5", *(f"{name}={part:g}" for name, part in rest.items() if part > 0)])


def _blocks(data: str, trunk: str) -> list[Experiment]:
    base = _trained(data, trunk, "gem", "graded")
    tried: dict[str, Any] = {"last-block": 1, "all-blocks": "all"}
    return [_like(base, f"{trunk}-gem-{words}", {"train_blocks": n}) for words, n in tried.items()]


def _loss(data: str, trunk: str, pool: str, loss: str, rate: float) -> Experiment:
    changes: dict[str, Any] = {
        "backbone": TRUNKS[trunk],
        "pool": pool,
        "learning_rate": rate,
        "loss": loss,
    }
    if loss in loss_names("tuples"):
        changes["batch_pairs"] = TUPLES
    return Experiment(
        data,
        f"{trunk}-{pool}-{loss}-rate-{rate:g}",
        "distance" if loss == DISTANCE_LABELS else "graded",
        changes,
        whiten=(SMALL_DIMS, 512, 4096) if pool == "netvlad64" else (SMALL_DIMS,),
        whiten_on_training=pool == "netvlad64",  # a small map spans no 4096 dims
        rate_of=f"{data}/{trunk}-{pool}-{loss}",
    )


def _reranked(data: str, trunk: str) -> list[Experiment]:
    """Trained again as their namesakes, so that both sides of the comparison are of the same weights."""
    graded = _trained(data, trunk, "gem", "graded")
    netvlad = _loss(data, trunk, "netvlad64", "triplet", NETVLAD_RATES[1])
    return [
        replace(_like(one, f"{name}+{by}", {}), rerank=by, whiten=())
        for one, name, by in (
            (graded, graded.name, "xfeat"),
            (netvlad, f"{trunk}-netvlad64-triplet", "patch-netvlad"),
        )
    ]


def _untrained(data: str, trunk: str) -> Experiment:
    return replace(
        _like(_trained(data, trunk, "gem", "graded"), f"{trunk}-gem-as-it-comes", {}), trained=False
    )


def _like(base: Experiment, name: str, changes: Mapping[str, Any]) -> Experiment:
    """Another of its kind, whitened to 128 dims only."""
    return replace(
        base,
        name=name,
        changes={**base.changes, **changes},
        whiten=(SMALL_DIMS,),
        whiten_on_training=False,
        calibrated=False,
        rate_of=None,
    )
