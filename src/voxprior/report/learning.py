"""Would more scans help? What the end of a learning curve shows.

The score is compared at the largest size and at about half of it, on the same J splits. Splits
overlap, so the standard error of the mean gain has Nadeau and Bengio's correction,

    variance = (1/J + n_test/n_train) s²

References
----------
Nadeau & Bengio, "Inference for the generalization error", Machine Learning 52, 2003.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from voxprior.validation import LearningCurve
from voxprior.validation.scores import LOWER_IS_BETTER, score_name

# Number of standard errors: a smaller gain does not count as one.
CLEAR = 2.0


def learning_sentence(curve: LearningCurve) -> str:
    """Report whether the score of the first decoder still rises with more training scans."""
    table = curve.table
    name = table["estimator"].iloc[0]
    score = next(iter(curve.results.values())).score_names[0]
    return " ".join([_rise(table, name, score), *_beside(table, name, score)])


def _beside(table: pd.DataFrame, name: str, score: str) -> list[str]:
    """Score of a single rival at the smallest and the largest size; empty for several."""
    rivals = [other for other in table["estimator"].unique() if other != name]
    if len(rivals) != 1:
        return []
    means = table.pivot_table(index="n_per_class", columns="estimator", values=score)
    told = [
        f"{row[name]:.3f} against {row[rivals[0]]:.3f} at {size} per class"
        for size, row in means.iloc[[0, -1]].iterrows()
    ]
    return [f"The {score_name(score)} of {name} against that of {rivals[0]}: {', '.join(told)}."]


def _rise(table: pd.DataFrame, name: str, score: str) -> str:
    table = table[table["estimator"] == name]
    mine = table.pivot_table(index="fold", columns="n_per_class", values=score)
    sizes = [int(size) for size in mine.columns]
    if len(sizes) < 2:
        return f"The learning curve has one size only, {sizes[0]} scans per class."
    last = sizes[-1]
    half = min(sizes[:-1], key=lambda size: abs(np.log(size / (last / 2))))
    gains = (mine[last] - mine[half]).dropna() * (-1 if score in LOWER_IS_BETTER else 1)
    largest = table[table["n_per_class"] == last]
    overlap = float((largest["n_test"] / largest["n_train"]).mean())
    gain, error = float(gains.mean()), np.inf
    if len(gains) > 1:
        error = float(np.sqrt((1 / len(gains) + overlap) * gains.var(ddof=1)))
    what = f"{half} to {last} training scans per class the {score_name(score)} of {name}"
    if gain > CLEAR * error:
        change = f"From {what} improved by {gain:.3f} (standard error {error:.3f})"
        return f"{change}: more scans would probably help."
    told = "one split cannot tell" if not np.isfinite(error) else f"standard error {error:.3f}"
    return (
        f"From {what} changed by {gain:+.3f} ({told}): "
        "the curve does not show that more scans would help."
    )
