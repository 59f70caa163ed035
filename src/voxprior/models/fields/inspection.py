"""What a random field shows, as plain data: maps, connections, the path of its ratio.

A connection i ← j counts when |β_ij| exceeds a tolerance; compressed coefficients are small but
never exactly zero. On standardised nodes 0.05 is a twentieth of a standard deviation per standard
deviation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from voxprior.models.fields.likelihood import Trajectory, ratio_trajectory


def count_connections(coef: np.ndarray, tolerance: float = 0.05) -> np.ndarray:
    """Number of nodes that predict each node, (..., n), from coefficients (..., n, n).

    Examples
    --------
    >>> import numpy as np
    >>> count_connections(np.array([[0, 0.5, 0.01], [0.2, 0, -0.3], [0, 0, 0]]))
    array([1, 2, 0])
    """
    return (np.abs(coef) > tolerance).sum(axis=-1)


def strongest_connections(coef: np.ndarray, n_edges: int, tolerance: float = 0.05) -> np.ndarray:
    """Undirected connections (e, 3) as rows (i, j, strength), the ``n_edges`` strongest.

    The strength is the larger of |β_ij| and |β_ji|, with its sign.
    """
    size = np.maximum(np.abs(coef), np.abs(coef.T))
    i, j = np.triu_indices(len(coef), k=1)
    order = np.argsort(-size[i, j], kind="stable")[:n_edges]
    i, j = i[order], j[order]
    keep = size[i, j] > tolerance
    i, j = i[keep], j[keep]
    forward = np.abs(coef[i, j]) >= np.abs(coef[j, i])
    return np.column_stack([i, j, np.where(forward, coef[i, j], coef[j, i])])


class Inspection:
    """The methods of ``RandomFieldClassifier`` that show what it learned."""

    def voxel_maps(self: Any) -> dict[str, np.ndarray]:
        """Maps over all features.

        Returns
        -------
        dict of ndarrays of shape (n_features,)
            ``ranking``: score of every feature; ``selected``: 1 at nodes; ``degree``: mean number
            of connections (|β| > 0.05) over classes; ``strength``: mean Σ|β| over classes;
            ``difference``: Σ_j |β_ij| between the first and the last class, where connectivity
            differs. The last four are 0 off the nodes.
        """
        check_is_fitted(self, "coef_")
        at_nodes = {
            "selected": np.ones(len(self.nodes_)),
            "degree": np.mean([count_connections(coef) for coef in self.coef_], axis=0),
            "strength": np.mean([np.abs(coef).sum(axis=1) for coef in self.coef_], axis=0),
            "difference": np.abs(self.coef_[0] - self.coef_[-1]).sum(axis=1),
        }
        maps = {"ranking": self.ranking_.copy()}
        for name, values in at_nodes.items():
            maps[name] = np.zeros(self.n_features_in_)
            maps[name][self.nodes_] = values
        return maps

    def connections(self: Any, tolerance: float = 0.05) -> np.ndarray:
        """Number of connections of every class and node, (C, n)."""
        check_is_fitted(self, "coef_")
        return np.array([count_connections(coef, tolerance) for coef in self.coef_])

    def trajectory(self: Any, X, label, against) -> Trajectory:
        """How the log-likelihood ratio of scans settles as nodes are added, with its limit.

        Parameters
        ----------
        X : array-like of shape (m, n_features)
            Scans whose class is ``label``.
        label, against : labels
            The true class and the class it is held against.

        Returns
        -------
        Trajectory
            ``running_mean`` (m, n) of log p(x_i|label) − log p(x_i|against) over the nodes, and
            ``limit`` (m,), the Kullback-Leibler divergence that it tends to.
        """
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        known = self.classes_.tolist()
        if label not in known or against not in known:
            raise ValueError(
                f"label and against must be among the classes {known}. Got {label!r}, {against!r}."
            )
        pair = [known.index(label), known.index(against)]
        return ratio_trajectory(
            self._nodes().take(X), self.coef_[pair], self.intercept_[pair], self.noise_[pair]
        )
