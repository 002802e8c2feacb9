"""The renderer: photos and depth of any cameras in the town, several at a time, each by one thread.

Flat polygons and blobs are drawn into a depth buffer of 2 × 2 samples a pixel; then only what is seen is shaded.
A thread draws whole photos, so the result does not depend on how many threads there are.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from samespot.arrays import read_only
from samespot.places.pose import rotation_matrices
from samespot.town.ground import TEXEL as GROUND_TEXEL
from samespot.town.ground import Ground, speck
from samespot.town.light import CELL, LAMP_CELL, LAMP_RANGE, SODIUM, Light
from samespot.town.mesh import LEVELS, Atlas, Mesh
from samespot.town.painting import LAST_WINDOW, SHOP_LIGHT, SIGN_LIGHT, TEXEL

NEAR = 0.15  # [m] nothing nearer than this is drawn
SKY, GROUND = -2, -1
LAMP_RED, LAMP_GREEN, LAMP_BLUE = SODIUM


def render(
    mesh: Mesh,
    atlas: Atlas,
    ground: Ground,
    light: Light,
    centres: ArrayLike,
    quaternions: ArrayLike,
    intrinsics: ArrayLike,
    size: tuple[int, int],
    *,
    exposure: ArrayLike | float = 1.0,
    noise: float = 0.0,
    numbers: ArrayLike | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Photos (n, h, w, 3) and their depth (n, h, w) [m] along the optical axis, 0 where there is only sky.

    `centres` (n, 3) and camera-to-world `quaternions` (n, 4), camera x right, y down, z ahead; `intrinsics` (n, 4)
    or (4,) fx, fy, cx, cy [px], the middle of the first pixel at 0.5; `size` (h, w). `numbers` (n,) seed the noise.
    """
    centre = read_only(np.atleast_2d(np.asarray(centres, dtype=np.float64)))
    rotation = read_only(rotation_matrices(quaternions))
    n, (h, w) = len(centre), size
    lens = read_only(np.broadcast_to(np.asarray(intrinsics, dtype=np.float64), (n, 4)))
    gain = np.broadcast_to(np.asarray(exposure, dtype=np.float64), (n,))
    seeds = np.arange(n) if numbers is None else np.asarray(numbers, dtype=np.int64)
    images, depth = np.empty((n, h, w, 3), np.uint8), np.empty((n, h, w), np.float32)

    def photo(k: int) -> None:
        render_one(
            mesh,
            atlas,
            ground,
            light,
            centre[k],
            rotation[k],
            lens[k],
            float(gain[k]),
            float(noise),
            int(seeds[k]),
            images[k],
            depth[k],
        )

    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        list(pool.map(photo, range(n)))  # the compiled part holds no lock
    return images, depth


@njit(cache=True, error_model="numpy", fastmath=True, nogil=True)
def render_one(mesh, atlas, ground, light, centre, rotation, lens, gain, noise, seed, image, depth):  # type: ignore[no-untyped-def]
    """One photo into `image` (h, w, 3) and `depth` (h, w)."""
    h, w = depth.shape
    nearness = np.empty((2 * h, 2 * w), np.float32)  # 1 / depth
    seen = np.empty((2 * h, 2 * w), np.int32)
    _lay_ground(nearness, seen, centre, rotation, lens)
    _draw(mesh, nearness, seen, centre, rotation, lens)
    radiance = np.empty((h, w, 3), np.float32)
    mirror = np.zeros((h, w), np.float32)
    _shade(mesh, atlas, ground, light, nearness, seen, centre, rotation, lens, radiance, mirror, depth)
    if light.air.wet > 0.0:
        _reflect(radiance, mirror, light.air.wet, centre, rotation, lens, seed)
    if light.air.lamps > 0.0:
        _glare(light, nearness, centre, rotation, lens, radiance)
    _develop(radiance, light.air, gain, noise, seed, image)


# ---- what is seen ----------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy", fastmath=True)
def _lay_ground(nearness, seen, centre, rotation, lens):  # type: ignore[no-untyped-def]
    """The plane z = 0 wherever a sample looks down, the sky elsewhere."""
    rows, columns = seen.shape
    fx, fy, cx, cy = lens[0], lens[1], lens[2], lens[3]
    for i in range(rows):
        y = ((i + 0.5) * 0.5 - cy) / fy
        for j in range(columns):
            x = ((j + 0.5) * 0.5 - cx) / fx
            down = -(rotation[2, 0] * x + rotation[2, 1] * y + rotation[2, 2]) / centre[2]
            if down > 1e-3:
                nearness[i, j], seen[i, j] = down, GROUND
            else:
                nearness[i, j], seen[i, j] = 0.0, SKY


