"""CosPlace, of several trunks and lengths: `cosplace` is ResNet50 with 2048, others are as cosplace-resnet18-512."""

from __future__ import annotations

from samespot.model.published.record import NOT_STATED, Published, Rules, WeightsFile, resnet_children

LENGTHS = {
    "VGG16": (64, 128, 256, 512),
    "ResNet18": (32, 64, 128, 256, 512),
    "ResNet50": (32, 64, 128, 256, 512, 1024, 2048),
    "ResNet101": (32, 64, 128, 256, 512, 1024, 2048),
    "ResNet152": (32, 64, 128, 256, 512, 1024, 2048),
}
FIRST = ("ResNet50", 2048)
# parameters of the trunk, and its channels
TRUNKS = {
    "VGG16": (14_714_688, 512),
    "ResNet18": (11_176_512, 512),
    "ResNet50": (23_508_032, 2048),
    "ResNet101": (42_500_160, 2048),
    "ResNet152": (58_143_808, 2048),
}


def rules(trunk: str) -> Rules:
    """Of both CosPlace and EigenPlaces."""
    body: Rules = (("backbone.", "trunk.features."),) if trunk == "VGG16" else resnet_children("backbone.")
    return (*body, ("aggregation.1.p", "pool.gem.p"), ("aggregation.3.", "pool.linear."))


def variant(
    family: str, trunk: str, size: int, paper: str, repository: str, sha256: str | None = None
) -> Published:
    """A model of CosPlace's shape. They evaluate photos as large as they are; 480x640 is the size of most test sets."""
    first = (trunk, size) == FIRST
    trunk_parameters, channels = TRUNKS[trunk]
    file = f"{trunk}_{size}_{family}.pth"
    return Published(
        name=family if first else f"{family}-{trunk.lower()}-{size}",
        paper=paper,
        backbone=trunk.lower(),
        pool=f"cosplace{size}",
        dims=size,
        image_size=(480, 640),
        parameters=trunk_parameters + 1 + (channels + 1) * size,
        code_licence="MIT",
        licence=NOT_STATED,
        page=repository,
        weights=WeightsFile(f"{repository}/releases/download/v1.0/{file}", file, sha256),
        rules=rules(trunk),
        family=None if first else family,
    )


MODELS = sorted(
    (
        variant(
            "cosplace",
            trunk,
            size,
            "Berton et al., Rethinking Visual Geo-localization for Large-Scale Applications, CVPR 2022",
            "https://github.com/gmberton/CosPlace",  # no source tells the digests of its files
        )
        for trunk, sizes in LENGTHS.items()
        for size in sizes
    ),
    key=lambda one: one.family is not None,  # `cosplace` itself first
)
