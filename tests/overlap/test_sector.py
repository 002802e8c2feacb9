"""The closed form against the paper's figures, invariants, and polygons clipped by Shapely."""

import mpmath
import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from samespot import InputError, sector_overlap

HERE = [0.0, 0.0, 0.0]  # looking north
angles = st.floats(0.5, 360.0)
headings = st.floats(0.0, 360.0, exclude_max=True)
metres = st.floats(-60.0, 60.0)
radii = st.floats(1.0, 60.0)
poses = st.tuples(metres, metres, headings)


@pytest.mark.parametrize(
    ("pose", "theta", "measure", "expected"),
    [
        ([0, 0, 40], 90, "overlap", 50 / 90),  # the paper prints 55.63 %
        ([0, 0, 40], 80, "overlap", 0.5),  # its best angle for turning
        ([25, 0, 0], 90, "overlap", 0.4497),  # it prints 45.01 %
        ([25, 0, 0], 102, "overlap", 0.5010),  # its best angle for moving
        ([0, 25, 0], 90, "overlap", 0.2780),
        ([0, 0, 40], 90, "iou", 0.3846),
        ([25, 0, 0], 90, "iou", 0.2900),
    ],
)
def test_figures_of_the_paper(pose, theta, measure, expected):
    assert sector_overlap(HERE, pose, theta, 50, measure) == pytest.approx(expected, abs=5e-5)


def test_half_disk_and_quarter_at_one_spot():
    assert sector_overlap(HERE, HERE, theta=180, theta_b=90) == 1.0
    assert sector_overlap(HERE, [0, 0, 180], theta=180) == 0.0
    assert sector_overlap(HERE, [0, 0, 90], theta=180) == pytest.approx(0.5, abs=1e-15)
    # wide sectors meet in front and at the back: 2 · 300 − 360 = 240 of 300 degrees
    assert sector_overlap(HERE, [0, 0, 180], theta=300) == pytest.approx(240 / 300, abs=1e-15)


def test_two_disks_are_a_lens():
    d, r = 30.0, 50.0
    lens = 2 * r**2 * np.arccos(d / (2 * r)) - d / 2 * np.sqrt(4 * r**2 - d**2)
    for heading in (0.0, 77.0):
        got = sector_overlap([0, 0, heading], [18, 24, 3.0], theta=360, radius=r)
        assert got == pytest.approx(lens / (np.pi * r**2), abs=1e-14)


def test_same_spot_turned_by_any_angle():
    turn = np.arange(0.0, 360.0, 0.25)
    apart = np.minimum(turn, 360 - turn)
    got = sector_overlap(HERE, np.column_stack([turn * 0, turn * 0, turn]), theta=90)
    np.testing.assert_allclose(got, np.maximum(90 - apart, 0) / 90, atol=1e-14)


def test_touching_sectors_share_nothing():
    side_by_side = sector_overlap([0, 0, 0], [0, 0, 90], theta=90)  # one edge in common
    back_to_back = sector_overlap([0, 0, 0], [0, 0, 180], theta=180)
    tangent_arcs = sector_overlap([0, 0, 0], [0, 100, 180], theta=90, radius=50)
    tangent_disks = sector_overlap([0, 0, 0], [60, 80, 0], theta=360, radius=50)
    beside = sector_overlap([0, 0, 90], [0, 0, 270], theta=180)
    shared_line = sector_overlap([0, 0, 0], [0, -20, 180], theta=180)  # parallel edges 20 m apart
    assert [side_by_side, back_to_back, tangent_arcs, tangent_disks, beside, shared_line] == [0.0] * 6


def test_collinear_edges():
    # theta 90, both heading 45 degrees: edges point north and east. b slides along a's northern edge.
    r = 50.0
    for slide in (5.0, 20.0, 49.0):
        got = sector_overlap([0, 0, 45], [0, slide, 45], 90, r) * np.pi * r**2 / 4
        expected = 0.5 * (r**2 * np.arccos(slide / r) - slide * np.sqrt(r**2 - slide**2))
        assert got == pytest.approx(expected, rel=1e-12)


def test_a_sector_inside_another():
    assert sector_overlap([0, 0, 0], [0, 10, 0], theta=120, radius=50, theta_b=40, radius_b=20) == 1.0
    big, small = 120 * 50**2, 40 * 20**2
    iou = sector_overlap([0, 0, 0], [0, 10, 0], 120, 50, "iou", theta_b=40, radius_b=20)
    assert iou == pytest.approx(small / big, rel=1e-12)


def test_internally_tangent_disks():
    # the small disk touches the big one from inside: wholly contained, IoU is the ratio of areas
    assert sector_overlap([0, 0, 0], [30, 0, 10], 360, 50, radius_b=20) == pytest.approx(1.0, abs=1e-9)
    iou = sector_overlap([0, 0, 0], [30, 0, 10], 360, 50, "iou", radius_b=20)
    assert iou == pytest.approx((20 / 50) ** 2, abs=1e-9)


