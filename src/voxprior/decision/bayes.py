"""Bayes decisions: from class probabilities to the action of least expected cost, or to none.

With posteriors π_c, a cost L[a, c] of action a where c is true, and the action "abstain":

    a*(x) = argmin_a Σ_c L[a, c] π_c(x)                            least expected cost     (1)
    abstain if max_c π_c(x) < t                                    Chow's rule [1]_        (2)
    abstain if Σ_c d_c π_c(x) < min_a Σ_c L[a, c] π_c(x)           abstaining costs d      (3)

For 0-1 costs (2) with t = 1 - d and (3) are the same rule. Ties go to the first class, and an
answer wins against abstaining at equal cost.

| symbol | variable | shape |
|---|---|---|
| π | `probabilities` | (n, C) |
| L | `costs` | (C, C), [action, class] |
| t | `threshold` | number between 0 and 1 |
| d | `abstain` | (C,) |

References
----------
.. [1] Chow, "On optimum recognition error and reject tradeoff", IEEE Trans. Inf. Theory 16, 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, column_or_1d

from voxprior.decision.base import WrappedClassifier, require_probabilities, trained_prior
from voxprior.decision.priors import correct_priors, estimate_priors, prior_vector
from voxprior.errors import InputError, option
from voxprior.labels import known_codes


def decide(probabilities, costs=None, *, threshold=None, abstain=None) -> np.ndarray:
    """Return the index of the best action for each row of posteriors; -1 is to abstain.

    Examples
    --------
    >>> from voxprior.decision import decide
    >>> decide([[0.8, 0.05, 0.15], [0.31, 0.34, 0.35]]).tolist()
    [0, 2]
    >>> decide([[0.8, 0.05, 0.15], [0.31, 0.34, 0.35]], threshold=0.5).tolist()
    [0, -1]
    """
    p = np.asarray(probabilities, dtype=float)
    n_classes = p.shape[1]
    L = 1.0 - np.eye(n_classes) if costs is None else np.asarray(costs, dtype=float)
    expected = p @ L.T  # (1)
    # p @ L.T carries rounding, and 0-1 costs must give the largest posterior exactly.
    best = p.argmax(axis=1) if costs is None else expected.argmin(axis=1)
    actions = best.copy()
    if threshold is not None:
        actions[p.max(axis=1) < threshold] = -1  # (2)
    if abstain is not None:
        answer = expected[np.arange(len(p)), best]
        actions[p @ np.broadcast_to(np.asarray(abstain, float), n_classes) < answer - 1e-12] = -1
    return actions


class BayesDecision(WrappedClassifier):
    """Decide at least expected cost, at the prevalence that applies, or abstain.

    Parameters
    ----------
    estimator : classifier with predict_proba
        Gives the posteriors.
    costs : array of shape (C, C), dict or DataFrame, default=None
        Cost of each action (row) for each true class (column). A dict is nested,
        ``{action: {class: cost}}``, where the cost of being right may be left out (0); a DataFrame
        has actions as its index and classes as its columns. None: every error costs 1.
    priors : "uniform", array of shape (C,) or dict by label, default=None
        Class frequencies where the decisions are made. None: those of training.
    reject : float or dict, default=None
        When to abstain: a threshold on the largest posterior (Chow), also written
        ``{"threshold": t}``, or ``{"cost": d}``, the cost of abstaining (one number, or one per
        class as a list or dict). None: never.
    reject_label : label, default=None
        What `predict` returns for an abstention. None: -1 for integer labels, "reject" for strings.
    train_priors : as `priors`, default=None
        Class frequencies that the estimator's posteriors contain. None: the estimator's own
        ``class_prior_`` (or ``priors_``, ``class_log_prior_``), else the (weighted) training
        frequencies. Say "uniform" for an estimator with ``class_weight="balanced"``.

    Attributes
    ----------
    classes_ : array of shape (C,)
        Labels, without the one for abstentions.
    costs_ : array of shape (C, C)
        Costs in the order of the classes.
    train_priors_, priors_ : arrays of shape (C,)
        Class frequencies inside the posteriors, and those used for decisions.
    reject_label_ : label
        What stands for an abstention.
    estimator_ : classifier
        The fitted estimator.

    Notes
    -----
    ``score`` is accuracy, and an abstention counts as not right.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from voxprior import BayesDecision
    >>> X, y = load_iris(return_X_y=True)
    >>> careful = BayesDecision(LogisticRegression(max_iter=500), reject=0.9).fit(X, y)
    >>> careful.predict(X[[0, 70, 119]]).tolist()
    [0, -1, -1]
    """

    def __init__(
        self,
        estimator,
        costs=None,
        priors=None,
        reject=None,
        reject_label=None,
        *,
        train_priors=None,
    ):
        self.estimator = estimator
        self.costs = costs
        self.priors = priors
        self.reject = reject
        self.reject_label = reject_label
        self.train_priors = train_priors

    def fit(self, X, y, groups=None, **fit_params):
        """Fit the estimator; ``groups`` (if it uses them), ``sample_weight`` and so on go to it."""
        inner_params = self._inner_fit_params(fit_params, groups)
        self.estimator_ = clone(self.estimator).fit(X, y, **inner_params)
        require_probabilities(self.estimator_, type(self).__name__)
        self._read_inner()
        self.costs_ = cost_matrix(self.costs, self.classes_)
        self.threshold_, self.abstain_cost_ = reject_rule(self.reject, self.classes_)
        self.reject_label_ = self._label_of_abstention()
        self.train_priors_ = self._trained_at(y, inner_params.get("sample_weight"))
        if self.priors is None:
            self.priors_ = self.train_priors_.copy()
        else:
            self._require_trained_classes()
            self.priors_ = prior_vector(self.priors, self.classes_)
        return self

    def _require_trained_classes(self) -> None:
        empty = self.classes_[self.train_priors_ <= 0].tolist()
        if empty:
            raise InputError(
                "Posteriors cannot be corrected to other priors",
                got=f"no weight of class {', '.join(map(str, empty))} in training",
                remedy=f"Give it some sample_weight, or leave {option('priors')} out",
            )

    def _trained_at(self, y, sample_weight) -> np.ndarray:
        if self.train_priors is not None:
            return prior_vector(self.train_priors, self.classes_, "train_priors")
        inner = trained_prior(self.estimator_)
        if inner is not None:
            return inner / inner.sum()
        code = known_codes(column_or_1d(y), self.classes_)
        counts = np.bincount(code, weights=sample_weight, minlength=len(self.classes_))
        return counts / counts.sum()

    def _label_of_abstention(self):
        if self.reject is None:
            return self.reject_label
        label, kind = self.reject_label, self.classes_.dtype.kind
        if label is None:
            if kind in "iu":
                label = -1
            elif kind in "UST" or all(isinstance(c, str) for c in self.classes_):
                label = "reject"
            else:
                raise InputError(
                    f"Labels of type {self.classes_.dtype} have no usual label for abstentions",
                    remedy=f"Give {option('reject_label')}",
                )
        if label in self.classes_.tolist():
            raise InputError(
                f"The label for abstentions, {label!r}, is also the label of a class",
                remedy=f"Give another {option('reject_label')}",
            )
        return label

    def _repr_mimebundle_(self, **kwargs) -> dict[str, str]:
        """For a notebook: what scikit-learn shows, and, once fitted, what its decisions rest on."""
        shown = super()._repr_mimebundle_(**kwargs)
        if hasattr(self, "estimator_") and "text/html" in shown:
            shown["text/html"] += self._rule().to_html(border=0, escape=True)
        return shown

    def _rule(self) -> pd.DataFrame:
        """Costs of the actions (rows) for the true classes (columns), and the prevalence."""
        rows = {f"cost of deciding {c}": row for c, row in zip(self.classes_, self.costs_)}
        if self.abstain_cost_ is not None:
            rows["cost of abstaining"] = np.broadcast_to(self.abstain_cost_, len(self.classes_))
        if self.threshold_ is not None:
            rows["decided from a probability of"] = np.full(len(self.classes_), self.threshold_)
        rows["prevalence"] = self.priors_
        columns = [f"if truly {c}" for c in self.classes_]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns).round(3)

    def adapt_priors(self, X, *, max_iterations=1000, tolerance=1e-8):
        """Set `priors_` to the class frequencies of unlabelled scans, estimated by EM.

        Predictions use them from then on. Never done on its own: predictions of one scan would
        otherwise depend on the other scans of the same call.
        """
        check_is_fitted(self)
        self._require_trained_classes()
        estimate = estimate_priors(
            self._inner_probabilities(X),
            self.train_priors_,
            max_iterations=max_iterations,
            tolerance=tolerance,
        )
        self.priors_ = estimate.priors
        return self

    def predict_proba(self, X) -> np.ndarray:
        """Posteriors at the prevalence `priors_`, (n, C)."""
        p = self._inner_probabilities(X)
        if np.array_equal(self.priors_, self.train_priors_):
            return p
        return correct_priors(p, self.train_priors_, self.priors_)

    def expected_costs(self, X) -> np.ndarray:
        """Expected cost of every action, (n, C), and of abstaining last, if that has one."""
        p = self.predict_proba(X)
        costs = p @ self.costs_.T
        if self.abstain_cost_ is None:
            return costs
        return np.column_stack([costs, p @ self.abstain_cost_])

    def predict(self, X) -> np.ndarray:
        """Label of the best action, or `reject_label_`."""
        check_is_fitted(self)
        costs = None if self.costs is None else self.costs_
        actions = decide(
            self.predict_proba(X), costs, threshold=self.threshold_, abstain=self.abstain_cost_
        )
        if self.reject is None:
            return self.classes_[actions]
        # Index -1 is the last entry: the label of abstentions.
        return np.append(self.classes_, self.reject_label_)[actions]


def cost_matrix(costs: Any, classes: np.ndarray) -> np.ndarray:
    """Costs [action, class] in the order of the classes, from an array, dict or DataFrame."""
    labels = classes.tolist()
    if costs is None:
        return 1.0 - np.eye(len(labels))
    if isinstance(costs, Mapping):
        _same_labels("costs", costs.keys(), labels, "the actions")
        rows = []
        for action in labels:
            row = {action: 0.0, **costs[action]}
            _same_labels("costs", row.keys(), labels, f"the classes of action {action!r}")
            rows.append([row[label] for label in labels])
        costs = rows
    elif hasattr(costs, "loc"):
        _same_labels("costs", costs.index, labels, "the actions (index)")
        _same_labels("costs", costs.columns, labels, "the classes (columns)")
        costs = costs.loc[labels, labels].to_numpy()
    L = np.asarray(costs, dtype=float)
    if L.shape != (len(labels), len(labels)) or not np.all(np.isfinite(L)):
        raise InputError(
            f"{option('costs')} cannot be used",
            expected=f"finite numbers of shape {(len(labels),) * 2}, [action, class], in the order "
            f"of {labels}",
            got=f"shape {L.shape}" if np.all(np.isfinite(L)) else "numbers that are not finite",
        )
    return L


def _same_labels(name: str, given, labels: list, what: str) -> None:
    if len(given) != len(labels) or set(given) != set(labels):
        raise InputError(
            f"{what[0].upper()}{what[1:]} of {option(name)} are not the classes",
            expected=str(labels),
            got=str(list(given)),
        )


def reject_rule(reject: Any, classes: np.ndarray) -> tuple[float | None, np.ndarray | None]:
    """Threshold on the largest posterior and cost of abstaining by class, one of them or none."""
    if reject is None:
        return None, None
    if isinstance(reject, Real) and not isinstance(reject, bool):
        reject = {"threshold": reject}
    if not isinstance(reject, Mapping) or set(reject) not in ({"threshold"}, {"cost"}):
        raise InputError(
            f"{option('reject', reject)} cannot be used",
            expected="a threshold, {'threshold': t}, {'cost': d} or None",
        )
    if "threshold" in reject:
        threshold = float(reject["threshold"])
        if not 0 <= threshold <= 1:
            raise InputError(
                f"{option('reject', threshold)} is not a threshold",
                expected="a number between 0 and 1",
            )
        return threshold, None
    cost = reject["cost"]
    if isinstance(cost, Mapping):
        _same_labels("reject", cost.keys(), classes.tolist(), "the classes of the cost")
        cost = [cost[label] for label in classes.tolist()]
    vector = np.asarray(cost, dtype=float)
    if vector.shape not in ((), (len(classes),)) or not np.all(np.isfinite(vector)):
        raise InputError(
            f"The cost of abstaining, {option('reject')}, cannot be used",
            expected=f"a finite number, or {len(classes)} of them",
            got=repr(cost),
        )
    return None, np.broadcast_to(vector, len(classes)).copy()
