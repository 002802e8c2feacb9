"""What is asked to be re-ranked, turned into a reranker and the folder where its features are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from samespot.devices import device_named
from samespot.evaluation.cases import Case
from samespot.evaluation.variants import MAP, Other
from samespot.matching.by_keypoints import ByKeypoints
from samespot.matching.options import RerankOptions
from samespot.matching.patch_netvlad import PatchNetVLAD, learn_projection, netvlad_of
from samespot.matching.reranker import FeatureStore, Reranking
from samespot.matching.verification import verifier_named
from samespot.model.network import PlaceNet
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.retrieval.descriptors import Descriptors
from samespot.retrieval.options import DescribeOptions


def reranking_of(
    asked: RerankOptions,
    net: PlaceNet,
    cases: Sequence[Case],
    other: Other | None,
    describe: Callable[[Places, str], Descriptors],
    *,
    folder: Path | None,
    describing: DescribeOptions,
    seed: int = 0,
    progress: Progress | None = None,
) -> Reranking | None:
    """None where nothing is to be re-ranked. folder: below it the features of each table are kept."""
    if asked.rerank is None:
        return None
    where = device_named(describing.device)
    notes: list[str] = []
    by: Any
    if asked.rerank != "patch-netvlad":
        by = ByKeypoints(verifier_named(asked.rerank, asked.rerank_keypoints, where))
    else:
        netvlad_of(net)  # a wrong network should show before its photos are described
        places, name = (cases[0].places, MAP) if other is None else (other.places, other.name)
        described = describe(places, f"{cases[0].name}-map" if other is None else name)
        vectors = described.vectors
        projection = learn_projection(vectors, name, seed=seed, progress=progress, device=where.type)
        by = PatchNetVLAD(net, projection, asked.patch_options(), where)
        notes = _notes(by, projection.images, other is None)
    store = FeatureStore(folder, describing.on_bad_image, describing.workers)
    return Reranking(by, asked.rerank_top, asked.rerank_of, store, tuple(notes))


def _notes(by: PatchNetVLAD, images: int, on_map: bool) -> list[str]:
    notes = []
    if on_map:
        notes.append(
            "the projection of patches is learned from the map; give training places to learn it elsewhere"
        )
    if by.dims < by.options.dims:
        notes.append(
            f"patches have {by.dims} dims, not {by.options.dims}: {images} photos to learn from span no more"
        )
    return notes
