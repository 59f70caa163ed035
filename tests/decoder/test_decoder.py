"""The Decoder: images in, predictions, maps and files out."""

import nibabel
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from voxprior import Decoder, FeatureSharingNB, GPRegressor
from voxprior.decoder import prepared
from voxprior.images import load_maps, load_runs
from voxprior.models.sharing import few_shot_decoder
from voxprior.report import model_maps
from voxprior.validation.audit import AuditError

AFFINE = np.diag([3.0, 3, 3, 1])


@pytest.fixture(scope="module")
def study():
    """Sixteen maps with a blob, their labels and runs."""
    rng = np.random.default_rng(0)
    y = np.tile(["face", "house"], 8)
    values = rng.normal(size=(16, 5, 5, 4)).astype("f4")
    values[y == "face", 1:4, 1:4, 1:3] += 1.2
    images = [nibabel.Nifti1Image(v, AFFINE) for v in values]
    return images, y, np.repeat(np.arange(4), 4)


def test_one_scan_is_scored_as_in_the_batch(study):
    images, y, _ = study
    decoder = Decoder().fit(images, y)
    together = decoder.predict_proba(images)
    alone = np.concatenate([decoder.predict_proba(image) for image in images])
    assert_allclose(np.log(alone), np.log(together), rtol=1e-9)


def test_space_reaches_the_estimator_wherever_it_sits(study):
    images, y, _ = study
    data = load_maps(images, y)
    model, _ = prepared(make_pipeline(PCA(), FeatureSharingNB()), data)
    assert model.get_params()["pipeline__featuresharingnb__space"] == data.space
    kept, _ = prepared(FeatureSharingNB(space=data.space.take(np.arange(3))), data)
    assert kept[-1].space.n_voxels == 3


def test_maps_are_images_in_the_space_of_the_input(study):
    images, y, _ = study
    for name, image in Decoder().fit(images, y).maps_.items():
        assert image.shape == (5, 5, 4), name
        assert_allclose(image.affine, AFFINE)


def test_weights_are_led_back_through_selection_and_projection(study):
    images, y, _ = study
    X = load_maps(images, y).X
    steps = make_pipeline(SelectKBest(k=30), PCA(5), LogisticRegression()).fit(X, y)
    weights = model_maps(steps)["weights"]
    chosen = steps[0].get_support()
    assert weights.shape == (X.shape[1],)
    assert not weights[~chosen].any()
    centred = X[:, chosen] - X[:, chosen].mean(axis=0)
    assert_allclose(
        centred @ weights[chosen] + steps[-1].intercept_, steps.decision_function(X), rtol=1e-3
    )


def test_save_and_load_say_the_same(study, tmp_path):
    images, y, _ = study
    decoder = Decoder(smoothing_fwhm=4.0).fit(images, y)
    path = decoder.save(tmp_path / "model.skops")
    again = Decoder.load(path)
    assert list(tmp_path.iterdir()) == [path]
    assert_allclose(again.predict_proba(images), decoder.predict_proba(images), rtol=1e-12)
    assert again.masker_ == decoder.masker_


