"""Where does it run, and how precisely? Lightning Fabric sets up devices, processes and mixed precision."""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch

from samespot.errors import InputError
from samespot.training.options import TrainingOptions


def launch(options: TrainingOptions) -> tuple[Any, torch.dtype | None]:
    """A launched `Fabric`, and the half precision it computes in, if any.

    Under torchrun it is one of several processes (nccl on GPUs, gloo on CPUs).
    """
    world, local = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if options.batch_pairs % world:
        raise InputError(
            f"`batch_pairs` {options.batch_pairs} cannot be split evenly over {world} processes; choose a multiple"
        )
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "`device=cuda`: torch sees no GPU; check the driver with nvidia-smi, or use `device=cpu`"
        )
    if device == "cpu" and options.decode == "gpu":
        raise InputError("`decode=gpu` needs a CUDA device; leave it out to decode on the processor")
    half = _half_precision(options, device)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # Lightning advises on loaders and devices that are not its business here
        fabric = _fabric_class()(
            accelerator=device,
            devices=local if world > 1 else 1,
            num_nodes=max(1, world // local),
            strategy="ddp" if world > 1 else "auto",
            precision="32-true" if half is None else "bf16-mixed",
        )
        fabric.launch()
    if device == "cuda":
        torch.backends.cudnn.benchmark = True  # every batch has the same shape
    return fabric, half


def _fabric_class() -> Any:
    # the full package, or the one that comes with pytorch-lightning; they are the same code
    try:
        from lightning.fabric import Fabric
    except ImportError:
        try:
            from lightning_fabric import Fabric  # type: ignore[assignment]
        except ImportError:
            raise InputError("training needs Lightning; install it with: pip install lightning") from None
    return Fabric


def _half_precision(options: TrainingOptions, device: str) -> torch.dtype | None:
    if options.precision == "bf16":
        return torch.bfloat16
    wanted = options.precision == "auto" and device == "cuda" and torch.cuda.is_bf16_supported()
    return torch.bfloat16 if wanted else None
