"""Splits by the names that commands take."""

from typing import Any

SPLITS = "auto, groups, two-out[:runs], jackknife, few-shot[:n], folds[:k] or bootstrap[:repeats]"


def split_named(text: str, seed: int = 0, *, classes: bool = True, grouped: bool = True) -> Any:
    """Build the splitter that ``name`` or ``name:number`` asks for; None leaves it to the data.

    >>> split_named("few-shot:3")
    FewShotSplit(n_per_class=3)
    """
    from sklearn import model_selection as scikit

    from voxprior import validation

    name, _, number = text.partition(":")
    if number and (not number.isdigit() or number == "0"):
        raise ValueError(f"--split {text}: a whole number above 0 was expected after the colon.")
    n = int(number) if number else None
    if name == "groups" and not grouped:
        raise ValueError("--split groups: the scans have no groups. Name their column: --groups.")
    if name in ("few-shot", "two-out") and not classes:
        raise ValueError(f"--split {name} needs classes; the labels are numbers. Try --split auto.")
    k_fold = {
        (True, True): scikit.StratifiedGroupKFold,
        (True, False): scikit.StratifiedKFold,
        (False, False): scikit.KFold,
    }.get((classes, grouped))
    makers = {
        "auto": lambda: None,
        "groups": validation.LeaveOneGroupOut,
        "two-out": lambda: validation.MonteCarloLeaveOnePerClassOut(n or 20, random_state=seed),
        "jackknife": validation.Jackknife,
        "few-shot": lambda: validation.FewShotSplit(n or 2, random_state=seed),
        "folds": lambda: (
            k_fold(n or 5, shuffle=True, random_state=seed) if k_fold else scikit.GroupKFold(n or 5)
        ),
        "bootstrap": lambda: validation.Bootstrap(n or 100, stratify=classes, random_state=seed),
    }
    if name not in makers:
        raise ValueError(f"--split {name}: choose one of {SPLITS}.")
    return makers[name]()
