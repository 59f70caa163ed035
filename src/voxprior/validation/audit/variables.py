"""Variables that go along with the target: groups, and covariates together by Holm's rule [1]_.

With p-values in order p_(1) ≤ … ≤ p_(m) those of the covariates become

    max over j ≤ i of  min(1, (m - j + 1) p_(j))                                            (1)

so that a study with many covariates is not warned of one that goes along by chance. Regressing out
what names the scans leaves nothing of them.

References
----------
.. [1] Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
   Statistics 6, 1979.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from voxprior.validation.audit.finding import Answer, NotChecked
from voxprior.validation.audit.scans import AuditedScans

NO_COVARIATES = NotChecked("no covariates are given")


def identifier_covariate(scans: AuditedScans) -> Answer:
    """A covariate in words has another level for every scan."""
    if not scans.variables:
        return NO_COVARIATES
    return [
        f"'{name}' has another level for each of the {len(scans.y)} scans: it names them, and "
        "regressing it out leaves nothing of the images. Leave it out, or take the variable that "
        "was meant."
        for name, values in scans.variables.items()
        if _is_identifier(np.asarray(values))
    ]


def labels_confounded(scans: AuditedScans) -> Answer:
    """The target goes along with the groups or a covariate."""
    by_groups = scans.groups is not None and scans.classifying
    if not by_groups and not scans.variables:
        return NotChecked("neither groups of classes nor covariates are given")
    found = _confounded_groups(scans.y, scans.groups) if by_groups else []
    values = {name: np.asarray(v) for name, v in scans.variables.items()}
    p = {
        name: _association(scans.y, v, scans.classifying)
        for name, v in values.items()
        if not _is_identifier(v)
    }
    adjusted = dict(zip(p, holm(list(p.values()))))
    for name, value in adjusted.items():
        if value < 0.05:
            found.append(f"The target correlates with '{name}' (p = {value:.2g}): ")
            found[-1] += _consequence(scans, name, values[name])
    return found


def _consequence(scans: AuditedScans, name: str, values: np.ndarray) -> str:
    """What a variable does that goes along with the target."""
    if not scans.regresses:
        return (
            f"the decoder may read '{name}' instead. Balance it, leave one of its levels out, or "
            "regress it out in the fold."
        )
    if scans.classifying and np.all((_counts(scans.y, values) > 0).sum(axis=1) == 1):
        return (
            f"it tells the class exactly, and regressing it out takes all that images could tell. "
            f"The score says nothing. Take scans with '{name}' balanced, or do not regress it out."
        )
    return (
        f"regressing '{name}' out takes what the classes share with it too, so that the score is "
        "of the rest. Balance it."
    )


def holm(p) -> list[float]:
    """p-values adjusted for their number, (1).

    >>> [round(value, 3) for value in holm([0.004, 0.03, 0.2, 0.5, 0.9])]
    [0.02, 0.12, 0.6, 1.0, 1.0]
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1, p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(stepped)
    return adjusted.tolist()


def _confounded_groups(y, groups) -> list[str]:
    """Runs should hold all classes alike; groups of one class, as subjects are, must be many."""
    table = _counts(y, groups)
    held = (table > 0).sum(axis=1)
    if np.all(held == 1):
        fewest = int((table > 0).sum(axis=0).min())
        if fewest >= 3:
            return []
        return [
            f"Every group has one class, and some class has only {fewest} groups: the class "
            "cannot be told from its groups. Take more groups, or groups with all classes."
        ]
    if stats.chi2_contingency(table)[1] >= 0.01:
        return []
    return [
        "Classes are not alike over the groups (chi-square p < .01): the decoder may read the "
        "run instead. Balance classes in each run."
    ]


def _is_identifier(values: np.ndarray) -> bool:
    """Tell words that are all different; numbers are regressed out as one column."""
    return values.dtype.kind not in "fiu" and len({*values.tolist()}) == len(values)


def _counts(a, b) -> np.ndarray:
    """Contingency table, (values of b, values of a)."""
    rows, row = np.unique(b, return_inverse=True)
    columns, column = np.unique(a, return_inverse=True)
    table = np.zeros((len(rows), len(columns)))
    np.add.at(table, (row, column), 1)
    return table


def _association(y, values, classifying: bool) -> float:
    """p-value that target and variable are unrelated."""
    numeric = values.dtype.kind in "fiu" and len(np.unique(values)) > 5
    if len(np.unique(values)) < 2:
        return 1.0
    if classifying and not numeric:
        return float(stats.chi2_contingency(_counts(y, values))[1])
    if classifying:
        return float(stats.f_oneway(*(values[y == label] for label in np.unique(y)))[1])
    if numeric:
        return float(stats.spearmanr(y, values)[1])
    return float(stats.f_oneway(*(y[values == level] for level in np.unique(values)))[1])
