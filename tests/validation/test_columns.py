"""Columns of a table against the label: what is found, what is passed over, how often by chance."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge

from voxprior.validation import AuditWarning, audit, cross_validate
from voxprior.validation.audit.association import Column, adjusted_p, as_series, matrix_of

Y = np.repeat(["patient", "control"], 30)
FOLLOWS = "follows the label exactly: the score cannot tell them apart"


def told(columns, y=Y, groups=None, estimator=None, **known):
    X = np.random.default_rng(0).normal(size=(len(y), 4))
    made = audit(estimator or LogisticRegression(), X, y, groups, columns=columns, **known)
    return [f.message for f in made if f.name == "labels-confounded"]


# ---------------------------------------------------------------- the test


def test_statistics_are_those_of_their_kinds(rng):
    y, age = np.tile([0, 1, 2], 10), rng.normal(size=30).round(1)
    site, number = rng.integers(0, 3, 30), rng.normal(size=30)

    def T(a, a_quantity, b, b_quantity):
        Z, W = (matrix_of(pd.Series(v), q) for v, q in ((a, a_quantity), (b, b_quantity)))
        return 29 * ((Z.T @ W) ** 2).sum()

    table = np.array([[((site == s) & (y == c)).sum() for c in range(3)] for s in range(3)])
    chi2 = stats.chi2_contingency(table, correction=False)[0]
    assert T(site, False, y, False) == pytest.approx(chi2 * 29 / 30)
    wanted = stats.kruskal(*(age[y == c] for c in range(3)))[0]
    assert T(age, True, y, False) == pytest.approx(wanted)
    assert T(y, False, age, True) == pytest.approx(wanted)
    assert T(number, True, age, True) == pytest.approx(29 * stats.spearmanr(number, age)[0] ** 2)
    assert matrix_of(pd.Series(np.ones(30)), False).shape == (30, 0)
    assert matrix_of(pd.Series(np.ones(30)), True).shape == (30, 0)


def test_p_is_that_of_exchanges(rng):
    """Against the naive form for one column, and corrected for several."""
    y = np.tile([0, 1], 10)
    age = rng.normal(size=20) + 0.8 * y
    stratum = np.zeros(20, dtype=int)
    columns = {"age": Column(pd.Series(age), False)}
    p = adjusted_p(pd.Series(y), True, columns, stratum)["age"]
    distances = np.array(
        [abs(stats.rankdata(age) @ (rng.permutation(y) - 0.5)) for _ in range(4000)]
    )
    naive = np.mean(distances >= abs(stats.rankdata(age) @ (y - 0.5)) - 1e-9)
    assert p == pytest.approx(naive, abs=0.02)
    more = {f"v{k}": Column(pd.Series(rng.normal(size=20)), False) for k in range(6)}
    corrected = adjusted_p(pd.Series(y), True, columns | more, stratum)["age"]
    assert 1 - (1 - naive) ** 7 == pytest.approx(corrected, rel=0.5)
    assert adjusted_p(pd.Series(y), True, columns, np.arange(20)) == {"age": 1.0}


def test_kinds_of_values():
    assert as_series([1, 2, 3]).dtype.kind == "i"
    assert as_series([True, False]).dtype.kind == "O"
    assert as_series(["a", None]).isna().tolist() == [False, True]
    dates = as_series(["2021-03-04T10:00:00", "2022-03-04T10:00:00"])
    assert np.diff(dates).tolist() == [365]
    assert as_series(["2021-99-99", "2021-01-01"]).dtype.kind == "O"


# ---------------------------------------------------------------- what is found


@pytest.mark.parametrize(
    "values",
    [
        np.where(Y == "patient", "Oslo", "London"),
        np.where(Y == "patient", 1, 0),
        Y == "patient",
        np.where(Y == "patient", 70.0, 50.0) + np.linspace(0, 9, 60),
        np.where(Y == "patient", "2021-03-04", "2022-04-05"),
        np.array([None if one == "patient" else "yes" for one in Y], dtype=object),
        np.tile(["a", "b", "c", "d"], 15).astype(object) + np.where(Y == "patient", "1", "2"),
    ],
    ids=["words", "codes", "truth", "numbers", "dates", "missing", "levels"],
)
def test_a_column_that_follows_the_label(values):
    sex = np.tile(["f", "m"], 30)
    (message,) = told({"site": values, "sex": sex})
    assert message.startswith(f"'site' {FOLLOWS}")
    mixed = np.random.default_rng(1).permutation(60)
    assert told({"site": np.asarray(values)[mixed], "sex": sex}) == []
    (message,) = told({}, variables={"site": values})
    assert FOLLOWS in message


def test_codes_of_label_and_site_may_be_the_same_numbers():
    codes = np.repeat([0, 1], 30)
    assert FOLLOWS in told({"scanner": codes}, y=codes)[0]


def test_a_number_that_is_missing_in_one_class(rng):
    score = rng.normal(size=60)
    score[:30] = np.nan
    (message,) = told({"mmse": score})
    assert message.startswith("Whether 'mmse' is missing follows the label exactly")
    score[:6] = rng.normal(size=6)
    assert "Whether 'mmse' is missing goes along" in told({"mmse": score})[0]


def test_how_strongly(rng):
    site = np.where(np.arange(60) % 10 == 0, "Bonn", np.where(Y == "patient", "Oslo", "London"))
    assert "alone it guesses 95% right, chance is 50%" in told({"site": site})[0]
    age = np.where(Y == "patient", 70, 60) + np.tile(np.arange(-15, 15), 2)
    (message,) = told({"age": age})
    assert "median 59.5 for control, 69.5 for patient; p = 0.0005" in message
    assert "covariates='age'" in message
    y = rng.normal(size=60)
    (message,) = told({"age": y + 0.5 * rng.normal(size=60)}, y=y, estimator=Ridge())
    assert "rank correlation 0.8" in message or "rank correlation 0.9" in message
    (message,) = told({"site": np.where(y > 0, "x", "y")}, y=y, estimator=Ridge())
    assert "'site' goes along with the label (p = 0.0005)" in message


# ---------------------------------------------------------------- what is passed over


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("participant_id", np.arange(100, 160) * 7),
        ("Subject", np.arange(100, 160) * 7),
        ("file", [f"{k}.nii" for k in range(60)]),
        ("code", [f"P{k}" for k in range(60)]),
        ("volume", np.tile(np.arange(30) // 5, 2) + 20 * (Y == "patient")),
        ("nr", np.arange(60)),
        ("row", np.arange(60)[::-1] + 17),
        ("diagnosis", Y),
        ("exam", np.arange(100, 160) * 7),
    ],
)
def test_names_of_scans_and_the_label_itself(name, values):
    names = [f"map_{100 * 7 + 7 * k}.nii" for k in range(60)]
    assert told({name: values}, names=names) == []


def test_groups_are_not_tested_twice():
    site = np.r_[np.repeat("Oslo", 30), np.repeat("London", 30)]
    messages = told({"site": site}, groups=site)
    assert len(messages) == 1
    assert "Groups are of one class each" in messages[0]


def test_a_target_of_numbers_is_not_its_own_confound(rng):
    age = rng.uniform(20, 80, 60)
    assert told({"age": age}, y=age, estimator=Ridge()) == []


# ---------------------------------------------------------------- several scans of one person


@pytest.mark.parametrize("mixed", [False, True])
def test_people_are_the_rows_where_each_is_of_one_class(mixed):
    """Six maps each of eight people: sex would be far from chance if maps were exchanged."""
    people = np.repeat(np.arange(8), 6)
    y = np.repeat(np.tile(["a", "b"], 4), 6)
    if mixed:
        y[0] = "b"
    sex = np.repeat(["f", "m", "f", "m", "f", "m", "m", "f"], 6)
    assert stats.chi2_contingency(pd.crosstab(sex, y))[1] < 0.01
    assert told({"sex": sex}, y=y, groups=people) == []
    people, y = np.repeat(np.arange(30), 2), np.repeat(np.tile(["a", "b"], 15), 2)
    if mixed:
        y[0] = "b"
    age = np.where(y == "a", 60, 70) + np.arange(60) % 2
    site = np.where(y == "a", "x", "y")
    assert len(told({"site": site, "age": age}, y=y, groups=people)) == 2


def test_runs_are_strata_of_their_scans(rng):
    runs, y = np.repeat(np.arange(6), 10), np.tile(["a", "b"], 30)
    assert told({"run": runs, "day": runs // 2, "order": np.arange(60) % 10 // 2}, y=y) == []
    hand = np.where(y == "a", "left", "right")
    assert FOLLOWS in told({"hand": hand, "day": runs // 2}, y=y, groups=runs)[0]


# ---------------------------------------------------------------- how often


def table(rng, kind="classes"):
    y = rng.normal(size=60) if kind == "numbers" else rng.permutation(Y)
    age = rng.normal(60, 8, 60)
    age[rng.random(60) < 0.1] = np.nan
    return y, {
        "sex": rng.choice(["f", "m"], 60),
        "site": rng.choice(list("abcd"), 60),
        "age": age,
        "mmse": rng.integers(20, 31, 60),
        "hand": rng.choice(["r", "l"], 60, p=[0.9, 0.1]),
    }


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_clean_tables(rng, kind):
    estimator = Ridge() if kind == "numbers" else LogisticRegression()
    n = 60
    found = 0
    for _ in range(n):
        y, columns = table(rng, kind)
        found += bool(told(columns, y=y, estimator=estimator))
    assert found <= stats.binom.ppf(0.999, n, 0.05)


@pytest.mark.slow
def test_few_of_many_clean_tables(rng):
    rule = anything = 0
    for _ in range(2000):
        y, columns = table(rng)
        X = rng.normal(size=(60, 30))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", AuditWarning)
            cross_validate(LogisticRegression(max_iter=20), X, y, columns=columns, cv=2)
        messages = [str(w.message) for w in caught if issubclass(w.category, AuditWarning)]
        rule += any("labels-confounded" in one for one in messages)
        anything += bool(messages)
    assert rule <= 0.06 * 2000
    assert anything <= 0.10 * 2000


@pytest.mark.parametrize("what", ["site", "scanner", "age", "education"])
def test_planted_columns(rng, what):
    """Each alone goes along with the label at p < .001, among five clean ones."""
    for _ in range(5):
        y, columns = table(rng)
        patient = y == "patient"
        p = 1.0
        while not 1e-6 < p < 0.001:
            if what in ("site", "scanner"):
                likely = np.where(patient, 0.8, 0.25)
                values = np.where(rng.random(60) < likely, "Oslo", "London")
                p = stats.chi2_contingency(pd.crosstab(values, y))[1]
            else:
                values = rng.normal(size=60) + 1.1 * patient
                p = stats.mannwhitneyu(values[patient], values[~patient])[1]
        messages = told(columns | {what: values}, y=y)
        assert any(f"'{what}' goes along" in one for one in messages)
