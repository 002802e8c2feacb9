"""Every option of describing images. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from samespot.cluster import ClusterOptions
from samespot.images.options import PANEL, RunningOptions
from samespot.options import option

Dtype = Literal["float32", "float16"]
Runtime = Literal["auto", "torch", "onnxruntime"]


@dataclass(frozen=True)
class DescribeOptions(RunningOptions, ClusterOptions):
    """How images become descriptors. An image that is skipped has a descriptor of zeros."""

    batch_size: int | None = option(
        None,
        "Images that go through the network at once.",
        least=1,
        default="16 on a CPU, 64 on a GPU, 256 on a large one",
        panel=PANEL,
    )
    dtype: Dtype = option("float32", "Number format of the descriptors on disk.", panel=PANEL)
    runtime: Runtime = option(
        "auto",
        "What runs the network. auto: on a CPU with several hundred images or more, onnxruntime, whose export is kept;"
        " else torch.",
        panel=PANEL,
    )
