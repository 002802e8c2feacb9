"""Which device, which precision: one answer everywhere."""

import pytest
import torch

from samespot.devices import device_named, half_of, mixed, precision_name
from samespot.errors import InputError

CPU = torch.device("cpu")


def test_automatic_is_the_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert device_named("auto") == CPU
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert device_named("auto") == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "1")  # of torchrun: each process has a GPU of its own
    assert device_named("cuda") == torch.device("cuda", 1)
    assert device_named("cuda:0") == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(InputError, match="`device=cuda`: torch sees 2 GPUs, and GPU 2 is asked for"):
        device_named("cuda")


@pytest.mark.parametrize(
    ("device", "decode", "complaint"),
    [
        (
            "cuda",
            "auto",
            "`device=cuda`: torch sees no GPU; check the driver with nvidia-smi, or use `device=cpu`",
        ),
        ("cpu", "gpu", "`decode=gpu` needs a CUDA device"),
        ("gpu", "auto", "`device` 'gpu' is unknown; choose auto, cpu or cuda"),
        ("meta", "auto", "`device` 'meta' is unknown"),
    ],
)
def test_a_device_that_is_not_there_is_named(device, decode, complaint, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError) as caught:
        device_named(device, decode)
    assert str(caught.value).startswith(complaint)


def test_half_precision_is_asked_for_or_of_a_gpu():
    assert [precision_name(word, CPU) for word in ("auto", "32", "bf16")] == ["32", "32", "bf16"]
    assert (half_of("32"), half_of("bf16")) == (None, torch.bfloat16)
    layer, x = torch.nn.Linear(4, 4), torch.ones(1, 4)
    for half, kind in ((None, torch.float32), (torch.bfloat16, torch.bfloat16)):
        with mixed(CPU, half):
            assert layer(x).dtype == kind
