"""The claims: those of the paper with its own figures, and ours beyond it. Each names the experiments that decide it.

Figures of the paper are recalls in percent on the validation set of MSLS, unless said otherwise. Ours are of other and
fewer photos, so it is the direction that can be reproduced, not the figure.
"""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.judgement import SMALL, Better, Calibrated, Cheaper, Claim, Comparison, Side, side
from reproduction.matrix import (
    ALL_RATES,
    LOSSES,
    NETVLAD_RATES,
    OTHER_RATES,
    POOLS,
    SOFT_SHARES,
    TOWN_RATE,
    TRUNKS,
)
from reproduction.scores import AP, OVER_DISTANCE, OVER_OVERLAP
from samespot.training.options import BINARY_RATE, GRADED_RATE

MATCHES = 0.03  # "matches" is at most 3 points below
SAME_RECALL = 0.02  # "at least the same recall" is at most 2 points below
FRACTION = 0.5  # "a fraction" is at most one half
CALIBRATED = 0.1  # an expected calibration error up to this
POOL_WORDS = {"gap": "average", "gem": "GeM", "netvlad16": "NetVLAD-16", "netvlad64": "NetVLAD-64"}
OURS = "ours"
AT_THEIR_RATES, AT_BEST = "at the paper's rates", "each at its best rate"
PLAIN = "plain"


