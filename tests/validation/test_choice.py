"""The score of the best of many models, once the choice is paid for."""

import numpy as np
import pandas as pd
import pytest

from voxprior.validation import score_after_choice
from voxprior.validation.choice import scores
from voxprior.validation.result import score_predictions


def result_of(guess, truth, group, score="accuracy"):
    classes = tuple(np.unique(truth).tolist()) if score != "r2" else ()
    table = pd.DataFrame({"y_true": truth, "y_pred": guess, "group": group})
    return type("Held", (), {"predictions": table, "score_names": [score], "classes": classes})()


def test_luck_is_taken_off():
    rng, gains = np.random.default_rng(0), []
    for _ in range(10):
        truth = rng.integers(2, size=60)
        results = {
            f"m{k}": result_of(rng.integers(2, size=60), truth, np.arange(60)) for k in range(10)
        }
        best = max(
            (r.predictions["y_true"] == r.predictions["y_pred"]).mean() for r in results.values()
        )
        gains.append((best, score_after_choice(results)))
    best, honest = np.mean(gains, axis=0)
    assert best > 0.57  # ten coins look better than one
    assert honest == pytest.approx(0.5, abs=0.04)


def test_a_clear_winner_keeps_its_score():
    rng = np.random.default_rng(1)
    truth, group = np.tile(["a", "b"], 30), np.repeat(np.arange(12), 5)
    good = np.where(rng.random(60) < 0.9, truth, "a")
    results = {
        "good": result_of(good, truth, group),
        "bad": result_of(np.full(60, "a"), truth, group),
    }
    assert score_after_choice(results) == pytest.approx((good == truth).mean(), abs=0.02)


def test_without_a_choice_or_groups_there_is_nothing_to_tell():
    assert score_after_choice({"only": result_of(["a", "b"], ["a", "b"], [0, 1])}) is None
    same_group = {k: result_of(["a", "b"], ["a", "b"], [0, 0]) for k in "xy"}
    assert score_after_choice(same_group) is None


@pytest.mark.parametrize("score", ["accuracy", "balanced_accuracy", "r2"])
def test_scores_are_those_of_results(score):
    rng = np.random.default_rng(2)
    if score == "r2":
        truth, guess, task, classes = rng.normal(size=20), rng.normal(size=20), "regression", ()
    else:
        truth, guess = rng.integers(3, size=20), rng.integers(3, size=20)
        task, classes = "classification", (0, 1, 2)
    table = pd.DataFrame({"y_true": truth, "y_pred": guess})
    expected = score_predictions(table, task, classes)[score]
    assert scores(truth, guess[:, None], score) == pytest.approx([expected])
