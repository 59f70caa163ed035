"""The classifiers of Table 3, given the states of the selected voxels."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

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
    """Labels of new samples; without variables, the majority."""
    if X.shape[1] == 0:
        return np.full(len(new), int(np.bincount(y).argmax()))
    return COMPARATORS[name]().fit(X, y).predict(new)