@njit(cache=True, error_model="numpy", fastmath=True)
def _draw(mesh, nearness, seen, centre, rotation, lens):  # type: ignore[no-untyped-def]
    """Draw every object that is in view."""
    rows, columns = seen.shape
    fx, fy, cx, cy = lens[0], lens[1], lens[2], lens[3]
    tx = max(cx, 0.5 * columns - cx) / fx
    ty = max(cy, 0.5 * rows - cy) / fy
    sx, sy = math.sqrt(1.0 + tx * tx), math.sqrt(1.0 + ty * ty)
    corners, clipped = np.empty((4, 3)), np.empty((6, 3))
    # taken out of the mesh once: numba counts references each time that it takes an array out of a tuple
    all_corners, normals, sides, two_sided = mesh.corners, mesh.normal, mesh.sides, mesh.two_sided
    blobs, holes, objects, bounds, polygons = (
        mesh.blobs,
        mesh.blob_holes,
        mesh.objects,
        mesh.bounds,
        len(mesh.sides),
    )
    for o in range(len(objects)):
        x, y, z = _to_camera(bounds[o, 0], bounds[o, 1], bounds[o, 2], centre, rotation)
        r = bounds[o, 3]
        if z < -r or z * tx - abs(x) < -r * sx or z * ty - abs(y) < -r * sy:
            continue
        for f in range(objects[o, 0], objects[o, 1]):
            _draw_polygon(
                all_corners,
                normals,
                sides[f],
                two_sided[f],
                f,
                nearness,
                seen,
                centre,
                rotation,
                lens,
                corners,
                clipped,
            )
        for b in range(objects[o, 2], objects[o, 3]):
            x, y, z, r = blobs[b, 0], blobs[b, 1], blobs[b, 2], blobs[b, 3]
            _draw_blob(x, y, z, r, holes[b], polygons + b, nearness, seen, centre, rotation, lens)


@njit(cache=True, error_model="numpy", fastmath=True)
def _to_camera(x, y, z, centre, rotation):  # type: ignore[no-untyped-def]
    x, y, z = x - centre[0], y - centre[1], z - centre[2]
    return (
        rotation[0, 0] * x + rotation[1, 0] * y + rotation[2, 0] * z,
        rotation[0, 1] * x + rotation[1, 1] * y + rotation[2, 1] * z,
        rotation[0, 2] * x + rotation[1, 2] * y + rotation[2, 2] * z,
    )


@njit(cache=True, error_model="numpy", fastmath=True)
def _draw_polygon(  # type: ignore[no-untyped-def]
    all_corners, normals, sides, two_sided, f, nearness, seen, centre, rotation, lens, corners, clipped
):
    """Fill a convex polygon row by row. Of a plane, 1 / depth is linear in the image."""
    nx, ny, nz = normals[f, 0], normals[f, 1], normals[f, 2]
    facing = nx * (all_corners[f, 0, 0] - centre[0])
    facing += ny * (all_corners[f, 0, 1] - centre[1]) + nz * (all_corners[f, 0, 2] - centre[2])
    if facing > -1e-9 and (facing < 1e-9 or not two_sided):
        return
    behind = 0
    for k in range(sides):
        x, y, z = all_corners[f, k, 0], all_corners[f, k, 1], all_corners[f, k, 2]
        x, y, z = _to_camera(x, y, z, centre, rotation)
        corners[k, 0], corners[k, 1], corners[k, 2] = x, y, z
        behind += z < NEAR
    if behind == sides:
        return
    n = _clip(corners, sides, clipped)
    fx, fy, cx, cy = lens[0], lens[1], lens[2], lens[3]
    rows, columns = seen.shape
    low_x, high_x, low_y, high_y = 1e9, -1e9, 1e9, -1e9
    for k in range(n):
        u = 2.0 * (fx * clipped[k, 0] / clipped[k, 2] + cx)
        v = 2.0 * (fy * clipped[k, 1] / clipped[k, 2] + cy)
        clipped[k, 0], clipped[k, 1] = u, v
        low_x, high_x, low_y, high_y = min(low_x, u), max(high_x, u), min(low_y, v), max(high_y, v)
    if high_x < 0.0 or low_x > columns or high_y < 0.0 or low_y > rows:
        return
    a = (rotation[0, 0] * nx + rotation[1, 0] * ny + rotation[2, 0] * nz) / facing
    b = (rotation[0, 1] * nx + rotation[1, 1] * ny + rotation[2, 1] * nz) / facing
    c = (rotation[0, 2] * nx + rotation[1, 2] * ny + rotation[2, 2] * nz) / facing
    step = 0.5 * a / fx
    base = c - a * cx / fx - b * cy / fy
    for i in range(max(0, math.ceil(low_y - 0.5)), min(rows, math.ceil(high_y - 0.5))):
        v = i + 0.5
        left, right = 1e9, -1e9
        for k in range(n):
            m = k + 1 if k + 1 < n else 0
            v0, v1 = clipped[k, 1], clipped[m, 1]
            if (v0 <= v) != (v1 <= v):
                u = clipped[k, 0] + (v - v0) / (v1 - v0) * (clipped[m, 0] - clipped[k, 0])
                left, right = min(left, u), max(right, u)
        start, stop = max(0, math.ceil(left - 0.5)), min(columns, math.ceil(right - 0.5))
        value = base + 0.5 * b / fy * v + step * (start + 0.5)
        for j in range(start, stop):
            if value > nearness[i, j]:
                nearness[i, j] = value
                seen[i, j] = f
            value += step


