"""The loop from labelled photos to a model. A run is a folder, and the same run whether or not it was interrupted.

run/config.json      every option, what it was resolved to, and what was learned from
run/metrics.jsonl    one json object a line: loss, share of zero losses, rate, recall
run/checkpoints/     the newest ones, to resume from
run/last/, run/best/ model folders
run/tensorboard/     curves
"""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import samespot
from samespot.errors import InputError
from samespot.model.checkpoint import write_whole
from samespot.model.network import PlaceNet
from samespot.training.batches import Batch, batches_of
from samespot.training.cache import fingerprint_of, keep_features
from samespot.training.checkpoints import UNWRITABLE, Checkpoints, TrainingStopped, stopped_by
from samespot.training.fabric import launch
from samespot.training.gradient import Learner, StepStats
from samespot.training.images import (
    BadImages,
    FileImages,
    Prefetched,
    Source,
    in_blocks,
    keep_images,
    wait_for,
)
from samespot.training.logbook import Logbook, ProgressBar
from samespot.training.options import TrainingOptions, differences
from samespot.training.schedule import Schedule, schedule_of, total_steps
from samespot.training.sets import ImageList, LabelledSet
from samespot.training.validation import Validation, nearest, recall

__all__ = ["TrainingResult", "TrainingStopped", "train"]


@dataclass
class TrainingResult:
    """What came of a run."""

    run: Path
    steps: int
    pairs: int
    loss: float | None  # mean of the last logged stretch
    pairs_per_second: float  # of this session, without start-up and validation
    redrawn: int  # queries without a match of the class drawn for them
    skipped_images: dict[str, str]  # path -> why it could not be read
    recall: dict[int, float] = field(default_factory=dict)  # at the end
    best_recall: dict[int, float] = field(default_factory=dict)
    best_step: int | None = None
    model: Path | None = None  # the best model where there was a validation, else the last
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self).items()}


def train(
    options: TrainingOptions,
    sets: list[LabelledSet],
    run: str | Path,
    *,
    resume: bool = False,
    validation: Validation | None = None,
    net: PlaceNet | None = None,
    progress: bool = True,
    say: Callable[[str], None] | None = None,
) -> TrainingResult:
    """Train a network on labelled sets; everything about the run is in its folder.

    `net` is the network to start from instead of the one that the options describe. `resume` goes on from the
    newest whole checkpoint, and starts anew where there is none. `say` is given lines for the reader (the
    configuration, warnings); the progress bar shows on a terminal only. Under torchrun, every process calls this.
    """
    run = Path(run)
    fabric, half = launch(options)
    loop = _Loop(options, sets, run, fabric, half, validation, net, progress, say or (lambda line: None))
    try:
        return loop.go(resume)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise stopped_by(error, loop.step, run, loop.checkpoints.steps()) from error
    except torch.cuda.OutOfMemoryError as error:
        pairs = options.micro_pairs or options.batch_pairs // fabric.world_size
        raise TrainingStopped(
            f"step {loop.step + 1}: out of GPU memory with {pairs} pairs at once; pass --micro-pairs "
            f"{max(1, pairs // 2)}, which gives the same gradient"
        ) from error
    finally:
        loop.close()


