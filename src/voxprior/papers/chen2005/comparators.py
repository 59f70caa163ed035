"""The classifiers of Table 3, given binary variables: selected voxels, or votes of clusters."""

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from voxprior import InverseTreeClassifier
from voxprior.papers.chen2005.prism import Prism

COMPARATORS: dict[str, Callable[[], Any]] = {
    "multilayer perceptron": lambda: MLPClassifier(
        (4,), solver="lbfgs", max_iter=300, random_state=0
    ),
    "logistic regression": lambda: LogisticRegression(),
    "decision tree": lambda: DecisionTreeClassifier(random_state=0),
    "Prism rules": lambda: Prism(),
    "naive Bayes": lambda: BernoulliNB(),
    "support vector machine": lambda: SVC(kernel="linear"),
    "bagging": lambda: BaggingClassifier(
        DecisionTreeClassifier(random_state=0), n_estimators=10, random_state=0
    ),
}


def predict(name: str, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Labels of new samples; without variables, the majority.

    Samples are put in order first. Folds that leave out alike subjects then train on the same
    table, and are fitted once.
    """
    if X.shape[1] == 0:
        return np.full(len(new), int(np.bincount(y).argmax()))
    table = np.column_stack([X, y]).astype(np.uint8)
    table = table[np.lexsort(table.T[::-1])]
    return _fitted(name, table.tobytes(), table.shape[1]).predict(new)


@lru_cache(maxsize=4096)
def _fitted(name: str, table: bytes, n_columns: int) -> Any:
    values = np.frombuffer(table, dtype=np.uint8).reshape(-1, n_columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the perceptron, on four variables
        return COMPARATORS[name]().fit(values[:, :-1], values[:, -1].astype(np.int64))


class ClusterVotes(TransformerMixin, BaseEstimator):
    """Select as the network does, and give one vote per cluster to whatever comes next."""

    def fit(self, X, y):
        """Learn the network's parents and clusters."""
        self.network_ = printed_network().fit(X, y)
        return self

    def transform(self, X):
        """Votes (n, d); a constant where nothing was selected."""
        pairs = zip(self.network_.parents_, self.network_.equivalents_)
        votes = [2 * X[:, np.append(p, E)].sum(axis=1) > 1 + len(E) for p, E in pairs]
        return np.column_stack([np.zeros(len(X)), *votes])


def printed_network() -> InverseTreeClassifier:
    """Algorithm 1 as printed, with hard states and at most four parents."""
    return InverseTreeClassifier(
        select="gain", timing="during", max_parents=4, state="hard", doubt=None
    )
