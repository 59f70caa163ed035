"""Several decoders of the same folds: whether two differ, and how well the best one scores.

**Do two differ?** `compare_decoders` flips the signs of the groups' differences.

**How good is the best one?** The model that scores best on some scans is partly the luckiest one,
so its score flatters it. `voxprior.validation.choice` makes the choice anew for every group. Where
that takes too many fits, the bootstrap bias correction [1]_ of `score_after_choice` draws groups of
held-out predictions with replacement, chooses the best model on those drawn and scores it on the
groups not drawn; no model is fitted again. As a group drawn has trained the folds of those that are
not, the correction is slightly too small:

    corrected = mean over b of  score(m_b, out_b),   m_b = argmax over m of  score(m, in_b)

| symbol | variable | shape |
|---|---|---|
| predictions of model m | `guesses` | (n, M) |
| in_b, rows of the groups drawn | `drawn` | (n_b,) |
| out_b, rows of the other groups | `spared` | (n - ..,) |

References
----------
.. [1] Tsamardinos, Greasidou & Borboudakis, "Bootstrapping the out-of-sample predictions for
   efficient and accurate cross-validation", Machine Learning 107, 2018.
.. [2] Hartigan, "Using subsample values as typical values", Journal of the American Statistical
   Association 64, 1969.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from voxprior.errors import InputError, option
from voxprior.validation.result import Result
from voxprior.validation.scores import TIE, check_same_scans, scan_scores

DRAWS = 500


def score_after_choice(results: Mapping[str, Result], random_state: int = 0) -> float | None:
    """Score that the choice of the best model leads to; None where it cannot be computed.

    Parameters
    ----------
    results : mapping of str to Result
        Of the same scans and folds. With one model there is no choice, with one group nothing to
        draw from.
    random_state : int
        Seed of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from voxprior.validation import cross_validate, score_after_choice
    >>> rng, runs = np.random.default_rng(0), np.repeat(range(12), 4)
    >>> X, y = rng.normal(size=(48, 30)), rng.permutation(np.tile([0, 1], 24))
    >>> models = {f"{k} neighbours": KNeighborsClassifier(k) for k in range(1, 20, 2)}
    >>> results = {name: cross_validate(model, X, y, runs) for name, model in models.items()}
    >>> best = max(result.pooled()["accuracy"] for result in results.values())
    >>> round(best, 2), round(score_after_choice(results), 2)
    (0.6, 0.55)
    """
    first = next(iter(results.values()))
    tables = [result.predictions for result in results.values()]
    truth = tables[0]["y_true"].to_numpy()
    guesses = np.column_stack([table["y_pred"].to_numpy() for table in tables])
    names, group = np.unique(tables[0]["group"].to_numpy(), return_inverse=True)
    if len(results) < 2 or len(names) < 2:
        return None
    members = [np.flatnonzero(group == g) for g in range(len(names))]
    rng, score, found = np.random.default_rng(random_state), first.score_names[0], []
    for _ in range(DRAWS):
        chosen = rng.integers(len(names), size=len(names))
        drawn = np.concatenate([members[g] for g in chosen])
        spared = np.flatnonzero(~np.isin(group, chosen))
        inside = model_scores(truth[drawn], guesses[drawn], score)
        if len(spared) and np.isfinite(inside).any():
            best = [int(np.nanargmax(inside))]
            found += model_scores(truth[spared], guesses[spared][:, best], score).tolist()
    usable = [value for value in found if np.isfinite(value)]
    return float(np.mean(usable)) if usable else None


def model_scores(truth: np.ndarray, guesses: np.ndarray, score: str) -> np.ndarray:
    """Score of every model, (M,); higher is better.

    >>> import numpy as np
    >>> model_scores(np.array([0, 0, 0, 1]), np.array([[0, 0], [0, 1], [0, 0], [0, 1]]), "accuracy")
    array([0.75, 0.75])
    """
    if score == "r2":
        variation = np.sum((truth - truth.mean()) ** 2)
        lost = np.sum((guesses - truth[:, None]) ** 2, axis=0)
        return 1 - lost / variation if variation > 0 else np.full(guesses.shape[1], np.nan)
    right = guesses == truth[:, None]
    if score == "accuracy":
        return right.mean(axis=0)
    return np.mean([right[truth == label].mean(axis=0) for label in np.unique(truth)], axis=0)


class Comparison(NamedTuple):
    """Paired comparison of two decoders on the same test scans."""

    score: str
    difference: float  # first minus second; positive where the first scores higher
    p_value: float  # two-sided
    smallest_p: float
    n_groups: int
    exact: bool


def compare_decoders(
    first: Result,
    second: Result,
    score: str | None = None,
    *,
    n_permutations: int = 10_000,
    random_state: int = 0,
) -> Comparison:
    """Test whether two decoders differ: signs of the groups' differences are flipped.

    Repeats are averaged per scan and scans per group; if the decoders are alike, a group's
    difference is as likely to be negative as positive. All 2^G signs are tried where that is at
    most `n_permutations`.

    Parameters
    ----------
    first, second : Result
        Of the same scans and folds.
    score : str
        accuracy (default; mae for regression), balanced_accuracy, log_loss, brier or mae.
    n_permutations, random_state : int
        Random sign flips where there are too many, and their seed.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import compare_decoders, cross_validate
    >>> y, runs = np.tile([0, 1], 12), np.repeat(range(6), 4)
    >>> X = np.random.default_rng(0).normal(size=(24, 3)) + 2 * y[:, None]
    >>> good, blind = (cross_validate(m, X, y, runs) for m in (GaussianNB(), DummyClassifier()))
    >>> round(compare_decoders(good, blind).p_value, 4)
    0.0312
    """
    if score is None:
        score = "mae" if first.task == "regression" else "accuracy"
    difference = _group_differences(first, second, score)
    found = flip_signs(difference, n_permutations=n_permutations, random_state=random_state)
    mean, G = float(difference.mean()), len(difference)
    return Comparison(score, mean, found.p_value, found.smallest_p, G, found.exact)


class SignFlips(NamedTuple):
    """How often flipped signs give a sum as large as the true ones, and an interval of the mean."""

    p_value: float
    smallest_p: float  # that this many differences can give
    n_flips: int
    exact: bool  # whether all flips were tried
    two_sided: bool
    low: float  # NaN where so few differences have no interval
    high: float

    @property
    def words(self) -> str:
        """The test in words, with the smallest p that it can give."""
        number = f"all {self.n_flips:,}" if self.exact else f"{self.n_flips:,} random"
        sides = "two-sided" if self.two_sided else "one-sided"
        return f"{number} sign flips, {sides}, smallest possible p {self.smallest_p:.3g}"


def flip_signs(
    differences: np.ndarray,
    *,
    two_sided: bool = True,
    n_permutations: int = 10_000,
    random_state: int = 0,
    level: float = 0.95,
) -> SignFlips:
    """Test whether independent differences, (G,), are as likely to be negative as positive.

    All 2^G signs are tried where that is at most `n_permutations`. The interval holds the
    means that a two-sided test does not reject. A flip of the signs of a subset gives a sum as
    large as the true one where the mean of the subset is not above zero, so that the limits are
    quantiles of means of subsets [2]_; one of 95 % takes six differences.

    Examples
    --------
    >>> import numpy as np
    >>> flip_signs(np.array([0.2, 0.1, 0.3, 0.2]), two_sided=False).p_value
    0.0625
    """
    G = len(differences)
    exact = n_permutations + 1 >= 2**G
    if exact:
        signs = 1 - 2 * ((np.arange(2**G)[:, None] >> np.arange(G)) & 1)
    else:
        rng = np.random.default_rng(random_state)
        drawn = rng.choice([-1, 1], size=(n_permutations, G))
        signs = np.vstack([np.ones((1, G), int), drawn])
    sums = signs @ differences
    sums = np.abs(sums) if two_sided else sums
    p = float(np.mean(sums >= sums[0] - TIE * G))
    sides = 2.0 if two_sided else 1.0
    smallest = max(sides / 2**G, 0.0 if exact else 1 / len(signs))
    limits = _typical_values(signs < 0, differences, level)
    return SignFlips(p, smallest, 2**G if exact else n_permutations, exact, two_sided, *limits)


def _typical_values(subsets: np.ndarray, values: np.ndarray, level: float) -> tuple[float, float]:
    """Limits of the mean from subsets (m, G) that were flipped; the empty one has no mean."""
    size = subsets.sum(axis=1)
    means = np.sort((subsets @ values)[size > 0] / size[size > 0])
    spared = int((1 - level) / 2 * len(subsets) + TIE)
    if spared < 1:
        return np.nan, np.nan
    return float(means[spared - 1]), float(means[-spared])


def _group_differences(first: Result, second: Result, score: str) -> np.ndarray:
    check_same_scans(first, second)
    tables = [scan_scores(result, score) for result in (first, second)]
    if any(table is None for table in tables):
        raise InputError(
            f"{option('score', score)} is not a mean over scans that both decoders have",
            expected="accuracy, balanced_accuracy, log_loss, brier or mae",
        )
    by_group = [table.groupby("group")["value"].mean().to_numpy() for table in tables]  # type: ignore[union-attr]
    if len(by_group[0]) < 2:
        raise InputError("Decoders cannot be compared", expected="two groups or more", got="one")
    return by_group[0] - by_group[1]
