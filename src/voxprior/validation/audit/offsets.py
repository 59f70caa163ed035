"""Groups that differ by what each adds to all of its scans, which preparation would subtract.

The rule is that of the readers of images, `voxprior.images.rules`: groups differ more than 1.2
times as much as scans within them, and hold the labels alike. Scans that were prepared by it no
longer have such offsets.
"""

from __future__ import annotations

import numpy as np

from voxprior.errors import option
from voxprior.images.rules import RATIO, group_ratio, group_rule
from voxprior.validation.audit.finding import Answer, NotChecked
from voxprior.validation.audit.scans import AuditedScans

# Some voxels, evenly spaced, give the ratio to a few hundredths: below this all would not exceed
# the limit either, and need not be read.
WORTH_READING = 0.8 * RATIO


def group_offsets(scans: AuditedScans) -> Answer:
    """Groups hold the labels alike, and differ more than scans within them."""
    voxels, few = scans.voxels, scans.sampled
    if isinstance(voxels, NotChecked):
        return voxels
    if isinstance(few, NotChecked):
        return few
    if scans.groups is None:
        return scans.no_groups
    n_groups = len(np.unique(scans.groups))
    if not 1 < n_groups < len(scans.y):
        return []
    if not group_ratio(few, scans.groups) > WORTH_READING:
        return []
    rule = group_rule(voxels, scans.groups, scans.y)
    if not rule.center:
        return []
    return [
        f"Groups differ {rule.ratio:.2g} times as much as scans within them (limit {RATIO:g}), and "
        "hold the labels alike: what a group adds to all of its scans hides what labels differ in. "
        "Subtract it before the folds: X = ScanPreparation().fit_transform(X, y, groups=groups), "
        f"or for maps {option('standardize', 'group')}."
    ]
