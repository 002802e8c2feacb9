"""The network that a run starts from, and the optimiser of the part that it trains."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.model.loading import load_model
from samespot.model.network import PlaceNet
from samespot.progress import Progress
from samespot.training.options import TrainingOptions

STRIDE = 16  # [pixels]


def build_net(options: TrainingOptions, progress: Progress | None = None) -> PlaceNet:
    """The network that the options describe."""
    net = _start(options, progress)
    if options.scales != (1.0,):
        _check_sizes(net, describing(net.preprocessing, options.scales))
    return net


def describing(training: Preprocessing, scales: Sequence[float]) -> Preprocessing:
    """How photos are described by a network that learned from them at one size: at multiples of it.

    Sides other than the network's own are multiples of 16 pixels: the strides of convolutional trunks.
    """
    if tuple(scales) == (1.0,):
        return training

    def side(length: int, scale: float) -> int:
        return length if scale == 1 else max(STRIDE, STRIDE * round(length * scale / STRIDE))

    height, width = training.size
    return training.at_sizes(*((side(height, scale), side(width, scale)) for scale in scales))


def _check_sizes(net: PlaceNet, how: Preprocessing) -> None:
    """Now, not after hours of training: some networks take images of certain sizes only."""
    for height, width in (how.size, *how.also):
        try:
            with torch.inference_mode():
                net(torch.zeros(1, 3, height, width))
        except (RuntimeError, AssertionError, ValueError):
            raise InputError(
                f"`scales`: this network does not take images of {height}x{width}; leave `scales` out"
            ) from None


def _start(options: TrainingOptions, progress: Progress | None) -> PlaceNet:
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
    net.preprocessing = net.preprocessing.at_sizes(settled.image_size)
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
