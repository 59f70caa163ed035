"""Scans and covariates that cannot be right: found by the audit, named, overridden by name."""

import re
import sys
import warnings
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, StratifiedKFold
from sklearn.pipeline import make_pipeline

from voxprior import Decoder, ScanPreparation
from voxprior.images import Dataset, load_runs
from voxprior.space import VoxelSpace
from voxprior.validation import (
    AuditError,
    AuditWarning,
    CovariateRemoval,
    Jackknife,
    Result,
    audit,
    compare_with_covariates,
    cross_validate,
    learning_curve,
    permutation_test,
    with_covariates,
)
from voxprior.validation.audit import SEVERITY

LOGISTIC = LogisticRegression()
FILES = [f"sub-{i:02d}.nii.gz" for i in range(24)]


@pytest.fixture
def scans(rng):
    """24 scans of 6 runs, nothing wrong with them."""
    return rng.normal(500, 20, size=(24, 60)), np.tile([0, 1], 12), np.repeat(range(6), 4)


def found(estimator, X, y, groups=None, **known):
    return {f.name: f.message for f in audit(estimator, X, y, groups, **known)}


class TestArrays:
    @pytest.mark.parametrize("value", [0.0, 7.0])
    @pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, np.float32])
    def test_a_constant_scan(self, scans, value, kind):
        X, y, runs = scans
        X[5] = value
        messages = found(LOGISTIC, kind(X), y, runs, names=FILES)
        assert list(messages) == ["constant-scan"]
        assert "sub-05.nii.gz (1 of 24 scans)" in messages["constant-scan"]

    @pytest.mark.parametrize("factor", [1e20, 300.0, 1 / 300])
    def test_a_scan_of_another_scale(self, scans, factor):
        X, y, runs = scans
        X[7] *= factor
        messages = found(LOGISTIC, X, y, runs, names=FILES)
        assert list(messages) == ["scan-scale"]
        assert "sub-07.nii.gz (" in messages["scan-scale"]

    def test_at_most_three_are_named(self, scans):
        X, y, runs = scans
        X[[2, 4, 6, 8, 10]] *= 1e6
        text = found(LOGISTIC, X, y, runs)["scan-scale"]
        assert text.count("times") == 3
        assert "scan 2 (" in text
        assert "and 2 more (5 of 24 scans)" in text

    @pytest.mark.parametrize("gain", [3.0, 30.0])
    def test_ordinary_gains_pass(self, scans, rng, gain):
        X, y, runs = scans
        X *= np.exp(np.log(gain) * rng.random((24, 1)))
        assert found(LOGISTIC, X, y, runs) == {}

    def test_covariates_beside_the_voxels_are_no_voxels(self, scans):
        X, y, runs = scans
        X[5] = 0
        age = np.linspace(20, 80, 24)[:, None]
        model = make_pipeline(CovariateRemoval(1), LOGISTIC)
        assert "constant-scan" in found(model, with_covariates(X, age), y, runs)

    def test_a_few_numbers_are_not_an_image(self, scans):
        _, y, runs = scans
        assert found(LOGISTIC, np.zeros((24, 19)) + (y == 1)[:, None], y, runs) == {}

    def test_gram_matrices_have_no_scans(self, scans):
        from voxprior import GPClassifier

        X, y, runs = scans
        K = X @ X.T
        K[3] = K[:, 3] = 0
        assert found(GPClassifier(kernel="precomputed"), K, y, runs) == {}

    def test_names_must_fit(self, scans):
        with pytest.raises(ValueError, match=r"one for each of 24 scans, got 23"):
            cross_validate(LOGISTIC, *scans, names=FILES[1:])


