"""The one registry: models, baselines and splits by name, with the words that describe them.

Commands, `Decoder`, report, docs and tests read it. Targets are named by text, ``"module:name"``,
and imported when they are asked for, so that listing costs nothing.

A family of this package adds one line to `MODELS`; one of another package joins by an entry point,
whose value names a `Model`, and touches nothing here::

    [project.entry-points."voxprior.families"]
    nearest-mean = "toy:FAMILY"
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from voxprior.errors import InputError, nearest, option

ENTRY_POINTS = "voxprior.families"

# ---------------------------------------------------------------- models


@dataclass(frozen=True)
class Model:
    """A model that a user can ask for by name.

    Attributes
    ----------
    name : str
        What users type.
    target : str
        Class, or function that returns an estimator, as ``"module:name"``.
    kind : {"classifier", "regressor"}
        What it predicts.
    prior : str
        What it takes for granted, in a line.
    words : str
        How a methods section names it.
    role : {"family", "recipe", "baseline"}
        A family, a pipeline around one, or a model of scikit-learn that knows nothing of brains.
    pictures : str or None
        Module that draws it: ``draw(model, X, y, space)`` and ``LEGENDS`` of its maps, either or
        both, see `voxprior.report.pictures`.
    docs : str or None
        Page of the documentation, relative to its root.
    settings : dict
        Parameters that differ from the target's own defaults.
    """

    name: str
    target: str
    kind: str
    prior: str
    words: str = ""
    role: str = "family"
    pictures: str | None = None
    docs: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def estimator(self) -> Any:
        """The class, or the function, that makes the model."""
        return load(self.target)

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters that `make` takes."""
        return list(signature(self.estimator).parameters)

    def make(self, /, space: Any = None, **parameters: Any) -> Any:
        """Build the estimator; `space` goes to one that knows where voxels are.

        Wrong names and values are refused here, before any data are read.

        Examples
        --------
        >>> from voxprior.registry import model
        >>> model("sharing").make(means="none")
        FeatureSharingNB(means='none')
        """
        accepted = signature(self.estimator).parameters
        unknown = sorted(set(parameters) - set(accepted))
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
            raise InputError(
                f"{self.label} has no parameter {_with_nearest(unknown, accepted)}",
                expected=f"some of {', '.join(accepted)}",
            )
        if space is not None and "space" in accepted:
            parameters["space"] = space
        try:
            built = self.estimator(**{**self.settings, **parameters})
        except TypeError as error:  # of a recipe, which hands parameters on
            raise InputError(f"{self.label} takes no such parameters", got=f"{error}") from error
        for part in [built, *built.get_params(deep=True).values()]:
            if hasattr(part, "_parameter_constraints") and not isinstance(part, type):
                part._validate_params()
        return built

    @property
    def label(self) -> str:
        """Name of the class or function."""
        return self.target.partition(":")[2]

    def drawing(self) -> ModuleType | None:
        """The module that draws the model, if it has one."""
        return None if self.pictures is None else import_module(self.pictures)

    def describe(self) -> dict[str, str]:
        """Say what the model is, for commands, report and docs."""
        return {
            "name": self.name,
            "estimator": self.label,
            "kind": self.kind,
            "role": self.role,
            "prior": self.prior,
            "words": self.words or self.label,
        }


def _family(name: str, module: str, estimator: str, kind: str, prior: str, words: str) -> Model:
    """Describe a family of this package; `module` is its name in models, pictures and docs.

    It has pictures where there is a file of that name among them.
    """
    drawn = (Path(__file__).parent / "report" / "pictures" / f"{module}.py").exists()
    return Model(
        name,
        f"voxprior.models.{module}:{estimator}",
        kind,
        prior,
        words,
        pictures=f"voxprior.report.pictures.{module}" if drawn else None,
        docs=f"families/{module}",
    )


def _baseline(name: str, target: str, kind: str, words: str, **settings: Any) -> Model:
    """Describe a model of scikit-learn to compare families with."""
    return Model(
        name, target, kind, "none: a flat baseline", words, role="baseline", settings=settings
    )


