"""The network that a run starts from, and the optimiser of the part that it trains."""

from __future__ import annotations

from dataclasses import replace

import torch

from samespot.errors import InputError
from samespot.model.loading import load_model
from samespot.model.network import PlaceNet
from samespot.progress import Progress
from samespot.training.options import TrainingOptions


def build_net(options: TrainingOptions, progress: Progress | None = None) -> PlaceNet:
    """The network that the options describe."""
    if options.model is None:
        assert options.image_size is not None  # only a model has its own
        assert options.margin is not None
        return PlaceNet(
            options.backbone,
            options.pool,
            options.pretrained,
            weights=options.weights,
            train_blocks=options.train_blocks,
            image_size=options.image_size,
            margin=options.margin,
        )
    net = load_model(options.model, weights=options.weights, progress=progress)
    net.whitening = None  # it was fitted to the network as it was
    net.set_train_blocks(options.train_blocks)
    settled = options.of_network(net)
    assert settled.image_size is not None
    assert settled.margin is not None
    net.preprocessing = replace(net.preprocessing, size=settled.image_size)
    net.margin = settled.margin
    return net


def build_optimiser(options: TrainingOptions, net: PlaceNet, device: torch.device) -> torch.optim.Optimizer:
    trained = [p for p in net.parameters() if p.requires_grad]
    if not trained:
        raise InputError(
            "nothing to train: `train_blocks=0` freezes the whole backbone and this pooling has no weights"
        )
    fused = device.type == "cuda"
    rate, decay = options.first_rate, options.weight_decay
    if options.optimiser == "adamw":
        return torch.optim.AdamW(trained, rate, weight_decay=decay, fused=fused)
    return torch.optim.SGD(trained, rate, momentum=options.momentum, weight_decay=decay, fused=fused)
