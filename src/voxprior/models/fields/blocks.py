"""Blocks of nodes: a node is predicted by the nodes of all other blocks, not by those of its own.

    G_i = β_ij G_j + W,   G_i the r nodes of one block, G_j the m nodes of all others      (1.23)

Each row of β_ij is then the regression of one node on G_j (:mod:`~voxprior.models.fields.kalman`).
In the system that the regressions of all nodes share (:mod:`~voxprior.models.fields.dual`) a block
J takes its columns out at once, with H = X_Jᵀ A_J (r, r) in the place of h_i:

    α_J = M_J⁻¹ X_J = A_J (I − H)⁻¹,   I − H = γ Θ_JJ,   M_J⁻¹ = M⁻¹ + α_J A_Jᵀ

The field takes the nodes of a block as independent given the other blocks, so that Z_θ is still
1/|det(I − B_θ)|, with B_θ zero within blocks.

| symbol | variable | shape |
|---|---|---|
| block of each node, 0 .. ; None: a block of its own | `block_of` | (n,) |
| J, nodes of one block | `J` | (r,) |
| X, A, α, Θ | as in `dual` | |

Reference: A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via
compressed random fields. IBM Research Report, 2009. Section 1.3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from voxprior.errors import InputError, option


def blocks_at(blocks: Any, features: np.ndarray, n_features: int) -> np.ndarray | None:
    """The block (n,) of each node, numbered from 0, from labels of all features; None without."""
    if blocks is None:
        return None
    labels = np.asarray(blocks)
    usable = labels.shape == (n_features,) and labels.dtype.kind in "biufUS"
    if not usable or (labels.dtype.kind == "f" and np.isnan(labels).any()):
        raise InputError(
            f"{option('blocks')} cannot be used",
            expected=f"one number or name for each of the {n_features} features, for instance its "
            "region",
            got=f"an array of shape {labels.shape} and type {labels.dtype}"
            + (", not a number in places" if usable else ""),
        )
    return np.unique(labels[features], return_inverse=True)[1]


def regressor_blocks(block_of: np.ndarray | None, n_nodes: int, n_regressors: int) -> np.ndarray:
    """The block (p,) of every regressor; the ones of a bias belong to none."""
    nodes = np.arange(n_nodes) if block_of is None else block_of
    return np.concatenate([nodes, np.full(n_regressors - n_nodes, -1)])


def members(block_of: np.ndarray) -> list[np.ndarray]:
    """The nodes of every block."""
    return [np.flatnonzero(block_of == block) for block in np.unique(block_of)]


def plain_alpha(
    X: np.ndarray, A: np.ndarray, gamma: float, theta: np.ndarray | None, block_of: np.ndarray
) -> np.ndarray:
    """α (k, n) of the plain field: A_J (I − H)⁻¹ block by block."""
    alpha = np.empty_like(A)
    for J in members(block_of):
        rest = np.eye(len(J)) - X[:, J].T @ A[:, J] if theta is None else gamma * _own(theta, J)
        alpha[:, J] = np.linalg.solve(rest, A[:, J].T).T
    return alpha


def coefficients_of_theta(theta: np.ndarray, block_of: np.ndarray) -> np.ndarray:
    """β (n, n) of the plain field, −Θ_JJ⁻¹ Θ_J: the same as Xᵀα, without the 1/γ it cancels."""
    n = len(block_of)
    coef = np.empty((n, n))
    for J in members(block_of):
        coef[J] = -np.linalg.solve(_own(theta, J), theta[J, :n])
    return coef


def sum_within(values: np.ndarray, block_of: np.ndarray) -> np.ndarray:
    """Values (k, n) summed over the nodes of each block, at every node of it."""
    sums = np.empty_like(values)
    for J in members(block_of):
        sums[:, J] = values[:, J].sum(axis=1, keepdims=True)
    return sums


def leave_block(
    A: np.ndarray, alpha: np.ndarray, block_of: np.ndarray, nodes: np.ndarray, V: np.ndarray
) -> np.ndarray:
    """α_J A_Jᵀ v of every one of ``nodes`` (b, k): what M_J⁻¹ v has beyond M⁻¹ v."""
    more = np.empty_like(V)
    blocks = block_of[nodes]
    for block in np.unique(blocks):
        J, rows = block_of == block, blocks == block
        more[rows] = V[rows] @ A[:, J] @ alpha[:, J].T
    return more


def clear_own(coef: np.ndarray, block_of: np.ndarray | None, nodes: np.ndarray) -> None:
    """Set the coefficients of ``nodes`` (rows) for their own block to zero."""
    if block_of is None:
        coef[np.arange(len(nodes)), nodes] = 0.0
    else:
        coef[block_of[nodes][:, None] == block_of] = 0.0


def _own(theta: np.ndarray, J: np.ndarray) -> np.ndarray:
    return theta[np.ix_(J, J)]
