"""PCA whitening against scikit-learn, its rank, its files and its bad rows."""

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.decomposition import PCA

import samespot
from samespot import InputError
from samespot.whitening import axes as axes_module
from samespot.whitening.products import NumpyProducts, TorchProducts
from samespot.whitening.whitening import Whitening


def descriptors(n, d, seed=0, dtype=np.float32):
    """Unit vectors around a mean far from 0, with directions of very different strength."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    vectors = rng.standard_normal((n, d)) * np.geomspace(1, 0.02, d) @ turn + 3
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(dtype)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(axes_module, "_BLOCK_BYTES", 8 * 24 * 7)


@pytest.mark.parametrize(("n", "d"), [(400, 24), (25, 24), (24, 24), (16, 60)])
def test_equal_to_scikit_learn_up_to_sign(n, d, small_blocks):
    fitted, others = descriptors(n, d), descriptors(50, d, 1)
    dims = min(n - 1, d)
    pca = PCA(dims, whiten=True, svd_solver="full").fit(fitted.astype(np.float64))
    w = Whitening.fit(fitted, "west")
    assert w.rank == min(n - 1, d)
    np.testing.assert_allclose(w.variances[:dims], pca.explained_variance_, rtol=1e-9)  # over n - 1
    np.testing.assert_allclose(w.mean, pca.mean_, atol=1e-14)
    signs = np.sign((w.axes[:dims] * pca.components_).sum(axis=1))
    np.testing.assert_allclose(w.axes[:dims], pca.components_ * signs[:, None], atol=1e-7)
    for some in (1, 5, dims):
        ours = w(others, some)
        theirs = unit((pca.transform(others.astype(np.float64)) * signs)[:, :some])
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_what_it_was_fitted_on_varies_alike_in_every_direction():
    x = descriptors(500, 20)
    w = Whitening.fit(x, "map")
    stretched = (x - w.mean) @ w.axes.T / np.sqrt(w.variances)
    np.testing.assert_allclose(np.cov(stretched.T), np.eye(20), atol=1e-8)


def test_by_hand_on_four_points():
    """A cross of ±2 along the first dim and ±1 along the second around (5, 7): sums of squares 8 and 2, over 3."""
    x = np.array([[7.0, 7], [3, 7], [5, 8], [5, 6]])
    w = Whitening.fit(x, "cross")
    np.testing.assert_allclose(w.mean, [5, 7])
    np.testing.assert_allclose(w.variances, [8 / 3, 2 / 3])
    np.testing.assert_allclose(w.axes, np.eye(2), atol=1e-15)
    # (2, 1) from the mean: 2 / sqrt(8/3) and 1 / sqrt(2/3) are equal
    np.testing.assert_allclose(w(np.array([[7.0, 8.0]]), 2), [[0.5**0.5, 0.5**0.5]], rtol=1e-6)


@pytest.mark.parametrize(("n", "d"), [(100, 12), (12, 40)])
def test_the_sign_does_not_depend_on_the_order_of_the_images(n, d):
    x = descriptors(n, d)
    there, back = Whitening.fit(x, "a"), Whitening.fit(np.ascontiguousarray(x[::-1]), "a")
    np.testing.assert_allclose(there.axes, back.axes, atol=1e-7)
    largest = np.abs(there.axes).argmax(axis=1)
    assert (there.axes[np.arange(there.rank), largest] > 0).all()


def test_a_mean_far_away_does_not_drown_the_variance():
    rng = np.random.default_rng(2)
    near = rng.standard_normal((300, 4))
    plain, moved = Whitening.fit(near, "a"), Whitening.fit(near + 1e6, "a")
    np.testing.assert_allclose(moved.variances, plain.variances, rtol=1e-8)


def test_more_dims_than_the_images_span_are_refused():
    w = Whitening.fit(descriptors(30, 64), "map")
    assert w.rank == 29
    assert w(descriptors(3, 64), 29).shape == (3, 29)
    with pytest.raises(
        InputError, match="30 dims asked for, but the 30 images that it was fitted on span only 29"
    ):
        w(descriptors(3, 64), 30)
    with pytest.raises(InputError, match="64 dims asked for"):
        w.sweep(descriptors(3, 64), [16, 64])
    with pytest.raises(InputError, match="at least 1"):
        w(descriptors(3, 64), 0)


@pytest.mark.parametrize(("n", "copies"), [(300, 1), (40, 1), (20, 5)])
def test_rank_of_a_set_in_a_subspace(n, copies):
    """Points in 6 of 32 dims span 6, whether float32 rounds them or they come several times."""
    rng = np.random.default_rng(3)
    basis = rng.integers(-4, 5, (6, 32)).astype(np.float64)
    x = np.tile((rng.integers(-9, 10, (n, 6)) @ basis).astype(np.float32), (copies, 1))
    assert np.linalg.matrix_rank(x - x.astype(np.float64).mean(axis=0)) == 6
    assert Whitening.fit(x, "flat").rank == 6


def test_unreadable_images_are_left_out_and_stay_zero(small_blocks):
    x = descriptors(90, 24)
    holes = np.insert(x, [0, 40, 90], 0, axis=0)
    plain, w = Whitening.fit(x, "map"), Whitening.fit(holes, "map")
    assert (w.images, w.left_out) == (90, 3)
    np.testing.assert_allclose(w.variances, plain.variances, rtol=1e-10)
    whitened = w(holes, 8)
    there = holes.any(axis=1)
    assert (whitened[~there] == 0).all()
    np.testing.assert_allclose(np.linalg.norm(whitened[there], axis=1), 1, rtol=1e-6)
    few = Whitening.fit(np.insert(descriptors(10, 24), [0, 5], 0, axis=0), "few")
    np.testing.assert_allclose(few.variances, Whitening.fit(descriptors(10, 24), "few").variances, rtol=1e-9)


def test_a_row_on_the_mean_becomes_zero_not_nan():
    w = Whitening.fit(np.array([[3.0, 0], [1, 0], [2, 1], [2, -1]]), "cross")
    assert w(np.array([[2.0, 0.0]]), 2).tolist() == [[0.0, 0.0]]


def test_a_sweep_is_each_of_its_dims(small_blocks):
    w = Whitening.fit(descriptors(200, 24), "map")
    x = descriptors(31, 24, 5)
    swept = w.sweep(x, [4, 24, 10, 4])
    assert list(swept) == [4, 24, 10]
    for dims, whitened in swept.items():
        np.testing.assert_allclose(whitened, w(x, dims), atol=1e-7)


def test_memory_mapped_files_are_whitened_block_by_block(tmp_path, small_blocks):
    x = descriptors(100, 24, dtype=np.float16)
    x[7] = 0
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    w = Whitening.fit(mapped, "map")
    seen = []
    out = w.sweep(mapped, [6], progress=lambda *a: seen.append(a))[6]
    np.testing.assert_array_equal(out, w(x, 6))
    assert seen[-1] == ("whitening", 100, 100)
    assert len(seen) == -(-100 // 7)


def test_blocks_bound_the_float64_copies(tmp_path):
    """200,000 × 64 float32 are 51 MB; a float64 copy of all would be 102 MB."""
    import tracemalloc

    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((200_000, 64), dtype=np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    before, axes_module._BLOCK_BYTES = axes_module._BLOCK_BYTES, 1 << 20
    try:
        tracemalloc.start()
        w = Whitening.fit(mapped, "map")
        w(mapped, 4)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        axes_module._BLOCK_BYTES = before
    assert peak < 12 << 20


def test_a_file_brings_everything_back(tmp_path):
    x = descriptors(60, 16)
    x[3] = 0
    w = Whitening.fit(x, "west campus, training")
    assert w.save(tmp_path / "deep" / "whitening.safetensors").is_file()
    again = Whitening.load(tmp_path / "deep" / "whitening.safetensors")
    assert (again.fitted_on, again.images, again.left_out) == ("west campus, training", 59, 1)
    assert again.version == samespot.__version__
    np.testing.assert_array_equal(again(x, 12), w(x, 12))


def test_broken_files_are_refused(tmp_path):
    path = Whitening.fit(descriptors(60, 16), "map").save(tmp_path / "w.safetensors")
    tensors = load_file(path)
    about = {"format": "samespot whitening 1", "fitted_on": "map", "images": "60", "left_out": "0"}

    def refused(says, change=None, about=about):
        save_file({**tensors, **(change or {})}, path, metadata=about)
        with pytest.raises(InputError, match=says):
            Whitening.load(path)

    save_file(tensors, path, metadata=about)
    assert Whitening.load(path).rank == 16
    refused("do not fit", {"mean": np.zeros(15)})
    refused("do not fit", {"axes": np.eye(16)[:12].copy()})
    refused("do not fit", {"variances": np.ones((16, 1))})
    refused("impossible", {"variances": np.zeros(16)})
    refused("impossible", {"variances": np.arange(1.0, 17.0)})
    refused("impossible", {"mean": np.full(16, np.nan)})
    refused("not a whitening", about={**about, "format": "else"})
    refused("not a whitening", about=None)
    refused("lacks 'images'", about={k: v for k, v in about.items() if k != "images"})
    tensors.pop("axes")
    refused("lacks 'axes'")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="not a complete safetensors file"):
        Whitening.load(path)
    with pytest.raises(InputError, match="no such whitening"):
        Whitening.load(tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (np.zeros((5, 4), np.float32), "map: whitening needs 2 images or more, 0 of 5"),
        (np.eye(1, 4), "1 of 1"),
        (np.ones((5, 4)), "all 5 descriptors are the same"),
        (np.ones((2, 4)), "all 2 descriptors are the same"),
        (np.tile(descriptors(1, 4), (7, 1)), "all 7 descriptors are the same"),
        (np.tile(descriptors(1, 64), (7, 1)), "all 7 descriptors are the same"),
        (np.ones(5), "expected floats"),
        (np.ones((5, 4), int), "expected floats"),
        (np.array([[1.0, 2], [3, 4], [np.nan, 1], [0, 1]]), "row 2 is not finite"),
    ],
)
def test_sets_that_cannot_be_fitted(x, says):
    with pytest.raises(InputError, match=says):
        Whitening.fit(x, "map")


def test_descriptors_of_another_model_are_refused():
    with pytest.raises(InputError, match=r"16 dims \(fitted on map\)"):
        Whitening.fit(descriptors(60, 16), "map")(descriptors(3, 24), 4)


# ---- long descriptors ----


@pytest.mark.parametrize(("n", "d"), [(40, 12), (12, 40), (25, 25)])
def test_covariance_and_products_of_images_tell_the_same_axes(n, d):
    x = descriptors(n, d)
    mean = x.astype(np.float64).mean(axis=0)
    rank = min(n - 1, d)
    how = (None, None, NumpyProducts())
    by_dims = axes_module._axes_by_covariance(x, mean, n, *how)
    by_images = axes_module._axes_by_images(x, mean, n, *how)
    np.testing.assert_allclose(by_images[0][:rank], by_dims[0][:rank], rtol=1e-8)
    cosines = np.abs((by_images[1][:rank] * by_dims[1][:rank]).sum(axis=1))
    np.testing.assert_allclose(cosines, 1, atol=1e-9)


@pytest.mark.parametrize(("n", "d"), [(200, 24), (16, 60)])
def test_the_strongest_axes_alone_are_the_first_of_all(n, d):
    x, others = descriptors(n, d), descriptors(9, d, 1)
    whole, some = Whitening.fit(x, "map"), Whitening.fit(x, "map", most=5)
    assert some.rank == 5
    np.testing.assert_allclose(some.axes, whole.axes[:5], atol=1e-10)
    np.testing.assert_allclose(some.variances, whole.variances[:5], rtol=1e-10)
    np.testing.assert_allclose(some(others, 4), whole(others, 4), atol=1e-6)
    assert Whitening.fit(x, "map", most=1000).rank == whole.rank


def test_many_images_with_many_dims_are_fitted_on_some_of_them(monkeypatch):
    monkeypatch.setattr(axes_module, "MOST_IMAGES", 20)
    x = descriptors(50, 30)
    w, again = Whitening.fit(x, "map"), Whitening.fit(x, "map")
    assert (w.images, w.rank) == (20, 19)
    np.testing.assert_array_equal(w.axes, again.axes)
    rows = (((x - w.mean) @ w.axes.T) @ w.axes + w.mean).astype(np.float32)
    inside = np.isclose(rows, x, atol=1e-6).all(axis=1)
    assert inside.sum() == 20  # in the space that they span are those it was fitted on, and no others
    assert Whitening.fit(descriptors(50, 20), "map").images == 50  # few dims: all images


def test_descriptors_of_netvlad_s_length_stay_within_memory():
    """32,768 dims: their covariance would be 8.6 GB; the products of 40 images are 13 kB."""
    import tracemalloc

    x = np.random.default_rng(0).standard_normal((40, 32_768), dtype=np.float32)
    tracemalloc.start()
    w = Whitening.fit(x, "map", most=30)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (w.rank, w.dims) == (30, 32_768)
    assert peak < 200 << 20
    np.testing.assert_allclose(w.axes @ w.axes.T, np.eye(30), atol=1e-10)


@pytest.mark.parametrize("orthogonal", [True, False])
def test_a_published_projection_is_expressed_exactly(orthogonal, tmp_path):
    rng = np.random.default_rng(3)
    rows = np.linalg.qr(rng.standard_normal((20, 6)))[0].T if orthogonal else rng.standard_normal((6, 20))
    weight = (rows * np.array([3.0, 1, 2, 5, 4, 6])[:, None]).astype(np.float32)
    bias = rng.standard_normal(6).astype(np.float32)
    Whitening.from_affine(weight, bias, "theirs").save(tmp_path / "w.safetensors")
    w = Whitening.load(tmp_path / "w.safetensors")
    x = descriptors(30, 20)
    theirs = unit(x.astype(np.float64) @ weight.T.astype(np.float64) + bias)
    order = np.argsort(np.linalg.norm(weight, axis=1))
    np.testing.assert_allclose(w(x, 6), theirs[:, order], atol=1e-6)
    np.testing.assert_allclose(w.axes @ w.mean * np.sqrt(1 / w.variances), -bias[order], rtol=1e-6, atol=1e-7)
    with pytest.raises(InputError, match=r"7 dims asked for, but the whitening \(theirs\) has 6"):
        w(x, 7)


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        (np.array([[1.0, 0, 0], [1.0, 0, 0]]), "depend on one another"),
        (np.array([[1.0, 0, 0], [0.0, 0, 0]]), "no row of zeros"),
        (np.ones((3, 2)), "not a whitening"),
    ],
)
def test_projections_that_are_no_whitening_are_refused(weight, match):
    with pytest.raises(InputError, match=match):
        Whitening.from_affine(weight, np.arange(1.0, len(weight) + 1), "theirs")


@pytest.mark.parametrize("shape", [(60, 12), (20, 90)], ids=["covariance", "images"])
@pytest.mark.parametrize("most", [None, 7])
def test_products_of_torch_give_the_same_axes(monkeypatch, shape, most):
    """The code of the GPU, on the CPU: other sums, the same axes but for rounding."""
    vectors = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    vectors[3] = 0
    by_numpy = Whitening.fit(vectors, "some", most=most)
    monkeypatch.setattr(axes_module, "products_on", TorchProducts)
    by_torch = Whitening.fit(vectors, "some", most=most)
    np.testing.assert_allclose(by_torch.variances, by_numpy.variances, rtol=1e-10)
    np.testing.assert_allclose(by_torch.axes, by_numpy.axes, atol=1e-9)
    np.testing.assert_allclose(by_torch(vectors, 5), by_numpy(vectors, 5), atol=1e-6)
    assert by_torch.device == "cpu"


def test_a_gpu_without_room_leaves_it_to_the_cpu(monkeypatch):
    class Full(TorchProducts):
        def strongest(self, products, most):
            raise self.failures[0]("CUDA out of memory")

    vectors = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    expected = Whitening.fit(vectors, "some")
    monkeypatch.setattr(axes_module, "products_on", lambda device: Full("cpu"))
    np.testing.assert_array_equal(Whitening.fit(vectors, "some").axes, expected.axes)


def test_a_file_is_the_same_in_every_byte(tmp_path):
    """So that two maps of the same photos are; the metadata were in an order of chance."""
    w = Whitening.fit(descriptors(40, 8), "west")
    files = [w.save(tmp_path / f"{number}.safetensors") for number in range(5)]
    assert len({path.read_bytes() for path in files}) == 1
    assert Whitening.load(files[0]).digest() == w.digest()