def test_loading_refuses_what_is_no_model(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such model"):
        Decoder.load(tmp_path / "absent.skops")
    (tmp_path / "text.skops").write_text("hello")
    with pytest.raises(ValueError, match=r"text.skops: is not a model"):
        Decoder.load(tmp_path / "text.skops")


def test_loading_warns_of_other_versions(study, tmp_path, monkeypatch):
    images, y, _ = study
    path = Decoder().fit(images, y).save(tmp_path / "model.skops")
    monkeypatch.setattr("voxprior.modelfile.files.version", lambda package: "99")
    with pytest.warns(UserWarning, match=r"was saved with voxprior"):
        Decoder.load(path)


def test_another_grid_is_refused(study):
    images, y, _ = study
    decoder = Decoder().fit(images, y)
    other = nibabel.Nifti1Image(np.zeros((6, 5, 4), "f4"), AFFINE)
    with pytest.raises(ValueError, match=r"6 x 5 x 4"):
        decoder.predict(other)
    assert Decoder(resample=True).fit(images, y).predict(other).shape == (1,)


def test_evaluate_audits_the_split(study):
    images, y, groups = study
    decoder = Decoder()
    result = decoder.evaluate(images, y, groups)
    assert len(result.scores) == 4
    assert result.scores["accuracy"].mean() > 0.6
    with pytest.raises(AuditError, match=r"shared-group"):
        decoder.evaluate(images, y, groups, cv=[(np.arange(2, 16), np.arange(2))])


def test_runs_come_as_a_dataset(study):
    rng = np.random.default_rng(0)
    labels = np.tile(["rest", "face", "face", "rest", "house", "house"], 4)
    run = rng.normal(size=(4, 4, 3, 24)).astype("f4")
    run[..., labels == "face"] += 1.0
    data = load_runs([nibabel.Nifti1Image(run, AFFINE)] * 2, labels=[labels, labels], mask="data")
    decoder = Decoder().fit(data)
    assert decoder.predict(data).shape == data.y.shape
    with pytest.raises(ValueError, match=r"already read, so smoothing_fwhm"):
        Decoder(smoothing_fwhm=3.0).fit(data)


def test_what_a_decoder_has_read_it_takes_again(study):
    images, y, groups = study
    decoder = Decoder("logistic", smoothing_fwhm=6.0)
    data = decoder.read(images, y, groups)
    assert decoder.evaluate(data).equals(decoder.evaluate(images, y, groups))
    assert decoder.fit(data).predict(images).shape == (len(y),)
    with pytest.raises(ValueError, match="already read, so smoothing_fwhm"):
        Decoder("logistic", smoothing_fwhm=3.0).evaluate(data)


def test_regression_from_images(study):
    images, _, _ = study
    age = np.array([image.get_fdata()[2, 2].mean() for image in images])
    decoder = Decoder(GPRegressor()).fit(images, age)
    assert np.corrcoef(decoder.predict(images), age)[0, 1] > 0.5
    assert not hasattr(decoder, "classes_")
    with pytest.raises(AttributeError, match=r"GPRegressor gives no intervals.*AutoRegressor"):
        decoder.predict_interval(images)


def test_intervals_of_numbers_are_those_of_the_model(study, tmp_path):
    images, _, _ = study
    age = np.array([image.get_fdata()[2, 2].mean() for image in images])
    other = pd.DataFrame({"weight": np.arange(16.0) % 5})
    decoder = Decoder().fit(images[:12], age[:12], covariates=other[:12])
    decoder = Decoder.load(decoder.save(tmp_path / "model.skops"))
    found = decoder.predict_interval(images[12:], covariates=other[12:], level=0.5)
    steps, X = decoder.estimator_, decoder._rows(images[12:], covariates=other[12:]).X
    for step in steps[:-1]:
        X = step.transform(X)
    assert_allclose(found, steps[-1].predict_interval(X, level=0.5), rtol=1e-12)
    wide = decoder.predict_interval(images[12:], covariates=other[12:])
    assert (wide[:, 0] < found[:, 0]).all()
    assert (found[:, 1] < wide[:, 1]).all()
    with pytest.raises(ValueError, match="weight"):
        decoder.predict_interval(images[12:])


def test_clone_and_errors(study):
    images, y, _ = study
    assert clone(Decoder(smoothing_fwhm=2.0)).smoothing_fwhm == 2.0
    with pytest.raises(ValueError, match=r"no labels"):
        Decoder().fit(images)
    with pytest.raises(ValueError, match=r"images without"):
        Decoder().fit(images, y[:-1])


def test_covariates_are_taken_out_and_asked_for_again(study, tmp_path):
    _, y, groups = study
    rng = np.random.default_rng(1)
    age = np.where(y == "face", 30.0, 50.0) + rng.normal(size=16)
    values = rng.normal(size=(16, 5, 5, 4)) + age[:, None, None, None]
    aged = [nibabel.Nifti1Image(v.astype("f4"), AFFINE) for v in values]
    table = pd.DataFrame({"age": age, "site": np.tile(["A", "B", "C", "D"], 4)})
    decoder = Decoder(LogisticRegression()).fit(aged, y, covariates=table)
    with pytest.raises(ValueError, match=r"fitted with covariates, age, site"):
        decoder.predict(aged)
    with pytest.raises(ValueError, match=r"'site' had the levels"):
        decoder.predict(aged[:1], covariates=table[:1].assign(site="E"))
    again = Decoder.load(decoder.save(tmp_path / "model.skops"))
    alone = again.predict_proba(aged[3], covariates=table[3:4])
    assert_allclose(alone[0], decoder.predict_proba(aged, covariates=table)[3], rtol=1e-6)
    # Age is in the mean of every scan, which the automatic choice would take for a gain.
    found = Decoder(LogisticRegression(), scale="none").evaluate_covariates(
        aged, y, groups, table[["age"]], allow=["labels-confounded", "fitted-outside"]
    )
    by_images, adjusted, by_covariates = (r.pooled()["accuracy"] for r in found)
    assert by_images > 0.9
    assert by_covariates > 0.9
    assert adjusted < 0.75
    evaluated = Decoder(LogisticRegression(), scale="none").evaluate(
        aged, y, groups, table[["age"]], allow=["labels-confounded", "fitted-outside"]
    )
    assert_allclose(evaluated.probabilities(), found.adjusted.probabilities(), rtol=1e-3)


def test_the_few_shot_recipe_takes_windows_of_runs():
    rng = np.random.default_rng(0)
    pattern = rng.normal(size=(4, 4, 3))
    labels = np.tile(["face"] * 9 + ["house"] * 9, 3)
    signs = np.where(labels == "face", 1.0, -1.0)
    runs = [
        nibabel.Nifti1Image(
            (rng.normal(size=(4, 4, 3, 54)) + 0.5 * pattern[..., None] * signs).astype("f4"), AFFINE
        )
        for _ in range(3)
    ]
    data = load_runs(runs, labels=[labels] * 3, unit="window", window=9, mask="data")
    decoder = Decoder(few_shot_decoder())
    assert decoder.evaluate(data).pooled()["accuracy"] > 0.9
    decoder.fit(data)
    assert decoder.estimator_["whiten"].space == data.space
    assert decoder.maps_["difference"].shape == (4, 4, 3)


RUNS, FINGERS = np.repeat([1, 2, 3, 4], 6), np.tile(["thumb", "index"], 12)


@pytest.fixture(scope="module")
def betas():
    """Betas of four runs with offsets of their own."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(24, 5, 5, 4)) + 4 * rng.normal(size=(4, 5, 5, 4))[RUNS - 1]
    values[FINGERS == "thumb", 2, 2] += 2.5
    return [nibabel.Nifti1Image(v.astype("f4"), AFFINE) for v in values]


@pytest.fixture(scope="module")
def decoder(betas):
    return Decoder("sharing").fit(betas[:18], FINGERS[:18], RUNS[:18])


class TestGroupsOfNewImages:
    def test_a_new_run_is_centred_by_its_own_images(self, betas, decoder, tmp_path):
        assert decoder.masker_.standardize == "group"
        new, groups = betas[18:], ["new"] * 6
        P = decoder.predict_proba(new, groups)
        assert (decoder.predict(new, groups=groups) == FINGERS[18:]).all()
        again = Decoder.load(decoder.save(tmp_path / "model.skops"))
        assert_allclose(again.predict_proba(new, groups), P, rtol=1e-9)
        assert again.scale == "none"
        # With other runs in the batch, and under another name, nothing changes.
        both = decoder.predict_proba(betas[12:], ["a"] * 6 + ["b"] * 6)
        assert_allclose(np.log(both[6:]), np.log(P), rtol=1e-9)

    def test_images_of_no_known_run_are_warned_about(self, betas, decoder):
        with pytest.warns(
            UserWarning, match=r"6 of 6 scans have no group of two or more new scans"
        ):
            without = decoder.predict_proba(betas[18:])
        raw = np.array([image.get_fdata()[..., None].ravel() for image in betas])
        expected = raw[18:] - raw[:18].mean(axis=0)
        space = decoder.masker_.space.mask.ravel()
        by_hand = decoder.estimator_.predict_proba(expected[:, space].astype("f4"))
        assert_allclose(without, by_hand, rtol=1e-3)
        with pytest.warns(UserWarning, match=r"1 of 6 scans"):
            decoder.predict(betas[18:], ["a"] * 5 + ["b"])

    def test_a_run_of_one_class_keeps_its_class_without_a_group(self, decoder):
        """Its own mean is its class: with a group, all that tells is subtracted."""
        rng = np.random.default_rng(5)
        values = decoder.masker_.inverse_transform(decoder.masker_.center).get_fdata()
        values = values + 0.2 * rng.normal(size=(6, 5, 5, 4))
        values[:, 2, 2] += 2.5
        thumbs = [nibabel.Nifti1Image(v.astype("f4"), AFFINE) for v in values]
        with pytest.warns(UserWarning, match="mean of the training scans"):
            kept = decoder.predict(thumbs, [None] * 6)
        assert (kept == "thumb").all()
        told = "scans of new differ along the class means no more than .* holds one class only"
        with pytest.warns(UserWarning, match=told):
            away = decoder.predict_proba(thumbs, ["new"] * 6)
        assert_allclose(away.mean(axis=0), [0.5, 0.5], atol=0.15)
        with pytest.warns(UserWarning, match=told):
            decoder.predict(thumbs, ["new"] * 6)

    def test_a_run_of_both_classes_is_not_warned_about(self, betas, decoder, recwarn):
        decoder.predict(betas[18:], ["new"] * 6)
        assert not recwarn.list

    def test_a_dataset_is_read_before(self, betas, decoder):
        new = load_maps(betas[18:], images=decoder.masker_, groups=["new"] * 6)
        assert_allclose(decoder.predict_proba(new), decoder.predict_proba(betas[18:], ["new"] * 6))
        with pytest.raises(ValueError, match=r"already read, so groups would have no effect"):
            decoder.predict(new, ["new"] * 6)
        other = load_maps(betas[18:], FINGERS[18:], mask=decoder.masker_.space.mask)
        with pytest.raises(ValueError, match=r"prepared otherwise .* got standardize='train'"):
            decoder.predict(other)
