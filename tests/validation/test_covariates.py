"""Covariates: regressed out by the training fold's coefficients, and decoded on their own."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior.validation import (
    AuditWarning,
    CovariateRemoval,
    LeaveOneGroupOut,
    compare_with_covariates,
    covariate_matrix,
    cross_validate,
    with_covariates,
)


@parametrize_with_checks([CovariateRemoval()])
def test_scikit_learn(estimator, check):
    check(estimator)


class TestMatrix:
    def test_kinds_of_columns(self):
        table = pd.DataFrame(
            {"age": [20, 30, 40], "sex": ["f", "m", "f"], "smokes": [True, False, True], 3: 1.5}
        )
        Z, names = covariate_matrix(table)
        assert names == ["age", "sex=m", "smokes=True", "3"]
        np.testing.assert_array_equal(Z, [[20, 0, 1, 1.5], [30, 1, 0, 1.5], [40, 0, 1, 1.5]])

    def test_array(self, rng):
        Z = rng.normal(size=(5, 2))
        np.testing.assert_array_equal(covariate_matrix(Z)[0], Z)

    def test_bad_tables(self):
        with pytest.raises(ValueError, match="missing"):
            covariate_matrix(pd.DataFrame({"age": [1.0, np.nan]}))
        with pytest.raises(ValueError, match="None of covariates varies"):
            covariate_matrix(pd.DataFrame({"site": ["A", "A"]}))


class TestRemoval:
    def test_is_linear_regression(self, rng):
        X, Z = rng.normal(size=(20, 6)), rng.normal(size=(20, 2))
        X += Z @ rng.normal(size=(2, 6))
        removal = CovariateRemoval(2).fit(with_covariates(X, Z))
        model = LinearRegression().fit(Z, X)
        new_X, new_Z = rng.normal(size=(5, 6)), rng.normal(size=(5, 2))
        expected = new_X - model.predict(new_Z) + model.predict(Z.mean(axis=0)[None])
        np.testing.assert_allclose(removal.transform(with_covariates(new_X, new_Z)), expected)

    def test_residuals_do_not_correlate(self, rng):
        X, Z = rng.normal(size=(20, 6)), rng.normal(size=(20, 2))
        left = CovariateRemoval(2).fit_transform(with_covariates(X, Z))
        centred = Z - Z.mean(axis=0)
        np.testing.assert_allclose(centred.T @ left, 0, atol=1e-10)
        np.testing.assert_allclose(left.mean(axis=0), X.mean(axis=0))

    def test_unseen_level_changes_nothing(self, rng):
        """A site that is not in training: its indicator does not vary, its coefficient is 0."""
        X, Z = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
        Z[:, 1] = 0
        removal = CovariateRemoval(2).fit(with_covariates(X, Z))
        np.testing.assert_array_equal(removal.coef_[1], 0)
        one = np.array([[1.0, 2, 3, 0, 0], [1.0, 2, 3, 0, 1]])
        np.testing.assert_array_equal(*removal.transform(one))

    def test_collinear_covariates(self, rng):
        X, z = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
        once = CovariateRemoval(1).fit_transform(with_covariates(X, z))
        twice = CovariateRemoval(2).fit_transform(with_covariates(X, np.hstack([z, 2 * z])))
        np.testing.assert_allclose(once, twice, atol=1e-10)

    def test_float32_stays(self, rng):
        X = rng.normal(size=(20, 3)).astype(np.float32)
        stacked = with_covariates(X, rng.normal(size=(20, 1)))
        assert stacked.dtype == np.float32
        assert CovariateRemoval(1).fit_transform(stacked).dtype == np.float32

    def test_one_scan_alone(self, rng):
        stacked = rng.normal(size=(20, 5))
        removal = CovariateRemoval(2).fit(stacked)
        alone = np.concatenate([removal.transform(row[None]) for row in stacked])
        np.testing.assert_allclose(alone, removal.transform(stacked), rtol=1e-12)

    def test_names_and_errors(self, rng):
        table = pd.DataFrame(rng.normal(size=(6, 3)), columns=["a", "b", "age"])
        removal = CovariateRemoval(1).fit(table)
        assert removal.get_feature_names_out().tolist() == ["a", "b"]
        with pytest.raises(ValueError, match="n_covariates"):
            CovariateRemoval(3).fit(table)


class TestComparison:
    def test_nothing_of_the_test_fold_is_used(self, rng):
        """The fold's test scans may be anything: the model is the same."""
        X, Z, y = rng.normal(size=(24, 4)), rng.normal(size=(24, 1)), np.tile([0, 1], 12)
        folds = [(np.arange(16), np.arange(16, 24))]
        pipeline = make_pipeline(CovariateRemoval(1), LogisticRegression())
        one = cross_validate(pipeline, with_covariates(X, Z), y, cv=folds, keep_models=True)
        X[16:] *= 100
        two = cross_validate(pipeline, with_covariates(X, Z), y, cv=folds, keep_models=True)
        np.testing.assert_array_equal(one.models[0][0].coef_, two.models[0][0].coef_)

    def test_images_that_show_age_only(self, rng):
        y = np.tile([0, 1], 30)
        table = pd.DataFrame({"age": 30 + 6 * y + 2 * rng.normal(size=60)})
        X = table[["age"]].to_numpy() + rng.normal(size=(60, 8))
        with pytest.warns(AuditWarning, match="'age'") as told:
            found = compare_with_covariates(LogisticRegression(max_iter=1000), X, y, table, cv=5)
        assert len(told) == 1
        images, adjusted, alone = (result.pooled()["accuracy"] for result in found)
        assert images > 0.85
        assert adjusted < 0.65
        assert alone > 0.85

    def test_audit_is_told_of_the_covariates(self, rng):
        """Labels that correlate with a covariate are found, and with another variable too."""
        y, age = np.tile([0, 1], 20), rng.normal(size=40)
        table = pd.DataFrame({"age": age, "sex": np.where(y, "f", "m")})
        X = rng.normal(size=(40, 4))
        allow, scanner = ["labels-confounded"], {"scanner": np.where(y, "A", "B")}
        found = compare_with_covariates(
            LogisticRegression(), X, y, table, cv=5, variables=scanner, allow=allow
        )
        for result in found:
            text = " ".join(f.message for f in result.findings)
            assert "'sex'" in text
            assert "'scanner'" in text
            assert "'age'" not in text

    def test_covariates_alone_are_listed(self, rng):
        y = np.tile([0, 1], 20)
        X, Z = rng.normal(size=(40, 4)), rng.normal(size=(40, 1))
        found = compare_with_covariates(LogisticRegression(), X, y, Z, cv=5)
        assert found.table.index.tolist()[-1] == "covariates alone"
        pooled = found.covariates.pooled()
        assert found.table.loc["covariates alone"].to_dict() == pooled

    def test_leave_one_site_out(self, rng):
        site = np.repeat(["A", "B", "C"], 20)
        y = np.tile([0, 1], 30)
        X = rng.normal(size=(60, 8)) + 2 * y[:, None]
        table = pd.DataFrame({"site": site, "age": rng.normal(size=60)})
        found = compare_with_covariates(LogisticRegression(), X, y, table, groups=site)
        assert found.adjusted.scores["accuracy"].min() > 0.9
        assert found.covariates.predictions["sample"].equals(found.images.predictions["sample"])
        assert len(found.images.scores) == LeaveOneGroupOut().get_n_splits(groups=site)

    def test_regression(self, rng):
        X, Z = rng.normal(size=(40, 5)), rng.normal(size=(40, 1))
        allow = ["labels-confounded"]
        found = compare_with_covariates(Ridge(), X, X[:, 0] + Z[:, 0], Z, cv=5, allow=allow)
        assert found.covariates.task == "regression"
        assert found.table.columns.tolist() == ["r2", "mae"]
        assert found.covariates.pooled()["r2"] > 0.2