@given(poses, angles, radii)
def test_identity(pose, theta, radius):
    assert sector_overlap(pose, pose, theta, radius) == pytest.approx(1.0, abs=1e-12)
    assert sector_overlap(pose, pose, theta, radius, "iou") == pytest.approx(1.0, abs=1e-12)


@given(poses, poses, angles, angles, radii, radii)
def test_symmetric_to_the_bit_and_bounded(a, b, theta_a, theta_b, radius_a, radius_b):
    for measure in ("overlap", "iou"):
        one = sector_overlap(a, b, theta_a, radius_a, measure, theta_b=theta_b, radius_b=radius_b)
        two = sector_overlap(b, a, theta_b, radius_b, measure, theta_b=theta_a, radius_b=radius_a)
        assert one == two
        assert 0.0 <= one <= 1.0


@given(
    poses, poses, angles, angles, radii, radii, st.floats(0, 360), st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)
)
def test_invariant_to_rotation_translation_and_mirroring(a, b, theta_a, theta_b, ra, rb, turn, east, north):
    def moved(pose, mirror):
        x, y, heading = pose
        t = np.deg2rad(turn)
        x, y = x * np.cos(t) + y * np.sin(t), y * np.cos(t) - x * np.sin(t)
        sign = -1 if mirror else 1
        return [sign * x + east, y + north, sign * (heading + turn)]

    still = sector_overlap(a, b, theta_a, ra, theta_b=theta_b, radius_b=rb)
    for mirror in (False, True):
        got = sector_overlap(moved(a, mirror), moved(b, mirror), theta_a, ra, theta_b=theta_b, radius_b=rb)
        assert got == pytest.approx(still, abs=2e-8)  # positions of 1e4 m are rounded at 1e-12 m


@given(poses, poses, angles, radii)
def test_no_precision_is_lost_at_utm_size(a, b, theta, radius):
    a, b = (
        [round(p[0] * 64) / 64, round(p[1] * 64) / 64, p[2]] for p in (a, b)
    )  # exact in binary after the shift
    shift = np.array([500_000.0, 1e7, 0.0])
    assert sector_overlap(a, b, theta, radius) == sector_overlap(a + shift, b + shift, theta, radius)


@given(poses, poses, st.floats(180.0, 359.9), radii)
def test_a_wide_sector_is_the_disk_less_the_rest(a, b, theta, radius):
    rest = [a[0], a[1], a[2] + 180.0]
    share = {"theta_b": 70.0, "radius_b": 0.5 * radius}  # b is the smaller one, so shares are of its area
    wide = sector_overlap(a, b, theta, radius, **share)
    disk = sector_overlap(a, b, 360.0, radius, **share)
    narrow_area = (360 - theta) * radius**2
    narrow = sector_overlap(rest, b, 360 - theta, radius, **share) * min(
        narrow_area / (70 * 0.25 * radius**2), 1.0
    )
    assert wide == pytest.approx(disk - narrow, abs=1e-8)


def _lens(r, R, d):
    """Shared area of two disks, to 60 digits."""
    r, R, d = (mpmath.mpf(x) for x in (r, R, d))
    if d >= r + R:
        return mpmath.mpf(0)
    if d <= R - r:
        return mpmath.pi * r**2
    wedges = r**2 * mpmath.acos((d**2 + r**2 - R**2) / (2 * d * r))
    wedges += R**2 * mpmath.acos((d**2 + R**2 - r**2) / (2 * d * R))
    return wedges - mpmath.sqrt((r + R - d) * (d + r - R) * (d - r + R) * (d + r + R)) / 2


