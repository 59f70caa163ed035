"""Audit of a validation before it runs: what would make its number untrue.

| name | severity | found when |
|---|---|---|
| shared-group | error | a run or subject is in training and in test of one fold |
| class-missing | error | a training fold has no scan of some class |
| duplicate-images | error | the same image is in training and in test of one fold |
| constant-scan | error | a scan, or a volume of a run, has one value in all voxels |
| scan-scale | error | the root mean square of a scan is 100 times off, or more |
| repetition-time | error | a run has other seconds between volumes than most |
| repeated-events | error | an event lies upon another of its label: volumes count as two trials |
| identifier-covariate | error | a covariate in words has another level for every scan |
| groups-ignored | warning | a search or calibration inside the estimator splits without groups |
| fitted-outside | warning | scaling, selection or a frozen step has seen the test scans |
| labels-confounded | warning | labels correlate with run, scanner or another given variable |
| leave-one-out | warning | every test set has one of balanced classes: below chance on noise |

Scans are judged by `voxprior.images.findings`. Regressing out what names the scans leaves nothing
of them. Where every test set has one class, training always has less of it.
Readers of files know what arrays do not show; they hand over their own findings.
Errors stop a run, warnings are shown; naming one in ``allow`` lets it pass and keeps it on record.

References
----------
Kohavi, "A study of cross-validation and bootstrap for accuracy estimation and model selection",
IJCAI 1995 (leave-one-out on balanced labels); Kaufman, Rosset & Perlich, "Leakage in data mining",
KDD 2011.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy import sparse, stats
from sklearn.base import is_classifier
from sklearn.feature_selection import f_classif, f_regression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.utils import get_tags

from voxprior.errors import InputError, InputWarning, in_python, option
from voxprior.images.findings import FEWEST_VOXELS, scan_findings, scan_scale

SEVERITY = {
    "shared-group": "error",
    "class-missing": "error",
    "duplicate-images": "error",
    "constant-scan": "error",
    "scan-scale": "error",
    "repetition-time": "error",
    "repeated-events": "error",
    "identifier-covariate": "error",
    "groups-ignored": "warning",
    "fitted-outside": "warning",
    "labels-confounded": "warning",
    "leave-one-out": "warning",
}
# Whole-brain data are judged by this many voxels, evenly spaced: a leak shows in all of them.
VOXELS_LOOKED_AT = 2000
# Splitters of scikit-learn that see groups.
GROUP_SPLITTERS = ("Group", "LeavePGroups", "PredefinedSplit")


@dataclass(frozen=True)
class Finding:
    """Something the audit found.

    Attributes
    ----------
    name : str
        One of the names of this module's table; naming it in ``allow`` overrides it.
    severity : {"error", "warning"}
        Whether it stops the run.
    message : str
        What was found and what to do, in the words of Python.
    allowed : bool
        Whether the user has overridden it.
    marked : str
        The message with the marks of `voxprior.errors.option`, for other front ends. Only the
        message is saved.

    Examples
    --------
    >>> from voxprior.errors import option
    >>> from voxprior.validation import Finding
    >>> found = Finding("shared-group", "error", f"Split by group, {option('cv', 'groups')}.")
    >>> found.message
    "Split by group, cv='groups'."
    """

    name: str
    severity: str
    message: str
    allowed: bool = False
    marked: str = field(default="", compare=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "marked", self.marked or self.message)
        object.__setattr__(self, "message", in_python(self.marked))

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a plain dictionary, without marks."""
        content = asdict(self)
        del content["marked"]
        return content


class AuditError(InputError):
    """Findings that make the number untrue; ``findings`` holds them."""

    def __init__(self, findings: Sequence[Finding]):
        self.findings = tuple(findings)
        super().__init__("\n".join(f"[{f.name}] {f.marked}" for f in self.findings))

    @property
    def marked(self) -> str:
        """The findings, a line each, and how to go on, with marks."""
        names = list(dict.fromkeys(f.name for f in self.findings))
        return f"{self.what}\nTo go on all the same: {option('allow', names)}"

    def __reduce__(self):
        return type(self), (self.findings,)


class AuditWarning(InputWarning):
    """A finding of the audit that does not stop the run."""


