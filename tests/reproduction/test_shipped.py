"""The recipe of the shipped model, in small: towns, their true overlap, a run, and a model folder."""

import numpy as np

import samespot
from reproduction import shipped


def test_the_recipe_makes_a_model_that_is_used_like_any_other(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "VISITS", 2)
    monkeypatch.setattr(shipped, "SIZE", (48, 64))
    monkeypatch.setattr(shipped, "EVERY", 2)
    folder = shipped.train_shipped(
        tmp_path / "model",
        tmp_path / "work",
        towns=1,
        photos_per_visit=30,
        processes=1,
        steps=2,
        batch_pairs=4,
        loss_dims=8,
    )
    net = samespot.load_model(folder)
    assert (net.backbone, net.pool_name, net.descriptor_size) == ("efficientnet_lite0", "multi", 1888)
    assert net.facts["options"]["loss"] == "graded-multi-similarity"
    assert net.whitening.rank <= shipped.DIMS
    assert "towns" in net.whitening.fitted_on
    (places, labels), *_ = shipped.labelled_towns(tmp_path / "work", 1, 30, 1, lambda *_: None)
    dense = labels.dense()
    assert np.array_equal(dense, dense.T)
    assert (np.diag(dense) == 1).all()
    far = np.hypot(*(places.centres[:, None, :2] - places.centres[None, :, :2]).transpose(2, 0, 1)) >= 45
    assert (dense[far] == 0).all()
    assert 0 < (dense[~far] > 0).mean() < 1
