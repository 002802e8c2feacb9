"""Where a network runs and how its images are read: options that training and describing share. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from samespot.options import Options, option

PANEL = "How it runs"
IMAGE_SIZE = (480, 640)  # height, width [pixels]: the paper's
Precision = Literal["auto", "32", "bf16", "int8"]
OnBadImage = Literal["fail", "skip"]
Decode = Literal["auto", "cpu", "gpu"]


@dataclass(frozen=True)
class DeviceOptions(Options):
    """What computes, and what reads."""

    device: str = option(
        "auto",
        "Where the network runs: cpu, cuda, or one GPU as cuda:1. auto: a GPU where there is one.",
        panel=PANEL,
    )
    precision: Precision = option(
        "auto",
        "Number format of the network. auto: as the map or the folder was begun; for a new one, bf16 on GPUs that have"
        " it, else 32. int8: on a CPU, not for training.",
        panel=PANEL,
    )
    workers: int | None = option(
        None,
        "Threads that read and decode images. Photos at addresses are always fetched 64 at a time.",
        least=1,
        default="one per core, at most 16; four fewer if a GPU is used",
        panel=PANEL,
    )


@dataclass(frozen=True)
class RunningOptions(DeviceOptions):
    decode: Decode = option(
        "auto", "Where JPEG files are decoded. auto: on the GPU where there are few cores.", panel=PANEL
    )
    compile: bool | None = option(
        None,
        "Compile the network for this GPU: takes a minute or two at the start, then it is faster.",
        default="on if there are enough images to make up for it",
        panel=PANEL,
    )
    on_bad_image: OnBadImage = option("fail", "When an image cannot be read: stop, or skip it.", panel=PANEL)
