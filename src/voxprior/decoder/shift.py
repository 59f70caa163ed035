"""How a second sample differs from the training sample: its scale, classes and covariates.

Means are compared by Welch's test and shares by the chi-square of the counts, each at .05 divided
by the number of comparisons. Scans of one group are not independent, so that counts and sizes are
those of the groups: n scans in g groups count as g.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from voxprior.decoder.training import Seen, TrainingSample, group_counts
from voxprior.images import Dataset

LEVEL = 0.05
# A scale that differs by less is of no consequence, however sure it is.
LEAST_FACTOR = 1.05


class Compared(NamedTuple):
    """One property of the training sample and of a second one, in words, and whether it differs."""

    what: str
    training: str
    here: str
    p: float = np.nan
    matters: bool = True

    def row(self) -> list[str]:
        """Cells of a table."""
        return [self.what, self.training, self.here, "" if np.isnan(self.p) else f"{self.p:.2g}"]


def compare_samples(
    sample: TrainingSample, shares: Any, classes: Any, data: Dataset, seen: Seen
) -> list[Compared]:
    """Compare a second sample with that of training: sizes first, then what can be tested."""
    n, units = (len(sample.scans), data.n_samples), (sample.n_units, group_counts(data))
    found = [Compared("scans", str(n[0]), str(n[1]))]
    found.append(Compared("people, runs or scans", str(units[0]), str(units[1])))
    found.append(_scales(sample.scale, seen.log_scale, units))
    if shares is not None:
        counts = [float(np.mean(data.y == c)) for c in classes]
        found += _shares(map(str, classes), shares, counts, units)
    elif sample.target is not None:
        found.append(_means("the number", sample.target, np.asarray(data.y, dtype=float), units))
    table = pd.DataFrame() if data.covariates is None else data.covariates
    for name, values in table.items():
        if str(name) in sample.numbers:
            known = sample.numbers[str(name)]
            found.append(_means(str(name), known, values.to_numpy(dtype=float), units))
        elif str(name) in sample.levels:
            known = sample.levels[str(name)]
            here = values.astype(str)
            was = np.array(list(known.values())) / sum(known.values())
            names = [f"{name} {level}" for level in known]
            found += _shares(names, was, [float(np.mean(here == k)) for k in known], units)
    return found


def shifts(compared: list[Compared]) -> list[str]:
    """Report what differs more than chance explains, with its numbers."""
    tested = [one for one in compared if not np.isnan(one.p)]
    return [
        f"{one.what} {one.here} here, {one.training} in training (p = {one.p:.2g})."
        for one in tested
        if one.matters and one.p < LEVEL / len(tested)
    ]


def _scales(known: np.ndarray, here: np.ndarray, units: tuple[int, int]) -> Compared:
    spread = here.std(ddof=1) if len(here) > 1 else 0.0
    p = _welch(known, (here.mean(), spread), units)
    factor = float(np.exp(abs(here.mean() - known[0])))
    was, now = (f"{np.exp(mean):.4g}" for mean in (known[0], here.mean()))
    return Compared("root mean square of the scans", was, now, p, factor > LEAST_FACTOR)


def _means(name: str, known: np.ndarray, values: np.ndarray, units: tuple[int, int]) -> Compared:
    here = (values.mean(), values.std(ddof=1) if len(values) > 1 else 0.0)
    was, now = (f"{mean:.4g} (sd {sd:.3g})" for mean, sd in (known, here))
    return Compared(f"mean of {name}", was, now, _welch(known, here, units))


def _welch(one: Any, other: Any, units: tuple[int, int]) -> float:
    if min(units) < 2:
        return np.nan
    if one[1] == other[1] == 0:
        return 1.0 if np.isclose(one[0], other[0]) else 0.0
    return float(
        stats.ttest_ind_from_stats(*one, units[0], *other, units[1], equal_var=False).pvalue
    )


def _shares(names: Any, was: Any, here: Any, units: tuple[int, int]) -> list[Compared]:
    """Shares of classes or levels; one test for all of them."""
    table = np.array([np.asarray(was) * units[0], np.asarray(here) * units[1]])
    held = table[:, table.sum(axis=0) > 0]
    p = float(stats.chi2_contingency(held).pvalue) if held.shape[1] > 1 else np.nan
    return [
        Compared(f"share of {name}", f"{a:.1%}", f"{b:.1%}", p)
        for name, a, b in zip(names, was, here)
    ]
