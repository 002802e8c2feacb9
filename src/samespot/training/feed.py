"""Where do the images of a run come from? Files, memory, or outputs of the frozen part that were computed once."""

from __future__ import annotations

from pathlib import Path

import torch

from samespot.devices import Processes
from samespot.images.kept import keep_images
from samespot.images.listing import ImageList
from samespot.images.preprocess import Preprocessing
from samespot.images.sources import BadImages, FileImages, Source
from samespot.progress import Progress, counting
from samespot.training.cache import fingerprint_of, keep_features
from samespot.training.gradient import Learner


class Feed:
    """Opens what the options ask for; close it at the end."""

    def __init__(
        self, learner: Learner, images: ImageList, run: Path, processes: Processes, progress: Progress
    ) -> None:
        self.learner, self.options, self.images = learner, learner.options, images
        self.run, self.processes, self.progress = run, processes, progress
        self.bad = BadImages(self.options.on_bad_image)
        self._open: list[FileImages] = []

    def source(self, shared: dict[str, Source] | None = None) -> Source:
        """The images to learn from. What is kept in memory is put into `shared`, and taken from there."""
        options, net = self.options, self.learner.net
        kept = options.cache_frozen in ("memory", "device") or options.images_in_memory != "no"
        if shared is None or not kept:
            return self._source()
        cached = options.cache_frozen != "no"
        key = fingerprint_of(
            self.learner.trunk if cached else torch.nn.Identity(),
            net.preprocessing if cached else Preprocessing(net.preprocessing.size),
            self.images,
            f"{self.learner.half} {options.cache_frozen} {options.cache_dtype} {options.images_in_memory}",
        )
        if key not in shared:
            shared[key] = self._source()
        return shared[key]

    def _source(self) -> Source:
        options, images, learner = self.options, self.images, self.learner
        in_host_memory = options.cache_frozen == "no" and options.images_in_memory == "host"
        files = self.files(images, self.bad, torch.device("cpu") if in_host_memory else None)
        if options.cache_frozen != "no":
            return keep_features(
                files,
                learner.frozen,
                options.cache_frozen,
                fingerprint=fingerprint_of(
                    learner.trunk, learner.net.preprocessing, images, str(learner.half)
                ),
                dtype=options.cache_dtype,
                folder=Path(options.cache_dir) if options.cache_dir else self.run / "frozen-features",
                block=2 * (options.micro_pairs or options.batch_pairs),
                tick=counting(self.progress, "frozen features", len(images)),
                may_write=self.processes.first,
                wait=self.processes.wait,
            )
        if options.images_in_memory != "no":
            return keep_images(files, learner.device, counting(self.progress, "reading images", len(images)))
        return files

    def files(self, images: ImageList, bad: BadImages, device: torch.device | None = None) -> FileImages:
        """The files of some images as they are."""
        files = FileImages(
            images,
            self.learner.net.preprocessing,
            device or self.learner.device,
            workers=self.options.workers,
            decode=self.options.decode,
            bad=bad,
        )
        self._open.append(files)
        return files

    def close(self) -> None:
        for files in reversed(self._open):
            files.close()
