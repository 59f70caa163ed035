"""What is said where the best of several models is shown."""

import numpy as np
from sklearn.dummy import DummyClassifier

from voxprior.decoder.comparison import caution
from voxprior.validation import cross_validate


def test_the_best_of_several_is_told_with_its_corrected_score(rng):
    X, y, runs = rng.normal(size=(24, 30)), np.tile(["a", "b"], 12), np.repeat(range(6), 4)
    results = {
        f"coin {seed}": cross_validate(
            DummyClassifier(strategy="uniform", random_state=seed), X, y, runs
        )
        for seed in range(2)
    }
    text = caution("coin 0", results)
    assert text.startswith("coin 0 was chosen as the best of 2 by this very accuracy")
    assert "corrected for the choice: 0." in text
    assert caution("coin 0", {"coin 0": results["coin 0"]}) == ""
