"""EigenPlaces: CosPlace's network, trained to see a place from several sides."""

from __future__ import annotations

from samespot.model.published.cosplace import FIRST, variant

LENGTHS = {
    "VGG16": (512,),
    "ResNet18": (256, 512),
    "ResNet50": (128, 256, 512, 1024, 2048),
    "ResNet101": (128, 256, 512, 1024, 2048),
}
# a public repository that exports this model pins its digest; no source tells the others
DIGESTS = {FIRST: "98e8e21e9364a7e0990a9d7e1de5853b6d830f7f73d6bd9ee4f397575e0d41d1"}

MODELS = sorted(
    (
        variant(
            "eigenplaces",
            trunk,
            size,
            "Berton et al., EigenPlaces: Training Viewpoint Robust Models for Visual Place Recognition, ICCV 2023",
            "https://github.com/gmberton/EigenPlaces",
            DIGESTS.get((trunk, size)),
        )
        for trunk, sizes in LENGTHS.items()
        for size in sizes
    ),
    key=lambda one: one.family is not None,
)
