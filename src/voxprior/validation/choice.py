"""What the best of several models scores once its choice is paid for.

The model that scores best on some scans is partly the luckiest one, so its score flatters it. The
bootstrap bias correction [1]_ draws groups of held-out predictions with replacement, chooses the
best model on those drawn and scores it on the groups not drawn; no model is fitted again:

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
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from voxprior.validation.result import Result

DRAWS = 500


def score_after_choice(results: Mapping[str, Result], random_state: int = 0) -> float | None:
    """Score that the choice of the best model leads to; None where it cannot be told.

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
        inside = scores(truth[drawn], guesses[drawn], score)
        if len(spared) and np.isfinite(inside).any():
            best = [int(np.nanargmax(inside))]
            found += scores(truth[spared], guesses[spared][:, best], score).tolist()
    usable = [value for value in found if np.isfinite(value)]
    return float(np.mean(usable)) if usable else None


def scores(truth: np.ndarray, guesses: np.ndarray, score: str) -> np.ndarray:
    """Score of every model, (M,); higher is better.

    >>> import numpy as np
    >>> scores(np.array([0, 0, 0, 1]), np.array([[0, 0], [0, 1], [0, 0], [0, 1]]), "accuracy")
    array([0.75, 0.75])
    """
    if score == "r2":
        spread = np.sum((truth - truth.mean()) ** 2)
        lost = np.sum((guesses - truth[:, None]) ** 2, axis=0)
        return 1 - lost / spread if spread > 0 else np.full(guesses.shape[1], np.nan)
    right = guesses == truth[:, None]
    if score == "accuracy":
        return right.mean(axis=0)
    return np.mean([right[truth == label].mean(axis=0) for label in np.unique(truth)], axis=0)
