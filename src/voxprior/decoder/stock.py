"""Stock decoders on the same folds: what the prior bought, in a line and a table of the report.

They are scikit-learn's own, and quick with many voxels: scans are first turned to their principal
components, of which there are no more than scans (`ScanSpan`). Logistic regression does not notice
a rotation; shrinkage LDA is defined by it here, as a covariance of all voxels would not fit into
memory. Where even that would take minutes they are left out unless they are asked for.

As none of them notices a rotation, all n scans of a fold, prepared by those that train, are turned
once for all decoders: with Z Zᵀ = Q Λ Qᵀ the rows of Q Λ^(1/2) have the lengths and angles of the
rows of Z, and n values each in place of V. The probabilities of a nearest centroid alone would
change, as they weigh voxel by voxel; they follow another rule than its answers, and are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import validate_data

from voxprior import registry
from voxprior.blocks import VoxelScaler, gram_matrix
from voxprior.decoder.comparison import decimals, reason
from voxprior.decoder.experiment import Experiment, whole
from voxprior.decoder.preparation import prepared
from voxprior.validation import Result
from voxprior.validation.folds import FoldOutcome, build_result, check_data, fit_fold, make_folds
from voxprior.validation.run import Outcome, run_tasks
from voxprior.validation.scores import score_name

# Of the variance: a component without any would be blown up by standardising.
KEPT = 0.9999
PENALTIES = (1e-6, 1e-4, 1e-2, 1.0)
INNER_FOLDS = 3
# Assumed work of a core per second, and the seconds up to which they run without being asked for.
OPERATIONS, MOST_SECONDS = 1e10, 120.0
VOXELS_AT_ONCE = 20_000
# Scores of answers without their probabilities.
ANSWERS = ("accuracy", "balanced_accuracy")


class ScanSpan(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components of scans by their products, of which there are n x n.

        Z = X − mean     Z Zᵀ = U Λ Uᵀ     components Λ^(−1/2) Uᵀ Z

    That is n² V operations, a small part of what a singular value decomposition of n scans of V
    voxels takes.

    Parameters
    ----------
    kept : float
        Share of the variance that the components have.

    Attributes
    ----------
    mean_ : array of shape (V,)
    components_ : array of shape (k, V)
        Orthonormal, the strongest first.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(6, 50))
    >>> Z = ScanSpan().fit_transform(X)
    >>> Z.shape, bool(np.allclose(Z @ Z.T, (X - X.mean(0)) @ (X - X.mean(0)).T))
    ((6, 5), True)
    """

    def __init__(self, kept: float = 1.0):
        self.kept = kept

    def fit(self, X: Any, y: Any = None) -> ScanSpan:
        """Find the components of scans (n, V)."""
        X = validate_data(self, X, dtype=(np.float64, np.float32))
        self.mean_ = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        products = np.zeros((len(X), len(X)))
        for start in range(0, X.shape[1], VOXELS_AT_ONCE):
            here = slice(start, start + VOXELS_AT_ONCE)
            Z = X[:, here].astype(np.float64) - self.mean_[here]
            products += Z @ Z.T
        strength, U = np.linalg.eigh(products)
        strength, U = np.maximum(strength[::-1], 0.0), U[:, ::-1]
        used = strength > len(X) * np.finfo(X.dtype).eps * strength[0]
        used &= np.cumsum(strength) - strength < self.kept * strength.sum()
        used[0] = True  # constant scans have one component, which is zero
        length = np.sqrt(np.where(strength[used] > 0, strength[used], 1.0))
        self.components_ = ((U[:, used] / length).astype(X.dtype).T) @ (X - self.mean_)
        self._n_features_out = len(self.components_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Parts of scans along the components, (n, k)."""
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return (X - self.mean_) @ self.components_.T


def shrinkage_lda() -> Pipeline:
    """Return linear discriminant analysis, its covariance shrunk after Ledoit and Wolf.

    Examples
    --------
    >>> from voxprior.simulate import blobs
    >>> data = blobs((6, 6, 6), n_blobs=1, effect=3.0, random_state=0)
    >>> shrinkage_lda().fit(data.X, data.y).score(data.X, data.y)
    1.0
    """
    discriminant = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    return make_pipeline(ScanSpan(KEPT), discriminant)


def tuned_logistic(n_folds: int = INNER_FOLDS) -> Pipeline:
    """Return logistic regression with its penalty chosen by inner folds.

    Examples
    --------
    >>> from voxprior.simulate import blobs
    >>> data = blobs((6, 6, 6), n_blobs=1, effect=3.0, random_state=0)
    >>> bool((tuned_logistic().fit(data.X, data.y).predict(data.X) == data.y).all())
    True
    """
    search = GridSearchCV(
        LogisticRegression(max_iter=2000), {"C": PENALTIES}, scoring="neg_log_loss", cv=n_folds
    )
    return make_pipeline(ScanSpan(), search)


def stock_decoders(kind: str) -> dict[str, Any]:
    """Estimators by what the report calls them."""
    if kind == "regressor":
        return {"ridge regression": registry.model("ridge").make()}
    return {
        "tuned logistic regression": tuned_logistic(),
        "shrinkage LDA": registry.model("lda").make(),
        "nearest centroid": NearestCentroid(),
    }


def seconds_of(settings: Mapping[str, Any]) -> float:
    """About how long stock decoders take on a run with such settings, on one core.

    It depends only on sizes, so that the same run always decides alike.

    >>> round(seconds_of({"n_samples": 500, "n_features": 40_000, "n_folds": 10}))
    21
    """
    n, V = settings["n_samples"], settings["n_features"] or 1
    n_classes = len(settings.get("class_counts") or ()) or 2
    turning = 2 * n**2 * V
    fitting = (1 + INNER_FOLDS * len(PENALTIES)) * 100 * n * min(n, V) * n_classes
    return settings["n_folds"] * (turning + fitting) / OPERATIONS


class StockTest(NamedTuple):
    """Results of stock decoders on the folds of another, by what the report calls them.

    `failures` gives the reasons why some could not be fitted, `left_out` why none was tested.
    """

    results: dict[str, Result]
    failures: dict[str, str]
    left_out: str = ""


def stock_results(known: Experiment, result: Result, asked: bool = False) -> StockTest:
    """Test stock decoders on the folds of a result, unless that takes long and nobody has asked."""
    seconds = seconds_of(result.settings)
    if seconds > MOST_SECONDS and not asked:
        size = f"{result.settings['n_samples']:,} scans of {result.settings['n_features']:,} values"
        left_out = (
            f"Stock decoders were not tested: {result.settings['n_folds']} folds of {size} would "
            f"take them about {seconds / 60:.0f} minutes. Ask for them with --stock, in Python "
            "with stock=True."
        )
        return StockTest({}, {}, left_out)
    return _tested(known, result)


def stock_tables(found: StockTest, result: Result) -> list[dict[str, Any]]:
    """Scores of stock decoders after those of another, in the form of the report's tables."""
    if not (found.results or found.failures or found.left_out):
        return []
    if found.left_out:
        return [{"line": found.left_out, "caption": "", "columns": [], "rows": []}]
    rows = [["this decoder", *map(decimals, result.pooled().values())]]
    told = [
        f"{name} could not be fitted ({why.rstrip('.')})" for name, why in found.failures.items()
    ]
    for name, other in found.results.items():
        scores = other.pooled()
        rows.append([name, *(decimals(scores.get(key)) for key in result.score_names)])
    return [
        {
            "line": f"{'; '.join(told)}.".capitalize() if told else "",
            "caption": "This decoder and stock decoders on the same folds",
            "columns": ["decoder", *map(score_name, result.score_names)],
            "rows": rows,
        }
    ]


def _tested(known: Experiment, result: Result) -> StockTest:
    kind = registry.kind_of(known.data.y)
    decoders = stock_decoders(kind)
    blank = DummyClassifier() if kind == "classifier" else DummyRegressor()
    model, X = prepared(blank, known.data)
    steps = [step for _, step in model.steps[:-1]] if isinstance(model, Pipeline) else []
    y, groups, classes = check_data(blank, X, known.data.y, known.data.groups)
    folds, _ = make_folds(blank, X, y, groups, known.cv)
    shared = (decoders, steps, X, y, groups, classes)
    done = whole(run_tasks(_fit_all, folds, shared, **known.running | {"progress": False}))
    found = StockTest({}, {})
    for name, decoder in decoders.items():
        of_folds = [fold[name] for fold in done.values]
        why = next((one for one in of_folds if isinstance(one, str)), None)
        if why is not None:
            found.failures[name] = why
            continue
        own = Outcome(done.indices, of_folds, complete=True)
        one = build_result(own, y, groups, classes, result.settings)
        found.results[name] = _answers(one) if isinstance(decoder, NearestCentroid) else one
    return found


def _answers(result: Result) -> Result:
    """Leave out the probabilities of a result, and the scores based on them."""
    scored = [name for name in result.scores if name not in result.score_names or name in ANSWERS]
    said = [name for name in result.predictions if not str(name).startswith("p_")]
    return replace(result, scores=result.scores[scored], predictions=result.predictions[said])


def _fit_all(
    fold: Any, seed: Any, decoders: Mapping[str, Any], steps: list[Any], X: Any, *labels: Any
) -> dict[str, FoldOutcome | str]:
    """Outcome of every decoder on one fold, or the reason why it has none."""
    y, groups, classes = labels
    found: dict[str, FoldOutcome | str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        turned = turned_scans(steps, X, fold[0])
        for name, decoder in decoders.items():
            try:
                found[name] = fit_fold(fold, seed, decoder, turned, y, groups, {}, classes, False)
            except (OSError, MemoryError):
                raise
            except Exception as error:
                found[name] = reason(error)
    return found


def turned_scans(steps: list[Any], X: Any, train: np.ndarray) -> np.ndarray:
    """Scans (n, V), prepared by steps that learn from some of them, by n values each.

    >>> X = np.random.default_rng(0).normal(size=(4, 90))
    >>> C = turned_scans([], X, np.arange(3))
    >>> C.shape, bool(np.allclose(C @ C.T, X @ X.T))
    ((4, 4), True)
    """
    # The usual step, a scaler, needs no scaled copy of scans that are many values each.
    alone = [type(step) for step in steps] == [VoxelScaler] and isinstance(X, np.ndarray)
    if alone and X.shape[1] > len(X):
        products = clone(steps[0]).gram_by(X, train)
    else:
        for step in steps:
            step = clone(step).fit(X[train])
            X = step.transform(X)
        if X.shape[1] <= len(X):
            return X[:, :]
        products = gram_matrix(X)
    strength, Q = np.linalg.eigh(products)
    return (Q * np.sqrt(np.maximum(strength, 0.0))).astype(np.result_type(X.dtype, np.float32))
