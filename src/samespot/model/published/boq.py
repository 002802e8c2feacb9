"""BoQ on ResNet50 without its last stage, and on DINOv2 without its last norm."""

from __future__ import annotations

from samespot.model.published.record import NOT_STATED, Published, Rules, WeightsFile, dinov2, resnet_children

PAPER = "Ali-bey et al., BoQ: A Place is Worth a Bag of Learnable Queries, CVPR 2024"
PAGE = "https://github.com/amaralibey/Bag-of-Queries"
_ROUND = {
    "encoder": "layer",
    "queries": "queries",
    "self_attn": "among",
    "norm_q": "norm_queries",
    "cross_attn": "across",
    "norm_out": "norm_answers",
}
_POOL: Rules = (
    ("aggregator.proj_c.", "pool.project."),
    ("aggregator.norm_input.", "pool.norm."),
    ("aggregator.fc.", "pool.rows."),
    *(
        (f"aggregator.boqs.{number}.{theirs}", f"pool.rounds.{number}.{ours}")
        for number in range(2)
        for theirs, ours in _ROUND.items()
    ),
)

MODELS = (
    Published(
        name="boq",
        paper=PAPER,
        backbone="resnet50",
        pool="boq16384",
        dims=16384,
        image_size=(384, 384),
        parameters=23_844_448,
        code_licence="MIT",
        licence=NOT_STATED,
        page=PAGE,
        weights=WeightsFile(
            f"{PAGE}/releases/download/v1.0/resnet50_16384.pth",
            "resnet50_16384.pth",
            # a public repository pins it
            "4691d1545db847da2c0ba911f34e6c520a5da63f8b94c6415fe87d0d8800ebaa",
        ),
        rules=(*resnet_children("backbone.net."), *_POOL),
    ),
    Published(
        name="boq-dinov2",
        paper=PAPER,
        backbone="vit_base_patch14_dinov2",
        pool="boq12288",
        dims=12288,
        image_size=(322, 322),
        multiple=14,
        parameters=95_204_256,
        code_licence="MIT",
        licence=NOT_STATED,
        page=PAGE,
        weights=WeightsFile(
            f"{PAGE}/releases/download/v1.0/dinov2_12288.pth",
            "dinov2_12288.pth",  # no source tells its digest
        ),
        rules=(("backbone.dino.norm.", None), *dinov2("backbone.dino."), *_POOL),
    ),
)
