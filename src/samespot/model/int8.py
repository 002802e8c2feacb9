"""A graph in 8-bit integers, for processors with instructions for them: twice as fast again, and not quite the same.

How large numbers get at each step is seen on pictures that are generated, always the same ones. So the graph depends
on the model alone, and descriptors of two tables are made alike whichever was described first.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PICTURES, AT_ONCE = 64, 16  # to see how large numbers get
STEPS = ["Conv", "Add", "Clip", "Relu", "MaxPool"]  # what is done in integers


def quantised(graph: bytes, size: tuple[int, int]) -> bytes:
    """The graph of uint8 `images` with most of its steps in integers; weights channel by channel."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            pictures = generated_pictures(PICTURES, size)
            self.blocks = iter([pictures[at : at + AT_ONCE] for at in range(0, PICTURES, AT_ONCE)])

        def get_next(self) -> dict[str, Any] | None:
            block = next(self.blocks, None)
            return None if block is None else {"images": block}

    with tempfile.TemporaryDirectory() as folder:
        plain, prepared, made = (Path(folder) / name for name in ("plain", "prepared", "made"))
        plain.write_bytes(graph)
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(made),
            Reader(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=STEPS,
        )
        return made.read_bytes()


def generated_pictures(count: int, size: tuple[int, int], seed: int = 1) -> NDArray[np.uint8]:
    """(count, 3, *size): crops of one large picture, near and far, dark and bright, flat and full of contrast."""
    dice = np.random.default_rng(seed)
    canvas = large_picture(3 * max(size)) - 128
    pictures = np.empty((count, 3, *size), dtype=np.uint8)
    for one in pictures:
        step = int(dice.integers(1, 4))
        top, left = (int(dice.integers(0, canvas.shape[axis] - step * size[axis] + 1)) for axis in (0, 1))
        crop = canvas[top : top + step * size[0] : step, left : left + step * size[1] : step]
        seen = crop * dice.uniform(0.3, 1.5) + dice.uniform(60, 200)
        one[:] = seen.clip(0, 255).astype(np.uint8).transpose(2, 0, 1)
    return pictures


def large_picture(side: int) -> NDArray[np.float32]:
    """(side, side, 3) noise around 128 whose amplitude falls with the frequency, as in photos; mostly grey."""
    dice = np.random.default_rng(0)
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :])
    frequency[0, 0] = np.inf
    grey, *tint = (
        np.fft.irfft2(np.fft.rfft2(dice.normal(size=(side, side))) / frequency**1.4, s=(side, side))
        for _ in range(4)
    )
    picture = np.stack([grey / grey.std() + 0.3 * colour / colour.std() for colour in tint], axis=-1)
    return (128 + 50 * picture).astype(np.float32)
