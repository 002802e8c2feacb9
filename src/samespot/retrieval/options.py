"""Every option of describing images. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from samespot.options import Options, option

Precision = Literal["auto", "32", "bf16"]
OnBadImage = Literal["fail", "skip"]
Decode = Literal["auto", "cpu", "gpu"]
Dtype = Literal["float32", "float16"]
PANEL = "Describing images"


@dataclass(frozen=True)
class DescribeOptions(Options):
    """How images become descriptors."""

    batch_size: int | None = option(
        None,
        "Images that go through the network at once.",
        least=1,
        default="16 on a CPU, 64 on a GPU, 256 on a large one",
        panel=PANEL,
    )
    device: str = option(
        "auto", "Where the network runs: auto, cpu, cuda, or one GPU as cuda:1.", panel=PANEL
    )
    precision: Precision = option(
        "auto", "Number format of the network; auto is bf16 on GPUs with it.", panel=PANEL
    )
    dtype: Dtype = option("float32", "Number format of the descriptors on disk.", panel=PANEL)
    decode: Decode = option(
        "auto", "Where JPEG files are decoded; auto is the GPU where there are few cores.", panel=PANEL
    )
    workers: int | None = option(
        None, "Threads that read images.", least=1, default="one per core, at most 16", panel=PANEL
    )
    on_bad_image: OnBadImage = option(
        "fail", "When an image cannot be read: stop, or skip it and leave its descriptor zero.", panel=PANEL
    )
