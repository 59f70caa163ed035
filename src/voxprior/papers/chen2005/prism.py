"""Prism rules (Cendrowska 1987): separate and conquer on binary attributes; Table 3's rule learner.

For each class, until all its samples are covered: grow a rule by the condition attribute = value
that maximises p/t (p samples of the class among the t that the rule would cover; ties: larger p,
then lower attribute) until it covers no other class or has used every attribute; then set the
covered samples of the class aside. A sample takes the class of the first rule that covers it; one
that no rule covers stays unclassified, which counts as an error.
"""

import numpy as np

UNCLASSIFIED = -1


class Prism:
    """Ordered rules: (class, {attribute: value})."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Prism":
        """Learn the rules of every class in turn.

        Examples
        --------
        >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> Prism().fit(X, np.array([0, 0, 0, 1])).rules_
        [(0, {0: 0}), (0, {1: 0}), (1, {0: 1, 1: 1})]
        """
        X, y = np.asarray(X).astype(int), np.asarray(y)
        self.rules_: list[tuple[int, dict[int, int]]] = []
        for label in np.unique(y):
            left = np.ones(len(y), dtype=bool)
            while np.any(left & (y == label)):
                rule = grow_rule(X[left], y[left] == label)
                self.rules_.append((int(label), rule))
                left &= ~(covers(rule, X) & (y == label))
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class of the first covering rule, or UNCLASSIFIED."""
        X = np.asarray(X).astype(int)
        labels = np.full(len(X), UNCLASSIFIED)
        for label, rule in reversed(self.rules_):
            labels[covers(rule, X)] = label
        return labels


def grow_rule(X: np.ndarray, positive: np.ndarray) -> dict[int, int]:
    """Add conditions until only positives are covered."""
    rule: dict[int, int] = {}
    inside = np.ones(len(X), dtype=bool)
    while np.any(inside & ~positive) and len(rule) < X.shape[1]:
        options = []
        for attribute in range(X.shape[1]):
            for value in (0, 1) if attribute not in rule else ():
                covered = inside & (X[:, attribute] == value)
                t, p = covered.sum(), (covered & positive).sum()
                if p:
                    options.append((p / t, p, -attribute, -value))
        _, _, attribute, value = max(options)
        rule[-attribute] = -value
        inside &= X[:, -attribute] == -value
    return rule


def covers(rule: dict[int, int], X: np.ndarray) -> np.ndarray:
    """Which samples (n,) meet every condition."""
    inside = np.ones(len(X), dtype=bool)
    for attribute, value in rule.items():
        inside &= X[:, attribute] == value
    return inside
