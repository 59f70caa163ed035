"""Audit of a validation before it runs: what would make its number untrue.

| name | severity | found when |
|---|---|---|
| shared-group | error | a run or subject is in training and in test of one fold |
| class-missing | error | a training fold has no scan of some class |
| duplicate-images | error | the same image is in training and in test of one fold |
| near-duplicate | error | an image in test is, up to scale, shift or noise, one in training |
| label-voxel | error | a voxel holds the label |
| own-prior | error | a subject that is decoded has taught the prior of the estimator |
| constant-scan | error | a scan, or a volume of a run, has one value in all voxels |
| scan-scale | error | the root mean square of a scan is 100 times off, or more |
| repetition-time | error | a run has other seconds between volumes than most |
| repeated-events | error | an event lies upon another of its label: volumes count as two trials |
| identifier-covariate | error | a covariate in words has another level for every scan |
| mask-size | warning | the mask of a volume is larger than any human brain |
| groups-ignored | warning | a search or calibration inside the estimator splits without groups |
| fitted-outside | warning | scaling or a frozen step has seen the test scans |
| voxels-selected | warning | voxels were chosen by the labels of all scans |
| serial-neighbours | warning | scans next to each other are alike, and folds divide them |
| column-straddles | warning | scans of one subject, run or other level are alike and divided |
| labels-confounded | warning | labels go along with run, site or another column of the table |
| group-offsets | warning | groups hold the labels alike, and what each adds to its scans is left |
| rare-class | warning | a class has less than a tenth of the scans |
| leave-one-out | warning | every test set has one of balanced classes: below chance on noise |
| probability-scale | warning | after the run: AUC is high, and log-loss at chance |
| training-scans | error | scans of a second sample are training scans of the model |
| training-people | error | people of a second sample are in the training sample of the model |
| unlike-training | warning | scans of a second sample are far from the training scans |
| sample-shifted | warning | scale, classes or covariates are not as in training |

Scans are judged by `voxprior.images.findings`; readers of files know what arrays do not show, and
hand over their own findings. Errors stop a run, warnings are shown; naming one in ``allow`` lets it
pass and keeps it on record. Every check is on record too, with its outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from voxprior.errors import InputError, nearest, option
from voxprior.images.findings import scan_findings
from voxprior.validation.audit.duplicates import duplicate_images, image_keys, near_duplicate
from voxprior.validation.audit.estimators import groups_ignored, own_prior
from voxprior.validation.audit.finding import (
    FOUND,
    NOT_CHECKED,
    NOT_FOUND,
    Answer,
    Audit,
    AuditError,
    AuditWarning,
    Check,
    Finding,
    NotChecked,
    heed,
)
from voxprior.validation.audit.folds import (
    class_missing,
    leave_one_out,
    rare_class,
    shared_group,
)
from voxprior.validation.audit.likeness import column_straddles, serial_neighbors
from voxprior.validation.audit.offsets import group_offsets
from voxprior.validation.audit.probabilities import probability_scale
from voxprior.validation.audit.scans import AuditedScans
from voxprior.validation.audit.variables import identifier_covariate, labels_confounded
from voxprior.validation.audit.voxels import fitted_outside, label_voxel, voxels_selected

if TYPE_CHECKING:
    from voxprior.validation.result import Result

__all__ = ["SEVERITY", "Audit", "AuditError", "AuditWarning", "Check", "Finding", "audit", "heed"]
__all__ += ["Answer", "NotChecked", "audit_predictions", "image_keys", "judged"]

SEVERITY = {
    "shared-group": "error",
    "class-missing": "error",
    "duplicate-images": "error",
    "near-duplicate": "error",
    "label-voxel": "error",
    "own-prior": "error",
    "constant-scan": "error",
    "scan-scale": "error",
    "repetition-time": "error",
    "repeated-events": "error",
    "identifier-covariate": "error",
    "mask-size": "warning",
    "groups-ignored": "warning",
    "fitted-outside": "warning",
    "voxels-selected": "warning",
    "serial-neighbours": "warning",
    "column-straddles": "warning",
    "labels-confounded": "warning",
    "group-offsets": "warning",
    "rare-class": "warning",
    "leave-one-out": "warning",
    "probability-scale": "warning",
    "training-scans": "error",
    "training-people": "error",
    "unlike-training": "warning",
    "sample-shifted": "warning",
}


def _scan_check(name: str) -> Callable[[AuditedScans], Answer]:
    def look(scans: AuditedScans) -> Answer:
        voxels = scans.voxels
        if isinstance(voxels, NotChecked):
            return voxels
        found = scan_findings(scans.scales, scans.names)
        return [message for one, message in found if one == name]

    return look


CHECKS: dict[str, Callable[[AuditedScans], Answer]] = {
    "shared-group": shared_group,
    "class-missing": class_missing,
    "duplicate-images": duplicate_images,
    "near-duplicate": near_duplicate,
    "label-voxel": label_voxel,
    "own-prior": own_prior,
    "constant-scan": _scan_check("constant-scan"),
    "scan-scale": _scan_check("scan-scale"),
    "identifier-covariate": identifier_covariate,
    "groups-ignored": groups_ignored,
    "fitted-outside": fitted_outside,
    "voxels-selected": voxels_selected,
    "serial-neighbours": serial_neighbors,
    "column-straddles": column_straddles,
    "labels-confounded": labels_confounded,
    "group-offsets": group_offsets,
    "rare-class": rare_class,
    "leave-one-out": leave_one_out,
}
# What only readers of files can see.
OF_READERS = {
    "repetition-time": "repetition times were not read from files",
    "repeated-events": "no events tables were read",
    "mask-size": "the scans were not read from images",
}


def audit(
    estimator,
    X,
    y,
    groups=None,
    folds: Sequence = (),
    *,
    variables: Mapping[str, Any] | None = None,
    columns: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    findings: Sequence[tuple[str, str]] = (),
    looked: Collection[str] = (),
    allow: Collection[str] = (),
) -> Audit:
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
    columns : dict of arrays
        The other columns of a table: what scans share that folds must not divide, and what labels
        should not go along with. Columns that name files or people are recognised as such.
    names : sequence of str
        What the scans are called, where a finding names them; ``sub-``, ``ses-`` and ``run-`` in
        file names are columns too.
    findings : sequence of (name, message)
        What was found when the scans were read, `Dataset.findings`.
    looked : collection of str
        Names of checks that the reader of the files has made, `Dataset.looked`.
    allow : collection of str
        Names of findings that the user overrides.

    Returns
    -------
    Audit
        A sequence of `Finding`, errors first; its ``checks`` are all that was looked for.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from voxprior.validation import audit
    >>> X, y = np.random.default_rng(0).normal(size=(8, 3)), np.tile([0, 1], 4)
    >>> folds = [(np.arange(4), np.arange(4, 8))]
    >>> made = audit(LogisticRegression(), X, y, np.repeat([0, 1, 1, 2], 2), folds)
    >>> [f.name for f in made]
    ['shared-group']
    >>> print(made.checks[2])
    duplicate-images: not checked, because fewer than 20 numbers per scan are not an image
    """
    allow = [allow] if isinstance(allow, str) else allow
    _check_names(allow, findings, names, len(y))
    scans = AuditedScans(
        estimator,
        X,
        np.asarray(y),
        None if groups is None else np.asarray(groups),
        folds,
        variables or {},
        {} if columns is None else dict(columns),
        names,
    )
    answers: dict[str, Answer] = {
        name: [] if name in looked else NotChecked(why) for name, why in OF_READERS.items()
    }
    answers |= {name: [] if name in looked else look(scans) for name, look in CHECKS.items()}
    for name, message in findings:
        answer = answers[name]
        answers[name] = [*([] if isinstance(answer, NotChecked) else answer), message]
    return judged(answers, allow)


