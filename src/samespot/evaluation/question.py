"""What a model is asked: protocol, cases, and all else that is read for it, before torch and a network are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.protocols import located, protocol_named
from samespot.evaluation.protocols.tables import own_tables
from samespot.evaluation.variants import GivenWhitening, Other
from samespot.places.catalogue import as_places
from samespot.progress import Progress

if TYPE_CHECKING:
    from samespot.matching.reranker import Reranking

TRAINING = "training places"


@dataclass(frozen=True, eq=False)
class Question:
    protocol: Protocol
    cases: list[Case]
    other: Other | None = None  # training places
    whitening: GivenWhitening | None = None  # of a file


def question_of(
    asked: EvaluateOptions, cases: list[Case] | None = None, progress: Progress | None = None
) -> Question:
    """What the options ask; one line for what cannot be answered. cases: those of the protocol, where they were opened
    before."""
    whitening = None if asked.whiten_with is None else GivenWhitening.load(asked.whiten_with)
    other = _training_places(asked)
    if asked.protocol is None:
        protocol, cases = own_tables(asked)
    else:
        protocol = protocol_named(asked.protocol)
        if cases is None:
            cases = protocol.cases(located(asked.root, protocol), **asked.of_protocol)
    for case in cases:
        case.overlap(progress)  # may take a while, and positives may rest on it
    refuse_hopeless(protocol, cases)
    return Question(protocol, cases, other, whitening)


def refuse_hopeless(protocol: Protocol, cases: Sequence[Case], reranking: Reranking | None = None) -> None:
    """Raise where there is nothing to measure; to be asked before photos are described."""
    if not cases:
        raise InputError(f"protocol {protocol.name}: no case has both queries and a map")
    if protocol.truth == "positives" and not any(case.counted.any() for case in cases):
        queries = sum(case.query_count for case in cases)
        raise InputError(
            f"protocol {protocol.name}: none of the {queries} queries has anything to find in the map"
            f" ({protocol.positive}); are both of the same place?"
        )
    sequences = any(case.query_frames is not None or case.place_frames is not None for case in cases)
    if reranking is not None and sequences:
        raise InputError("re-ranking compares single photos, and these cases have sequences; leave it out")


def _training_places(asked: EvaluateOptions) -> Other | None:
    given: Any = asked.train
    if given is None:
        return None
    places = as_places(given, wrap_headings=asked.wrap_headings, missing_images=asked.missing_images)
    return Other(TRAINING, places if asked.train_split is None else places.of_split(asked.train_split))
