"""What the estimator brings along: searches that split without groups, priors of others."""

from __future__ import annotations

import inspect
from typing import Any

from voxprior.validation.audit.finding import Answer, NotChecked
from voxprior.validation.audit.scans import AuditedScans

NO_SEARCH = NotChecked("no part of the estimator has folds of its own")
# Splitters of scikit-learn that see groups.
GROUP_SPLITTERS = ("Group", "LeavePGroups", "PredefinedSplit")


def groups_ignored(scans: AuditedScans) -> Answer:
    """A part with separate folds (parameter ``cv``) does not use the groups."""
    parts = {"": scans.estimator, **scans.estimator.get_params(deep=True)}
    searches = {name: part for name, part in parts.items() if _splits_itself(part)}
    if scans.groups is None:
        return scans.no_groups if searches else NO_SEARCH
    found = []
    for name, part in searches.items():
        if not _sees_groups(part):
            where = f"'{name}'" if name else type(part).__name__
            found.append(
                f"The search {where} splits by {part.cv!r}, which ignores the groups: scans of "
                "one run choose and judge hyper-parameters. Give the search a split by group, for "
                "instance scikit-learn's LeaveOneGroupOut()."
            )
    return found


def _splits_itself(part: Any) -> bool:
    return (
        hasattr(part, "fit")
        and hasattr(part, "get_params")
        and not inspect.isclass(part)
        and "cv" in part.get_params(deep=False)
        and part.cv != "prefit"
    )


def _sees_groups(part: Any) -> bool:
    """Whether the split is by group, or, none being given, chosen by a `fit` that takes groups."""
    cv = part.cv
    if cv is None and "groups" in inspect.signature(part.fit).parameters:
        return True
    name = type(cv).__name__
    return getattr(cv, "by", None) == "group" or any(known in name for known in GROUP_SPLITTERS)


def own_prior(scans: AuditedScans) -> Answer:
    """A subject whose scans are decoded has taught the estimator's own prior.

    A part of the estimator with a ``prior`` names those who taught it in ``prior.subjects``; scans
    are known by their groups and by all columns of their table.
    """
    parts = [scans.estimator, *scans.estimator.get_params(deep=True).values()]
    teachers = {
        str(name)
        for part in parts
        for name in getattr(getattr(part, "prior", None), "subjects", ())
    }
    if not teachers:
        return NotChecked("the estimator has no prior from other subjects")
    columns = dict(scans.columns) | ({} if scans.groups is None else {"groups": scans.groups})
    found = {str(value) for values in columns.values() for value in values} & teachers
    if not found:
        return []
    return [
        f"{', '.join(sorted(found))} taught the prior of the estimator and is decoded with it: "
        "what is tested was seen before. Learn the prior without them."
    ]