@pytest.mark.parametrize("ratio", [1.0, 1.5, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("beyond", [-0.999999, -0.5, 0.0, 0.3, 0.99, 0.999999])
def test_disks_of_very_unlike_size(ratio, beyond):
    """A phone's 1 m disk at the rim of a disk up to a million times as wide."""
    east, north = 0.6 * (ratio + beyond), 0.8 * (ratio + beyond)
    with mpmath.workdps(60):
        apart = mpmath.sqrt(mpmath.mpf(east) ** 2 + mpmath.mpf(north) ** 2)
        expected = float(_lens(1.0, ratio, apart) / mpmath.pi)
    assert sector_overlap([0, 0, 0], [east, north, 0], 360, 1.0, radius_b=ratio) == pytest.approx(
        expected, abs=1e-9
    )


@pytest.mark.parametrize("radius", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("inside", [-0.9, -0.2, 0.0, 0.5, 0.99])
def test_the_straight_edge_of_a_huge_sector_cuts_a_small_disk(radius, inside):
    """The edge of a half disk runs along y = 0, the small disk's centre lies `inside` metres beyond it."""
    segment = (np.arccos(-inside) + inside * np.sqrt(1 - inside**2)) / np.pi
    got = sector_overlap([0.3 * radius, inside, 0], [0, 0, 0], 360, 1.0, theta_b=180, radius_b=radius)
    assert got == pytest.approx(segment, abs=1e-10)


def _polygons(poses, theta, radius, segments):
    axis = np.deg2rad(90 - poses[:, 2])[:, None]
    ray = axis + np.deg2rad(theta)[:, None] * np.linspace(-0.5, 0.5, segments + 1)
    arc = poses[:, None, :2] + radius[:, None, None] * np.stack([np.cos(ray), np.sin(ray)], axis=-1)
    ring = np.concatenate([poses[:, None, :2], arc, poses[:, None, :2]], axis=1)
    return shapely.polygons(ring)


@pytest.mark.parametrize("alike", [True, False])
def test_100_000_random_pairs_against_shapely(alike):
    """Polygons inscribed into the sectors are too small by a known area, which bounds the difference."""
    rng = np.random.default_rng(7)
    n, segments = 50_000, 96
    theta = np.stack([rng.uniform(5, 359, n), rng.uniform(5, 359, n)])
    radius = np.stack([rng.uniform(10, 60, n), rng.uniform(10, 60, n)])
    a, b = (np.column_stack([rng.uniform(-45, 45, (n, 2)), rng.uniform(0, 360, n)]) for _ in range(2))
    if alike:
        theta[1], radius[1] = theta[0], radius[0]
        b[:5000, 2] = a[:5000, 2]  # parallel views
        b[5000:9000, :2] = a[5000:9000, :2]  # one spot
    sectors = 0.5 * np.deg2rad(theta) * radius**2
    smaller = sectors.min(axis=0)
    ours = sector_overlap(a, b, theta[0], radius[0], theta_b=theta[1], radius_b=radius[1]) * smaller
    polygons = [_polygons(pose, theta[i], radius[i], segments) for i, pose in enumerate((a, b))]
    clipped = shapely.area(shapely.intersection(*polygons))
    lost = sectors.sum(axis=0) - sum(shapely.area(p) for p in polygons)
    difference = ours - clipped
    assert (ours > 0).mean() > 0.3  # the comparison is not about empty intersections
    assert (difference > -1e-7).all()
    assert (difference < lost + 1e-7).all()
    # the bound is loose where only part of an arc is shared; on average the polygons miss far less
    assert difference.mean() < 0.7 * lost.mean()


def test_broadcasting_and_shapes():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 50, (4, 1, 3)), rng.uniform(0, 50, (7, 3))
    assert sector_overlap(a, b).shape == (4, 7)
    assert sector_overlap(a[0, 0], b[0]).shape == ()
    one = sector_overlap(a[2, 0], b[5])
    assert sector_overlap(a, b)[2, 5] == one
    thetas = np.array([60.0, 90.0, 120.0])
    np.testing.assert_array_equal(
        sector_overlap(a[0], b[0], theta=thetas), [sector_overlap(a[0, 0], b[0], theta=t) for t in thetas]
    )


def test_a_pair_has_the_same_share_wherever_it_stands():
    """Pairs are worked on in runs, and eight at once: narrow ones beside wide ones, whole runs and rests."""
    rng = np.random.default_rng(1)
    n = 700
    a, b = (np.column_stack([rng.uniform(0, 60, (n, 2)), rng.uniform(0, 360, n)]) for _ in range(2))
    theta, radius = rng.choice([40.0, 90.0, 200.0, 360.0], (2, n)), rng.uniform(20, 60, (2, n))
    together = sector_overlap(a, b, theta[0], radius[0], theta_b=theta[1], radius_b=radius[1])
    alone = [
        sector_overlap(a[i], b[i], theta[0, i], radius[0, i], theta_b=theta[1, i], radius_b=radius[1, i])
        for i in range(n)
    ]
    np.testing.assert_array_equal(together, alone)


def test_unknown_heading_gives_nan():
    assert np.isnan(sector_overlap([0, 0, np.nan], HERE))
    assert np.isnan(sector_overlap(HERE, [np.nan, 0, 0]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"theta": 0}, "theta 0 is not in (0, 360] degrees"),
        ({"theta": 361}, "theta 361 is not in"),
        ({"radius": -1}, "radius -1 is not a positive number of metres"),
        ({"radius_b": np.inf}, "radius_b inf is not"),
        ({"measure": "jaccard"}, "`measure` 'jaccard' is unknown; choose one of overlap, iou"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(InputError) as error:
        sector_overlap(HERE, HERE, **arguments)
    assert words in str(error.value)


def test_wrong_shape_is_named():
    with pytest.raises(InputError, match="last axis must be easting, northing, heading"):
        sector_overlap([0, 0], HERE)
    with pytest.raises(InputError, match="do not broadcast"):
        sector_overlap(np.zeros((3, 3)), np.zeros((4, 3)))