def claims(data: Sequence[str] = ("campus", "town", "redkitchen")) -> list[Claim]:
    """All claims; those that a street data set of one's own can decide, too, are also asked of it."""
    streets = ["campus", *(name for name in data if name == "msls")]
    return [
        Claim(
            "graded-beats-binary",
            "Graded labels beat binary ones, for every trunk and pooling",
            "VGG16-GeM 60.3 → 77.8, ResNet50-GeM 66.5 → 78.9, VGG16-average 47.0 → 67.8 R@5",
            "Tables 1 and 7",
            tuple(one for name in streets for one in _graded_beats_binary(name)) + _in_town(),
        ),
        Claim(
            "gem-beats-average",
            "GeM beats average pooling",
            "VGG16 67.8 → 77.8, ResNet50 72.3 → 78.9, ResNet152 80.0 → 82.0 R@5",
            "Tables 1 and 7",
            tuple(
                Better(
                    f"{name}, {trunk}: GeM − average",
                    side(f"{name}/{trunk}-gem-graded"),
                    side(f"{name}/{trunk}-gap-graded"),
                    group="GeM − average",
                )
                for name in streets
                for trunk in TRUNKS
            ),
        ),
        Claim(
            "whitening-helps",
            "Whitening to the full size helps",
            "VGG16-GeM 77.8 → 83.1, ResNet50-GeM 78.9 → 84.7 R@5, fitted on the evaluated map",
            "Table 1, Figure 13",
            tuple(one for name in streets for one in _whitening(name)),
        ),
        Claim(
            "128-dims-match",
            "128 whitened dims match the full size, and beat it unwhitened",
            "said of all four networks; no figure printed",
            "Section 6.4, Figure 13",
            tuple(one for name in streets for one in _few_dims(name)),
            rule=f"Matches: not more than {100 * MATCHES:.0f} points below. Whitened on the map, if nothing is said.",
        ),
        Claim(
            "abc-beat-d",
            "Batches A, B and C beat D",
            "VGG16-GeM: A 77.8, B 78.8, C 78.2, D 73.4 R@5; ResNet50-GeM: 78.9, 76.5, 75.7, 75.4",
            "Table 4",
            (
                *(one for name in streets for one in _strategies(name)),
                _better("town", "A − D", "lite0-gem-graded", "lite0-gem-D"),
            ),
        ),
        Claim(
            "quarter-of-soft-negatives",
            "A quarter of soft negatives is what matters: more than less, and no worse than more",
            "“at least 25 %”; strategies with fewer were not tried but for D",
            "Section 6.4, Table 4",
            tuple(one for name in streets for one in _soft_shares(name)),
            rule=f"No worse: not more than {100 * MATCHES:.0f} points below.",
        ),
        Claim(
            "two-blocks",
            "Training the last two blocks beats one, and beats all",
            "ResNet50-GeM: one 64.6, two 78.9, all 75.8 R@5; ResNet152-GeM: 56.4, 82.0, 79.2",
            "Table 5",
            tuple(
                Better(
                    f"{name}, {trunk}: two − {words}",
                    side(f"{name}/{trunk}-gem-graded"),
                    side(f"{name}/{trunk}-gem-{which}"),
                )
                for name in streets
                for trunk in (("vgg16", "lite0") if name == "campus" else ("vgg16",))
                for which, words in (("last-block", "one"), ("all-blocks", "all"))
            ),
        ),
        Claim(
            "robust-over-thresholds",
            "Graded is more robust over what counts as found: distances of 5 to 50 m, overlaps of 0 to 0.9",
            "curves above those of the binary loss throughout; no figure printed",
            "Figure 16",
            tuple(
                Better(
                    f"{name}, {trunk}-{pool}: {words}",
                    side(f"{name}/{trunk}-{pool}-graded"),
                    side(f"{name}/{trunk}-{pool}-binary"),
                    measure,
                    group=words,
                )
                for name in streets
                for trunk in ("vgg16", "lite0")
                for pool in ("gem", "gap")
                for measure, words in ((OVER_DISTANCE, "distances"), (OVER_OVERLAP, "overlaps"))
            ),
            rule="By the mean of R@5 over the thresholds.",
        ),
        Claim(
            "ap-on-3d-labels",
            "Higher average precision with graded 3D labels indoors",
            "redkitchen: ResNet18 0.790 → 0.876, ResNet34 0.782 → 0.902; mean of 7 rooms 0.811 → 0.868, 0.821 → 0.898",
            "Table 3",
            tuple(
                Better(
                    f"redkitchen, {trunk}: graded − binary",
                    side(f"redkitchen/{trunk}-gap-graded"),
                    side(f"redkitchen/{trunk}-gap-binary"),
                    AP,
                    group=AT_THEIR_RATES,
                )
                for trunk in TRUNKS
            )
            + tuple(
                Better(
                    f"redkitchen, {trunk}: graded − binary, both at rate {GRADED_RATE:g}",
                    side(f"redkitchen/{trunk}-gap-graded"),
                    side(f"redkitchen/{trunk}-gap-binary-rate-{GRADED_RATE:g}"),
                    AP,
                    group=f"both at rate {GRADED_RATE:g}",
                )
                for trunk in TRUNKS
            ),
            rule="Average precision in points of 100.",
        ),
        Claim(
            "cheaper-than-mining",
            "One pass without mining costs a fraction of triplets with mining, for at least the same recall",
            "VGG16-GeM 5 h; NetVLAD-16 22 epochs of 24 h, NetVLAD-64 7 of 36 h; R@5 77.8, 65.0 and 61.1",
            "Tables 2 and 6",
            tuple(one for name in streets for one in _cost(name)),
            rule=(
                f"Recall: not more than {100 * SAME_RECALL:.0f} points below. A fraction of the passes and seconds: at"
                f" most {FRACTION:g} of all that training took; its range over the runs of all rates and seeds"
                " decides. Once with the same number of photos to learn from, so that mining makes the difference, and"
                " once with a quarter of them."
            ),
        ),
        Claim(
            "small-beats-32k",
            "Small graded descriptors beat NetVLAD's 32,768 dims",
            "VGG16: 512 dims 77.8 against 61.1; whitened 512 dims 83.1 against 4096 dims 80.8 R@5",
            "Table 2",
            tuple(one for name in streets for one in _small(name)),
        ),
        Claim(
            "beats-the-comparators",
            "The graded loss beats the losses it is compared with",
            "whitened VGG16-GeM 83.1; NetVLAD 80.8 to 81.4, NetVLAD-SARE 77.3, AP-GeM (ResNet101) 75.0 R@5",
            "Table 2",
            _comparators(),
            rule=(
                "Same trunk, pooling and number of photos learned from; each loss at the rate that is best with the"
                " first seed."
            ),
        ),
        Claim(
            "re-ranking-helps",
            "Re-ranking by local features finds more",
            "NetVLAD-64, whitened 81.4; Patch-NetVLAD 86.2 R@5 (R@1 70.7 → 79.5)",
            "Table 2",
            tuple(
                Better(f"campus: {words}, {measure}", side(key, descriptor="re-ranked"), side(key), measure)
                for key, words in (
                    ("campus/vgg16-netvlad64-triplet+patch-netvlad", "Patch-NetVLAD − NetVLAD-64"),
                    ("campus/vgg16-gem-graded+xfeat", "graded and XFeat − graded"),
                )
                for measure in ("R@1", "R@5")
            ),
        ),
        Claim(
            "all-pairs",
            "All pairs of a batch beat one pair a query",
            "not in the paper",
            OURS,
            (*_all_pairs(streets), _better("town", "all − A", "lite0-gem-all", "lite0-gem-graded")),
        ),
        Claim(
            "better-labels",
            "Better labels train better: 3D beats strong 2D beats weak 2D",
            "each on a data set of its own, not compared",
            OURS,
            (
                _better("town", "strong − weak", "lite0-gem-strong", "lite0-gem-graded"),
                _better("town", "3D − weak", "lite0-gem-3d", "lite0-gem-graded"),
                _better("town", "3D − strong", "lite0-gem-3d", "lite0-gem-strong"),
            ),
        ),
        Claim(
            "calibrated-overlap",
            "Predicted overlap is calibrated",
            "not in the paper; 1 − d/τ is where its loss lets a pair rest",
            OURS,
            tuple(
                Calibrated(f"{key.replace('/', ', ')}: {words}", side(key), how, CALIBRATED)
                for key in ("campus/vgg16-gem-graded", "town/lite0-gem-graded")
                for how, words in (
                    ("calibration", "1 − d/τ"),
                    ("calibration, isotonic", "a curve learned on training photos"),
                )
            ),
            rule=f"Expected calibration error of retrieved pairs of at most {CALIBRATED:g}; intervals are over seeds.",
        ),
    ]


