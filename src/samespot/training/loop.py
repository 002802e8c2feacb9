"""The loop from labelled photos to a model; the same run whether or not it was interrupted."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from samespot.devices import (
    Processes,
    device_named,
    half_of,
    joined,
    pays_to_compile,
    precision_name,
    tuned_for,
)
from samespot.errors import InputError
from samespot.files import locked
from samespot.images.prefetch import read_ahead
from samespot.images.sources import Source, wait_for
from samespot.memory import free_memory
from samespot.model.netvlad import NetVLAD
from samespot.model.network import PlaceNet
from samespot.places.marks import photo_facts
from samespot.progress import Progress, counting, silent
from samespot.training.batches import Batch, Batches, batches_of
from samespot.training.cluster_start import PHOTOS, start_clusters
from samespot.training.feed import Feed
from samespot.training.gradient import Learner, StepStats
from samespot.training.logbook import Logbook
from samespot.training.loss_whitening import PHOTOS as WHITENED_PHOTOS
from samespot.training.loss_whitening import LossWhitening
from samespot.training.meter import Meter
from samespot.training.mining import Mined, Tuples, tuples_of
from samespot.training.network import build_net, build_optimiser, describing
from samespot.training.options import CHOSEN, TrainingOptions
from samespot.training.planning import (
    KEPT_SHARE,
    KEPT_SHARE_OF_HOST,
    LEAST_STEPS,
    SHORT,
    activation_bytes,
    fitting_pairs,
    frozen_bytes,
    in_words,
    what_to_keep,
)
from samespot.training.run_folder import RunFolder, Say, TrainingResult
from samespot.training.schedule import schedule_of, total_steps
from samespot.training.sets import LabelledSet
from samespot.training.stopping import UNWRITABLE, StopRequested, TrainingStopped, stop_requests, stopped_by
from samespot.training.validation import Validator
from samespot.training.validation_sets import Validation

COLLAPSE_SAMPLE = 16  # photos
COLLAPSED = 0.01  # distance; those of a network that learned are about 1


def train_network(
    options: TrainingOptions,
    sets: list[LabelledSet],
    run: str | Path,
    *,
    resume: bool = False,
    validation: Validation | None = None,
    net: PlaceNet | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
    shared: dict[str, Source] | None = None,
) -> TrainingResult:
    """Train a network on labelled sets; everything about the run is in its folder.

    `net` is the network to start from instead of the one that the options describe. `resume` goes on from the
    newest whole checkpoint, and starts again where there is none. `say` is given lines for the reader (the
    configuration, warnings). `shared` is filled with what is kept in memory, photos or frozen features, for further
    runs that start alike. Under torchrun, every process calls this.
    """
    options.objective.require_package()
    device = device_named(options.device, options.decode)
    with joined(device) as processes, tuned_for(device, threads=1):
        if options.batch_pairs % processes.count:
            raise InputError(
                f"`batch_pairs` {options.batch_pairs} cannot be split evenly over {processes.count} processes; choose "
                "a multiple"
            )
        folder = RunFolder(Path(run), options.keep_checkpoints, processes, say or (lambda line: None))
        told = progress if progress is not None and processes.first else silent
        loop = Loop(options, sets, folder, processes, device, validation, told)
        try:
            return loop.go(resume, net, shared)
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
            raise stopped_by(error, loop.step, folder.path, folder.checkpoints.steps()) from error
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            raise _out_of_memory(loop.options, loop.step + 1, processes, device) from error
        finally:
            loop.closing.close()


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.cuda.OutOfMemoryError | MemoryError):
        return True
    return "DefaultCPUAllocator" in str(error)  # torch has no class for it


def _out_of_memory(
    options: TrainingOptions, step: int, processes: Processes, device: torch.device
) -> TrainingStopped:
    pairs = options.micro_pairs or options.batch_pairs // processes.count
    what = f"tuples of {2 + options.negatives} images" if options.kind == "tuples" else "pairs"
    return TrainingStopped(
        f"step {step}: out of {'GPU ' if device.type == 'cuda' else ''}memory with {pairs} {what} at once; pass "
        f"`micro_pairs={max(1, pairs // 2)}`, which gives the same gradient"
    )


class Loop:
    """The state of a run and the order of things in it."""

    learner: Learner
    optimiser: torch.optim.Optimizer
    feed: Feed
    logbook: Logbook
    validator: Validator | None = None

    def __init__(
        self,
        options: TrainingOptions,
        sets: list[LabelledSet],
        folder: RunFolder,
        processes: Processes,
        device: torch.device,
        validation: Validation | None,
        progress: Progress,
    ) -> None:
        self.options, self.sets, self.folder, self.validation = options, sets, folder, validation
        self.processes, self.device, self.progress = processes, device, progress
        mined = options.kind == "tuples"
        self.batches: Batches | Tuples = tuples_of(options, sets) if mined else batches_of(options, sets)
        self.steps = total_steps(options, self.batches.query_count)
        self.schedule = schedule_of(options, self.batches.query_count)
        self.meter = Meter(device, processes)
        self.closing = ExitStack()
        # what a checkpoint holds besides weights
        self.step = self.redrawn = self.learning_images = self.mining_images = 0
        self.mining_seconds = 0.0
        self.loss: float | None = None
        self.best: dict[str, Any] = {}
        self.recall: dict[int, float] = {}
        self._told_time = False
        # by which an evaluation on photos that were learned from is recognised
        self._photos = photo_facts([table for one in sets for table in (one.queries, one.places)])

    # ---- the run, first to last ----

    def go(self, resume: bool, net: PlaceNet | None, shared: dict[str, Source] | None) -> TrainingResult:
        self.folder.refuse_another_run(resume)
        torch.manual_seed(self.options.seed)
        net = net or build_net(self.options, self.progress)
        self.options = self.options.of_network(net)
        if resume:
            self._keep_to_choices()
        state = self.folder.open(resume, self.options, self.sets, self.validation)
        if self.folder.writes:
            self.closing.enter_context(locked(self.folder.path, "a run"))
        if state is not None and state["step"] >= self.steps and (self.validation is None or state["recall"]):
            done = self.folder.result()  # a run that is done is left as it is
            if done is not None:
                return done
        self._choose_micro_pairs(net)
        self._choose_what_to_keep(net)
        self._choose_to_compile()
        self._warn_short()
        self._set_up(net, state)
        source = self.feed.source(shared)
        self._start_clusters(source)
        self._whiten_loss(source)
        with stop_requests() as stop:
            self._train(source, stop)
        if self.validator is not None and not self.recall:  # asked for after the run had ended
            self._validate(self.validator)
        self._warn_collapsed(source)
        return self._finish()

    def _keep_to_choices(self) -> None:
        """A resumed run keeps to what it chose when it began."""
        unset = [name for name, value in CHOSEN.items() if getattr(self.options, name) == value]
        earlier = {name: self.folder.earlier(name) for name in unset}
        self.options = self.options.with_changes(**{k: v for k, v in earlier.items() if v is not None})

    def _choose_micro_pairs(self, net: PlaceNet) -> None:
        """As many pairs at once as memory holds, where nobody chose."""
        options = self.options
        if options.micro_pairs is not None:
            return
        assert options.image_size is not None
        batch = options.batch_pairs // self.processes.count
        needed = activation_bytes(net, options.image_size, self._half)
        fit = fitting_pairs(needed, self._images_of_pair, batch, free_memory(self.device))
        if fit is not None:
            self.folder.say(
                f"{fit} of {batch} pairs go through the network at once, as memory allows; the gradient is the"
                " same, and `micro_pairs` overrides it"
            )
        self.options = options.with_changes(micro_pairs=fit)

    def _choose_what_to_keep(self, net: PlaceNet) -> None:
        """Photos, or what the frozen part makes of them, in memory, where nobody chose."""
        options, device = self.options, self.device
        if "auto" not in (options.cache_frozen, options.images_in_memory):
            return
        for asked, other in (("cache_frozen", "images_in_memory"), ("images_in_memory", "cache_frozen")):
            if getattr(options, asked) not in ("auto", "no"):  # then the other would do nothing
                self.options = options.with_changes(**{other: "no"})
                return
        assert options.image_size is not None
        pairs = options.micro_pairs or options.batch_pairs // self.processes.count
        busy = activation_bytes(net, options.image_size, self._half) * self._images_of_pair * pairs
        on_gpu = KEPT_SHARE * (free_memory(device) - busy) if device.type == "cuda" else None
        chosen = what_to_keep(
            options,
            len(self.batches.images),
            self._looks,
            frozen_bytes(net, options.image_size, self._half),
            None if on_gpu is None else int(on_gpu),
            int(KEPT_SHARE_OF_HOST * free_memory(torch.device("cpu")) / self.processes.count),
        )
        kept = chosen.images_in_memory if options.images_in_memory == "auto" else "no"
        self.options = options.with_changes(cache_frozen=chosen.cache_frozen, images_in_memory=kept)
        if options.images_in_memory == "auto" or chosen.cache_frozen != "no":
            self.folder.say(chosen.why)

    def _choose_to_compile(self) -> None:
        options = self.options
        if options.compile is not None:
            return
        assert options.image_size is not None
        pays = pays_to_compile(None, self.device, int(self._looks), options.image_size)
        self.options = options.with_changes(compile=pays)
        if pays:
            self.folder.say(
                "the network is compiled at the start, which takes a minute or two and pays off over"
                f" {self.steps:,} steps; `compile=False` overrides it"
            )

    @property
    def _half(self) -> bool:
        return half_of(precision_name(self.options.precision, self.device)) is not None

    @property
    def _images_of_pair(self) -> int:
        return 2 + self.options.negatives if self.options.kind == "tuples" else 2

    @property
    def _looks(self) -> float:
        """At photos, by this process in the whole run; those of mining left out."""
        return self.steps * self.options.batch_pairs * self._images_of_pair / self.processes.count

    def _warn_short(self) -> None:
        if self.steps < SHORT:
            self.folder.warn(
                f"{self.steps} steps are too few to learn much; pass `steps={LEAST_STEPS}` or more"
            )

    def _warn_collapsed(self, source: Source) -> None:
        """All photos alike is the easiest way to a small loss, and too high a rate finds it."""
        count = len(self.batches.images)
        sample = spread(count, COLLAPSE_SAMPLE)
        vectors, good = self.learner.describe_numbers(source, sample)
        vectors = vectors[torch.from_numpy(good).to(vectors.device)]
        if len(vectors) > 1 and float((vectors - vectors[0]).norm(dim=1).max()) < COLLAPSED:
            note = "its descriptors are all nearly equal: the network collapsed in training"
            self.learner.net.notes = (*self.learner.net.notes, note)
            self.folder.warn(f"{note}; try a lower `learning_rate` (it was {self.schedule.first_rate:g})")

    def _set_up(self, net: PlaceNet, state: dict[str, Any] | None) -> None:
        """The learner, its optimiser, its images, and all of it as it was at the checkpoint."""
        options, device = self.options, self.device
        net.notes = options.objective.notes(net.notes)
        if state is not None:
            _load_weights(net, state["net"], self.folder.path)
        precision = precision_name(options.precision, device)
        self.learner = Learner(
            net.train(), options, device, half=half_of(precision), processes=self.processes
        )
        self.optimiser = build_optimiser(options, net, device)
        self.feed = Feed(self.learner, self.batches.images, self.folder.path, self.processes, self.progress)
        self.closing.callback(self.feed.close)
        if self.validation is not None:
            self.validator = Validator(self.validation, self.learner, self.feed)
        if state is not None:
            self._restore(state)
        self.folder.write_config(
            options,
            self.sets,
            net,
            {
                "steps": self.steps,
                "learning_rate": self.schedule.first_rate,
                "drop_pairs": self.schedule.drop_pairs,
                "queries": self.batches.query_count,
                "processes": self.processes.count,
                "device": device.type,
                "precision": precision,
            },
        )
        self.logbook = Logbook(self.folder.path, self.step, options.tensorboard, self.folder.writes)
        self.closing.callback(self.logbook.close)

    def _train(self, source: Source, stop: threading.Event) -> None:
        self.progress("training", self.step, self.steps)
        self.meter.start()
        for steps in self._stretches(source):
            with read_ahead(source, self._my_batch, steps, self.device, self.options.prefetch) as ahead:
                for batch, loaded in ahead:
                    self._count(batch, self._learn(batch, loaded))
                    self._after_step(stop)
        self.meter.stop()

    def _stretches(self, source: Source) -> Iterator[range]:
        """Steps whose batches may be read ahead: all of them, or those up to the next mining."""
        if not isinstance(self.batches, Tuples):
            yield range(self.step, self.steps)
            return
        while self.step < self.steps:
            if not self.batches.is_mined(self.step):
                self._mine(self.batches, source)
            yield range(self.step, min(self.batches.stretch(self.step).stop, self.steps))

    def _my_batch(self, step: int) -> Batch:
        return self.batches(step).part(self.processes.rank, self.processes.count)

    def _learn(self, batch: Batch, loaded: Any) -> StepStats:
        # whatever draws at random inside a network draws by (seed, step), too
        torch.manual_seed(_mixed(self.options.seed, batch.step))
        for group in self.optimiser.param_groups:
            group["lr"] = self.schedule(batch.step * self.options.batch_pairs)
        before = self.learner.passes
        stats = self.learner.backward(batch, loaded)
        self.learning_images += (self.learner.passes - before) * self.processes.count
        self.learner.sync_gradients()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return stats

    def _count(self, batch: Batch, stats: StepStats) -> None:
        self.step = batch.step + 1
        self.redrawn += batch.redrawn
        self.meter.add(self.step, stats, self.options.batch_pairs)
        if self.device.type == "cpu" and self.processes.count == 1:  # on a GPU this would wait for it
            self._refuse_nan()

    def _after_step(self, stop: threading.Event) -> None:
        options, done = self.options, self.step
        last = done == self.steps
        logged = last or done % options.log_every == 0
        if logged:
            self._log()
        else:
            self.progress("training", done, self.steps)
        if self.validator is not None and (last or _due(done, options.validate_every)):
            self._validate(self.validator)
        if self._stop_agreed(stop.is_set(), logged):
            self._save_checkpoint()
            self.processes.wait()  # a process that ends first takes the others with it
            raise StopRequested(
                f"stopped at step {done}, as asked; its checkpoint is kept: pass `resume` to go on"
            )
        if _due(done, options.checkpoint_every) or last:
            self._save_checkpoint()

    def _stop_agreed(self, asked: bool, logged: bool) -> bool:
        """Whether to stop now. Several processes stop at the same step, the next logged one, if any was asked to:
        one that goes on alone would wait for the others for ever."""
        if self.processes.count == 1:
            return asked
        return logged and any(self.processes.gathered(asked))

    def _mine(self, tuples: Tuples, source: Source) -> None:
        """Mining is part of the training time: it is what such a loss costs."""
        self._refuse_nan()
        self._refuse_bad_weights()
        wait_for(self.device)
        tic = time.perf_counter()

        def describe(numbers: NDArray[np.int64]) -> tuple[torch.Tensor, NDArray[np.bool_]]:
            tick = counting(self.progress, "mining", len(numbers))
            return self.learner.describe_numbers(source, numbers, tick)

        self.mining_images += tuples.mine(self.step, describe)
        self.mining_seconds += time.perf_counter() - tic

    def _start_clusters(self, source: Source) -> None:
        """NetVLAD's clusters, where none came with the network or a checkpoint."""
        learner, images = self.learner, len(self.batches.images)
        pool = learner.net.pool
        if not isinstance(pool, NetVLAD) or pool.started:
            return

        def maps_of(numbers: NDArray[np.int64]) -> torch.Tensor:
            loaded = source.load(numbers)
            return learner.last_maps(loaded)[torch.from_numpy(loaded.good).to(self.device)]

        tick = counting(self.progress, "local features", min(images, PHOTOS))
        start = start_clusters(pool, maps_of, images, self.options.seed, tick=tick)
        for parameter in pool.parameters():  # GPUs may round differently
            self.processes.from_first(parameter.data)
        self.folder.say(str(start))

    def _whiten_loss(self, source: Source) -> None:
        """The space that a loss of a batch compares in, where none came with a checkpoint."""
        learner, dims = self.learner, self.options.loss_dims
        if not dims or learner.whitening is not None:
            return
        sample = spread(len(self.batches.images), WHITENED_PHOTOS)
        tick = counting(self.progress, "whitening for the loss", len(sample))
        vectors, good = learner.describe_numbers(source, sample, tick)
        made = LossWhitening.fit(vectors[torch.from_numpy(good).to(vectors.device)], dims).to(self.device)
        for values in (made.mean, made.projection):
            self.processes.from_first(values)
        learner.whitening = made
        self.folder.say(
            f"the loss compares in {made.projection.shape[1]} dims, whitened on {int(good.sum()):,} photos"
        )

    # ---- numbers ----

    def _log(self) -> None:
        self._refuse_nan()
        self.loss, zero = self.meter.means()
        speed = self.meter.running_rate
        record = {
            "step": self.step,
            "pairs": self.step * self.options.batch_pairs,
            "loss": self.loss,
            "zero_losses": zero,
            "learning_rate": self.schedule((self.step - 1) * self.options.batch_pairs),
            "redrawn": self.redrawn,
            "pairs_per_second": round(speed, 2),
            "learning_images": self.learning_images,
            "mining_images": self.mining_images,
            "mining_seconds": round(self.mining_seconds, 3),
        }
        if self.feed.bad.reasons:
            record["skipped_images"] = len(self.feed.bad.reasons)
        self.logbook.write(record)
        if not self._told_time and self.step < self.steps:
            self._told_time = True
            left = (self.steps - self.step) * self.options.batch_pairs / max(speed, 1e-9)
            self.folder.say(f"about {in_words(left)} for the other {self.steps - self.step:,} steps")
        told = f"training · {speed:,.0f} pairs/s · loss {self.loss:.4f} · {zero:.0%} zero"
        self.progress(told, self.step, self.steps)

    def _validate(self, validator: Validator) -> None:
        with self.meter.paused():
            self.recall = validator.recall()
        self.logbook.write({"step": self.step, **{f"recall@{k}": v for k, v in self.recall.items()}})
        by = self.options.best_by if self.options.best_by in self.recall else max(self.recall)
        if not self.best or self.recall[by] > self.best["recall"][str(by)]:
            self.best = {"step": self.step, "recall": _by_word(self.recall)}
            self._save_model("best")

    def _refuse_nan(self) -> None:
        failed = self.meter.failed_step()
        if failed:
            kept = self.folder.checkpoints.steps()
            last = f"the checkpoint of step {kept[-1]} is kept" if kept else "no checkpoint was written yet"
            raise TrainingStopped(
                f"step {failed}: the loss is not a finite number; {last}; try a lower `learning_rate` "
                f"(it was {self.schedule((failed - 1) * self.options.batch_pairs):g})"
            )

    def _refuse_bad_weights(self) -> None:
        if not all(bool(p.isfinite().all()) for p in self.learner.net.parameters() if p.requires_grad):
            raise TrainingStopped(
                f"step {self.step}: weights are no longer finite numbers; try a lower `learning_rate`"
            )

    # ---- what is kept ----

    def _save_checkpoint(self) -> None:
        self._refuse_nan()
        self._refuse_bad_weights()
        state = {**self.meter.state(), "bad_images": self._bad_images()}
        if not self.folder.writes:
            return
        with self.meter.paused():
            state |= {
                "step": self.step,
                "net": _contiguous(self.learner.net.state_dict()),
                "optimiser": self.optimiser.state_dict(),
                "redrawn": self.redrawn,
                "loss": self.loss,
                "best": self.best,
                "recall": _by_word(self.recall),
                "passes": [self.learning_images, self.mining_images, self.mining_seconds],
                "seconds": self.meter.seconds,
            }
            if self.learner.whitening is not None:
                kept = self.learner.whitening
                state["loss_whitening"] = _contiguous({"mean": kept.mean, "projection": kept.projection})
            if isinstance(self.batches, Tuples) and self.batches.mined is not None:
                state["mined"] = self.batches.mined.state()
            self.folder.checkpoints.save(self.step, state)

    def _restore(self, state: dict[str, Any]) -> None:
        self.optimiser.load_state_dict(state["optimiser"])
        self.meter.restore(state)
        self.step, self.redrawn, self.loss = state["step"], state["redrawn"], state["loss"]
        self.best = state["best"]
        # an older run did not count its passes
        self.learning_images, self.mining_images, self.mining_seconds = state.get("passes", (0, 0, 0.0))
        if isinstance(self.batches, Tuples) and "mined" in state:
            self.batches.mined = Mined.from_state(state["mined"])
        if "loss_whitening" in state:
            self.learner.whitening = LossWhitening(**state["loss_whitening"]).to(self.device)
        if self.step == self.steps:
            self.recall = {int(k): v for k, v in state["recall"].items()}
        self.feed.bad.reasons.update(state["bad_images"])
        self.folder.say(f"resumed from the checkpoint of step {self.step}")

    def _save_model(self, name: str) -> None:
        facts = {
            "steps": self.step,
            "pairs": self.step * self.options.batch_pairs,
            "options": self.options.to_dict(),
            "loss": self.loss,
            "recall": _by_word(self.recall),
            "photos": self._photos,
        }
        net, training = self.learner.net, self.learner.net.preprocessing
        net.preprocessing = describing(training, self.options.scales)
        try:
            self.folder.save_model(name, net, facts)
        finally:
            net.preprocessing = training

    def _finish(self) -> TrainingResult:
        self._save_model("last")
        skipped = {str(self.batches.images.path(n)): why for n, why in self._bad_images().items()}
        if self.validator is not None:
            for part in self.processes.gathered(self.validator.skipped):
                skipped |= part
        result = TrainingResult(
            run=self.folder.path,
            steps=self.step,
            pairs=self.step * self.options.batch_pairs,
            loss=self.loss if self.loss is None or math.isfinite(self.loss) else None,
            pairs_per_second=self.meter.rate,
            redrawn=self.redrawn,
            skipped_images=skipped,
            recall=self.recall,
            best_recall={int(k): v for k, v in self.best.get("recall", {}).items()},
            best_step=self.best.get("step"),
            model=self.folder.path / ("best" if self.best else "last"),
            warnings=self.folder.warnings,
            learning_images=self.learning_images,
            mining_images=self.mining_images,
            mining_seconds=round(self.mining_seconds, 3),
            training_seconds=round(self.meter.seconds, 3),
        )
        self.folder.write_result(result)
        return result

    def _bad_images(self) -> dict[int, str]:
        """The unreadable images that any process has met."""
        everyone = self.processes.gathered(dict(self.feed.bad.reasons))
        return {number: why for part in everyone for number, why in part.items()}


def spread(count: int, most: int) -> NDArray[np.int64]:
    """Numbers below `count`, evenly spread: at most so many."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def _load_weights(net: PlaceNet, tensors: dict[str, torch.Tensor], run: Path) -> None:
    try:
        net.load_state_dict(tensors)
    except RuntimeError as error:
        raise InputError(
            f"{run}: its checkpoint is of another network ({str(error).splitlines()[0]})"
        ) from None


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _by_word(recall: dict[int, float]) -> dict[str, float]:
    """As json has it: keys are words."""
    return {str(k): v for k, v in recall.items()}


def _contiguous(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _mixed(seed: int, step: int) -> int:
    return (seed * 0x9E3779B97F4A7C15 + step) % (1 << 63)
