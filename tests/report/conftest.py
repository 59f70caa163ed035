"""A Result to report on; one of its labels looks like markup."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from voxprior.validation import cross_validate


@pytest.fixture(scope="package")
def result():
    rng = np.random.default_rng(0)
    y = np.repeat(["<b>face</b>", "house"], 12)
    X = rng.normal(size=(24, 30)) + 0.5 * (y == "house")[:, None]
    return cross_validate(LogisticRegression(), X, y, np.tile(np.arange(4), 6))