@njit(cache=True, error_model="numpy", fastmath=True)
def _clip(corners, sides, clipped):  # type: ignore[no-untyped-def]
    """The part of a polygon beyond NEAR; the number of its corners."""
    n = 0
    for k in range(sides):
        m = k + 1 if k + 1 < sides else 0
        z0, z1 = corners[k, 2], corners[m, 2]
        if z0 >= NEAR:
            clipped[n, 0], clipped[n, 1], clipped[n, 2] = corners[k, 0], corners[k, 1], z0
            n += 1
        if (z0 >= NEAR) != (z1 >= NEAR):
            t = (NEAR - z0) / (z1 - z0)
            clipped[n, 0] = corners[k, 0] + t * (corners[m, 0] - corners[k, 0])
            clipped[n, 1] = corners[k, 1] + t * (corners[m, 1] - corners[k, 1])
            clipped[n, 2] = NEAR
            n += 1
    return n


@njit(cache=True, error_model="numpy", fastmath=True)
def _span(x, z, r, f, c, most):  # type: ignore[no-untyped-def]
    """First and one past the last sample that a ball may cover along one axis of the image."""
    if z <= 1.01 * r:
        return 0, most
    root = r * math.sqrt(max(0.0, x * x + z * z - r * r))
    low, high = (x * z - root) / (z * z - r * r), (x * z + root) / (z * z - r * r)
    return max(0, int(2.0 * (f * low + c))), min(most, int(2.0 * (f * high + c)) + 1)


@njit(cache=True, error_model="numpy", fastmath=True)
def _draw_blob(bx, by, bz, r, holes, number, nearness, seen, centre, rotation, lens):  # type: ignore[no-untyped-def]
    """A ball of leaves: its near side, less the holes between them."""
    x, y, z = _to_camera(bx, by, bz, centre, rotation)
    if z < NEAR:
        return
    rows, columns = seen.shape
    fx, fy, cx, cy = lens[0], lens[1], lens[2], lens[3]
    j0, j1 = _span(x, z, r, fx, cx, columns)
    i0, i1 = _span(y, z, r, fy, cy, rows)
    rest = x * x + y * y + z * z - r * r
    if rest <= 0.0:
        return
    leaf = 1.0 / max(0.08, 0.011 * z)  # leaves far away are drawn in tufts, which flicker less
    for i in range(i0, i1):
        dy = ((i + 0.5) * 0.5 - cy) / fy
        for j in range(j0, j1):
            dx = ((j + 0.5) * 0.5 - cx) / fx
            a = dx * dx + dy * dy + 1.0
            half = dx * x + dy * y + z
            inner = half * half - a * rest
            if inner <= 0.0:
                continue
            t = (half - math.sqrt(inner)) / a
            if t < NEAR or 1.0 / t <= nearness[i, j]:
                continue
            px = centre[0] + t * (rotation[0, 0] * dx + rotation[0, 1] * dy + rotation[0, 2])
            py = centre[1] + t * (rotation[1, 0] * dx + rotation[1, 1] * dy + rotation[1, 2])
            pz = centre[2] + t * (rotation[2, 0] * dx + rotation[2, 1] * dy + rotation[2, 2])
            rim = math.sqrt(inner / a) / r  # 0 at the outline, 1 in the middle
            if (
                speck(math.floor(px * leaf), math.floor(py * leaf), math.floor(pz * leaf))
                < holes + 0.5 * (1.0 - rim) ** 2
            ):
                continue
            nearness[i, j] = 1.0 / t
            seen[i, j] = number