class TestIdentifier:
    def test_words_that_name_the_scans(self, scans):
        X, y, runs = scans
        messages = found(LOGISTIC, X, y, runs, variables={"participant_id": FILES})
        assert list(messages) == ["identifier-covariate"]
        assert "'participant_id'" in messages["identifier-covariate"]

    def test_in_regression(self, scans):
        X, _, _ = scans
        folds = list(Jackknife().split(X))
        age = np.random.default_rng(1).normal(size=24)
        findings = audit(Ridge(), X, age, None, folds, variables={"id": FILES})
        assert [f.name for f in findings] == ["identifier-covariate"]

    @pytest.mark.parametrize(
        "values", [np.arange(24), np.arange(24) / 7, FILES[:23] + FILES[:1], [True, False] * 12]
    )
    def test_numbers_and_levels_that_repeat_are_none(self, scans, values):
        X, y, runs = scans
        names = found(LOGISTIC, X, y, runs, variables={"v": np.asarray(values)})
        assert "identifier-covariate" not in names

    def test_it_leaves_nothing_indeed(self, scans):
        """All training scans have the same residual, the mean: nothing to learn from."""
        X, _, _ = scans
        Z = np.eye(24)[:, 1:]
        left = CovariateRemoval(23).fit_transform(with_covariates(X, Z))
        np.testing.assert_allclose(left, np.tile(X.mean(axis=0), (24, 1)))


@pytest.fixture
def data(scans):
    """The scans as a reader returns them, who found something in the files."""
    X, y, runs = scans
    finding = ("repetition-time", "run-2.nii.gz has another one.")
    return Dataset(
        X.astype("f4"),
        y,
        VoxelSpace.grid((60,)),
        groups=runs,
        names=tuple(FILES),
        findings=(finding,),
    )


class TestEverywhere:
    def test_stop_and_are_overridden_by_name(self, data):
        data.X[5] = 0
        decoder = Decoder(LOGISTIC)
        with pytest.raises(AuditError, match=r"allow=\['repetition-time', 'constant-scan'\]"):
            decoder.evaluate(data)
        with warnings.catch_warnings():
            warnings.simplefilter("error", AuditWarning)
            result = decoder.evaluate(data, allow=["repetition-time", "constant-scan"])
        assert [f.name for f in result.findings] == ["repetition-time", "constant-scan"]
        assert all(f.allowed and f.severity == "error" for f in result.findings)
        assert "sub-05.nii.gz" in result.findings[1].message
        assert Result.from_dict(result.to_dict()).findings == result.findings

    def test_with_covariates(self, data):
        table = pd.DataFrame({"age": np.arange(24.0), "id": FILES})
        with pytest.raises(AuditError, match="identifier-covariate"):
            Decoder(LOGISTIC).evaluate(data, covariates=table, allow=["repetition-time"])
        for call in (Decoder(LOGISTIC).evaluate, Decoder(LOGISTIC).evaluate_covariates):
            with pytest.raises(AuditError, match="repetition-time"):
                call(data, covariates=table[["age"]])

    def test_the_same_audit_in_every_validation(self, data):
        given = data.known()
        calls = [
            lambda **options: cross_validate(LOGISTIC, data.X, data.y, data.groups, **options),
            lambda **options: permutation_test(
                DummyClassifier(), data.X, data.y, data.groups, n_permutations=3, **options
            ),
            lambda **options: learning_curve(
                {"a": DummyClassifier()}, data.X, data.y, data.groups, n_repeats=2, **options
            ),
            lambda **options: compare_with_covariates(
                DummyClassifier(), data.X, data.y, np.arange(24.0)[:, None], data.groups, **options
            ),
        ]
        for call in calls:
            with pytest.raises(AuditError, match=r"\[repetition-time\] run-2.nii.gz"):
                call(**given)
        results = [call(**given, allow=["repetition-time"]) for call in calls]
        curve, comparison = results[2], results[3]
        kept = [*results[:2], *curve.results.values(), *comparison]
        assert all([f.name for f in one.findings] == ["repetition-time"] for one in kept)

    def test_a_reader_must_use_known_names(self, scans):
        with pytest.raises(ValueError, match="No finding is called"):
            cross_validate(LOGISTIC, *scans, findings=[("odd", "Something is odd.")])

    def test_the_same_thing_is_told_once(self, scans):
        X, y, runs = scans
        X[5] = 0
        (first,) = audit(LOGISTIC, X, y, runs)
        again = audit(LOGISTIC, X, y, runs, findings=[(first.name, first.message)])
        assert tuple(again) == (first,)


