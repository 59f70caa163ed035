"""Models by the names that commands take: the families, and flat baselines to hold them against."""

from typing import Any, NamedTuple

from voxprior.families import FAMILIES


class Baseline(NamedTuple):
    """A model of scikit-learn that knows nothing of brains."""

    module: str
    estimator: str
    kind: str
    settings: dict[str, Any]


BASELINES = {
    "naive-bayes": Baseline("sklearn.naive_bayes", "GaussianNB", "classifier", {}),
    "logistic": Baseline(
        "sklearn.linear_model", "LogisticRegression", "classifier", {"max_iter": 2000}
    ),
    "svm": Baseline("sklearn.svm", "SVC", "classifier", {"kernel": "linear"}),
    "ridge": Baseline(
        "sklearn.linear_model",
        "RidgeCV",
        "regressor",
        {"alphas": tuple(10.0**k for k in range(-2, 7))},
    ),
}


class Recipe(NamedTuple):
    """A function that assembles a pipeline around a family."""

    module: str
    function: str
    prior: str
    settings: dict[str, Any]


RECIPES = {
    "few-shot": Recipe(
        "voxprior.models.sharing",
        "few_shot_decoder",
        "sharing, after noise whitening learned without labels; for windows of runs",
        {"shrinkage": None},  # what stands in for neighbours, which images always have
    )
}


def make_model(name: str, parameters: dict[str, Any] | None = None) -> Any:
    """Build the model of this name with these parameters."""
    if name in FAMILIES:
        return FAMILIES[name].make(**(parameters or {}))
    from importlib import import_module

    if name in RECIPES:
        recipe = RECIPES[name]
        settings = recipe.settings | (parameters or {})
        return getattr(import_module(recipe.module), recipe.function)(**settings)
    if name not in BASELINES:
        raise ValueError(
            f"unknown model '{name}': choose one of {', '.join([*FAMILIES, *RECIPES])}, or a "
            f"baseline, {', '.join(BASELINES)}."
        )
    baseline = BASELINES[name]
    estimator = getattr(import_module(baseline.module), baseline.estimator)
    settings = baseline.settings | (parameters or {})
    unknown = sorted(set(settings) - set(estimator().get_params()))
    if unknown:
        raise ValueError(f"{baseline.estimator} has no parameter {', '.join(unknown)}.")
    return estimator(**settings)


def model_names(kind: str) -> tuple[list[str], list[str]]:
    """Names of the families and of the baselines of a kind, "classifier" or "regressor"."""
    return (
        [name for name, family in FAMILIES.items() if family.kind == kind],
        [name for name, baseline in BASELINES.items() if baseline.kind == kind],
    )


def kind_of(y: Any) -> str:
    """Tell what a target asks for: "classifier" for classes, "regressor" for numbers.

    Whole numbers are classes where there are at most 10 of them, or each has two scans.
    """
    import numpy as np

    y = np.asarray(y)
    if y.dtype.kind not in "fiu":
        return "classifier"
    values, counts = np.unique(y, return_counts=True)
    whole = bool(np.all(values == np.round(values)))
    return "classifier" if whole and (len(values) <= 10 or counts.min() > 1) else "regressor"


def check_windows(name: str, data: Any, parameters: dict[str, Any] | None = None) -> None:
    """Refuse single volumes where a recipe learns the noise from those of windows."""
    whitens = name in RECIPES and (parameters or {}).get("whiten", True)
    if whitens and data.X.shape[1] == data.space.n_voxels:
        raise ValueError(
            f"'{name}' learns the noise from the volumes of windows: add --unit window --window N, "
            "where N is how many volumes a block has. Or leave that out: --set whiten=False."
        )


def check_kind(name: str, model: Any, y: Any) -> None:
    """Refuse a classifier for numbers and a regressor for classes."""
    import numpy as np
    from sklearn.base import is_classifier

    due = kind_of(y)
    if is_classifier(model) and due == "regressor":
        families, baselines = model_names(due)
        raise ValueError(
            f"The labels are numbers, {np.min(y):g} to {np.max(y):g}, but '{name}' tells classes "
            f"apart: choose --model {', '.join(families + baselines)}."
        )
    if not is_classifier(model) and np.asarray(y).dtype.kind not in "fiu":
        families, baselines = model_names(due)
        raise ValueError(
            f"'{name}' predicts a number, but the labels are classes such as '{y[0]}': choose "
            f"--model {', '.join(families + baselines)}."
        )
