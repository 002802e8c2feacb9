"""The loop from labelled photos to a model. A run is a folder, and the same run whether or not it was interrupted.

run/config.json      every option, what it was resolved to, and what was learned from
run/metrics.jsonl    one json object a line: loss, share of zero losses, rate, forward passes, recall
run/checkpoints/     the newest ones, to resume from
run/last/, run/best/ model folders
run/tensorboard/     curves
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

import samespot
from samespot.errors import InputError
from samespot.files import read_json, write_json
from samespot.images.listing import ImageList
from samespot.images.prefetch import Prefetched
from samespot.images.preprocess import Preprocessing
from samespot.images.sources import BadImages, FileImages, Source, in_blocks, keep_images, send, wait_for
from samespot.model.netvlad import NetVLAD
from samespot.model.network import PlaceNet
from samespot.training.batches import Batch, batches_of
from samespot.training.cache import fingerprint_of, keep_features
from samespot.training.checkpoints import (
    UNWRITABLE,
    Checkpoints,
    StopRequested,
    TrainingStopped,
    stopped_by,
)
from samespot.training.cluster_start import PHOTOS, start_clusters
from samespot.training.fabric import launch
from samespot.training.gradient import Learner, StepStats
from samespot.training.logbook import Logbook, ProgressBar
from samespot.training.mining import Mined, Tuples, tuples_of
from samespot.training.options import TrainingOptions, differences
from samespot.training.schedule import Schedule, schedule_of, total_steps
from samespot.training.sets import LabelledSet
from samespot.training.validation import Validation, nearest, recall

__all__ = ["TrainingResult", "TrainingStopped", "train"]


@dataclass
class TrainingResult:
    """What came of a run."""

    run: Path
    steps: int
    pairs: int  # or tuples
    loss: float | None  # mean of the last logged stretch
    pairs_per_second: float  # of this session, without start-up and validation
    redrawn: int  # queries without a match of the class drawn for them
    skipped_images: dict[str, str]  # path -> why it could not be read
    recall: dict[int, float] = field(default_factory=dict)  # at the end
    best_recall: dict[int, float] = field(default_factory=dict)
    best_step: int | None = None
    model: Path | None = None  # the best model where there was a validation, else the last
    warnings: list[str] = field(default_factory=list)
    # images through the trained part, over all sessions and processes: the price that does not depend on the machine
    learning_images: int = 0
    mining_images: int = 0  # 0 but for losses of mined tuples
    mining_seconds: float = 0.0
    training_seconds: float = 0.0  # of all sessions, mining included, without start-up and validation

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
    shared: dict[str, Source] | None = None,
) -> TrainingResult:
    """Train a network on labelled sets; everything about the run is in its folder.

    `net` is the network to start from instead of the one that the options describe. `resume` goes on from the
    newest whole checkpoint, and starts anew where there is none. `say` is given lines for the reader (the
    configuration, warnings); the progress bar shows on a terminal only. `shared` is filled with what is kept in
    memory, photos or frozen features, for further runs that start alike. Under torchrun, every process calls this.
    """
    run = Path(run)
    fabric, half = launch(options)
    say = say or (lambda line: None)
    loop = _Loop(options, sets, run, fabric, half, validation, net, progress, say, shared)
    try:
        return loop.go(resume)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise stopped_by(error, loop.step, run, loop.checkpoints.steps()) from error
    except torch.cuda.OutOfMemoryError as error:
        pairs = options.micro_pairs or options.batch_pairs // fabric.world_size
        tuples = options.kind == "tuples"
        what = f"tuples of {2 + options.negatives} images" if tuples else "pairs"
        raise TrainingStopped(
            f"step {loop.step + 1}: out of GPU memory with {pairs} {what} at once; pass "
            f"`micro_pairs={max(1, pairs // 2)}`, which gives the same gradient"
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
        shared: dict[str, Source] | None = None,
    ) -> None:
        self.options, self.sets, self.run, self.validation = options, sets, run, validation
        self.shared = shared
        self.fabric, self.half = fabric, half
        self.device: torch.device = fabric.device
        self.rank, self.processes = int(fabric.global_rank), int(fabric.world_size)
        self.writes = self.rank == 0
        self.say = say if self.writes else (lambda line: None)
        self.bar = ProgressBar(progress and self.writes)
        self.checkpoints = Checkpoints(run / "checkpoints", options.keep_checkpoints)
        mined = options.kind == "tuples"
        self.batches = tuples_of(options, sets) if mined else batches_of(options, sets)
        self.steps = total_steps(options, self.batches.query_count)
        self.schedule: Schedule = schedule_of(options, self.batches.query_count)
        self.bad, self.bad_in_validation = BadImages(options.on_bad_image), BadImages(options.on_bad_image)
        self.given_net = net
        self.closing: list[Callable[[], None]] = []
        self.warnings: list[str] = []
        # what a checkpoint holds besides weights
        self.step = self.redrawn = self.learning_images = self.mining_images = 0
        self.mining_seconds = 0.0
        self.loss: float | None = None
        self.best: dict[str, Any] = {}
        self.recall: dict[int, float] = {}
        # since the last log
        self._sums, self._steps_summed = torch.zeros(2, device=self.device), 0
        self._failed = torch.zeros((), dtype=torch.int64, device=self.device)
        # of this session
        self._tic, self._seconds, self._session_pairs = time.perf_counter(), 0.0, 0
        self._earlier_seconds = 0.0  # of earlier sessions

    # ---- the run, first to last ----

    def go(self, resume: bool) -> TrainingResult:
        torch.manual_seed(self.options.seed)
        net = self.given_net or build_net(self.options)
        self.options = self.options.of_network(net)
        state = self._open_run(resume)
        net.notes = self.options.objective.notes(net.notes)
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
            self._start_clusters(source)
            with _stop_requests() as stop:
                self._train_steps(source, stop)
            if self.validation is not None and not self.recall:  # asked for after the run had ended
                self._validate()
            return self._finish()

    def _train_steps(self, source: Source, stop: threading.Event) -> None:
        self.bar.begin("training", self.steps, self.step)
        self._tic = time.perf_counter()
        for steps in self._stretches(source):
            with closing(
                Prefetched(self._my_batch, source, steps, self.options.prefetch, self.device)
            ) as prefetched:
                for batch, loaded in prefetched:
                    self._step(batch, self._learn(batch, loaded))
                    self._after_step(stop)
        self._pause()

    def _after_step(self, stop: threading.Event) -> None:
        options, done = self.options, self.step
        last = done == self.steps
        logged = last or done % options.log_every == 0
        if logged:
            self._log()
        if self.validation is not None and (last or _due(done, options.validate_every)):
            self._validate()
        if self._stop_agreed(stop.is_set(), logged):
            self._save_checkpoint()
            self.fabric.barrier()  # a process that ends first takes the others with it
            raise StopRequested(
                f"stopped at step {done}, as asked; its checkpoint is kept: pass `resume` to go on"
            )
        if _due(done, options.checkpoint_every) or last:
            self._save_checkpoint()

    def _stretches(self, source: Source) -> Iterator[range]:
        """Steps whose batches may be read ahead: all of them, or those up to the next mining."""
        if not isinstance(self.batches, Tuples):
            yield range(self.step, self.steps)
            return
        while self.step < self.steps:
            if not self.batches.is_mined(self.step):
                self._mine(self.batches, source)
            yield range(self.step, min(self.batches.stretch(self.step).stop, self.steps))

    def _mine(self, tuples: Tuples, source: Source) -> None:
        """Mining is part of the training time: it is what such a loss costs."""
        self._refuse_nan()
        self._refuse_bad_weights()
        wait_for(self.device)
        tic = time.perf_counter()
        self.mining_images += tuples.mine(
            self.step, lambda numbers: self._describe(source, numbers, "mining")
        )
        self.mining_seconds += time.perf_counter() - tic
        self.bar.begin("training", self.steps, self.step)

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
        before = self.learner.passes
        stats = self.learner.backward(batch, loaded)
        self.learning_images += (self.learner.passes - before) * self.processes
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
            "learning_images": self.learning_images,
            "mining_images": self.mining_images,
            "mining_seconds": round(self.mining_seconds, 3),
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
                f"step {int(failed)}: the loss is not a finite number; {last}; try a lower `learning_rate` "
                f"(it was {self.schedule((int(failed) - 1) * self.options.batch_pairs):g})"
            )

    def _refuse_bad_weights(self) -> None:
        finite = all(bool(p.isfinite().all()) for p in self.learner.net.parameters() if p.requires_grad)
        if not finite:
            raise TrainingStopped(
                f"step {self.step}: weights are no longer finite numbers; try a lower `learning_rate`"
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
        options = self.options
        kept = options.cache_frozen in ("memory", "device") or options.images_in_memory != "no"
        if self.shared is None or not kept:
            return self._open_source()
        cached = options.cache_frozen != "no"
        trunk = self.learner.trunk if cached else torch.nn.Identity()
        how = self.learner.net.preprocessing if cached else Preprocessing(self.learner.net.preprocessing.size)
        key = fingerprint_of(
            trunk,
            how,
            self.batches.images,
            f"{self.learner.half} {options.cache_frozen} {options.cache_dtype} {options.images_in_memory}",
        )
        if key not in self.shared:
            self.shared[key] = self._open_source()
        return self.shared[key]

    def _open_source(self) -> Source:
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

    def _start_clusters(self, source: Source) -> None:
        """NetVLAD's clusters, where none came with the network or a checkpoint."""
        learner, images = self.learner, len(self.batches.images)
        pool = learner.net.pool
        if not isinstance(pool, NetVLAD) or pool.started:
            return

        def maps_of(numbers: NDArray[np.int64]) -> torch.Tensor:
            loaded = source.load(numbers)
            return learner.last_maps(loaded)[torch.from_numpy(loaded.good).to(self.device)]

        self.bar.begin("local features", min(images, PHOTOS))
        start = start_clusters(pool, maps_of, images, self.options.seed, tick=self.bar.advance)
        if self.processes > 1:  # GPUs may round differently
            for parameter in pool.parameters():
                dist.broadcast(parameter.data, 0)
        self.say(str(start))

    # ---- validation ----

    def _validate(self) -> None:
        assert self.validation is not None
        with self._paused():
            tables = [self.validation.queries, self.validation.places]
            queries, places = (self._describe_table(ImageList([table])) for table in tables)
            found = nearest(queries, places, max(self.validation.ks))
            self.recall = recall(found, self.validation.positives, self.validation.ks)
        self.logbook.write({"step": self.step, **{f"recall@{k}": v for k, v in self.recall.items()}})
        by = self.options.best_by if self.options.best_by in self.recall else max(self.recall)
        if not self.best or self.recall[by] > self.best["recall"][str(by)]:
            self.best = {"step": self.step, "recall": {str(k): v for k, v in self.recall.items()}}
            self._save_model("best")

    def _describe_table(self, images: ImageList) -> torch.Tensor:
        """(n, d) descriptors of all images, 0 where one cannot be read."""
        files = self._files(images, self.bad_in_validation)
        descriptors, good = self._describe(files, np.arange(len(images)))
        files.close()
        return descriptors * torch.from_numpy(good).to(self.device)[:, None]

    def _describe(
        self, source: Source, numbers: NDArray[np.int64], shown: str | None = None
    ) -> tuple[torch.Tensor, NDArray[np.bool_]]:
        """(n, d) descriptors of images by number, with the weights of the moment, and whether each could be read.
        Each process describes its share."""
        size = 2 * (self.options.micro_pairs or max(1, self.options.batch_pairs // self.processes))
        mine = list(in_blocks(len(numbers), size))[self.rank :: self.processes]
        found = torch.zeros(len(numbers), self.learner.net.descriptor_size, device=self.device)
        good = torch.zeros(len(numbers), device=self.device)
        if shown is not None:
            self.bar.begin(shown, len(numbers))
        blocks = Prefetched(
            lambda at: _Block(mine[at], numbers[mine[at]]),
            source,
            range(len(mine)),
            self.options.prefetch,
            self.device,
        )
        with closing(blocks):
            for block, loaded in blocks:
                part = slice(int(block.rows[0]), int(block.rows[-1]) + 1)
                found[part] = self.learner.describe_loaded(loaded)
                good[part] = send(loaded.good.astype(np.float32), self.device)
                if shown is not None:
                    self.bar.advance(len(block.rows) * self.processes)
        return self._over_processes(found), self._over_processes(good).cpu().numpy() > 0

    # ---- files ----

    def _open_run(self, resume: bool) -> dict[str, Any] | None:
        """The state to go on from, or None. Refuses to mix two runs in one folder."""
        self.fabric.barrier()
        begun = (self.run / "config.json").is_file()
        if begun and not resume and self.checkpoints.steps():
            raise InputError(
                f"{self.run}: holds a run already; pass `resume` to go on with it, or choose another folder"
            )
        if not (begun and resume):
            self._make_folder()
            return None
        config = read_json(self.run / "config.json", "delete the run folder and start again")
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
        kept = ("measure", "kind", "theta", "radius", "metres", "degrees", "steepness")
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
            write_json(self.run / "config.json", config)
        for line in self.options.lines():
            self.say(line)
        self.say("resolved to " + ", ".join(f"{name} {value}" for name, value in resolved.items()))
        self.say(net.describe_training())

    def _save_checkpoint(self) -> None:
        self._refuse_nan()
        self._refuse_bad_weights()
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
                "passes": [self.learning_images, self.mining_images, self.mining_seconds],
                "seconds": self._earlier_seconds + self._seconds,
            }
            if isinstance(self.batches, Tuples) and self.batches.mined is not None:
                state["mined"] = self.batches.mined.state()
            self.checkpoints.save(self.step, state)

    def _restore(self, state: dict[str, Any]) -> None:
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.redrawn, self.loss = state["step"], state["redrawn"], state["loss"]
        self.best = state["best"]
        # an older run did not count its passes
        self.learning_images, self.mining_images, self.mining_seconds = state.get("passes", (0, 0, 0.0))
        self._earlier_seconds = state.get("seconds", 0.0)
        if isinstance(self.batches, Tuples) and "mined" in state:
            self.batches.mined = Mined.from_state(state["mined"])
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
            learning_images=self.learning_images,
            mining_images=self.mining_images,
            mining_seconds=round(self.mining_seconds, 3),
            training_seconds=round(self._earlier_seconds + self._seconds, 3),
        )
        if self.writes:
            write_json(self.run / "result.json", result.to_dict())
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


@dataclass(frozen=True)
class _Block:
    """Images to describe at once."""

    rows: NDArray[np.int64]  # (n,) where they are among all that are described
    images: NDArray[np.int64]  # (n,) their numbers


def build_net(options: TrainingOptions) -> PlaceNet:
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
    net = PlaceNet.load(options.model)
    net.set_train_blocks(options.train_blocks)
    settled = options.of_network(net)
    assert settled.image_size is not None
    assert settled.margin is not None
    net.preprocessing = replace(net.preprocessing, size=settled.image_size)
    net.margin = settled.margin
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
            "nothing to train: `train_blocks=0` freezes the whole backbone and this pooling has no weights"
        )
    fused = device.type == "cuda"
    rate, decay = options.first_rate, options.weight_decay
    if options.optimiser == "adamw":
        return torch.optim.AdamW(trained, rate, weight_decay=decay, fused=fused)
    return torch.optim.SGD(trained, rate, momentum=options.momentum, weight_decay=decay, fused=fused)


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