# ---- comparisons of one data set ----


def _better(name: str, words: str, first: str, second: str) -> Better:
    return Better(f"{name}: {words}", side(f"{name}/{first}"), side(f"{name}/{second}"))


def _rates(name: str, trunk: str, kind: str, model: str | None = None) -> tuple[str, ...]:
    """The experiments of one kind of label, at every rate that was tried."""
    base = f"{name}/{trunk}-gem-{model or kind}"
    tried = name == "campus" or model == "graded-quarter"
    return base, *(f"{base}-rate-{rate:g}" for rate in OTHER_RATES[kind] if tried)


def _pools(name: str, trunk: str) -> tuple[str, ...]:
    return POOLS[trunk] if name == "campus" else ("gap", "gem")


def _whitened(descriptor: str) -> str:
    """As words that follow others."""
    return "" if descriptor == PLAIN else f", {descriptor} whitened"


def _graded_beats_binary(name: str) -> list[Comparison]:
    """Every network at the paper's rates, plain and whitened; and GeM with the rate that suits each loss."""
    at_best: list[Comparison] = [
        Better(
            f"{name}, {trunk}, GeM, {AT_BEST}{_whitened(descriptor)}",
            Side(_rates(name, trunk, "graded"), descriptor),
            Side(_rates(name, trunk, "binary"), descriptor),
            group=f"{AT_BEST}{_whitened(descriptor)}",
        )
        for descriptor in (PLAIN, SMALL)
        for trunk in ("vgg16", "lite0")
        if name == "campus"
    ]
    return [
        Better(
            f"{name}, {trunk}, {POOL_WORDS[pool]}{_whitened(descriptor)}",
            side(f"{name}/{trunk}-{pool}-graded", descriptor=descriptor),
            side(f"{name}/{trunk}-{pool}-binary", descriptor=descriptor),
            group=f"{AT_THEIR_RATES}{_whitened(descriptor)}",
        )
        for descriptor in (PLAIN, SMALL)
        for trunk in TRUNKS
        for pool in _pools(name, trunk)
    ] + at_best


def _in_town() -> tuple[Comparison, ...]:
    rates = tuple(f"town/lite0-gem-binary-rate-{rate:g}" for rate in (BINARY_RATE, GRADED_RATE, TOWN_RATE))
    return tuple(
        Better(
            f"town, lite0, GeM, binary at its best rate{_whitened(descriptor)}",
            side("town/lite0-gem-graded", descriptor=descriptor),
            Side(rates, descriptor),
        )
        for descriptor in (PLAIN, SMALL)
    )


def _whitening(name: str) -> list[Comparison]:
    """To as many dims as a network has; of NetVLAD to as many as the small map allows."""
    found: list[Comparison] = []
    for trunk, pool, kind in _networks(name):
        key, words = f"{name}/{trunk}-{pool}-{kind}", f"{name}, {trunk}, {POOL_WORDS[pool]}, {kind}"
        large = pool.startswith("netvlad")
        fits = {"full": "to 1,024 of NetVLAD, on the map" if large else "on the map"}
        fits |= {} if large else {"full training": "on training photos"}
        found += [
            Better(f"{words}: whitened {fit}", side(key, descriptor=how), side(key), group=fit)
            for how, fit in fits.items()
        ]
    return found


