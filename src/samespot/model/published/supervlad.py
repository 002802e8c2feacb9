"""SuperVLAD without its cross-image encoder."""

from samespot.model.published.cricavpr import MIXES
from samespot.model.published.record import NOT_STATED, Published, WeightsFile, dinov2

_DRIVE = "1wRkUO4E8s5hNRNNIWcuA8RUvlGob3Tbf"

MODELS = (
    Published(
        name="supervlad",
        paper="Lu et al., SuperVLAD: Compact and Robust Image Descriptors for Visual Place Recognition, NeurIPS 2024",
        backbone="vit_base_patch14_dinov2",
        pool="supervlad4",
        dims=3072,
        image_size=(322, 322),
        multiple=14,
        parameters=86_583_552,
        code_licence="MIT",
        licence=NOT_STATED,
        page="https://github.com/Lu-Feng/SuperVLAD",
        weights=WeightsFile(
            f"https://drive.usercontent.google.com/download?id={_DRIVE}&export=download&confirm=t",
            "SuperVLAD.pth",  # no source tells its digest
            page=f"https://drive.google.com/file/d/{_DRIVE}/view",
        ),
        rules=(*dinov2("backbone."), ("aggregation.conv.", "pool.conv.")),
        refused={
            "encoder.": f"these weights have a cross-image encoder, which {MIXES}; take those without one"
        },
    ),
)
