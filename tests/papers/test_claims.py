"""Verdicts follow their rule, and the numbers beside them are those of scipy."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp, wilcoxon

from voxprior.papers.claims import Claim, Verdict, paired


def verdict(effects, **bounds):
    return Claim("a claim", effects, "units", **bounds).verdict


def test_the_three_verdicts(rng):
    noise = rng.normal(size=20)
    noise = (noise - noise.mean()) / noise.std()
    assert verdict(1 + noise) is Verdict.HOLDS
    assert verdict(-1 + noise) is Verdict.REFUTED
    assert verdict(0.1 + noise) is Verdict.UNDECIDED


def test_a_range_is_an_equivalence(rng):
    noise = rng.normal(size=30)
    noise = 0.1 * (noise - noise.mean()) / noise.std()
    assert verdict(0.5 + noise, above=0.4, below=0.6) is Verdict.HOLDS
    assert verdict(0.7 + noise, above=0.4, below=0.6) is Verdict.REFUTED
    assert verdict(0.3 + noise, above=0.4, below=0.6) is Verdict.REFUTED
    assert verdict(0.59 + noise, above=0.4, below=0.6) is Verdict.UNDECIDED
    assert verdict(noise - 1, above=-np.inf, below=0) is Verdict.HOLDS


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ([0.1] * 4, Verdict.UNDECIDED),  # too few, however clear
        ([0.1] * 5, Verdict.HOLDS),  # no spread at all
        ([-0.1] * 5, Verdict.REFUTED),
        ([0.0] * 9, Verdict.UNDECIDED),  # equal everywhere
        ([0.1] * 7 + [0.2], Verdict.HOLDS),
        ([0.3], Verdict.UNDECIDED),
    ],
)
def test_few_and_equal_units(effects, expected):
    claim = Claim("a claim", effects, "units")
    assert claim.verdict is expected
    assert claim.row()["verdict"].lower() == expected.value
    assert ("t(" in claim.evidence) == (np.ptp(effects) > 0)


def test_interval_and_t_are_those_of_scipy(rng):
    first, second = rng.normal(size=(2, 13))
    claim = Claim("first beats second", paired(first, second), "units", above=0.05)
    test = ttest_1samp(first - second, 0.05)
    np.testing.assert_allclose(claim.interval, test.confidence_interval(0.95))
    assert f"t(12) = {test.statistic:.1f}" in claim.evidence
    # On which side of the interval the bound lies is the same question as p < .05.
    assert (claim.verdict is Verdict.UNDECIDED) == (test.pvalue > 0.05)


def test_signs_count_the_units_on_the_right_side():
    claim = Claim("less", [-1, -2, -3, -1, 2, 0], "units", above=-np.inf, below=0)
    assert "4 of 6" in claim.evidence
    assert f"p = {2 * (1 + 5) / 2**5:.2g}" in claim.evidence  # binomial, the tie left out
    assert claim.expected == "< 0"
    assert Claim("near", [0.0] * 5, "units", above=-1, below=1).expected == "-1 to 1"
    assert wilcoxon([-1, -2, -3, -1, 2]).pvalue > 0.05  # a paired rank test does not see it either


def test_a_refuted_claim_is_printed_as_refuted():
    assert Claim("it works", [-1.0, -1.1, -0.9, -1.2, -1.0], "units").row()["verdict"] == "REFUTED"