def judged(answers: Mapping[str, Answer], allow: Collection[str] = ()) -> Audit:
    """Findings from the answers of checks, by name, errors first, and the outcome of each check."""
    found = [
        Finding(name, SEVERITY[name], text, name in set(allow))
        for name, texts in answers.items()
        if not isinstance(texts, NotChecked)
        for text in dict.fromkeys(texts)
    ]
    checks = tuple(_checked(name, answers[name]) for name in SEVERITY if name in answers)
    return Audit(tuple(sorted(found, key=lambda finding: finding.severity != "error")), checks)


def audit_predictions(result: Result, allow: Collection[str] = ()) -> Audit:
    """Look at predictions for what a run without errors can still get wrong."""
    allow = [allow] if isinstance(allow, str) else allow
    name, answer = "probability-scale", probability_scale(result)
    texts = [] if isinstance(answer, NotChecked) else answer
    found = [Finding(name, SEVERITY[name], text, name in set(allow)) for text in texts]
    return Audit(tuple(found), (_checked(name, answer),))


def _checked(name: str, answer: Answer) -> Check:
    if isinstance(answer, NotChecked):
        return Check(name, NOT_CHECKED, *answer)
    return Check(name, FOUND if answer else NOT_FOUND)


def _check_names(allow, findings, names: Sequence[str], n: int) -> None:
    """Refuse findings that do not exist, and names that do not fit the scans."""
    unknown = sorted({*allow, *(name for name, _ in findings)} - set(SEVERITY))
    if unknown:
        raise InputError(
            f"No finding is called {', '.join(f'{n}{nearest(n, SEVERITY)}' for n in unknown)}",
            expected=f"some of {', '.join(sorted(SEVERITY))}",
            remedy=f"Check {option('allow')}",
        )
    if names and len(names) != n:
        raise InputError(
            f"{option('names')} do not fit the scans",
            expected=f"one for each of {n} scans",
            got=str(len(names)),
        )