# ---- how it looks ----------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy", fastmath=True)
def _shade(mesh, atlas, ground, light, nearness, seen, centre, rotation, lens, radiance, mirror, depth):  # type: ignore[no-untyped-def]
    """Light every pixel: colours at each of its samples, light once for each thing in it."""
    h, w = depth.shape
    fx, fy, cx, cy = lens[0], lens[1], lens[2], lens[3]
    polygons = len(mesh.sides)
    corners, normals, colours, textures = mesh.corners, mesh.normal, mesh.colour, mesh.texture
    origins, acrosses, downs, glows = mesh.origin, mesh.across, mesh.down, mesh.glow
    blobs, blob_colours, texels, places = mesh.blobs, mesh.blob_colour, atlas.texels, atlas.places
    ground_texels, ground_places = ground.texels, ground.places
    air, shade, skyline = light.air, light.shade, light.skyline
    lamp_at, lamp_first, lamp_list = light.lamp_at, light.lamp_first, light.lamp_list
    for i in range(h):
        for j in range(w):
            red, green, blue = 0.0, 0.0, 0.0
            last, lr, lg, lb = -9, 0.0, 0.0, 0.0
            sr, sg, sb, level = 0.0, 0.0, 0.0, 0
            veil, fr, fg, fb = 0.0, 0.0, 0.0, 0.0
            one = seen[2 * i, 2 * j]  # a pixel with a single thing in it needs two samples, not four
            alone = (
                one == seen[2 * i, 2 * j + 1]
                and one == seen[2 * i + 1, 2 * j]
                and one == seen[2 * i + 1, 2 * j + 1]
            )
            step, weight = (3, 0.5) if alone else (1, 0.25)
            if not alone:
                depth[i, j] = _depth_at(corners, normals, nearness, seen, i, j, centre, rotation, lens)
            elif one == SKY:
                depth[i, j] = 0.0
            else:  # 1 / depth is linear on a plane, so its mean is that of the pixel's middle
                total = np.float64(nearness[2 * i, 2 * j]) + nearness[2 * i, 2 * j + 1]
                depth[i, j] = 4.0 / (total + nearness[2 * i + 1, 2 * j] + nearness[2 * i + 1, 2 * j + 1])
            for k in range(0, 4, step):
                ii, jj = 2 * i + (k >> 1), 2 * j + (k & 1)
                what = seen[ii, jj]
                x, y = ((jj + 0.5) * 0.5 - cx) / fx, ((ii + 0.5) * 0.5 - cy) / fy
                dx = rotation[0, 0] * x + rotation[0, 1] * y + rotation[0, 2]
                dy = rotation[1, 0] * x + rotation[1, 1] * y + rotation[1, 2]
                dz = rotation[2, 0] * x + rotation[2, 1] * y + rotation[2, 2]
                if what == SKY:
                    if last != SKY:
                        sr, sg, sb = _sky(air, skyline, dx, dy, dz)
                        last = SKY
                    red, green, blue = red + sr, green + sg, blue + sb
                    continue
                t = 1.0 / nearness[ii, jj]
                px, py, pz = centre[0] + t * dx, centre[1] + t * dy, centre[2] + t * dz
                far = t * math.sqrt(1.0 + x * x + y * y)
                nx, ny, nz = 0.0, 0.0, 1.0
                if what >= polygons:
                    b = what - polygons
                    nx, ny, nz = px - blobs[b, 0], py - blobs[b, 1], pz - blobs[b, 2]
                    nx, ny, nz = nx / blobs[b, 3], ny / blobs[b, 3], nz / blobs[b, 3]
                elif what >= 0:
                    nx, ny, nz = normals[what, 0], normals[what, 1], normals[what, 2]
                    if nx * dx + ny * dy + nz * dz > 0.0:
                        nx, ny, nz = -nx, -ny, -nz
                if what != last:
                    last = what
                    lr, lg, lb = _light(
                        air, shade, lamp_at, lamp_first, lamp_list, px, py, pz, nx, ny, nz, dx, dy, dz, far
                    )
                    veil, fr, fg, fb = _haze(air, far, dx, dy, dz)
                    slant = abs(nx * dx + ny * dy + nz * dz) / math.sqrt(dx * dx + dy * dy + dz * dz)
                    texel = t * 0.5 / fx / math.sqrt(max(0.03, slant))
                    if what == GROUND:
                        level = _level(texel / GROUND_TEXEL)
                    elif what < polygons and textures[what] >= 0:
                        level = _level(texel / TEXEL)
                glow = 0
                if what == GROUND:
                    ar, ag, ab = _ground_colour(
                        ground_texels, ground_places, px - ground.west, py - ground.south, level
                    )
                    grit = 1.0 + 0.22 * (speck(math.floor(px * 18.0), math.floor(py * 18.0), 5) - 0.5) * max(
                        0.0, 1.0 - t / 14.0
                    )
                    ar, ag, ab = ar * grit, ag * grit, ab * grit
                    mirror[i, j] += weight
                elif what < polygons:
                    ar, ag, ab, glow = (
                        np.float64(colours[what, 0]),
                        np.float64(colours[what, 1]),
                        np.float64(colours[what, 2]),
                        0,
                    )
                    if textures[what] >= 0:
                        x, y, z = px - origins[what, 0], py - origins[what, 1], pz - origins[what, 2]
                        u = x * acrosses[what, 0] + y * acrosses[what, 1] + z * acrosses[what, 2]
                        v = x * downs[what, 0] + y * downs[what, 1] + z * downs[what, 2]
                        tr, tg, tb, glow = _texture_colour(texels, places, textures[what], u, v, level)
                        ar, ag, ab = ar * tr, ag * tg, ab * tb
                else:
                    b = what - polygons
                    tuft = 0.55 + 0.9 * speck(
                        math.floor(px * 6.0), math.floor(py * 6.0), math.floor(pz * 6.0)
                    )
                    ar, ag, ab = (
                        blob_colours[b, 0] * tuft,
                        blob_colours[b, 1] * tuft,
                        blob_colours[b, 2] * tuft,
                    )
                if air.snow > 0.0 and what >= 0 and nz > 0.25:
                    cover = air.snow * min(1.0, 2.0 * (nz - 0.25)) * (0.9 if what < polygons else 0.6)
                    ar, ag, ab = ar + cover * (0.80 - ar), ag + cover * (0.82 - ag), ab + cover * (0.86 - ab)
                cr, cg, cb = ar * lr, ag * lg, ab * lb
                if glow > 0:
                    er, eg, eb = _lit(air, glow, textures[what], ar, ag, ab, slant)
                    cr, cg, cb = cr + er, cg + eg, cb + eb
                elif what >= 0 and what < polygons and glows[what] > 0.0:
                    power = air.lamps * glows[what] * 6.0
                    cr, cg, cb = cr + power * ar, cg + power * ag * LAMP_GREEN, cb + power * ab * LAMP_BLUE
                red += cr + veil * (fr - cr)
                green += cg + veil * (fg - cg)
                blue += cb + veil * (fb - cb)
            radiance[i, j, 0], radiance[i, j, 1], radiance[i, j, 2] = (
                weight * red,
                weight * green,
                weight * blue,
            )


