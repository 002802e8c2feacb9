"""Re-ranking as a user asks for it, on pictures whose neighbours are known."""

import numpy as np
import pytest
import torch
from PIL import Image

from samespot import Places
from samespot.evaluation.results import Evaluation
from samespot.figures import evaluation as evaluation_figures
from samespot.model.network import PlaceNet
from samespot.retrieval import describe


@pytest.fixture(scope="module", autouse=True)
def quick(one_thread):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(describe, "fold_batch_norms", lambda stages: stages.eval().requires_grad_(False))
        patch.setattr(evaluation_figures, "_figures", lambda done, out: [])
        yield


@pytest.fixture(scope="module")
def street(tmp_path_factory):
    """A map of pictures 0 to 4, 100 m apart, queries of pictures 0 to 2 beside them, and two networks."""
    folder = tmp_path_factory.mktemp("street")
    for name, count in (("map", 5), ("queries", 3)):
        (folder / name).mkdir()
        for number in range(count):
            pixels = np.random.default_rng(number).integers(0, 256, (24, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).resize((640, 480), Image.Resampling.NEAREST).save(
                folder / name / f"{number}.png"
            )
        names = [f"{name}/{i}.png" for i in range(count)]
        columns = {"image": names, "easting": 100.0 * np.arange(count), "northing": 0.0, "heading": 0.0}
        Places.build(folder, columns).save(folder / f"{name}.csv")
    for pool in ("gem", "netvlad4"):
        torch.manual_seed(0)
        net = PlaceNet("test_resnet.r160_in1k", pool, pretrained=False, image_size=(96, 128))
        net.save(folder / pool)
    return folder


def evaluated(samespot, folder, model, *words):
    tables = ("--map", folder / "map.csv", "--queries", folder / "queries.csv", "--gallery", 0)
    out = folder / f"{model}-evaluation"
    code, said, err = samespot("evaluate", folder / model, *tables, "--out", out, *words)
    assert code == 0, err
    return Evaluation.load(out), said, err


def test_patch_netvlad_beside_the_plain_descriptor(samespot, street):
    words = ("--rerank", "patch-netvlad", "--rerank-patches", "1,2:0.5", "--rerank-scoring", "rapid")
    result, said, err = evaluated(samespot, street, "netvlad4", *words)
    plain, better = result.variants
    assert better.name == f"{plain.name} re-ranked by patch-netvlad"
    assert better.metrics["R@1"].value == 1.0  # the same picture fits itself best
    assert "re-ranked by" in said
    told = result.settings["re-ranking"]
    assert (told["sizes"], told["weights"], told["scoring"], told["top"]) == (
        [1, 2],
        [0.5, 0.5],
        "rapid",
        100,
    )
    assert told["dims of a patch"] == 4
    assert "patches have 4 dims, not 512: 5 photos" in " ".join(err.split())
    assert "give training places to learn it elsewhere" in " ".join(err.split())
    assert sorted(path.name for path in (street / "netvlad4-evaluation" / "local-features").iterdir()) == [
        "table-map",
        "table-queries",
    ]


def test_the_lists_of_a_whitening_from_a_file_are_re_ranked(samespot, street):
    evaluated(samespot, street, "netvlad4", "--whiten", 3)
    file = (street / "netvlad4-evaluation" / "whitening-the-map.safetensors").rename(street / "w.safetensors")
    words = (
        "--rerank",
        "patch-netvlad",
        "--rerank-patches",
        "1",
        "--rerank-of",
        "4 whitened with w.safetensors",
    )
    result, said, _ = evaluated(samespot, street, "netvlad4", "--whiten-with", file, "--whiten", 3, *words)
    assert [variant.name for variant in result.variants][1:] == [
        "3 whitened on the map",
        "3 whitened with w.safetensors",
        "4 whitened with w.safetensors",
        "4 whitened with w.safetensors re-ranked by patch-netvlad",
    ]
    assert result.variants[-1].metrics["R@1"].value == 1.0
    assert "re-ranked by" in said


def test_xfeat_beside_the_plain_descriptor(samespot, street):
    words = ("--rerank", "xfeat", "--rerank-keypoints", 100, "--rerank-top", 2)
    result, _, _ = evaluated(samespot, street, "gem", *words)
    _, better = result.variants
    assert result.settings["re-ranking"]["keypoints"] == 100
    assert better.metrics["R@1"].value == 1.0
    np.testing.assert_array_equal(better.outcomes["score"], 100)  # every keypoint fits


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--rerank", "sift"),
            "--rerank 'sift' is unknown; choose one of patch-netvlad, xfeat, lighterglue",
        ),
        (("--rerank-top", 5), "--rerank-top has no effect without --rerank"),
        (("--rerank", "xfeat", "--rerank-dims", 64), "--rerank-dims has no effect with --rerank xfeat"),
        (
            ("--rerank", "patch-netvlad", "--rerank-keypoints", 64),
            "--rerank-keypoints has no effect with --rerank patch-netvlad",
        ),
        (
            ("--rerank", "disk", "--rerank-patches", "2,5"),
            "--rerank-patches has no effect with --rerank disk",
        ),
        (("--rerank", "xfeat", "--rerank-top", 0), "--rerank-top 0 must be at least 1"),
        (
            ("--rerank", "patch-netvlad", "--rerank-patches", "two"),
            "--rerank-patches 'two' is not understood",
        ),
        (("--rerank", "patch-netvlad", "--rerank-scoring", "slow"), "--rerank-scoring 'slow' is unknown"),
        (("--rerank", "patch-netvlad"), "pools by gem; train one with `pool=netvlad64`"),
    ],
)
def test_a_mistake_is_one_line(samespot, street, words, said):
    tables = ("--map", street / "map.csv", "--queries", street / "queries.csv")
    code, _, err = samespot("evaluate", street / "gem", *tables, "--out", street / "wrong", *words)
    assert (code, err.count("\n")) == (2, 1)
    assert said in err
