import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from voxprior.cli.splitting import split_named
from voxprior.validation import Bootstrap, FewShotSplit, MonteCarloLeaveOnePerClassOut


def test_names_become_splitters():
    assert split_named("auto") is None
    assert isinstance(split_named("groups"), LeaveOneGroupOut)
    assert split_named("few-shot:4", 7).n_per_class == 4
    assert split_named("few-shot:4", 7).random_state == 7
    assert split_named("two-out:3").n_runs == 3
    assert split_named("bootstrap").n_repeats == 100
    kinds = [FewShotSplit, MonteCarloLeaveOnePerClassOut, Bootstrap]
    found = [type(split_named(name)) for name in ("few-shot", "two-out", "bootstrap")]
    assert found == kinds


@pytest.mark.parametrize(
    ("classes", "grouped", "kind"),
    [
        (True, True, StratifiedGroupKFold),
        (True, False, StratifiedKFold),
        (False, True, GroupKFold),
        (False, False, KFold),
    ],
)
def test_folds_suit_the_data(classes, grouped, kind):
    cv = split_named("folds:3", classes=classes, grouped=grouped)
    assert isinstance(cv, kind)
    y, groups = np.tile([0, 1], 6), np.repeat(range(6), 2)
    assert len(list(cv.split(y, y, groups if grouped else None))) == 3


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        ("loo", {}, "choose one of auto"),
        ("folds:x", {}, "whole number"),
        ("folds:0", {}, "whole number"),
        ("groups", {"grouped": False}, "--groups"),
        ("few-shot", {"classes": False}, "needs classes"),
    ],
)
def test_what_makes_no_sense_is_refused(text, options, match):
    with pytest.raises(ValueError, match=match):
        split_named(text, **options)