class _Loop:
    """The state of a run and the order of things in it."""

    def __init__(
        self,
        options: TrainingOptions,
        sets: list[LabelledSet],
        run: Path,
        fabric: Any,
        half: torch.dtype | None,
        validation: Validation | None,
        net: PlaceNet | None,
        progress: bool,
        say: Callable[[str], None],
    ) -> None:
        self.options, self.sets, self.run, self.validation = options, sets, run, validation
        self.fabric, self.half = fabric, half
        self.device: torch.device = fabric.device
        self.rank, self.processes = int(fabric.global_rank), int(fabric.world_size)
        self.writes = self.rank == 0
        self.say = say if self.writes else (lambda line: None)
        self.bar = ProgressBar(progress and self.writes)
        self.checkpoints = Checkpoints(run / "checkpoints", options.keep_checkpoints)
        self.batches = batches_of(options, sets)
        self.steps = total_steps(options, self.batches.query_count)
        self.schedule: Schedule = schedule_of(options, self.batches.query_count)
        self.bad, self.bad_in_validation = BadImages(options.on_bad_image), BadImages(options.on_bad_image)
        self.given_net = net
        self.closing: list[Callable[[], None]] = []
        self.warnings: list[str] = []
        # what a checkpoint holds besides weights
        self.step = self.redrawn = 0
        self.loss: float | None = None
        self.best: dict[str, Any] = {}
        self.recall: dict[int, float] = {}
        # since the last log
        self._sums, self._steps_summed = torch.zeros(2, device=self.device), 0
        self._failed = torch.zeros((), dtype=torch.int64, device=self.device)
        # of this session
        self._tic, self._seconds, self._session_pairs = time.perf_counter(), 0.0, 0

    # ---- the run, first to last ----

    def go(self, resume: bool) -> TrainingResult:
        state = self._open_run(resume)
        torch.manual_seed(self.options.seed)
        net = self.given_net or build_net(self.options)
        if state is not None:
            _load_weights(net, state["net"], self.run)
        net.train()
        self.learner = Learner(
            net,
            self.options,
            self.device,
            self.fabric.autocast,
            half=self.half,
            rank=self.rank,
            processes=self.processes,
        )
        self.optimiser = _optimiser(self.options, net, self.device)
        if state is not None:
            self._restore(state)
        self._write_config(net)
        self.logbook = Logbook(self.run, self.step, self.options.tensorboard, self.writes)
        self.closing.append(self.logbook.close)
        with self.bar:
            source = self._source()
            with _stop_requests() as stop:
                self._train_steps(source, stop)
            if self.validation is not None and not self.recall:  # asked for after the run had ended
                self._validate()
            return self._finish()

    def _train_steps(self, source: Source, stop: threading.Event) -> None:
        options = self.options
        self.bar.begin("training", self.steps, self.step)
        self._tic = time.perf_counter()
        prefetched = Prefetched(
            self._my_batch, source, range(self.step, self.steps), options.prefetch, self.device
        )
        self.closing.append(prefetched.close)
        for batch, loaded in prefetched:
            self._step(batch, self._learn(batch, loaded))
            done = self.step
            last = done == self.steps
            logged = last or done % options.log_every == 0
            if logged:
                self._log()
            if self.validation is not None and (last or _due(done, options.validate_every)):
                self._validate()
            if self._stop_agreed(stop.is_set(), logged):
                self._save_checkpoint()
                self.fabric.barrier()  # a process that ends first takes the others with it
                raise TrainingStopped(
                    f"stopped at step {done}, as asked; its checkpoint is kept: pass --resume to go on"
                )
            if _due(done, options.checkpoint_every) or last:
                self._save_checkpoint()
        self._pause()

    def _stop_agreed(self, asked: bool, logged: bool) -> bool:
        """Whether to stop now. Several processes stop at the same step, the next logged one, if any was asked to:
        one that goes on alone would wait for the others for ever."""
        if self.processes == 1:
            return asked
        if not logged:
            return False
        any_asked = torch.tensor(int(asked), device=self.device)
        dist.all_reduce(any_asked, op=dist.ReduceOp.MAX)
        return bool(any_asked)

    def _learn(self, batch: Batch, loaded: Any) -> StepStats:
        # whatever draws at random inside a network draws by (seed, step), too
        torch.manual_seed(_mixed(self.options.seed, batch.step))
        for group in self.optimiser.param_groups:
            group["lr"] = self.schedule(batch.step * self.options.batch_pairs)
        stats = self.learner.backward(batch, loaded)
        self.learner.sync_gradients()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return stats

    def _step(self, batch: Batch, stats: StepStats) -> None:
        self.step = batch.step + 1
        self.redrawn += batch.redrawn
        self._session_pairs += self.options.batch_pairs
        self._sums += torch.stack([stats.loss, stats.zero])
        self._steps_summed += 1
        # the first step whose loss is no number is remembered on the device, so that nothing waits for it
        failed = torch.full_like(self._failed, self.step)
        self._failed = torch.where((self._failed == 0) & ~stats.loss.isfinite(), failed, self._failed)
        if self.device.type == "cpu" and self.processes == 1:
            self._refuse_nan()
        self.bar.advance()

    # ---- numbers ----

    def _log(self) -> None:
        self._refuse_nan()
        loss, zero = (self._over_processes(self._sums.clone()) / self._steps_summed).tolist()
        self.loss = loss
        rate = self.schedule((self.step - 1) * self.options.batch_pairs)
        elapsed = self._seconds + time.perf_counter() - self._tic
        speed = self._session_pairs / max(elapsed, 1e-9)
        record = {
            "step": self.step,
            "pairs": self.step * self.options.batch_pairs,
            "loss": loss,
            "zero_losses": zero,
            "learning_rate": rate,
            "redrawn": self.redrawn,
            "pairs_per_second": round(speed, 2),
        }
        if self.bad.reasons:
            record["skipped_images"] = len(self.bad.reasons)
        self.logbook.write(record)
        self.bar.tell(f"{speed:,.0f} pairs/s · loss {loss:.4f} · {zero:.0%} zero")
        self._sums.zero_()
        self._steps_summed = 0

    def _refuse_nan(self) -> None:
        failed = self._failed.clone()
        if self.processes > 1:
            dist.all_reduce(failed, op=dist.ReduceOp.MAX)
        if int(failed):
            kept = self.checkpoints.steps()
            last = f"the checkpoint of step {kept[-1]} is kept" if kept else "no checkpoint was written yet"
            raise TrainingStopped(
                f"step {int(failed)}: the loss is not a finite number; {last}; try a lower --learning-rate "
                f"(it was {self.schedule((int(failed) - 1) * self.options.batch_pairs):g})"
            )

    def _over_processes(self, values: torch.Tensor) -> torch.Tensor:
        if self.processes > 1:
            dist.all_reduce(values)
        return values

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Time in here is not training time."""
        self._pause()
        yield
        self._tic = time.perf_counter()

    def _pause(self) -> None:
        wait_for(self.device)
        self._seconds += time.perf_counter() - self._tic

    # ---- images ----

    def _my_batch(self, step: int) -> Batch:
        return self.batches(step).part(self.rank, self.processes)

    def _files(self, images: ImageList, bad: BadImages, device: torch.device | None = None) -> FileImages:
        options = self.options
        files = FileImages(
            images,
            self.learner.net.preprocessing,
            device or self.device,
            workers=options.workers,
            decode=options.decode,
            bad=bad,
        )
        self.closing.append(files.close)
        return files

    def _source(self) -> Source:
        options, images = self.options, self.batches.images
        in_host_memory = options.cache_frozen == "no" and options.images_in_memory == "host"
        files = self._files(images, self.bad, torch.device("cpu") if in_host_memory else None)
        if options.cache_frozen != "no":
            self.bar.begin("frozen features", len(images))
            net, precision = self.learner.net, str(self.learner.half)
            return keep_features(
                files,
                self.learner.frozen,
                options.cache_frozen,
                fingerprint=fingerprint_of(self.learner.trunk, net.preprocessing, images, precision),
                dtype=options.cache_dtype,
                folder=Path(options.cache_dir) if options.cache_dir else self.run / "frozen-features",
                block=2 * (options.micro_pairs or options.batch_pairs),
                tick=self.bar.advance,
                may_write=self.writes,
                wait=self.fabric.barrier,
            )
        if options.images_in_memory != "no":
            self.bar.begin("reading images", len(images))
            return keep_images(files, self.device, self.bar.advance)
        return files

    # ---- validation ----

    def _validate(self) -> None:
        assert self.validation is not None
        with self._paused():
            tables = [self.validation.queries, self.validation.places]
            queries, places = (self._describe(ImageList([table])) for table in tables)
            found = nearest(queries, places, max(self.validation.ks))
            self.recall = recall(found, self.validation.positives, self.validation.ks)
        self.logbook.write({"step": self.step, **{f"recall@{k}": v for k, v in self.recall.items()}})
        by = self.options.best_by if self.options.best_by in self.recall else max(self.recall)
        if not self.best or self.recall[by] > self.best["recall"][str(by)]:
            self.best = {"step": self.step, "recall": {str(k): v for k, v in self.recall.items()}}
            self._save_model("best")

    def _describe(self, images: ImageList) -> torch.Tensor:
        """(n, d) descriptors; each process describes its share."""
        files = self._files(images, self.bad_in_validation)
        size = self.learner.net.descriptor_size
        descriptors = torch.zeros(len(images), size, device=self.device)
        block = 2 * (self.options.micro_pairs or max(1, self.options.batch_pairs // self.processes))
        for number, rows in enumerate(in_blocks(len(images), block)):
            if number % self.processes == self.rank:
                part = slice(int(rows[0]), int(rows[-1]) + 1)
                loaded = files.load(rows)
                readable = torch.from_numpy(loaded.good).to(self.device)
                descriptors[part] = self.learner.describe_images(loaded.values) * readable[:, None]
        files.close()
        return self._over_processes(descriptors)

    # ---- files ----

    def _open_run(self, resume: bool) -> dict[str, Any] | None:
        """The state to go on from, or None. Refuses to mix two runs in one folder."""
        self.fabric.barrier()
        begun = (self.run / "config.json").is_file()
        if begun and not resume and self.checkpoints.steps():
            raise InputError(
                f"{self.run}: holds a run already; pass --resume to go on with it, or choose another folder"
            )
        if not (begun and resume):
            self._make_folder()
            return None
        config = _read_config(self.run / "config.json")
        changed = differences(config.get("options", {}), self.options.to_dict())
        if changed:
            raise InputError(f"{self.run}: cannot be resumed with other settings: {'; '.join(changed)}")
        if config.get("sets") != self._sets_facts():
            raise InputError(f"{self.run}: cannot be resumed: it was begun with other places or labels")
        state, warnings = self.checkpoints.newest()
        for line in warnings:
            self.warnings.append(line)
            self.say(f"warning: {line}")
        self._make_folder()
        return state

    def _make_folder(self) -> None:
        if self.writes:
            self.run.mkdir(parents=True, exist_ok=True)
        self.fabric.barrier()

    def _sets_facts(self) -> list[dict[str, Any]]:
        kept = ("measure", "kind", "theta", "radius", "metres", "degrees")
        return [
            {
                "queries": len(one.queries),
                "places": len(one.places),
                "pairs_above_0": one.labels.nonzero,
                "digests": list(one.digests),
                **{key: one.labels.meta[key] for key in kept if key in one.labels.meta},
            }
            for one in self.sets
        ]

    def _write_config(self, net: PlaceNet) -> None:
        resolved = {
            "steps": self.steps,
            "learning_rate": self.schedule.first_rate,
            "drop_pairs": self.schedule.drop_pairs,
            "queries": self.batches.query_count,
            "processes": self.processes,
            "device": self.device.type,
            "precision": "bf16" if self.learner.half is not None else "32",
            "torch": torch.__version__,
            "numpy": np.__version__,
        }
        config = {
            "samespot": samespot.__version__,
            "options": self.options.to_dict(),
            "resolved": resolved,
            "sets": self._sets_facts(),
            "model": net.config(),
        }
        if self.writes:
            write_whole(self.run / "config.json", (json.dumps(config, indent=1) + "\n").encode())
        for line in self.options.lines():
            self.say(line)
        self.say("resolved to " + ", ".join(f"{name} {value}" for name, value in resolved.items()))
        self.say(net.describe_training())

    def _save_checkpoint(self) -> None:
        self._refuse_nan()
        finite = all(bool(p.isfinite().all()) for p in self.learner.net.parameters() if p.requires_grad)
        if not finite:
            raise TrainingStopped(
                f"step {self.step}: weights are no longer finite numbers; try a lower --learning-rate"
            )
        sums, bad = self._over_processes(self._sums.clone()) / self.processes, self._all_bad(self.bad.reasons)
        if not self.writes:
            return
        with self._paused():
            state = {
                "step": self.step,
                "net": _contiguous(self.learner.net.state_dict()),
                "optimiser": self.optimiser.state_dict(),
                "sums": [sums.tolist(), self._steps_summed],
                "redrawn": self.redrawn,
                "loss": self.loss,
                "best": self.best,
                "recall": {str(k): v for k, v in self.recall.items()},
                "bad_images": bad,
            }
            self.checkpoints.save(self.step, state)

    def _restore(self, state: dict[str, Any]) -> None:
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.redrawn, self.loss = state["step"], state["redrawn"], state["loss"]
        self.best = state["best"]
        if self.step == self.steps:
            self.recall = {int(k): v for k, v in state["recall"].items()}
        sums, self._steps_summed = state["sums"]
        self._sums = torch.tensor(sums, device=self.device)
        self.bad.reasons.update(state["bad_images"])
        self.say(f"resumed from the checkpoint of step {self.step}")

    def _save_model(self, name: str) -> None:
        if not self.writes:
            return
        net = self.learner.net
        net.facts = {
            "steps": self.step,
            "pairs": self.step * self.options.batch_pairs,
            "options": self.options.to_dict(),
            "loss": self.loss,
            "recall": {str(k): v for k, v in self.recall.items()},
        }
        net.save(self.run / name)

    def _finish(self) -> TrainingResult:
        self._save_model("last")
        images = self.batches.images
        skipped = {str(images.path(n)): why for n, why in self._all_bad(self.bad.reasons).items()}
        skipped |= self._bad_validation_paths()
        result = TrainingResult(
            run=self.run,
            steps=self.step,
            pairs=self.step * self.options.batch_pairs,
            loss=self.loss if self.loss is None or math.isfinite(self.loss) else None,
            pairs_per_second=self._session_pairs / max(self._seconds, 1e-9),
            redrawn=self.redrawn,
            skipped_images=skipped,
            recall=self.recall,
            best_recall={int(k): v for k, v in self.best.get("recall", {}).items()},
            best_step=self.best.get("step"),
            model=self.run / ("best" if self.best else "last"),
            warnings=self.warnings,
        )
        if self.writes:
            write_whole(self.run / "result.json", (json.dumps(result.to_dict(), indent=1) + "\n").encode())
        return result

    def _all_bad(self, reasons: dict[int, str]) -> dict[int, str]:
        """The unreadable images that any process has met."""
        if self.processes == 1:
            return dict(reasons)
        everyone: list[dict[int, str]] = [{} for _ in range(self.processes)]
        dist.all_gather_object(everyone, reasons)
        return {number: why for part in everyone for number, why in part.items()}

    def _bad_validation_paths(self) -> dict[str, str]:
        """A reason names its file, so that is where the path comes from."""
        return {why.partition(":")[0]: why for why in self._all_bad(self.bad_in_validation.reasons).values()}

    def close(self) -> None:
        for close in reversed(self.closing):
            close()


def build_net(options: TrainingOptions) -> PlaceNet:
    """The network that the options describe."""
    if options.model is None:
        return PlaceNet(
            options.backbone,
            options.pool,
            options.pretrained,
            weights=options.weights,
            train_blocks=options.train_blocks,
            image_size=options.image_size,
            margin=options.margin,
        )
    net = PlaceNet.load(options.model)
    net.set_train_blocks(options.train_blocks)
    net.preprocessing = replace(net.preprocessing, size=options.image_size)
    net.margin = options.margin
    return net


def _load_weights(net: PlaceNet, tensors: dict[str, torch.Tensor], run: Path) -> None:
    try:
        net.load_state_dict(tensors)
    except RuntimeError as error:
        raise InputError(
            f"{run}: its checkpoint is of another network ({str(error).splitlines()[0]})"
        ) from None


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _optimiser(options: TrainingOptions, net: PlaceNet, device: torch.device) -> torch.optim.Optimizer:
    trained = [p for p in net.parameters() if p.requires_grad]
    if not trained:
        raise InputError(
            "nothing to train: --train-blocks 0 freezes the whole backbone and this pooling has no weights"
        )
    fused = device.type == "cuda"
    rate, decay = options.first_rate, options.weight_decay
    if options.optimiser == "adamw":
        return torch.optim.AdamW(trained, rate, weight_decay=decay, fused=fused)
    return torch.optim.SGD(trained, rate, momentum=options.momentum, weight_decay=decay, fused=fused)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); delete the run folder and start again") from None
    return config if isinstance(config, dict) else {}


def _contiguous(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _mixed(seed: int, step: int) -> int:
    return (seed * 0x9E3779B97F4A7C15 + step) % (1 << 63)


@contextmanager
def _stop_requests() -> Iterator[threading.Event]:
    """Ctrl-C or a polite kill lets the current step end, and its checkpoint be written."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(*_: object) -> None:
        if stop.is_set():  # asked twice: at once
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