@njit(cache=True, error_model="numpy", fastmath=True)
def _depth_at(corners, normals, nearness, seen, i, j, centre, rotation, lens):  # type: ignore[no-untyped-def]
    """Depth at the middle of a pixel, of the nearest thing in it: exact where that is flat. 0: only sky."""
    best, what, sky = np.float32(0.0), SKY, 0
    for k in range(4):
        ii, jj = 2 * i + (k >> 1), 2 * j + (k & 1)
        sky += seen[ii, jj] == SKY
        if nearness[ii, jj] > best:
            best, what = nearness[ii, jj], seen[ii, jj]
    if sky > 2 or what == SKY:
        return 0.0
    near = np.float64(best)
    fx, fy, cx, cy = lens[0], lens[1], lens[2], lens[3]
    x, y = (j + 0.5 - cx) / fx, (i + 0.5 - cy) / fy
    dx = rotation[0, 0] * x + rotation[0, 1] * y + rotation[0, 2]
    dy = rotation[1, 0] * x + rotation[1, 1] * y + rotation[1, 2]
    dz = rotation[2, 0] * x + rotation[2, 1] * y + rotation[2, 2]
    exact = near
    if what == GROUND:
        exact = -dz / centre[2]
    elif what < len(normals):
        nx, ny, nz = normals[what, 0], normals[what, 1], normals[what, 2]
        away = nx * (corners[what, 0, 0] - centre[0])
        away += ny * (corners[what, 0, 1] - centre[1]) + nz * (corners[what, 0, 2] - centre[2])
        exact = (nx * dx + ny * dy + nz * dz) / away
    if exact < 0.7 * near or exact > 1.3 * near:
        exact = near
    return 1.0 / exact


@njit(cache=True, error_model="numpy", fastmath=True, inline="always")
def _level(texels):  # type: ignore[no-untyped-def]
    """Which level of a pyramid suits a sample as wide as so many texels."""
    level = 0
    while texels > 1.5 and level < LEVELS - 1:
        texels *= 0.5
        level += 1
    return level


@njit(cache=True, error_model="numpy", fastmath=True, inline="always")
def _ground_colour(texels, places, east, north, level):  # type: ignore[no-untyped-def]
    """Reflectance of the ground, between the four texels around a point."""
    columns, rows = places[level, 1], places[level, 2]
    scale = 1.0 / (GROUND_TEXEL * (1 << level))
    u, v = east * scale - 0.5, north * scale - 0.5
    if not (u > 0.0 and v > 0.0 and u < columns - 1.001 and v < rows - 1.001):
        return 0.11, 0.13, 0.07
    j, i = int(u), int(v)
    a = places[level, 0] + i * columns + j
    return _between(texels, a, a + 1, a + columns, a + columns + 1, u - j, v - i)


@njit(cache=True, error_model="numpy", fastmath=True, inline="always")
def _between(texels, a, b, c, d, s, t):  # type: ignore[no-untyped-def]
    """Reflectance s of the way from texels a, c to b, d and t from a, b to c, d; bytes hold its square root."""
    w00, w01, w10, w11 = (1 - s) * (1 - t) / 255.0, s * (1 - t) / 255.0, (1 - s) * t / 255.0, s * t / 255.0
    red = w00 * texels[a, 0] + w01 * texels[b, 0] + w10 * texels[c, 0] + w11 * texels[d, 0]
    green = w00 * texels[a, 1] + w01 * texels[b, 1] + w10 * texels[c, 1] + w11 * texels[d, 1]
    blue = w00 * texels[a, 2] + w01 * texels[b, 2] + w10 * texels[c, 2] + w11 * texels[d, 2]
    return red * red, green * green, blue * blue


@njit(cache=True, error_model="numpy", fastmath=True, inline="always")
def _texture_colour(texels, places, texture, u, v, level):  # type: ignore[no-untyped-def]
    """Reflectance and light value of a texture at a column and a row of its finest level."""
    first, columns, rows = places[texture, level, 0], places[texture, level, 1], places[texture, level, 2]
    scale = 1.0 / (1 << level)
    u, v = u * scale - 0.5, v * scale - 0.5
    j, i = math.floor(u), math.floor(v)
    s, t = u - j, v - i
    # roofs and long walls repeat; a division is slow and mostly not needed
    j0 = j if 0 <= j < columns else j % columns
    i0 = i if 0 <= i < rows else i % rows
    j1, i1 = j0 + 1 if j0 + 1 < columns else 0, i0 + 1 if i0 + 1 < rows else 0
    a, b, c, d = (
        first + i0 * columns + j0,
        first + i0 * columns + j1,
        first + i1 * columns + j0,
        first + i1 * columns + j1,
    )
    red, green, blue = _between(texels, a, b, c, d, s, t)
    nearest = (a if s < 0.5 else b) if t < 0.5 else (c if s < 0.5 else d)
    return red, green, blue, np.int64(texels[nearest, 3])


