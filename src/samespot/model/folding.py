"""Why run a frozen batch norm? Its scale and shift fit into the convolution before it, which is faster."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

TOLERANCE = 1e-4  # of the largest output


def fold_batch_norms(module: nn.Module, example: Tensor | None = None) -> nn.Module:
    """A frozen copy of `module` in eval mode, with each batch norm that follows a convolution folded into it.

    Where a batch norm does not directly follow a convolution (the first of each DenseNet layer) it stays.
    `example` (default: one noise image, (1, 3, 96, 96)) is run once to see which layer feeds which, and
    once more to check the copy against the original.
    """
    folded = copy.deepcopy(module).eval().requires_grad_(False)
    if not any(isinstance(m, nn.BatchNorm2d) for m in folded.modules()):
        return folded
    example = _noise_image(folded) if example is None else example
    with torch.no_grad():
        expected = folded(example)
        for conv_name, norm_name in _convolutions_with_norm(folded, example):
            _fold_pair(folded, conv_name, norm_name)
        # a convolution that also feeds something else than its batch norm would show here
        error = (folded(example) - expected).abs().max()
        if error <= TOLERANCE * expected.abs().max().clamp(min=1e-12):
            return folded
    return copy.deepcopy(module).eval().requires_grad_(False)


def _noise_image(module: nn.Module) -> Tensor:
    parameter = next(module.parameters())
    noise = torch.rand((1, 3, 96, 96), generator=torch.Generator().manual_seed(0))
    return noise.to(parameter.device, parameter.dtype)


def _convolutions_with_norm(module: nn.Module, example: Tensor) -> list[tuple[str, str]]:
    """Names of the (convolution, batch norm) pairs where the second's input is the first's output."""
    made_by: dict[int, str] = {}
    outputs: list[Tensor] = []  # kept alive, so that no other tensor gets the id of one of them
    pairs: list[tuple[str, str]] = []

    def watch(name: str) -> Any:
        def hook(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if isinstance(layer, nn.Conv2d):
                made_by[id(output)] = name
                outputs.append(output)
            elif id(inputs[0]) in made_by:
                pairs.append((made_by[id(inputs[0])], name))

        return hook

    watched = [(n, m) for n, m in module.named_modules() if isinstance(m, nn.Conv2d | nn.BatchNorm2d)]
    handles = [layer.register_forward_hook(watch(name)) for name, layer in watched]
    try:
        module(example)
    finally:
        for handle in handles:
            handle.remove()
    uses = Counter(name for pair in pairs for name in pair)
    return [pair for pair in pairs if uses[pair[0]] == uses[pair[1]] == 1]


def _fold_pair(module: nn.Module, conv_name: str, norm_name: str) -> None:
    conv, norm = module.get_submodule(conv_name), module.get_submodule(norm_name)
    assert isinstance(conv, nn.Conv2d)
    assert isinstance(norm, nn.BatchNorm2d)
    module.set_submodule(conv_name, fuse_conv_bn_eval(conv, norm))
    # timm's norms carry their activation
    activation = getattr(norm, "act", None)
    module.set_submodule(norm_name, activation if isinstance(activation, nn.Module) else nn.Identity())


def ready(trunk: nn.Module, device: torch.device, half: torch.dtype | None) -> nn.Module:
    """A folded trunk where it is to run and as it is fastest: channels last, in half precision where there is one."""
    trunk = trunk.to(device).to(memory_format=torch.channels_last)
    if half is not None:  # autocast would cast these same weights again for each batch
        for module in trunk.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.to(half)
    return trunk
