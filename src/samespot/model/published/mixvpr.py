"""MixVPR of 4096, 512 and 128 numbers."""

from __future__ import annotations

from samespot.model.published.record import NOT_STATED, Published, WeightsFile

# length of the descriptor -> file on Google Drive, its name, parameters; no source tells the digests
FILES = {
    4096: (
        "1vuz3PvnR7vxnDDLQrdHJaOA04SQrtk5L",
        "resnet50_MixVPR_4096_channels(1024)_rows(4).ckpt",
        10_880_900,
    ),
    512: ("1khiTUNzZhfV2UUupZoIsPIbsMRBYVDqj", "resnet50_MixVPR_512_channels(256)_rows(2).ckpt", 10_092_898),
    128: ("1DQnefjk1hVICOEYPwE4-CZAZOvi1NSJz", "resnet50_MixVPR_128_channels(64)_rows(2).ckpt", 9_896_098),
}
_MIXERS = tuple((f"aggregator.mix.{number}.mix.", f"pool.mixers.{number}.") for number in range(4))


def _model(size: int) -> Published:
    drive, file, parameters = FILES[size]
    return Published(
        name="mixvpr" if size == 4096 else f"mixvpr-{size}",
        paper="Ali-bey et al., MixVPR: Feature Mixing for Visual Place Recognition, WACV 2023",
        backbone="resnet50",
        pool=f"mixvpr{size}",
        dims=size,
        image_size=(320, 320),
        only_size=True,
        parameters=parameters,
        code_licence=NOT_STATED,
        licence=NOT_STATED,
        page="https://github.com/amaralibey/MixVPR",
        weights=WeightsFile(
            f"https://drive.usercontent.google.com/download?id={drive}&export=download&confirm=t",
            file,
            page=f"https://drive.google.com/file/d/{drive}/view",
        ),
        rules=(
            ("backbone.model.", "trunk."),
            *_MIXERS,
            ("aggregator.channel_proj.", "pool.channels."),
            ("aggregator.row_proj.", "pool.rows."),
        ),
        family=None if size == 4096 else "mixvpr",
    )


MODELS = tuple(_model(size) for size in FILES)