@njit(cache=True, error_model="numpy", fastmath=True)
def _lit(air, value, texture, ar, ag, ab, slant):  # type: ignore[no-untyped-def]
    """What a pane or a sign sends out by itself, and what of the sky a pane throws back."""
    if value == SIGN_LIGHT:
        power = 2.2 * min(1.0, 1.3 * air.lamps) + 0.1
        return power * ar, power * ag, power * ab
    shine = 0.10 + 0.5 * (1.0 - slant) ** 3
    r, g, b = shine * air.horizon[0], shine * air.horizon[1], shine * air.horizon[2]
    if value == SHOP_LIGHT:
        power = air.shops
        return r + power * (0.25 + 2.2 * ar), g + power * (0.20 + 2.0 * ag), b + power * (0.12 + 1.6 * ab)
    if value <= LAST_WINDOW:
        lot = speck(value, texture, air.visit)
        if lot < air.lit_windows:
            power = (0.18 + 0.42 * speck(value, texture, 77)) * (0.5 + 0.5 * air.lamps)
            cool = speck(value, texture, 78)
            r, g, b = r + 0.95 * power, g + (0.62 + 0.22 * cool) * power, b + (0.26 + 0.5 * cool) * power
    return r, g, b


@njit(cache=True, error_model="numpy", fastmath=True, inline="always")
def _light(air, shade, lamp_at, lamp_first, lamp_list, px, py, pz, nx, ny, nz, dx, dy, dz, far):  # type: ignore[no-untyped-def]
    """Light that falls on a surface: sky, what the ground throws up, sun, street lamps, the car's own."""
    up = 0.5 + 0.5 * nz
    near_ground = 1.0 - 0.35 * (1.0 - abs(nz)) / (1.0 + max(pz, 0.0) ** 2)
    dome = 0.62 * up * near_ground
    bounce = 0.20 * (1.0 - up) * near_ground + 0.08
    side = 0.06 * (nx * 0.6 + ny * 0.8)  # no sky is equally bright all around
    r = air.zenith[0] * 0.45 + air.horizon[0] * 0.55
    g = air.zenith[1] * 0.45 + air.horizon[1] * 0.55
    b = air.zenith[2] * 0.45 + air.horizon[2] * 0.55
    share = dome + bounce * (1.0 + 1.5 * air.snow) + side
    r, g, b = r * share, g * share, b * share
    facing = nx * air.to_sun[0] + ny * air.to_sun[1] + nz * air.to_sun[2]
    if facing > 0.0 and air.sun[0] > 0.05:
        sun = facing * _sunlit(shade, px + 0.6 * nx - air.west, py + 0.6 * ny - air.south, pz)
        r, g, b = r + sun * air.sun[0], g + sun * air.sun[1], b + sun * air.sun[2]
    if air.lamps > 0.0:
        power = 15.0 * air.lamps * _lamplight(air, lamp_at, lamp_first, lamp_list, px, py, pz, nx, ny, nz)
        r, g, b = r + power * LAMP_RED, g + power * LAMP_GREEN, b + power * LAMP_BLUE
        if air.headlight > 0.0 and far < 40.0:
            beam = air.headlight * max(0.0, 1.0 - 9.0 * max(0.0, dz + 0.02) ** 2) * 5.0 / (20.0 + far * far)
            beam *= max(0.15, -(nx * dx + ny * dy + nz * dz))
            r, g, b = r + beam, g + 0.97 * beam, b + 0.9 * beam
    return r, g, b


@njit(cache=True, error_model="numpy", fastmath=True, inline="always")
def _sunlit(shade, east, north, pz):  # type: ignore[no-untyped-def]
    """1 in the sun, 0 in the shadow, between along the edge."""
    u, v = east / CELL - 0.5, north / CELL - 0.5
    rows, columns = shade.shape
    if not (u > 0.0 and v > 0.0 and u < columns - 1.001 and v < rows - 1.001):
        return 1.0
    j, i = int(u), int(v)
    s, t = u - j, v - i
    total = 0.0
    total += (1 - s) * (1 - t) * min(1.0, max(0.0, (pz - shade[i, j]) * 1.6 + 0.9))
    total += s * (1 - t) * min(1.0, max(0.0, (pz - shade[i, j + 1]) * 1.6 + 0.9))
    total += (1 - s) * t * min(1.0, max(0.0, (pz - shade[i + 1, j]) * 1.6 + 0.9))
    total += s * t * min(1.0, max(0.0, (pz - shade[i + 1, j + 1]) * 1.6 + 0.9))
    return total


@njit(cache=True, error_model="numpy", fastmath=True)
def _lamplight(air, lamp_at, lamp_first, lamp_list, px, py, pz, nx, ny, nz):  # type: ignore[no-untyped-def]
    j, i = int((px - air.west) / LAMP_CELL), int((py - air.south) / LAMP_CELL)
    cell = i * air.lamp_columns + j
    if i < 0 or j < 0 or j >= air.lamp_columns or cell >= len(lamp_first) - 1:
        return 0.0
    total = 0.0
    for k in range(lamp_first[cell], lamp_first[cell + 1]):
        lamp = lamp_list[k]
        x, y, z = lamp_at[lamp, 0] - px, lamp_at[lamp, 1] - py, lamp_at[lamp, 2] - pz
        square = x * x + y * y + z * z
        if square > LAMP_RANGE * LAMP_RANGE:
            continue
        reach = math.sqrt(square) + 1e-6
        facing = (nx * x + ny * y + nz * z) / reach
        if facing > 0.0:
            below = min(1.0, max(0.12, 0.55 + z / reach))  # the shade of a lamp lets little light upwards
            total += facing * below * (1.0 - square / (LAMP_RANGE * LAMP_RANGE)) / (square + 4.0)
    return total