def _networks(name: str) -> list[tuple[str, str, str]]:
    """Trunk, pooling and labels of those that are whitened in several ways."""
    return [
        (trunk, pool, kind)
        for trunk in ("vgg16", "lite0")
        for pool in _pools(name, trunk)
        for kind in ("graded", "binary")
    ]


def _few_dims(name: str) -> list[Comparison]:
    matching: list[Comparison] = [
        Better(
            f"{name}, {trunk}, GeM, graded: 128 − full, both whitened",
            side(key, descriptor=SMALL),
            side(key, descriptor="full"),
            slack=MATCHES,
        )
        for trunk in TRUNKS
        for key in [f"{name}/{trunk}-gem-graded"]
    ]
    beating = [
        Better(
            f"{name}, {trunk}, {POOL_WORDS[pool]}, {kind}: 128 whitened{where} − full plain",
            side(f"{name}/{trunk}-{pool}-{kind}", descriptor=f"128{how}"),
            side(f"{name}/{trunk}-{pool}-{kind}"),
            group=f"128 whitened{where} − plain",
        )
        for how, where in (("", ""), (" training", " on training photos"))
        for trunk, pool, kind in _networks(name)
        if not (how and pool.startswith("netvlad"))
    ]
    return matching + beating


def _strategies(name: str) -> list[Comparison]:
    models = {"A": "vgg16-gem-graded", "B": "vgg16-gem-B", "C": "vgg16-gem-C"}
    return [
        Better(
            f"{name}: {letter} − D",
            side(f"{name}/{model}"),
            side(f"{name}/vgg16-gem-D"),
            group="A, B and C − D",
        )
        for letter, model in models.items()
    ]


def _all_pairs(streets: Sequence[str]) -> list[Comparison]:
    return [
        Better(
            f"{name}: all − A" + (f", {AT_BEST}" if name == "campus" else "") + _whitened(descriptor),
            Side(tuple(f"{name}/vgg16-gem-all-rate-{rate:g}" for rate in ALL_RATES), descriptor),
            Side(_rates(name, "vgg16", "graded"), descriptor),
        )
        for name in streets
        for descriptor in (PLAIN, SMALL)
    ]


def _soft_shares(name: str) -> list[Comparison]:
    quarter = side(f"{name}/vgg16-gem-graded")
    return [
        Better(
            f"{name}: 1/4 − {share:g} soft negatives",
            quarter,
            side(f"{name}/vgg16-gem-soft-{share:g}"),
            slack=MATCHES if share > 0.25 else 0.0,
        )
        for share in SOFT_SHARES
    ]


def _cost(name: str) -> list[Comparison]:
    found: list[Comparison] = []
    for model, budget in (("graded", "the same photos"), ("graded-quarter", "a quarter of the photos")):
        graded = Side(_rates(name, "vgg16", "graded", model))
        for pool in ("gem", "netvlad64"):
            mined = Side(_mined(name, pool))
            words = f"{name}: {budget}, against mined triplets, {POOL_WORDS[pool]}"
            found.append(Better(f"{words}: recall", graded, mined, slack=SAME_RECALL))
            found.append(Cheaper(f"{words}: forward passes", graded, mined, "passes", FRACTION))
            found.append(Cheaper(f"{words}: seconds", graded, mined, "seconds", FRACTION))
    return found


def _small(name: str) -> list[Comparison]:
    large, small = _mined(name, "netvlad64"), _rates(name, "vgg16", "graded")
    return [
        Better(f"{name}: 512 dims − 32,768 dims", Side(small), Side(large)),
        Better(f"{name}: 128 whitened − 32,768 dims", Side(small, "128"), Side(large)),
        Better(
            f"{name}: 512 whitened − 4096 whitened, on training photos",
            Side(small, "full training"),
            Side(large, "full training"),
        ),
    ]


def _mined(name: str, pool: str) -> tuple[str, ...]:
    """Mined triplets at every rate that was tried."""
    rates = LOSSES["triplet"] if (name, pool) == ("campus", "gem") else NETVLAD_RATES
    return tuple(f"{name}/vgg16-{pool}-triplet-rate-{rate:g}" for rate in rates)


def _comparators() -> tuple[Comparison, ...]:
    """Each loss at the best of its three rates, graded as well, plain and whitened to 128 dims."""
    return tuple(
        Better(
            f"campus: graded − {loss}{_whitened(descriptor)}",
            Side(_rates("campus", "vgg16", "graded"), descriptor),
            Side(tuple(f"campus/vgg16-gem-{loss}-rate-{rate:g}" for rate in rates), descriptor),
        )
        for loss, rates in LOSSES.items()
        for descriptor in (PLAIN, SMALL)
    )
