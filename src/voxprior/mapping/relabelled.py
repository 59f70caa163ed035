"""A statistic of every voxel, for the true labels and all relabellings.

Three ways lead there. Statistics of single voxels come from one product in blocks
(`voxprior.mapping.product`), those of neighbourhoods from whole maps, and the maps of a ridge
decoder from the product with other columns (`voxprior.mapping.statistics`). Single voxels are
compared by R², which lies between 0 and 1, and reported as t or F: near 1 a t would magnify
rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError, option
from voxprior.mapping.design import Design
from voxprior.mapping.enhancement import cluster_sizes, graph_of, tfce
from voxprior.mapping.exchange import Exchange, unit_means
from voxprior.mapping.moderation import NO_PRIOR, Prior, variance_prior
from voxprior.mapping.product import Residuals, label_columns, maxima, residuals
from voxprior.mapping.spread import spread_note, welch_fits, welch_maxima, welch_t
from voxprior.mapping.statistics import (
    FEW,
    STATISTICS,
    cluster_threshold,
    decoder_columns,
    in_units,
    shared_scans,
)
from voxprior.space import VoxelSpace

__all__ = ["Relabelled", "relabelled_values"]

# Numbers of one product of whole maps: voxels times relabellings.
WHOLE_MAPS = 4_000_000
Columns = Callable[[int, int], NDArray]
Advance = Callable[[int], None]


class Relabelled(NamedTuple):
    """Values of the true labels, and the largest of every relabelling."""

    statistic: NDArray  # (V,) in its units, with its sign
    size: NDArray  # (V,) what is compared
    largest: NDArray  # (1 + B,) of `size`, the true labels first
    counts: NDArray | None  # (V,) relabellings that reach a voxel's size, of single voxels
    effect: NDArray  # (V,), or (K, V) for K > 2 classes
    unmoderated: NDArray | None  # (V,) t or F where the statistic is another
    prior: Prior
    units: Callable[[NDArray], NDArray]  # writes sizes in units of the statistic
    df: int  # degrees of freedom of the statistic
    spread: str = ""  # what is reported on unequal spread


def relabelled_values(
    name: str,
    X: NDArray,
    exchange: Exchange,
    design: Design,
    space: VoxelSpace | None = None,
    radius: float | None = None,
    advance: Advance = lambda done: None,
) -> Relabelled:
    """Compute the statistic `name` of every voxel, and the largest of every relabelling.

    X (n, V) are the scans; `advance` is called with the number of relabellings done.
    """
    if space is not None and space.n_voxels != X.shape[1]:
        raise InputError(
            f"{option('space')} does not fit the scans",
            expected=f"{X.shape[1]} voxels",
            got=str(space.n_voxels),
        )
    graph = graph_of(space, radius) if name in ("shared", "tfce", "cluster") else None
    X = unit_means(X, exchange.unit)
    X = shared_scans(X, graph) if name == "shared" else X

    def columns(start: int, stop: int) -> NDArray:
        return label_columns(exchange.targets[start:stop], design.Q, len(exchange.classes))

    left = residuals(X, design.Q, columns(0, 1))
    unpooled = name == "welch" or (STATISTICS[name].spatial and welch_fits(exchange))
    spread = spread_note(left.rows, columns(0, 1), exchange, design, unpooled)
    if STATISTICS[name].control == "global":
        found = _decoder_map(name, left, columns, exchange, design, advance)
    elif STATISTICS[name].spatial:
        found = _neighborhoods(name, left, columns, exchange, design, graph, advance)
    elif name == "welch":
        found = _welch(left, exchange, design, advance)
    else:
        found = _single_voxels(name, left, columns, exchange, design, advance)
    return found._replace(spread=spread)


# ---------------------------------------------------------------- single voxels


def _single_voxels(
    name: str,
    left: Residuals,
    columns: Columns,
    exchange: Exchange,
    design: Design,
    advance: Advance,
) -> Relabelled:
    prior = variance_prior(left.squares, design.df + design.k) if name == "moderated" else NO_PRIOR
    lengths, effect = prior.lengths(left.squares), _effect(left, exchange, design)
    R2 = _explained(left, lengths)
    rows = _scaled(left.rows, lengths)
    found = maxima(rows, R2, columns, len(exchange.targets) - 1, design.k, advance)
    plain = _in_units(left, design, NO_PRIOR) if name == "moderated" else None
    return Relabelled(
        _in_units(left, design, prior),
        R2,
        found.largest,
        found.counts,
        effect,
        plain,
        prior,
        lambda R2: in_units(R2, design.k, design.df, prior),
        design.df,
    )


def _welch(left: Residuals, exchange: Exchange, design: Design, advance: Advance) -> Relabelled:
    effect, plain = _effect(left, exchange, design), _in_units(left, design, NO_PRIOR)
    rows = _scaled(left.rows, NO_PRIOR.lengths(left.squares))
    t, found = welch_maxima(rows, exchange.targets, advance)
    df = int(np.bincount(exchange.targets[0]).min()) - 1  # at least: that of the smaller class
    return Relabelled(t, t**2, found.largest, found.counts, effect, plain, NO_PRIOR, np.sqrt, df)


def _scaled(rows: NDArray, lengths: NDArray) -> NDArray:
    """Divide every voxel by its length, in place; those of none stay zero."""
    rows *= np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1.0), 0.0).astype(np.float32)
    return rows


def _explained(left: Residuals, lengths: NDArray) -> NDArray:
    """R² of the true labels; 0 in voxels that do not vary."""
    squares = (left.first**2).sum(axis=0)
    return np.where(left.squares > 0, squares / np.where(lengths > 0, lengths, 1.0) ** 2, 0.0)


def _in_units(left: Residuals, design: Design, prior: Prior) -> NDArray:
    """Return t of the true labels, with its sign, or F."""
    R2 = _explained(left, prior.lengths(left.squares))
    values = in_units(R2, design.k, design.df, prior)
    return values * np.sign(left.first[0]) if design.k == 1 else values


def _effect(left: Residuals, exchange: Exchange, design: Design) -> NDArray:
    """Difference of means, slope or mean; means of more than two classes, without nuisance."""
    if len(exchange.classes) <= 2:
        return left.first[0] / design.length
    of_class = exchange.targets[0] == np.arange(len(exchange.classes))[:, None]
    return (of_class / of_class.sum(axis=1, keepdims=True)) @ left.rows.astype(float)


# ---------------------------------------------------------------- neighbourhoods


def _neighborhoods(
    name: str,
    left: Residuals,
    columns: Columns,
    exchange: Exchange,
    design: Design,
    graph: Any,
    advance: Advance,
) -> Relabelled:
    unpooled = welch_fits(exchange)
    few = design.df < FEW and not unpooled
    prior = variance_prior(left.squares, design.df + design.k) if few else NO_PRIOR
    enhance = _enhancer(name, graph, design, prior)
    heights = _in_units(left, design, prior)
    effect, plain = _effect(left, exchange, design), _in_units(left, design, NO_PRIOR)
    rows = _scaled(left.rows, prior.lengths(left.squares)).astype(np.float64)

    def of_relabellings(start: int, stop: int) -> NDArray:
        if unpooled:
            return welch_t(rows, exchange.targets[start:stop].T.astype(np.float64)).T
        return _heights(rows, columns(start, stop), design, prior)

    heights = of_relabellings(0, 1)[0] if unpooled else heights
    value = enhance(heights if design.k == 1 else np.sqrt(heights))
    largest = _whole_maps(rows, of_relabellings, len(exchange.targets), design, enhance, advance)
    largest[0] = np.abs(value).max()
    return Relabelled(
        value, np.abs(value), largest, None, effect, plain, prior, lambda v: v, design.df
    )


def _enhancer(name: str, graph: Any, design: Design, prior: Prior) -> Callable[[NDArray], NDArray]:
    if name == "tfce":
        return lambda heights: tfce(heights, graph)
    threshold = cluster_threshold(design.k, design.df, prior)
    return lambda heights: cluster_sizes(heights, graph, threshold)


def _whole_maps(
    rows: NDArray,
    heights_of: Columns,
    n_maps: int,
    design: Design,
    enhance: Callable[[NDArray], NDArray],
    advance: Advance,
) -> NDArray:
    """Largest enhanced value of every relabelling; whole maps, some relabellings at a time."""
    k, largest = design.k, np.zeros(n_maps)
    at_once = max(1, WHOLE_MAPS // (rows.shape[1] * k))
    for start in range(1, n_maps, at_once):
        stop = min(start + at_once, n_maps)
        heights = heights_of(start, stop)
        for b in range(stop - start):
            largest[start + b] = np.abs(enhance(heights[b])).max()
            advance(1)
    return largest


def _heights(rows: NDArray, columns: NDArray, design: Design, prior: Prior) -> NDArray:
    """Heights (B, V) of relabellings: t with its sign, or the root of F."""
    r = (columns.T @ rows).reshape(-1, design.k, rows.shape[1])
    heights = in_units((r**2).sum(axis=1), design.k, design.df, prior)
    return heights * np.sign(r[:, 0]) if design.k == 1 else np.sqrt(heights)


# ---------------------------------------------------------------- the map of a decoder


def _decoder_map(
    name: str,
    left: Residuals,
    columns: Columns,
    exchange: Exchange,
    design: Design,
    advance: Advance,
) -> Relabelled:
    scale = float(np.sqrt(left.squares.mean())) or 1.0
    rows = left.rows / np.float32(scale)
    gram = np.asarray(rows @ rows.T, dtype=np.float64)
    of_labels = decoder_columns(name, gram, design.k)

    def of_decoder(start: int, stop: int) -> NDArray:
        return of_labels(columns(start, stop))

    first = of_decoder(0, 1).T @ rows
    size = (first**2).sum(axis=0)
    found = maxima(rows, size, of_decoder, len(exchange.targets) - 1, design.k, advance)
    # cov(x, f) / sd(f) in units of the scans; weights of labels 0 and 1 per unit of the scans.
    penalty = float(np.trace(gram)) / len(gram) or 1.0
    unit = scale / np.sqrt(len(gram)) if name == "pattern" else design.length / (penalty * scale)
    sign = np.sign(first[0]) if design.k == 1 else 1.0
    effect = _effect(left, exchange, design)
    return Relabelled(
        np.sqrt(size) * sign * unit,
        size,
        found.largest,
        None,
        effect,
        _in_units(left, design, NO_PRIOR),
        NO_PRIOR,
        lambda size: np.sqrt(size) * unit,
        design.df,
    )