@njit(cache=True, error_model="numpy", fastmath=True, inline="always")
def _haze(air, far, dx, dy, dz):  # type: ignore[no-untyped-def]
    """How much of a distant thing the air hides, and the colour of the air."""
    veil = 1.0 - math.exp(-air.haze * far)
    lamp = 0.035 * air.lamps
    return (
        veil,
        0.95 * air.horizon[0] + lamp,
        0.95 * air.horizon[1] + lamp * 0.8,
        0.95 * air.horizon[2] + lamp * 0.5,
    )


@njit(cache=True, error_model="numpy", fastmath=True)
def _soft(x, y, seed):  # type: ignore[no-untyped-def]
    """Smooth noise in [0, 1]."""
    j, i = math.floor(x), math.floor(y)
    s, t = x - j, y - i
    s, t = s * s * (3 - 2 * s), t * t * (3 - 2 * t)
    low = speck(j, i, seed) * (1 - s) + speck(j + 1, i, seed) * s
    high = speck(j, i + 1, seed) * (1 - s) + speck(j + 1, i + 1, seed) * s
    return low * (1 - t) + high * t


@njit(cache=True, error_model="numpy", fastmath=True)
def _sky(air, skyline, dx, dy, dz):  # type: ignore[no-untyped-def]
    """Colour of the sky in a direction, clouds and the hills on the horizon included."""
    level = math.sqrt(dx * dx + dy * dy)
    slope = dz / level
    turn = math.degrees(math.atan2(dx, dy)) % 360.0
    k = int(turn)
    ridge = skyline[k] + (turn - k) * (skyline[(k + 1) % 360] - skyline[k])
    up = min(1.0, max(0.0, slope) * 1.6)
    mix = math.sqrt(up)
    r = air.horizon[0] + mix * (air.zenith[0] - air.horizon[0])
    g = air.horizon[1] + mix * (air.zenith[1] - air.horizon[1])
    b = air.horizon[2] + mix * (air.zenith[2] - air.horizon[2])
    if slope < ridge:
        veil = 0.55 + 0.4 * min(1.0, air.haze * 120.0)
        tone = 0.25 + 0.5 * air.snow
        return (
            air.horizon[0] * (veil + (1 - veil) * tone * 0.6),
            air.horizon[1] * (veil + (1 - veil) * tone * 0.8),
            air.horizon[2] * (veil + (1 - veil) * tone * 0.7),
        )
    length = math.sqrt(level * level + dz * dz)
    toward = (dx * air.to_sun[0] + dy * air.to_sun[1] + dz * air.to_sun[2]) / length
    if toward > 0.0 and air.to_sun[2] > 0.0:
        halo = toward**8 * 0.22 + toward**64 * 0.6
        r, g, b = r + halo * air.sun[0], g + halo * air.sun[1], b + halo * air.sun[2]
    x, y = 2.2 * dx / (dz + 0.12 * level), 2.2 * dy / (dz + 0.12 * level)
    shift = 17.3 * air.visit
    cloud = 0.62 * _soft(x + shift, y, 11) + 0.38 * _soft(2.3 * x, 2.3 * y + shift, 12)
    cover = min(1.0, max(0.0, (cloud - 0.72 + 0.5 * air.clouds) * 4.0)) * 0.75
    bright = 0.35 * (air.zenith[0] + air.zenith[1] + air.zenith[2]) + 0.12 * air.sun[0]
    bright = bright * (0.75 + 0.5 * cloud) + 0.35 * air.horizon[1]
    tint = air.horizon[0] / (air.horizon[1] + 1e-6)
    r, g, b = r + cover * (bright * min(1.4, tint) - r), g + cover * (bright - g), b + cover * (bright - b)
    return r, g, b


# ---- the camera ------------------------------------------------------------------------------------------


