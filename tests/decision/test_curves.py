"""Curves as plain data: counted by hand, repeats averaged first, bands by whole groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from voxprior.decision import (
    average_repeats,
    confusion_table,
    expected_cost_curve,
    group_bootstrap,
    proper_scores,
    reliability_curve,
    risk_coverage_curve,
)


def scans_of(y, p, **kwargs):
    return average_repeats(y, p, np.arange(np.shape(p)[1]), **kwargs)


@pytest.fixture
def honest(rng):
    """Scans whose probabilities are true: labels are drawn from them."""
    p = rng.dirichlet([1, 1, 1], size=900)
    y = np.array([rng.choice(3, p=row) for row in p])
    return scans_of(y, p, groups=np.repeat(np.arange(90), 10))


class TestRepeats:
    def test_a_scan_counts_once(self, rng):
        p = rng.dirichlet([1, 1], size=12)
        samples, groups = np.tile([30, 10, 20], 4), np.tile(["c", "a", "b"], 4)
        scans = average_repeats(
            np.tile(["y", "x", "x"], 4), p, ["y", "x"], samples=samples, groups=groups
        )
        assert scans.code.tolist() == [1, 1, 0]
        assert scans.groups.tolist() == ["a", "b", "c"]
        expected = [p[samples == s].mean(axis=0) for s in (10, 20, 30)]
        np.testing.assert_allclose(scans.probabilities, expected)

    def test_bad_input(self):
        with pytest.raises(ValueError, match="shape"):
            scans_of([0, 1, 1], [[0.5, 0.5]])
        with pytest.raises(ValueError, match="unknown labels"):
            scans_of([0, 7], [[0.5, 0.5], [0.5, 0.5]])


class TestReliability:
    def test_against_scikit_learn(self, rng):
        y, p = rng.integers(2, size=300), rng.random(300)
        for strategy in ("uniform", "quantile"):
            ours = reliability_curve(
                scans_of(y, np.column_stack([1 - p, p])), label=1, n_bins=7, strategy=strategy
            )
            frequency, confidence = calibration_curve(y, p, n_bins=7, strategy=strategy)
            filled = ours.n_scans > 0
            np.testing.assert_allclose(ours.frequency[filled], frequency)
            np.testing.assert_allclose(ours.confidence[filled], confidence)

    def test_by_hand(self):
        p = [[0.55, 0.45], [0.05, 0.95], [0.95, 0.05], [0.08, 0.92]]
        curve = reliability_curve(scans_of([0, 1, 1, 1], p), n_bins=2)
        assert curve.n_scans.tolist() == [0, 4]
        assert curve.frequency[1] == 0.75
        assert curve.confidence[1] == pytest.approx(0.8425)
        assert curve.ece == pytest.approx(0.0925)

    def test_honest_probabilities_lie_on_the_diagonal(self, honest):
        curve = reliability_curve(honest, n_bins=6, n_draws=200)
        filled = curve.n_scans > 30
        inside = (curve.band.low <= curve.confidence) & (curve.confidence <= curve.band.high)
        assert inside[filled].mean() > 0.7
        assert curve.ece < 0.05

    def test_bad_strategy(self, honest):
        with pytest.raises(ValueError, match="strategy"):
            reliability_curve(honest, strategy="log")


class TestRiskCoverage:
    def test_by_hand(self):
        p = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]]
        curve = risk_coverage_curve(scans_of([0, 1, 1, 0], p))
        np.testing.assert_allclose(curve.coverage, [0.25, 0.5, 0.75, 1])
        np.testing.assert_allclose(curve.risk, [0, 0.5, 1 / 3, 0.5])
        np.testing.assert_allclose(curve.threshold, [0.9, 0.8, 0.7, 0.6])
        assert curve.area == pytest.approx(np.mean([0, 0.5, 1 / 3, 0.5]))

    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 1000))
    def test_order_of_scans_does_not_matter(self, seed):
        rng = np.random.default_rng(seed)
        top = rng.choice([0.6, 0.7, 0.8], size=12)
        p, y = np.column_stack([top, 1 - top]), rng.integers(2, size=12)
        order = rng.permutation(12)
        a = risk_coverage_curve(scans_of(y, p))
        b = risk_coverage_curve(scans_of(y[order], p[order]))
        np.testing.assert_allclose(a.risk, b.risk)
        assert a.risk[-1] == pytest.approx(np.mean(y == 1))

    def test_rises_for_honest_probabilities(self, honest):
        curve = risk_coverage_curve(honest, n_points=10, n_draws=50)
        assert curve.risk[1] < curve.risk[-1]
        assert np.all(curve.band.low <= curve.band.high)
        assert curve.risk.shape == curve.band.low.shape == (10,)


class TestCost:
    def test_by_hand(self):
        p = [[0.9, 0.1], [0.4, 0.6]]
        curve = expected_cost_curve(
            scans_of([0, 0], p), costs=[[0, 5], [1, 0]], abstain=0.3, thresholds=[0, 0.7, 1]
        )
        np.testing.assert_allclose(curve.cost, [0.5, 0.15, 0.3])
        np.testing.assert_allclose(curve.coverage, [1, 0.5, 0])

    def test_best_threshold_is_chows(self, honest):
        """With honest probabilities and 0-1 costs the cheapest threshold is 1 - d."""
        curve = expected_cost_curve(honest, abstain=0.4, n_draws=20)
        best = curve.threshold[curve.cost.argmin()]
        assert abs(best - 0.6) < 0.1
        assert np.all(curve.band.low <= curve.cost + 1e-12)


class TestScoresAndBands:
    def test_proper_scores(self):
        scores = proper_scores(scans_of([0, 1], [[0.8, 0.2], [0.6, 0.4]]))
        assert scores.brier == pytest.approx((0.04 + 0.36) / 2)
        assert scores.log_loss == pytest.approx(-(np.log(0.8) + np.log(0.4)) / 2)
        assert scores.brier_band is None

    def test_groups_widen_the_band(self, rng):
        """Ten identical scans per group carry the information of one."""
        p = np.repeat(rng.dirichlet([2, 1], size=20), 10, axis=0)
        y = np.zeros(200, dtype=int)
        alone = proper_scores(scans_of(y, p), n_draws=300)
        grouped = proper_scores(scans_of(y, p, groups=np.repeat(np.arange(20), 10)), n_draws=300)
        ratio = np.ptp(grouped.log_loss_band) / np.ptp(alone.log_loss_band)
        assert 2 < ratio < 5  # about √10

    def test_standard_error_of_a_mean(self, rng):
        value = rng.normal(size=400)
        band = group_bootstrap(lambda i: value[i].mean(), np.arange(400), n_draws=2000)
        expected = 2 * 1.96 * value.std() / 20
        assert (band.high - band.low) == pytest.approx(expected, rel=0.1)

    def test_seeded_and_refuses_one_group(self):
        value = np.arange(6.0)
        draw = [group_bootstrap(lambda i: value[i].mean(), [0, 0, 1, 1, 2, 2]) for _ in range(2)]
        assert draw[0] == draw[1]
        with pytest.raises(ValueError, match="two groups"):
            group_bootstrap(lambda i: value[i].mean(), np.zeros(6))


class TestConfusion:
    def test_abstentions_have_a_row(self):
        table = confusion_table(
            ["a", "a", "b", "b"], ["a", "reject", "a", "b"], ["a", "b"], reject_label="reject"
        )
        assert table.index.tolist() == ["a", "b", "reject"]
        assert table.to_numpy().tolist() == [[1, 1], [0, 1], [1, 0]]

    def test_row_is_there_without_abstentions_if_named(self):
        table = confusion_table([0, 1], [0, 1], [0, 1], reject_label=-1)
        assert table.loc[-1].tolist() == [0, 0]
        assert confusion_table([0, 1], [0, 1], [0, 1]).shape == (2, 2)

    def test_unknown_labels(self):
        with pytest.raises(ValueError, match="one label besides"):
            confusion_table([0, 1], [5, 6], [0, 1])