SMOOTH = "smooth functions; evidence picks the hyper-parameters"
FEW = "samples weigh alike, or few samples or voxels are relevant"
MODELS = (
    Model("auto", "voxprior.auto:AutoClassifier", "classifier",
          "none to choose: left-out scans weigh views of the scans and shrinkages",
          "an average of shrunk linear discriminants (Friedman 1989) over views of the scans and "
          "shrinkages, weighted by left-out training scans (voxprior developers 2026)",
          pictures="voxprior.report.pictures.auto", docs="families/auto"),
    _family("sharing", "sharing", "FeatureSharingNB", "classifier",
            "neighbouring voxels behave alike; all voxels share a noise level",
            "Gaussian naive Bayes with features shared between neighbouring voxels (after "
            "Palatucci & Mitchell 2007)"),
    _family("fields", "fields", "RandomFieldClassifier", "classifier",
            "each voxel is predicted by few others",
            "a compressed random field for each class (after Carmi et al. 2009)"),
    _family("boosting", "boosting", "SpatialBoostingClassifier", "classifier",
            "discriminative voxels are spatially compact",
            "spatially regularised boosting of stumps (after Xiang et al. 2009)"),
    _family("gp", "gaussian", "GPClassifier", "classifier", SMOOTH,
            "a Gaussian process classifier (Rasmussen & Williams 2006)"),
    _family("rvm", "gaussian", "RVMClassifier", "classifier", FEW,
            "a relevance vector machine (Tipping 2001)"),
    _family("network", "network", "InverseTreeClassifier", "classifier",
            "a small set of voxels drives the class; equivalent voxels share one state",
            "a Bayesian network with an inverse-tree structure (after Chen & Herskovits 2005)"),
    _family("gp-regression", "gaussian", "GPRegressor", "regressor", SMOOTH,
            "Gaussian process regression (Rasmussen & Williams 2006)"),
    _family("rvm-regression", "gaussian", "RVMRegressor", "regressor", FEW,
            "relevance vector regression (Tipping 2001)"),
    Model("auto-regression", "voxprior.auto:AutoRegressor", "regressor",
          "none that the scans do not earn: views, kernels and noise are weighed on scans left out",
          "a mixture of Student processes over views of the scans, kernels and noise ratios, "
          "weighted by the density of training scans left out (voxprior developers 2026)",
          docs="families/auto-regression"),
    Model("few-shot", "voxprior.models.sharing:few_shot_decoder", "classifier",
          "sharing, after noise whitening learned without labels; for windows of runs",
          role="recipe", docs="families/sharing",
          settings={"shrinkage": None}),  # what stands in for neighbours, which images always have
    _baseline("naive-bayes", "sklearn.naive_bayes:GaussianNB", "classifier",
              "Gaussian naive Bayes"),
    _baseline("logistic", "sklearn.linear_model:LogisticRegression", "classifier",
              "logistic regression", max_iter=2000),
    _baseline("svm", "sklearn.svm:SVC", "classifier", "a linear support vector machine",
              kernel="linear"),
    _baseline("lda", "voxprior.decoder.stock:shrinkage_lda", "classifier",
              "linear discriminant analysis with a shrunk covariance"),
    _baseline("ridge", "sklearn.linear_model:RidgeCV", "regressor", "ridge regression",
              alphas=tuple(10.0**k for k in range(-2, 7))),
)  # fmt: skip


def models(kind: str | None = None, role: str | None = None) -> dict[str, Model]:
    """Models by name, of this package and of those that joined, of a kind and role if given."""
    return {
        one.name: one
        for one in (*MODELS, *_joined())
        if kind in (None, one.kind) and role in (None, one.role)
    }


def model(name: str) -> Model:
    """Look a model up by name, with an error that lists the names there are."""
    known = models()
    if name not in known:
        families = [n for n, one in known.items() if one.role != "baseline"]
        baselines = [n for n, one in known.items() if one.role == "baseline"]
        raise InputError(
            f"There is no model '{name}'{nearest(name, known)}",
            expected=f"one of {', '.join(families)}, or a baseline, {', '.join(baselines)}",
        )
    return known[name]


