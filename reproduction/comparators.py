"""One line for each system that the paper is compared with: who proposed it, and the experiments that stand for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from reproduction.experiment import Cost, Result
from reproduction.judgement import SMALL, Results, Side, middle_cost, side
from reproduction.matrix import ALL_RATES, LOSSES, NETVLAD_RATES, OTHER_RATES
from reproduction.scores import mean_of, stacked
from samespot.statistics.intervals import Interval

SORTED_BY = "R@5"


@dataclass(frozen=True)
class Comparator:
    words: str
    source: str
    side: Side


@dataclass(frozen=True)
class Measured:
    """What a comparator reached, at the best of its rates."""

    comparator: Comparator
    experiment: str
    seeds: int
    dims: int
    recall: dict[str, Interval]  # R@1, R@5, and R@5 of 128 whitened dims where there are such
    cost: Cost  # of the run that took the middle time; neither rate nor seed changes it
    rates: tuple[float, ...]  # chosen for plain and for whitened descriptors; none where nothing was trained
    tried: tuple[int, int]  # rates that were run, and all of them


def _rated(name: str, rates: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(f"campus/{name}-rate-{rate:g}" for rate in rates)


def _contrastive(kind: str, network: str = "vgg16-gem") -> tuple[str, ...]:
    name = f"{network}-{kind}"
    return f"campus/{name}", *_rated(name, OTHER_RATES[kind])


_SOURCES = {
    "triplet": "Arandjelović et al. 2016",
    "sare-ind": "Liu et al. 2019",
    "sare-joint": "Liu et al. 2019",
    "ap": "Revaud et al. 2019",
    "soft-contrastive": "Thoma et al. 2020",
    "log-ratio": "Kim et al. 2019",
    "multi-similarity": "Wang et al. 2019",
}
_WORDS = {
    "triplet": "triplets, mined, GeM",
    "sare-ind": "SARE, independent, GeM",
    "sare-joint": "SARE, joint, GeM",
    "ap": "AP-GeM",
    "soft-contrastive": "soft contrastive by distance, GeM",
    "log-ratio": "log-ratio, GeM",
    "multi-similarity": "multi-similarity, GeM",
}
PAPER = "Leyva-Vallina et al. 2021"
COMPARATORS = (
    Comparator("graded contrastive, GeM (the paper)", PAPER, Side(_contrastive("graded"))),
    Comparator("binary contrastive, GeM", PAPER, Side(_contrastive("binary"))),
    Comparator("graded contrastive, all pairs, GeM", "samespot", Side(_rated("vgg16-gem-all", ALL_RATES))),
    Comparator("graded contrastive, NetVLAD-16", "samespot", side("campus/vgg16-netvlad16-graded")),
    Comparator("graded contrastive, NetVLAD-64", "samespot", Side(_contrastive("graded", "vgg16-netvlad64"))),
    *(
        Comparator(
            f"triplets, mined, NetVLAD-{size}",
            _SOURCES["triplet"],
            Side(_rated(f"vgg16-netvlad{size}-triplet", NETVLAD_RATES)),
        )
        for size in (16, 64)
    ),
    *(
        Comparator(_WORDS[loss], _SOURCES[loss], Side(_rated(f"vgg16-gem-{loss}", rates)))
        for loss, rates in LOSSES.items()
    ),
    Comparator(
        "NetVLAD-64, re-ranked by Patch-NetVLAD",
        "Hausler et al. 2021",
        side("campus/vgg16-netvlad64-triplet+patch-netvlad", descriptor="re-ranked"),
    ),
    Comparator(
        "graded contrastive, GeM, re-ranked by XFeat",
        "Potje et al. 2024",
        side("campus/vgg16-gem-graded+xfeat", descriptor="re-ranked"),
    ),
    Comparator("GeM as ImageNet leaves it", "Simonyan et al. 2015", side("campus/vgg16-gem-as-it-comes")),
)


def measured(results: Results) -> list[Measured]:
    """Those that were run, the best first."""
    found = [one for comparator in COMPARATORS if (one := _measured(comparator, results)) is not None]
    return sorted(found, key=lambda one: -one.recall[SORTED_BY].value)


def _measured(comparator: Comparator, results: Results) -> Measured | None:
    runs = comparator.side.runs(results, SORTED_BY)
    if runs is None:
        return None
    recall = {measure: mean_of(stacked(*runs, measure)) for measure in ("R@1", "R@5")}
    chosen = [runs[0][0]]
    whitened = replace(comparator.side, descriptor=SMALL).runs(results, SORTED_BY)
    if whitened is not None and comparator.side.descriptor == "plain":
        recall["128 whitened"] = mean_of(stacked(*whitened, SORTED_BY))
        chosen.append(whitened[0][0])
    return Measured(
        comparator,
        chosen[0].experiment,
        len(runs[0]),
        runs[1][0].dims,
        recall,
        middle_cost([run for key in comparator.side.experiments for run in results.get(key, ())]),
        tuple(rate for one in chosen if (rate := _rate_of(one)) is not None),
        (
            sum(bool(results.get(key)) for key in comparator.side.experiments),
            len(comparator.side.experiments),
        ),
    )


def _rate_of(run: Result) -> float | None:
    return run.facts.get("options", {}).get("learning_rate") if run.cost.pairs else None