@njit(cache=True, error_model="numpy", fastmath=True)
def _reflect(radiance, mirror, wet, centre, rotation, lens, seed):  # type: ignore[no-untyped-def]
    """Wet ground mirrors what stands behind it, taken to be far away."""
    h, w = mirror.shape
    fx, fy, cx, cy = lens[0], lens[1], lens[2], lens[3]
    for i in range(h):
        for j in range(w):
            if mirror[i, j] < 0.5:
                continue
            x, y = (j + 0.5 - cx) / fx, (i + 0.5 - cy) / fy
            dx = rotation[0, 0] * x + rotation[0, 1] * y + rotation[0, 2]
            dy = rotation[1, 0] * x + rotation[1, 1] * y + rotation[1, 2]
            dz = rotation[2, 0] * x + rotation[2, 1] * y + rotation[2, 2]
            away = 0.5 * centre[2] / max(1e-3, -dz)
            puddle = _soft(0.5 * centre[0] + away * dx, 0.5 * centre[1] + away * dy, 3)
            ripple = 0.10 * (speck(i // 2, j, seed) - 0.5) * (-dz)
            dx, dz = dx + 0.5 * ripple, -dz + ripple
            z = rotation[0, 2] * dx + rotation[1, 2] * dy + rotation[2, 2] * dz
            if z < 0.1:
                continue
            u = int(fx * (rotation[0, 0] * dx + rotation[1, 0] * dy + rotation[2, 0] * dz) / z + cx)
            v = int(fy * (rotation[0, 1] * dx + rotation[1, 1] * dy + rotation[2, 1] * dz) / z + cy)
            if v >= h:
                continue
            u, v = min(w - 1, max(0, u)), max(0, v)
            if mirror[v, u] > 0.0:
                continue
            share = wet * (0.05 + 0.30 * math.exp(-6.0 * abs(dz))) * (0.3 + 1.2 * puddle)
            for c in range(3):
                radiance[i, j, c] += share * (radiance[v, u, c] - radiance[i, j, c])


@njit(cache=True, error_model="numpy", fastmath=True)
def _glare(light, nearness, centre, rotation, lens, radiance):  # type: ignore[no-untyped-def]
    """A halo around each street lamp that is seen, wider in haze."""
    air, lamp_at = light.air, light.lamp_at
    h, w = radiance.shape[:2]
    fx, fy, cx, cy = lens[0], lens[1], lens[2], lens[3]
    for k in range(len(lamp_at)):
        x, y, z = _to_camera(lamp_at[k, 0], lamp_at[k, 1], lamp_at[k, 2] - 0.1, centre, rotation)
        if z < 1.5 or z > 110.0:
            continue
        u, v = fx * x / z + cx, fy * y / z + cy
        if u < 0.0 or v < 0.0 or u >= w or v >= h or nearness[int(2 * v), int(2 * u)] > 1.05 / z:
            continue
        size = (0.9 + 12.0 * air.haze) * fx / z + 1.2
        power = 0.9 * air.lamps * math.exp(-air.haze * z)
        reach = int(3.0 * size) + 1
        for i in range(max(0, int(v) - reach), min(h, int(v) + reach + 1)):
            for j in range(max(0, int(u) - reach), min(w, int(u) + reach + 1)):
                away = ((j + 0.5 - u) ** 2 + (i + 0.5 - v) ** 2) / (size * size)
                if away < 9.0:
                    halo = power * (math.exp(-4.0 * away) + 0.10 * (1.0 - away / 9.0) ** 2)
                    radiance[i, j, 0] += halo * LAMP_RED
                    radiance[i, j, 1] += halo * LAMP_GREEN
                    radiance[i, j, 2] += halo * LAMP_BLUE


@njit(cache=True, error_model="numpy", fastmath=True)
def _develop(radiance, air, gain, noise, seed, image):  # type: ignore[no-untyped-def]
    """From light to bytes: rain before the lens, vignette, exposure, film curve, grain."""
    h, w = radiance.shape[:2]
    grey = 0.33 * (air.horizon[0] + air.horizon[1] + air.horizon[2]) + 0.05 * air.lamps
    for i in range(h):
        for j in range(w):
            u, v = (j + 0.5) / w - 0.5, (i + 0.5) / h - 0.5
            dim = gain * air.gain * (1.0 - 0.5 * (u * u + v * v))
            streak = 0.0
            if air.rain > 0.0:
                column = j + (i >> 3)
                if speck(column, (i + 3 * column) // 11, seed + 9) > 0.965:
                    streak = 0.22 * air.rain
            for c in range(3):
                value = radiance[i, j, c]
                value = dim * (value + streak * (grey - value + 0.1 * grey))
                value = value * (0.35 + value) / (0.38 + value * (0.62 + value)) * 0.94
                level = math.sqrt(min(1.0, max(0.0, value)))
                grain = speck(i * 3 + c, j, seed) + speck(j * 3 + c, i, seed + 31) - 1.0
                level += noise * grain
                image[i, j, c] = np.uint8(min(255.0, max(0.0, 255.0 * level + 0.5)))


def intrinsics_of(fov: float, size: tuple[int, int]) -> NDArray[np.float64]:
    """(4,) fx, fy, cx, cy [px] of a lens with this horizontal field of view [deg] and square pixels."""
    h, w = size
    focal = 0.5 * w / math.tan(0.5 * math.radians(fov))
    return np.array([focal, focal, 0.5 * w, 0.5 * h])


def facing(heading: Any, pitch: Any = 0.0, roll: Any = 0.0) -> NDArray[np.float64]:
    """(n, 4) camera-to-world quaternions of a camera that looks to `heading` [deg, clockwise from north], `pitch`
    up, and is turned clockwise by `roll` about its axis; world x east, y north, z up."""
    from scipy.spatial.transform import Rotation

    h, p, r = np.broadcast_arrays(*np.atleast_1d(heading, pitch, roll))
    # with all three angles of scipy 0 it would look straight up, the top of the image to the south
    turns = Rotation.from_euler("ZXZ", np.stack([-h, p - 90.0, r], axis=1), degrees=True)
    q: NDArray[np.float64] = turns.as_quat(canonical=True, scalar_first=True)
    return q
