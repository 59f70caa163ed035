"""Colours of a map's values, and whether a map has anything to show.

| values | colours |
|---|---|
| of both signs | red and blue around zero |
| of one sign | light to dark red, or blue below zero, from zero where the map comes near it |
| few whole numbers, none below zero | one colour per number |
| zero, where no value is below | what lies below the map |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.colors import Colormap, Normalize

BOTH_SIGNS, ONE_SIGN, BELOW_ZERO = "RdBu_r", "YlOrRd", "Blues_r"
# Whole numbers up to this are counted by colour; above, a scale is easier to read.
MOST_NUMBERS = 10
# A map whose values differ by less than this share shows no more than one number does.
UNIFORM = 0.05
# A line encloses the strongest voxels, this share of those that are not zero.
OUTLINED = 0.05
FAINTEST = 0.15


class Colors(NamedTuple):
    """How the values of one map are coloured."""

    cmap: str | Colormap
    norm: Normalize
    ticks: list[float] | None = None

    def bar(self, figure: Any, axes: Sequence[Any], unit: str = "", **options: Any) -> None:
        """Draw the scale next to axes."""
        from matplotlib.cm import ScalarMappable

        scale = ScalarMappable(self.norm, self.cmap)
        figure.colorbar(scale, ax=list(axes), label=unit, ticks=self.ticks, **options)


def colors_of(values: np.ndarray) -> Colors:
    """Choose colours by what the values are: of both signs, of one, or few whole numbers."""
    import matplotlib
    from matplotlib.colors import BoundaryNorm, ListedColormap, Normalize

    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.any() else (0.0, 1.0)
    if low < 0 < high:
        top = max(-low, high)
        return Colors(BOTH_SIGNS, Normalize(-top, top))
    numbers = np.unique(finite[finite > 0])
    if low >= 0 and high <= MOST_NUMBERS and len(numbers) and (numbers == np.round(numbers)).all():
        steps = np.arange(numbers[0], high + 1)
        shades = matplotlib.colormaps[ONE_SIGN](np.linspace(1, 0.35, len(steps))[::-1])
        bounds = np.append(steps, high + 1) - 0.5
        return Colors(ListedColormap(shades), BoundaryNorm(bounds, len(steps)), list(steps))
    if low == high >= 0:
        return Colors(ONE_SIGN, Normalize(0.0, high))
    if high > 0:  # a narrow range far from zero would be one colour if drawn from zero
        return Colors(ONE_SIGN, Normalize(low if low > high / 2 else 0.0, high))
    # As in maps of both signs: what is below zero must not look like what is above.
    return Colors(BELOW_ZERO, Normalize(low, high if low < high < low / 2 else 0.0))


def is_uniform(values: np.ndarray) -> bool:
    """Whether a map is practically the same everywhere: one number describes it better.

    >>> is_uniform(np.array([2.0, 2.02, 2.05])), is_uniform(np.array([0.0, 0.0, 1.0]))
    (True, False)
    """
    finite = values[np.isfinite(values)]
    return bool(finite.size and np.ptp(finite) <= UNIFORM * np.abs(finite).max())


def opacity(values: np.ndarray, colors: Colors) -> np.ndarray:
    """Opacity (0 to 1) that grows with strength; 0 where the value is zero or missing.

    Whole numbers are names of parts, and drawn alike.
    """
    known = np.isfinite(values)
    if colors.ticks is not None:
        return np.where(known & (values != 0), 1.0, 0.0)
    low, high = float(colors.norm.vmin or 0.0), float(colors.norm.vmax or 0.0)
    far, near = max(abs(low), abs(high)), 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    strength = (np.abs(np.nan_to_num(values)) - near) / ((far - near) or 1.0)
    shown = FAINTEST + (1 - FAINTEST) * np.clip(strength, 0, 1) ** 0.7
    return np.where(known & ((values != 0) | (near > 0)), shown, 0.0)


def painted(values: np.ndarray, colors: Colors) -> np.ndarray:
    """Colours (..., 4) of values, the last of them their opacity."""
    import matplotlib

    shades = matplotlib.colormaps.get_cmap(colors.cmap)(colors.norm(np.nan_to_num(values)))
    shades[..., 3] = opacity(values, colors)
    return shades


def strongest(values: np.ndarray, colors: Colors) -> np.ndarray:
    """Which voxels are the strongest: 5 in a hundred of those that are not zero.

    Where whole numbers name parts, none is.

    >>> values = np.arange(-100.0, 1.0)
    >>> strongest(values, colors_of(values)).sum()
    np.int64(5)
    """
    strength = np.where(np.isfinite(values), np.abs(values), 0.0)
    if colors.ticks is not None or not strength.any():
        return np.zeros(len(values), dtype=bool)
    return strength >= np.quantile(strength[strength > 0], 1 - OUTLINED)