def test_the_documented_table_is_the_one_in_force():
    page = files("voxprior").joinpath("report/audit.md").read_text("utf-8")
    told = re.findall(r"^### ([a-z-]+)\n\n\*(Error|Warning)\.\*", page, re.MULTILINE)
    assert {name: severity.lower() for name, severity in told} == SEVERITY
    module = sys.modules[audit.__module__].__doc__
    assert (
        dict(re.findall(r"^\| ([a-z-]+) \| (error|warning) \|", module, re.MULTILINE)) == SEVERITY
    )


def by_run(X, y, runs, **known):
    """Findings under leave-one-run-out, and the names of those under random folds."""
    folds = list(LeaveOneGroupOut().split(X, y, runs))
    at_random = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    known = {"columns": {"run": runs} | known}
    split = {f.name for f in audit(LOGISTIC, X, y, None, at_random, **known)}
    return found(LOGISTIC, X, y, runs, folds=folds, **known), split


class TestRealData:
    """Nothing is found where nothing is wrong; that folds divide runs is."""

    @pytest.mark.parametrize("kind", [pytest.param("trials", marks=pytest.mark.slow), "patterns"])
    def test_haxby_trials(self, data_folder, kind):
        content = np.load(data_folder("haxby_vt") / f"haxby_subj1_vt_{kind}.npz")
        X, y, runs = content["X"], content["y"], content["run"]
        block = content["block"] if kind == "trials" else np.arange(len(y))
        inside, divided = by_run(X, y, runs, block=block)
        assert set(inside) <= {"group-offsets"}
        assert divided == {"serial-neighbours", "column-straddles"}
        X = ScanPreparation().fit_transform(X, y, groups=runs)
        assert by_run(X, y, runs, block=block)[0] == {}

    def test_haxby_slice(self, data_folder):
        folder = data_folder("haxby_slice")
        data = load_runs(
            folder / "bold.nii.gz",
            labels=folder / "attributes_literal.txt",
            mask=folder / "mask.nii.gz",
        )
        assert data.findings == data.notes == ()
        assert by_run(data.X, data.y, data.groups)[0] == {}

    def test_finger_movements(self, data_folder):
        content = np.load(data_folder("finger7t") / "finger7t_subjects1-4.npz")
        for subject in "1234":
            X, y, runs = (content[f"{name}{subject}"] for name in ("X", "finger", "run"))
            inside, divided = by_run(X, y, runs)
            assert set(inside) == {"group-offsets"}
            prepared = ScanPreparation().fit_transform(X, y, groups=runs)
            assert by_run(prepared, y, runs)[0] == {}
            assert "column-straddles" in divided

    def test_faces(self, data_folder):
        """Landmarks of 40 persons in 6 poses each, men and women; persons are left out."""
        files = sorted(data_folder("imm_faces").rglob("*.asf"))
        names = [path.stem for path in files]
        X = np.load(data_folder("imm_faces") / "landmarks.npz")
        X = next(X[key] for key in X.files if X[key].ndim == 3 and len(X[key]) == len(files))
        person, pose = (np.array([n.split("-")[k] for n in names]) for k in (0, 1))
        sex = np.array([p[-1] for p in pose])
        folds = list(GroupKFold(5).split(X, sex, person))
        columns = {"person": person, "pose": np.array([p[0] for p in pose]), "sex": sex}
        X = X.reshape(len(X), -1)
        assert found(LOGISTIC, X, sex, person, folds=folds, columns=columns) == {}
        at_random = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, sex))
        divided = found(LOGISTIC, X, sex, folds=at_random, columns=columns)
        assert "'person' (" in divided["column-straddles"]

    @pytest.mark.slow
    def test_digits(self, data_folder):
        for path in sorted(data_folder("optdigits").glob("*.npz")):
            content = np.load(path)
            images = next(content[name] for name in content.files if content[name].ndim == 3)
            X = images.reshape(len(images), -1)
            labels = next(content[name] for name in content.files if content[name].ndim == 1)
            folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, labels))
            # Each digit is like the one written before it; in another order nothing is found.
            assert set(found(LOGISTIC, X, labels, folds=folds)) == {"serial-neighbours"}
            order = np.random.default_rng(0).permutation(len(X))
            assert found(LOGISTIC, X[order], labels[order], folds=folds) == {}
