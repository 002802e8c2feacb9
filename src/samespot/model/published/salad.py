"""DINOv2 SALAD."""

from samespot.model.published.record import NOT_STATED, Published, WeightsFile, dinov2

MODELS = (
    Published(
        name="salad",
        paper="Izquierdo and Civera, Optimal Transport Aggregation for Visual Place Recognition, CVPR 2024",
        backbone="vit_base_patch14_dinov2",
        pool="salad",
        dims=8448,
        image_size=(322, 322),
        multiple=14,
        parameters=87_990_721,
        code_licence="GPL-3.0",
        licence=NOT_STATED,
        page="https://github.com/serizba/salad",
        weights=WeightsFile(
            "https://github.com/serizba/salad/releases/download/v1.0.0/dino_salad.ckpt",
            "dino_salad.ckpt",  # no source tells its digest
        ),
        rules=(
            *dinov2("backbone.model."),
            ("aggregator.token_features.", "pool.token."),
            ("aggregator.cluster_features.0.", "pool.local.0."),
            ("aggregator.cluster_features.3.", "pool.local.2."),  # 1 is their dropout
            ("aggregator.score.0.", "pool.score.0."),
            ("aggregator.score.3.", "pool.score.2."),
            ("aggregator.dust_bin", "pool.dustbin"),
        ),
    ),
)
