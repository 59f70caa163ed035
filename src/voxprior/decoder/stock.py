"""Stock decoders on the same folds: what the prior bought, in a line and a table of the report.

They are scikit-learn's own, and quick with many voxels: scans are first turned to their principal
components, of which there are no more than scans. Logistic regression does not notice a rotation;
shrinkage LDA is defined by it here, as a covariance of all voxels would not fit into memory.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import Pipeline, make_pipeline

from voxprior import registry
from voxprior.decoder.comparison import decimals, reason
from voxprior.decoder.experiment import Experiment, whole
from voxprior.validation import Result

# Of the variance: a component without any would be blown up by standardising.
KEPT = 0.9999
PENALTIES = (1e-6, 1e-4, 1e-2, 1.0)


def shrinkage_lda() -> Pipeline:
    """Return linear discriminant analysis, its covariance shrunk after Ledoit and Wolf.

    Examples
    --------
    >>> from voxprior.simulate import blobs
    >>> data = blobs((6, 6, 6), n_blobs=1, effect=3.0, random_state=0)
    >>> shrinkage_lda().fit(data.X, data.y).score(data.X, data.y)
    1.0
    """
    components = PCA(KEPT, svd_solver="full")
    return make_pipeline(components, LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))


def tuned_logistic(n_folds: int = 3) -> Pipeline:
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
    return make_pipeline(PCA(svd_solver="full"), search)


def stock_decoders(kind: str) -> dict[str, Any]:
    """Estimators by what the report calls them."""
    if kind == "regressor":
        return {"ridge regression": registry.model("ridge").make()}
    return {
        "logistic regression, penalty by inner folds": tuned_logistic(),
        "shrinkage LDA": registry.model("lda").make(),
        "nearest centroid": NearestCentroid(),
    }


def _believed(result: Result) -> dict[str, float]:
    """Scores, without those of probabilities that do not belong to the answers.

    The nearest centroid of scikit-learn answers by another rule than its probabilities follow.
    """
    scores = result.pooled()
    if result.task == "regression" or not result.has_probabilities:
        return scores
    likeliest = np.array(result.classes)[result.probabilities().argmax(axis=1)]
    if (likeliest == result.predictions["y_pred"].to_numpy()).all():
        return scores
    return {key: scores[key] for key in scores if key in ("accuracy", "balanced_accuracy")}


def stock_tables(known: Experiment, result: Result) -> list[dict[str, Any]]:
    """Test stock decoders on the folds of a result; none where the run itself is of one.

    One that cannot be fitted to these scans is told with the reason.
    """
    rows, told = [["this decoder", *map(decimals, result.pooled().values())]], []
    score = result.score_names[0]
    for name, estimator in stock_decoders(registry.kind_of(known.data.y)).items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = _believed(whole(known.evaluate_quietly(estimator, result.findings)))
        except (OSError, MemoryError):
            raise
        except Exception as error:  # of a decoder that nobody has asked for
            told.append(f"{name} could not be fitted ({reason(error).rstrip('.')})")
            continue
        told.append(f"{name} {decimals(found[score])}")
        rows.append([name, *(decimals(found.get(key)) for key in result.score_names)])
    shown = score.replace("_", " ")
    line = f"Stock decoders on the same folds, {shown}: {'; '.join(told)}."
    return [
        {
            "line": line,
            "caption": "This decoder beside stock decoders",
            "columns": ["decoder", *(key.replace("_", " ") for key in result.score_names)],
            "rows": rows,
        }
    ]