def _with_nearest(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Name what is unknown, each with the known name that is most like it."""
    names = list(known)
    return ", ".join(f"{name}{nearest(name, names)}" for name in unknown)


def model_of(estimator: Any) -> Model | None:
    """The registered model that an estimator is an instance of, or None."""
    for one in models().values():
        if one.label == type(estimator).__name__ and one.estimator is type(estimator):
            return one
    return None


@cache
def _joined() -> tuple[Model, ...]:
    """Families of other packages; one that cannot be used is left out with a warning."""
    taken, found = {one.name for one in MODELS}, []
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            joined = entry.load()
        except Exception as error:  # of somebody else's package: anything can happen
            warnings.warn(f"The family '{entry.name}' cannot be loaded: {error!r}.", stacklevel=3)
            continue
        if not isinstance(joined, Model) or joined.name in taken:
            why = "its name is taken" if isinstance(joined, Model) else "it is not a Model"
            warnings.warn(f"The family '{entry.name}' is left out: {why}.", stacklevel=3)
            continue
        taken.add(joined.name)
        found.append(joined)
    return tuple(found)


def load(target: str) -> Any:
    """Import what ``"module:name"`` names."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


# ---------------------------------------------------------------- what a target asks for


def kind_of(y: Any) -> str:
    """Say what a target asks for: "classifier" or "regressor", see `voxprior.labels.kind_of`."""
    from voxprior import labels  # not before it is needed: it imports scikit-learn

    return labels.kind_of(y)


# The model where none is named, by what the target asks for.
DEFAULT = {"classifier": "auto", "regressor": "auto-regression"}


def default_model(y: Any = None) -> str:
    """Name of the model for such a target where none is named; for classes if it is unknown.

    >>> default_model(["face", "house"])
    'auto'
    """
    return DEFAULT["classifier" if y is None else kind_of(y)]


def check_kind(estimator: Any, y: Any, name: str | None = None) -> None:
    """Refuse a classifier for numbers and a regressor for classes."""
    import numpy as np
    from sklearn.base import is_classifier

    wanted, name = kind_of(y), name or type(estimator).__name__
    choices = f"Choose another {option('model')}: {', '.join(models(wanted))}"
    if is_classifier(estimator) and wanted == "regressor":
        raise InputError(
            f"'{name}' tells classes apart, but the labels are numbers",
            got=f"numbers from {np.min(y):g} to {np.max(y):g}",
            remedy=choices,
        )
    if not is_classifier(estimator) and np.asarray(y).dtype.kind not in "fiu":
        raise InputError(
            f"'{name}' predicts a number, but the labels are classes",
            got=f"classes such as '{np.asarray(y)[0]}'",
            remedy=choices,
        )


# ---------------------------------------------------------------- splits


@dataclass(frozen=True)
class Split:
    """A way to part scans into training and test sets.

    Attributes
    ----------
    target : str
        Class of the splitter, ``"module:name"``.
    words : str
        What it does, for a methods section; ``{n}`` and the like are attributes of the splitter.
    name : str or None
        What users type; None where it can only be built by hand.
    number : str or None
        Parameter that a number after the name sets, as in ``few-shot:3``.
    settings : dict
        Parameters that differ from the splitter's own defaults.
    classes, groups : bool or None
        Whether it is for targets that are classes, and for scans that have groups; None for both.
    """

    target: str
    words: str
    name: str | None = None
    number: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    classes: bool | None = None
    groups: bool | None = None

    def suits(self, classes: bool, groups: bool) -> bool:
        """Whether it can be used with such a target and such scans."""
        return self.classes in (None, classes) and self.groups in (None, groups)

    def make(self, number: int | None, seed: int) -> Any:
        """Build the splitter."""
        kind, given = load(self.target), dict(self.settings)
        if number is not None and self.number is not None:
            given[self.number] = number
        accepted = signature(kind).parameters
        if "random_state" in accepted and ("shuffle" not in accepted or given.get("shuffle")):
            given["random_state"] = seed
        return kind(**given)


_OURS, _THEIRS = "voxprior.validation.splits:", "sklearn.model_selection:"
_DRAWN = (
    "training on runs, subjects or scans drawn with replacement and testing on those not drawn, "
    "{n_repeats} times"
)
SPLITS = (
    Split(_THEIRS + "LeaveOneGroupOut", "leaving one run, subject or other group out at a time",
          name="groups", groups=True),
    Split(_OURS + "MonteCarloLeaveOnePerClassOut",
          "leaving one scan or group of every class out, in {n_runs} random pairings",
          name="two-out", number="n_runs", classes=True),
    Split(_OURS + "LeaveOnePerClassOut",
          "leaving one scan or group of every class out, in all combinations"),
    Split(_OURS + "Jackknife",
          "leaving one scan, or group of scans, out at a time", name="jackknife"),
    Split(_OURS + "FewShotSplit",
          "training on {n_per_class} scans per class drawn at random from one half of the runs, "
          "subjects or scans and testing on the other half, {n_repeats} times",
          name="few-shot", number="n_per_class", classes=True),
    Split(_THEIRS + "StratifiedGroupKFold",
          "{n_splits}-fold cross-validation, stratified by class, groups of scans kept together",
          name="folds", number="n_splits", settings={"shuffle": True}, classes=True, groups=True),
    Split(_THEIRS + "StratifiedKFold", "{n_splits}-fold cross-validation, stratified by class",
          name="folds", number="n_splits", settings={"shuffle": True}, classes=True, groups=False),
    Split(_THEIRS + "GroupKFold", "{n_splits}-fold cross-validation, groups of scans kept together",
          name="folds", number="n_splits", classes=False, groups=True),
    Split(_THEIRS + "KFold", "{n_splits}-fold cross-validation",
          name="folds", number="n_splits", settings={"shuffle": True}, classes=False, groups=False),
    Split(_OURS + "Bootstrap", _DRAWN, name="bootstrap", number="n_repeats",
          settings={"n_repeats": 100}, classes=True),
    Split(_OURS + "Bootstrap", _DRAWN, name="bootstrap", number="n_repeats",
          settings={"n_repeats": 100, "stratify": False}, classes=False),
)  # fmt: skip


def split_names() -> str:
    """Names of the splits, with the numbers they take, in a line.

    >>> split_names()[:37]
    'auto, groups, two-out[:runs], jackkni'
    """
    shown = {one.name: f"[:{one.number.removeprefix('n_')}]" if one.number else "" for one in SPLITS
             if one.name}  # fmt: skip
    return ", ".join(["auto", *(name + number for name, number in shown.items())])


def splitter(text: str, seed: int = 0, *, classes: bool = True, groups: bool = True) -> Any:
    """Build the splitter that ``name`` or ``name:number`` asks for; None leaves it to the data.

    >>> splitter("few-shot:3")
    FewShotSplit(n_per_class=3)
    """
    name, _, number = text.partition(":")
    if name == "auto":
        return None
    known = [one for one in SPLITS if one.name == name]
    if not known:
        raise InputError(f"{option('cv', name)} is not a split", expected=f"one of {split_names()}")
    if number and (not number.isdigit() or int(number) < 1 or not known[0].number):
        raise InputError(
            f"{option('cv', text)} cannot be used",
            expected="a whole number above 0 after the colon" if known[0].number else f"'{name}'",
        )
    fitting = [one for one in known if one.suits(classes, groups)]
    if not fitting:
        raise InputError(f"{option('cv', name)} does not suit these scans", **_unmet(known))
    return fitting[0].make(int(number) if number else None, seed)


def _unmet(known: Iterable[Split]) -> dict[str, str]:
    if any(one.groups for one in known):
        return {
            "expected": "scans of several groups",
            "got": "scans without groups",
            "remedy": f"Name the groups, {option('groups')}, or take {option('cv', 'auto')}",
        }
    return {
        "expected": "classes",
        "got": "labels that are numbers",
        "remedy": f"Take {option('cv', 'auto')}",
    }


def split_words(cv: Any) -> str:
    """Say a splitter in words; one that is not known stays as it is.

    Examples
    --------
    >>> from sklearn.model_selection import StratifiedKFold
    >>> split_words(StratifiedKFold(4))
    '4-fold cross-validation, stratified by class'
    """
    for one in SPLITS:
        if one.target.partition(":")[2] == type(cv).__name__ and load(one.target) is type(cv):
            return one.words.format(**vars(cv))
    return str(cv)