def audit(
    estimator,
    X,
    y,
    groups=None,
    folds: Sequence = (),
    *,
    variables: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    findings: Sequence[tuple[str, str]] = (),
    allow: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Look for what would make a validation's number untrue.

    Parameters
    ----------
    estimator, X, y, groups
        As given to `cross_validate`.
    folds : sequence of (train, test)
        Indices of every fold.
    variables : dict of arrays
        Other things known of each scan, for instance ``{"scanner": ..., "age": ...}``; labels
        should not correlate with them.
    names : sequence of str
        What the scans are called, where a finding names them.
    findings : sequence of (name, message)
        What was found when the scans were read, `Dataset.findings`.
    allow : collection of str
        Names of findings that the user overrides.

    Returns
    -------
    tuple of Finding
        Errors first.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from voxprior.validation import audit
    >>> X, y = np.random.default_rng(0).normal(size=(8, 3)), np.tile([0, 1], 4)
    >>> folds = [(np.arange(4), np.arange(4, 8))]
    >>> [f.name for f in audit(LogisticRegression(), X, y, np.repeat([0, 1, 1, 2], 2), folds)]
    ['shared-group']
    """
    allow = [allow] if isinstance(allow, str) else allow
    found = list(findings)
    unknown = sorted({*allow, *(name for name, _ in found)} - set(SEVERITY))
    if unknown:
        raise InputError(
            f"No finding is called {', '.join(unknown)}",
            expected=f"some of {', '.join(sorted(SEVERITY))}",
            remedy=f"Check {option('allow')}",
        )
    if names and len(names) != len(y):
        raise InputError(
            f"{option('names')} do not fit the scans",
            expected=f"one for each of {len(y)} scans",
            got=str(len(names)),
        )
    y = np.asarray(y)
    groups = None if groups is None else np.asarray(groups)
    classifying = is_classifier(estimator)
    found += _look_at_folds(X, y, groups, folds, classifying)
    found += _look_at_estimator(estimator, groups)
    if not get_tags(estimator).input_tags.pairwise:
        found += _look_at_data(X, y, groups, classifying)
        found += _look_at_scans(estimator, X, names)
    found += _look_at_variables(y, groups, variables or {}, classifying)
    judged = [
        Finding(name, SEVERITY[name], text, name in set(allow))
        for name, text in dict.fromkeys(found)
    ]
    return tuple(sorted(judged, key=lambda finding: finding.severity != "error"))


def heed(findings: Sequence[Finding], stacklevel: int = 3) -> None:
    """Raise `AuditError` for errors and warn of warnings, except those that are allowed."""
    errors = [f for f in findings if f.severity == "error" and not f.allowed]
    if errors:
        raise AuditError(errors)
    for finding in findings:
        if not finding.allowed:
            warnings.warn(AuditWarning(f"[{finding.name}] {finding.marked}"), stacklevel=stacklevel)


Found = Iterator[tuple[str, str]]


def _look_at_folds(X, y, groups, folds, classifying: bool) -> Found:
    if groups is not None:
        yield from _shared_groups(groups, folds)
    if classifying:
        yield from _missing_classes(y, folds)
        yield from _leave_one_out(y, folds)
    yield from _duplicates(X, folds)


def _shared_groups(groups, folds) -> Found:
    shared = [np.intersect1d(groups[train], groups[test]) for train, test in folds]
    hit = [names for names in shared if len(names)]
    if hit:
        yield (
            "shared-group",
            f"{len(hit)} of {len(folds)} folds have the same group in training and in test, for "
            f"instance {hit[0][0]!s}: split by group, {option('cv', 'groups')}.",
        )


def _missing_classes(y, folds) -> Found:
    classes = np.unique(y)
    missing = [np.setdiff1d(classes, y[train]) for train, _ in folds]
    hit = [(number, names) for number, names in enumerate(missing) if len(names)]
    if hit:
        number, names = hit[0]
        yield (
            "class-missing",
            f"{len(hit)} of {len(folds)} training folds lack a class (fold {number} has no scan of "
            f"{names.tolist()}): use a split that keeps every class in training.",
        )


def _leave_one_out(y, folds) -> Found:
    counts = np.unique(y, return_counts=True)[1]
    single = bool(folds) and all(len(np.unique(y[test])) == 1 for _, test in folds)
    tested = set(np.concatenate([y[test] for _, test in folds]).tolist()) if single else set()
    if single and len(counts) > 1 and counts.min() == counts.max() and len(tested) > 1:
        yield (
            "leave-one-out",
            "Classes are balanced and every test set holds one class, so training always has less "
            "of the class that is tested, and noise scores below chance: leave one of each class "
            f"out together, {option('cv', 'two-out')}.",
        )


def _duplicates(X, folds) -> Found:
    if getattr(X, "ndim", 0) == 2 and X.shape[1] < FEWEST_VOXELS:
        return
    keys = image_keys(X)
    if len(set(keys)) == len(keys):
        return
    same = np.unique(np.array(keys), return_inverse=True)[1]
    hit = [n for n, (train, test) in enumerate(folds) if np.isin(same[test], same[train]).any()]
    if hit:
        yield (
            "duplicate-images",
            f"{len(keys) - len(set(keys))} images occur more than once, and in {len(hit)} of "
            f"{len(folds)} folds one is in training and in test: drop duplicates.",
        )


def image_keys(X) -> list:
    """One key per image; equal images have equal keys."""
    if sparse.issparse(X):
        X = X.tocsr()
        return [_digest(X[i].toarray()) for i in range(X.shape[0])]
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if not hasattr(X, "shape"):
        return [_digest(x) if isinstance(x, np.ndarray) else str(x) for x in X]
    # A few voxels tell nearly all images apart; only those alike there are read in full.
    few = X[:, :: max(1, X.shape[1] // 50)] if X.ndim > 1 else X
    keys = [_digest(row) for row in few]
    again = {key for key, count in Counter(keys).items() if count > 1}
    return [_digest(X[i]) if key in again else key for i, key in enumerate(keys)]


def _digest(row) -> str:
    return hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).hexdigest()


def _look_at_estimator(estimator, groups) -> Found:
    params = estimator.get_params(deep=True)
    frozen = [n for n, v in params.items() if type(v).__name__ == "FrozenEstimator"]
    if frozen:
        yield (
            "fitted-outside",
            f"{frozen} are frozen: fitted once before the folds, so they may have seen the test "
            "scans. Fit them inside the fold.",
        )
    if groups is None:
        return
    parts = {"": estimator, **params}
    for name, part in parts.items():
        if isinstance(part, GridSearchCV | RandomizedSearchCV) and not _sees_groups(part.cv):
            where = f"'{name}'" if name else type(part).__name__
            yield (
                "groups-ignored",
                f"The search {where} splits by {part.cv!r}, which ignores the groups: scans of "
                "one run choose and judge hyper-parameters. Give the search a split by group, for "
                "instance scikit-learn's LeaveOneGroupOut().",
            )


def _sees_groups(cv) -> bool:
    name = type(cv).__name__
    return getattr(cv, "by", None) == "group" or any(known in name for known in GROUP_SPLITTERS)


def _look_at_data(X, y, groups, classifying: bool) -> Found:
    if sparse.issparse(X) or getattr(X, "ndim", 0) != 2 or X.shape[0] < 4:
        return
    matrix = X.to_numpy() if hasattr(X, "to_numpy") else X
    few = np.asarray(matrix[:, :: max(1, matrix.shape[1] // VOXELS_LOOKED_AT)], dtype=float)
    few = few[:, few.std(axis=0) > 0]
    if few.shape[1] == 0 or not np.all(np.isfinite(few)):
        return
    by_group = groups is not None and all(_standardized(few[groups == g]) for g in set(groups))
    if _standardized(few) and not by_group:
        yield (
            "fitted-outside",
            "Every voxel has mean 0 and standard deviation 1 over all scans: they were scaled with "
            "the test scans among them. Scale inside the fold (a pipeline), or run by run.",
        )
    if few.shape[1] >= FEWEST_VOXELS:
        with warnings.catch_warnings():  # of voxels that do not vary within classes
            warnings.simplefilter("ignore")
            p = (f_classif if classifying else f_regression)(few, y)[1]
        share = float(np.mean(p < 0.05))
        if share > 0.95:
            yield (
                "fitted-outside",
                f"{share:.0%} of the voxels correlate with the labels (p < .05): if they were "
                "chosen with these labels, choose inside the fold (a pipeline). A region chosen "
                "beforehand is fine: allow it.",
            )


def _look_at_scans(estimator, X, names: Sequence[str]) -> Found:
    matrix = X.to_numpy() if hasattr(X, "to_numpy") else X
    if sparse.issparse(X) or getattr(matrix, "ndim", 0) != 2 or matrix.dtype.kind not in "fiub":
        return
    # Covariates that are regressed out are the last columns.
    params = estimator.get_params(deep=True)
    covariates = [v for name, v in params.items() if name.split("__")[-1] == "n_covariates"]
    voxels = matrix[:, : matrix.shape[1] - sum(covariates)]
    yield from scan_findings(map(scan_scale, voxels), names)


def _standardized(values: np.ndarray) -> bool:
    if len(values) < 2:
        return False
    mean, sd = values.mean(axis=0), values.std(axis=0)
    sd1 = values.std(axis=0, ddof=1)
    unit = np.minimum(np.abs(sd - 1), np.abs(sd1 - 1))
    return bool(np.all(np.abs(mean) < 1e-3) and np.all((unit < 1e-3) | (sd == 0)))


def _look_at_variables(y, groups, variables: Mapping[str, Any], classifying: bool) -> Found:
    if groups is not None and classifying:
        yield from _confounded_groups(y, groups)
    for name, values in variables.items():
        if _is_identifier(np.asarray(values)):
            yield (
                "identifier-covariate",
                f"'{name}' has another level for each of the {len(y)} scans: it names them, and "
                "regressing it out leaves nothing of the images. Leave it out, or take the "
                "variable that was meant.",
            )
            continue
        p = _association(y, np.asarray(values), classifying)
        if p < 0.05:
            yield (
                "labels-confounded",
                f"The target correlates with '{name}' (p = {p:.2g}): the decoder may read '{name}' "
                "instead. Balance it, leave one of its levels out, or regress it out in the fold.",
            )


def _confounded_groups(y, groups) -> Found:
    """Runs should hold all classes alike; groups of one class, as subjects are, must be many."""
    table = _counts(y, groups)
    held = (table > 0).sum(axis=1)
    if np.all(held == 1):
        fewest = int((table > 0).sum(axis=0).min())
        if fewest < 3:
            yield (
                "labels-confounded",
                f"Every group has one class, and some class has only {fewest} groups: the class "
                "cannot be told from its groups. Take more groups, or groups with all classes.",
            )
    elif stats.chi2_contingency(table)[1] < 0.01:
        yield (
            "labels-confounded",
            "Classes are not alike over the groups (chi-square p < .01): the decoder may read the "
            "run instead. Balance classes in each run.",
        )


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
