"""What does one batch teach? Its loss and gradient, whole or in micro-batches, in one process or several.

The gradient is always that of the mean loss over the global batch:

- losses of pairs and of tuples: each micro-batch adds its share of the sum, and nothing else couples them;
- losses of a batch: every descriptor meets every other, so descriptors are first computed without a graph, the loss is
  derived with respect to them, and each micro-batch is run again to carry its part back (gradient caching).

Processes gather descriptors where the loss needs them, and their gradients are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.devices import Processes, mixed
from samespot.images.prefetch import Block, read_ahead
from samespot.images.preprocess import Normalise
from samespot.images.sources import Loaded, Source, in_blocks, send
from samespot.model.folding import ready
from samespot.model.network import PlaceNet
from samespot.training.augment import Augmentation, draw_augmentation
from samespot.training.batches import Batch
from samespot.training.loss_whitening import LossWhitening
from samespot.training.options import TrainingOptions


@dataclass(frozen=True)
class StepStats:
    """Sums over this process's part of the batch, as tensors, so that nothing waits for the device."""

    loss: Tensor  # () part of the mean loss; the parts of all processes sum to it
    zero: Tensor  # () part of the share of pairs whose loss is 0


class Learner:
    """The network as it is trained: a folded frozen trunk without a graph, and the trained part."""

    def __init__(
        self,
        net: PlaceNet,
        options: TrainingOptions,
        device: torch.device,
        *,
        half: torch.dtype | None = None,
        processes: Processes | None = None,
    ) -> None:
        self.options, self.device, self.half = options.of_network(net), device, half
        self.processes = processes or Processes()
        self.loss = self.options.objective
        self.loss_options = {name: getattr(self.options, name) for name in self.loss.options}
        self.whitening: LossWhitening | None = None  # of descriptors, before a loss of a batch compares them
        self.passes = 0  # images that went through the trained part here, whatever for
        # folded on the CPU, in full precision: TF32 would blur the check that folding changes nothing
        trunk = net.cpu().frozen_trunk(fold=True)
        self.net = net.to(device).to(memory_format=torch.channels_last)
        self.trunk = ready(trunk, device, half)
        self._frozen = self._compiled(self.trunk)
        self._trained = self._compiled(net.trained)
        self._channels_last = True
        self._normalise = Normalise(net.preprocessing, device)

    def _compiled(self, run: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """For the numbers of images that come again and again, if the options say so; the others as it is."""
        if not self.options.compile:
            return run
        pairs = self.options.micro_pairs or self.options.batch_pairs // self.processes.count
        usual = (2 * pairs, (2 + self.options.negatives) * pairs)
        fast = torch.compile(run, dynamic=False)
        return lambda images: fast(images) if len(images) in usual else run(images)

    # ---- the way of an image ----

    def frozen(self, images: Tensor, augmentation: Augmentation | None = None) -> Tensor:
        """uint8 images on the device -> features at the cut, without a graph."""
        with torch.no_grad(), mixed(self.device, self.half):
            pixels = images if augmentation is None else augmentation(images)
            features = self._frozen(self._normalise(pixels))
            self._channels_last = features.is_contiguous(memory_format=torch.channels_last)
            return features

    def describe(self, features: Tensor) -> Tensor:
        """Features at the cut -> descriptors (n, d) in float32, with a graph where gradients are on."""
        self.passes += len(features)
        with mixed(self.device, self.half):
            return self._trained(features)

    def describe_loaded(self, loaded: Loaded) -> Tensor:
        """Images or features on the device -> descriptors, without a graph and without learning from them."""
        was_training = self.net.training
        self.net.eval()
        with torch.inference_mode():
            descriptors = self.describe(self._features(loaded, np.arange(len(loaded.good)), None))
        self.net.train(was_training)
        return descriptors

    def describe_numbers(
        self, source: Source, numbers: NDArray[np.int64], tick: Callable[[int], None] = lambda count: None
    ) -> tuple[Tensor, NDArray[np.bool_]]:
        """(n, d) descriptors of images by number, with the weights of the moment, and whether each could be read.
        Each process describes its share; `tick` is told how many are done."""
        options, processes = self.options, self.processes
        size = 2 * (options.micro_pairs or max(1, options.batch_pairs // processes.count))
        mine = list(in_blocks(len(numbers), size))[processes.rank :: processes.count]
        found = torch.zeros(len(numbers), self.net.descriptor_size, device=self.device)
        good = torch.zeros(len(numbers), device=self.device)
        blocks = [Block(rows, numbers[rows]) for rows in mine]
        steps = range(len(blocks))
        with read_ahead(source, blocks.__getitem__, steps, self.device, options.prefetch) as ahead:
            for block, loaded in ahead:
                found[block.part] = self.describe_loaded(loaded)
                good[block.part] = send(loaded.good.astype(np.float32), self.device)
                tick(len(block.rows) * processes.count)
        return processes.summed(found), processes.summed(good).cpu().numpy() > 0

    def last_maps(self, loaded: Loaded) -> Tensor:
        """The feature maps (n, c, h, w) that are pooled, of loaded images, without a graph."""
        was_training = self.net.training
        self.net.eval()
        with torch.no_grad(), mixed(self.device, self.half):
            maps = self.net.last_map(self._features(loaded, np.arange(len(loaded.good)), None))
        self.net.train(was_training)
        return maps

    # ---- one batch ----

    def backward(self, batch: Batch, loaded: Loaded) -> StepStats:
        """Add the gradient of this process's part of a batch to the parameters. `batch` is that part."""
        rows = self._augmentation_rows(batch)
        if batch.negatives is not None:
            return self._backward_tuples(batch, batch.negatives, loaded, rows)
        if batch.in_batch is not None:
            return self._backward_all(batch.in_batch, loaded, rows)
        return self._backward_pairs(batch, loaded, rows)

    def sync_gradients(self) -> None:
        """Sum the gradients of all processes."""
        if self.processes.count == 1:
            return
        gradients = [p.grad for p in self.net.parameters() if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        self.processes.summed(flat)
        start = 0
        for gradient in gradients:
            gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
            start += gradient.numel()

    def _backward_pairs(self, batch: Batch, loaded: Loaded, rows: Augmentation | None) -> StepStats:
        pair_loss = self.loss.pairs
        assert pair_loss is not None
        pairs, everywhere = len(batch), len(batch) * self.processes.count
        similarity = send(batch.similarity, self.device)
        # a pair with an unreadable image weighs nothing; the mean stays over all pairs of the batch
        weight = send((loaded.good[:pairs] & loaded.good[pairs:]).astype(np.float32), self.device)
        loss, zero = torch.zeros((), device=self.device), torch.zeros((), device=self.device)
        for part in self._micro_batches(pairs):
            both = np.concatenate([part, pairs + part])
            x, y = self.describe(self._features(loaded, both, rows)).chunk(2)
            here = slice(int(part[0]), int(part[-1]) + 1)
            losses = pair_loss(x, y, similarity[here], **self.loss_options)
            partial = (losses * weight[here]).sum() / everywhere
            torch.autograd.backward(partial)
            loss += partial.detach()
            zero += ((losses.detach() <= 0) * weight[here]).sum() / everywhere
        return StepStats(loss, zero)

    def _backward_tuples(
        self, batch: Batch, negatives: NDArray[np.int64], loaded: Loaded, rows: Augmentation | None
    ) -> StepStats:
        tuple_loss = self.loss.tuples
        assert tuple_loss is not None
        tuples, everywhere = len(batch), len(batch) * self.processes.count
        readable = loaded.good[2 * tuples :].reshape(negatives.shape) & (negatives >= 0)
        counted = send(readable, self.device)
        # a tuple without its query, its positive or any negative weighs nothing; the mean stays over all
        whole = loaded.good[:tuples] & loaded.good[tuples : 2 * tuples] & readable.any(axis=1)
        weight = send(whole.astype(np.float32), self.device)
        loss, zero = torch.zeros((), device=self.device), torch.zeros((), device=self.device)
        for part in self._micro_batches(tuples):
            images = _rows_of_tuples(part, tuples, negatives.shape[1])
            described = self.describe(self._features(loaded, images, rows))
            queries, positives = described[: 2 * len(part)].chunk(2)
            others = described[2 * len(part) :].view(len(part), negatives.shape[1], -1)
            here = slice(int(part[0]), int(part[-1]) + 1)
            losses = tuple_loss(queries, positives, others, counted[here], **self.loss_options)
            partial = (losses * weight[here]).sum() / everywhere
            torch.autograd.backward(partial)
            loss += partial.detach()
            zero += ((losses.detach() <= 0) * weight[here]).sum() / everywhere
        return StepStats(loss, zero)

    def _backward_all(
        self, in_batch: NDArray[np.float32], loaded: Loaded, rows: Augmentation | None
    ) -> StepStats:
        batch_loss = self.loss.batch
        assert batch_loss is not None
        images = len(loaded.good)
        parts = [np.concatenate([p, images // 2 + p]) for p in self._micro_batches(images // 2)]
        order = np.argsort(np.concatenate(parts))
        at_once = len(parts) == 1
        with torch.set_grad_enabled(at_once):
            pieces = [self.describe(self._features(loaded, part, rows)) for part in parts]
        mine = torch.cat([piece.detach() for piece in pieces])[send(order, self.device)]
        everyone, good = self._gather(mine, loaded.good)
        similarity = send(np.where(good[:, None] & good[None, :], in_batch, np.float32(np.nan)), self.device)
        leaves = everyone.requires_grad_()
        seen = leaves if self.whitening is None else self.whitening(leaves)
        result = batch_loss(seen, similarity, **self.loss_options)
        (whole,) = torch.autograd.grad(result.loss, leaves)
        slope = whole[self._my_rows(images)]
        for part, piece in zip(parts, pieces, strict=True):
            again = piece if at_once else self.describe(self._features(loaded, part, rows))
            torch.autograd.backward(again, slope[send(part, self.device)])
        # every process has the whole loss: a share of it each, so that the shares sum to it
        count = self.processes.count
        return StepStats(result.loss.detach() / count, result.zero_share / count)

    def _micro_batches(self, pairs: int) -> Iterator[NDArray[np.int64]]:
        size = self.options.micro_pairs or pairs
        for start in range(0, pairs, size):
            yield np.arange(start, min(start + size, pairs))

    def _features(self, loaded: Loaded, rows: NDArray[np.int64], augmentation: Augmentation | None) -> Tensor:
        values = loaded.values
        if len(rows) != len(values):
            values = values[send(rows, self.device)]
        if not loaded.features:
            return self.frozen(values, None if augmentation is None else augmentation[rows])
        if self.half is None:
            values = values.float()  # features kept in half precision, for a network in full
        if self._channels_last and values.ndim == 4:
            values = values.contiguous(memory_format=torch.channels_last)
        return values

    def _augmentation_rows(self, batch: Batch) -> Augmentation | None:
        """What is done to each image of this process's part: a part of what is drawn for the whole batch."""
        o = self.options
        if not o.augmented:
            return None
        pairs, first = len(batch) * self.processes.count, len(batch) * self.processes.rank
        mine = first + np.arange(len(batch))
        negatives = 0 if batch.negatives is None else batch.negatives.shape[1]
        drawn = draw_augmentation(o.seed, batch.step, (2 + negatives) * pairs, o.augment, o.crop, o.flip)
        return drawn[_rows_of_tuples(mine, pairs, negatives)]

    # ---- several processes ----

    def _gather(self, mine: Tensor, good: NDArray[np.bool_]) -> tuple[Tensor, NDArray[np.bool_]]:
        """Descriptors and readability of the whole batch: queries of all processes, then matches."""
        if self.processes.count == 1:
            return mine.clone(), good
        flags = send(good.astype(np.float32), self.device)
        sent = torch.cat([mine, flags[:, None]], dim=1)
        halves = [part.chunk(2) for part in self.processes.stacked(sent)]
        whole = torch.cat([half[0] for half in halves] + [half[1] for half in halves])
        return whole[:, :-1].contiguous(), whole[:, -1].cpu().numpy() > 0

    def _my_rows(self, images: int) -> Tensor:
        pairs = images // 2
        mine = self.processes.rank * pairs + torch.arange(pairs, device=self.device)
        return torch.cat([mine, self.processes.count * pairs + mine])


def _rows_of_tuples(part: NDArray[np.int64], tuples: int, negatives: int) -> NDArray[np.int64]:
    """Where the images of some tuples (or pairs, which have no negatives) are among those of all."""
    others = 2 * tuples + part[:, None] * negatives + np.arange(negatives)
    return np.concatenate([part, tuples + part, others.ravel()])
