"""MegaLoc: SALAD with longer clusters, trained on five data sets, indoors and outdoors."""

from samespot.model.published.record import Published, WeightsFile, dinov2

MODELS = (
    Published(
        name="megaloc",
        paper="Berton and Masone, MegaLoc: One Retrieval to Place Them All, CVPR workshops 2025",
        backbone="vit_base_patch14_dinov2",
        pool="megaloc",
        dims=8448,
        image_size=(322, 322),
        multiple=14,
        parameters=228_639_553,
        code_licence="MIT",
        licence="MIT",
        page="https://huggingface.co/gberton/MegaLoc",
        weights=WeightsFile(
            "https://huggingface.co/gberton/MegaLoc/resolve/7cb9f7970d366fdf059963d04d372e503e8e9df9/model.safetensors",
            "megaloc.safetensors",
            # several public repositories pin this digest of that revision
            "d4f9f2bcb60018f91eb6a8e061ed054fd55654e10c2569cf13841ea986ffb4f8",
        ),
        rules=(
            *dinov2("backbone."),
            ("aggregator.agg.token_features.", "pool.token."),
            ("aggregator.agg.cluster_features.0.", "pool.local.0."),
            ("aggregator.agg.cluster_features.3.", "pool.local.2."),  # 1 is their dropout
            ("aggregator.agg.score.0.", "pool.score.0."),
            ("aggregator.agg.score.3.", "pool.score.2."),
            ("aggregator.agg.dust_bin", "pool.dustbin"),
            ("aggregator.linear.", "pool.project."),
        ),
    ),
)
