"""Interactive viewers of maps: the numbers that the page's script draws from.

One stage for all maps of a page, with the anatomy or the inflated mesh, and per map one byte for
each voxel: 0 where there is nothing, else 1 to 255 from the lowest to the highest colour. Bytes are
compressed (zlib) and written in base64; the script unpacks them when a viewer is opened.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from voxprior.report.colors import Colors, colors_of
from voxprior.report.slices import Axial, Ground, axial
from voxprior.report.surfaces import inflate
from voxprior.space import VoxelSpace

# Larger volumes are drawn with fewer voxels: of each block the strongest.
MOST_VOXELS = 300_000


def packed(values: np.ndarray) -> str:
    """Bytes of an array, compressed, as text."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 9)).decode()


def stage_of(space: VoxelSpace, ground: Ground | None) -> dict[str, Any] | None:
    """What all maps of a page are drawn on; None for spaces that have no viewer."""
    if space.kind == "mesh":
        return _mesh_stage(space)
    if space.kind != "volume" or len(space.shape) != 3 or min(space.shape) < 2 or ground is None:
        return None
    whole = axial(space, np.ones(space.n_voxels))
    coarse = _coarse(whole)
    places = [coarse.places(axis) for axis in range(3)]
    below = ground.volume
    near = [np.abs(below.places(axis)[:, None] - places[axis]).argmin(axis=0) for axis in range(3)]
    shades = below.values[np.ix_(*near)]
    return {
        "kind": "volume",
        "shape": list(coarse.values.shape),
        "first": [float(place[0]) for place in places],
        "step": [float(place[1] - place[0]) for place in places],
        "unit": "" if coarse.affine is None else " mm",
        "ground": packed(
            np.where(np.isfinite(shades), 1 + 254 * np.clip(shades, 0, 1), 0).astype("u1")
        ),
    }


def viewer_of(space: VoxelSpace, values: np.ndarray) -> dict[str, Any]:
    """What one map adds to the stage: its bytes, its colours, and where to look first."""
    colors = colors_of(values)
    low, high = float(colors.norm.vmin or 0.0), float(colors.norm.vmax or 0.0)
    if space.kind == "mesh":
        level, start = space.unmask(values, fill=np.nan), [0, 0, 0]
    else:
        level = _coarse(axial(space, values, fill=np.nan)).values
        strongest = np.nan_to_num(np.abs(level)).argmax()
        start = [int(i) for i in np.unravel_index(strongest, level.shape)]
    there = np.isfinite(level) & ((level != 0) | (low > 0) | (high < 0))
    share = np.clip((np.nan_to_num(level) - low) / ((high - low) or 1.0), 0, 1)
    return {
        "data": packed(np.where(there, 1 + np.round(254 * share), 0).astype("u1")),
        "low": low,
        "high": high,
        "start": start,
        "colors": _scale(colors),
    }


def _coarse(volume: Axial) -> Axial:
    """The volume in blocks of voxels, the strongest of each, if it has more than can be shown."""
    factor = int(np.ceil((volume.values.size / MOST_VOXELS) ** (1 / 3)))
    if factor < 2:
        return volume
    pad = [(0, -n % factor) for n in volume.values.shape]
    grown = np.pad(volume.values, pad, constant_values=np.nan)
    a, b, c = (n // factor for n in grown.shape)
    blocks = grown.reshape(a, factor, b, factor, c, factor).transpose(0, 2, 4, 1, 3, 5)
    blocks = blocks.reshape(a, b, c, -1)
    strength = np.where(np.isfinite(blocks), np.abs(blocks), -1.0)
    strongest = np.take_along_axis(blocks, strength.argmax(axis=-1)[..., None], -1)[..., 0]
    if volume.affine is None:
        return Axial(strongest)
    scale = np.diag([factor, factor, factor, 1.0])
    scale[:3, 3] = (factor - 1) / 2
    return Axial(strongest, volume.affine @ scale)


def _mesh_stage(space: VoxelSpace) -> dict[str, Any] | None:
    """Inflated pieces side by side, as whole numbers; faces as numbers of vertices."""
    pieces = inflate(np.asarray(space.points), np.asarray(space.faces))
    if not pieces:
        return None
    points, folds = np.zeros((space.shape[0], 3)), np.zeros(space.shape[0])
    width = max(float(np.ptp(piece.points[:, 0])) for piece in pieces)
    for number, piece in enumerate(sorted(pieces, key=lambda one: one.points[:, 0].mean())):
        centred = piece.points - piece.points.mean(axis=0)
        centred[:, 0] += 1.05 * width * (number - (len(pieces) - 1) / 2)
        points[piece.vertices], folds[piece.vertices] = centred, piece.folds
    faces = np.concatenate([piece.vertices[piece.faces] for piece in pieces])
    size = float(np.abs(points).max()) or 1.0
    return {
        "kind": "mesh",
        "points": packed(np.round(points / size * 32000).astype("<i2")),
        "faces": packed(faces.astype("<u4")),
        "ground": packed((255 * folds).astype("u1")),
    }


def _scale(colors: Colors) -> str:
    """256 colours from the lowest value to the highest, as bytes in base64."""
    import matplotlib

    low, high = float(colors.norm.vmin or 0.0), float(colors.norm.vmax or 0.0)
    cmap = matplotlib.colormaps.get_cmap(colors.cmap)
    shades = cmap(colors.norm(np.linspace(low, high, 256)))[:, :3]
    return base64.b64encode(np.round(255 * shades).astype("u1").tobytes()).decode()
