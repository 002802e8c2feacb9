"""Which model a folder means."""

from samespot.model.checkpoint import model_folder


def test_the_best_model_goes_before_the_last(tmp_path):
    assert model_folder(tmp_path) is None
    for name in ("last", "best"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"")
        assert model_folder(tmp_path) == tmp_path / name
