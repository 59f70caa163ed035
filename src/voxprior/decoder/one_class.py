"""New groups of one class, which centring by group leaves without their class.

Where scans are centred by group, the mean of a group must hold no class: a new group of one class
loses it with its mean. No model needs to see that. Scans of several classes spread along the class
means u_c of training, scans of one class by their noise alone:

    S_ic = x_i·u_c,    V = Σ_i |s_i - s̄|² / (n_g - 1)                                       (1)

V of a new group is compared with F, the same of the training groups, each scored by the class means
of the others. A group of several classes has V near F; it is reported as having one class where

    V < min(.4, q) F,    q the 5 % quantile of χ²/ν,  ν = (n_g - 1)(C - 1)                  (2)

so that few scans are not judged by luck. If there is only noise, V is near F too, and nothing is
reported. benchmarks/preparation.md counts how often, on movements of five fingers a run at 7 T.

| symbol | variable | shape |
|---|---|---|
| x, centred by group | `X` | (n, p) |
| u_c, less their mean | `means` | (C, p) |
| F | `spread` | scalar |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

# Share of the usual spread, and chance of a group of several classes, below which (2) warns.
LEAST_SPREAD, CHANCE = 0.4, 0.05


class ClassSpread(NamedTuple):
    """Class means of centred training scans, and how far scans of a group spread along them."""

    means: NDArray[np.float32]
    spread: float

    @classmethod
    def of(cls, X: Any, y: Any, groups: Any) -> ClassSpread | None:
        """Learn from training scans (n, p) that were centred by group; None if that is impossible.

        Examples
        --------
        >>> import numpy as np
        >>> rng, y, runs = np.random.default_rng(0), np.tile([0, 1], 12), np.repeat(range(4), 6)
        >>> X = rng.normal(size=(24, 50)) + y[:, None] - 0.5
        >>> known, ones = ClassSpread.of(X, y, runs), X[y == 1][:6]
        >>> known.is_one_class(ones - ones.mean(axis=0)), known.is_one_class(X[:6])
        (True, False)
        """
        code, group = (np.unique(given, return_inverse=True)[1] for given in (y, groups))
        C, G = code.max() + 1, group.max() + 1
        counts = np.zeros((G, C))
        np.add.at(counts, (group, code), 1)
        if C < 2 or G < 2 or ((counts.sum(axis=0) - counts) == 0).any() or len(y) <= G:
            return None
        total, size = _class_sums(X, code, C), counts.sum(axis=0)[:, None]
        spread = 0.0
        for g in range(G):
            own = group == g
            others = total - _class_sums(X[own], code[own], C)
            others /= size - counts[g][:, None]
            spread += _spread(X[own], others - others.mean(axis=0))
        means = total / size
        return cls((means - means.mean(axis=0)).astype(np.float32), spread / (len(y) - G))

    def is_one_class(self, X: Any) -> bool:
        """Whether scans (n, p) of a group, centred by its mean, spread as those of one class do."""
        if len(X) < 2:
            return False
        nu = (len(X) - 1) * (len(self.means) - 1)
        bound = min(LEAST_SPREAD, stats.chi2.ppf(CHANCE, nu) / nu)
        return bool(_spread(X, self.means) / (len(X) - 1) < bound * self.spread)


def _class_sums(X: Any, code: NDArray, n_classes: int) -> NDArray[np.float64]:
    """Sums of the scans of each class, (C, p)."""
    return (np.eye(n_classes)[code].T @ X).astype(np.float64)


def _spread(X: Any, means: NDArray) -> float:
    """Sum of squares of (1)."""
    scores = np.asarray(X @ means.T, dtype=np.float64)
    return float(np.square(scores - scores.mean(axis=0)).sum())
