"""A fitted decoder on a second sample, and in scikit-learn's own tools."""

import warnings

import nibabel
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.naive_bayes import GaussianNB

from voxprior import Decoder
from voxprior.decoder.external import validate_externally
from voxprior.decoder.training import TrainingSample
from voxprior.errors import InputError, InputWarning
from voxprior.images import load_maps
from voxprior.validation.audit import AuditError

AFFINE = np.diag([3.0, 3.0, 3.0, 1.0])
LABELS = np.tile(["ill", "well"], 10)
PEOPLE = np.array([f"sub-{n:02d}" for n in range(20)])


def draw(seed, n=20, signal=0.2, scale=1.0):
    """Maps of n people, the ill ones with a signal."""
    rng = np.random.default_rng(seed)
    ill = np.resize(LABELS, n) == "ill"
    values = 10 + rng.normal(size=(n, 5, 4, 3)) + signal * ill[:, None, None, None]
    return [nibabel.Nifti1Image((scale * v).astype("f4"), AFFINE) for v in values]


def fitted(model=None, **settings):
    reading = {"mask": "data", "scale": "none", "standardize": "train"} | settings
    return Decoder(model or GaussianNB(), **reading)


@pytest.fixture
def decoder():
    return fitted().fit(draw(0), LABELS, groups=PEOPLE)


def names(result):
    return [finding.name for finding in result.findings]


class TestEvaluateOn:
    def test_a_second_sample_gives_a_result(self, decoder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = decoder.evaluate_on(draw(1), LABELS, [f"other-{n}" for n in range(20)])
            predicted = decoder.predict(draw(1))
        wanted = {"accuracy", "balanced_accuracy", "log_loss", "brier", "auc"}
        assert wanted <= set(result.score_names)
        assert result.scores["accuracy"][0] == np.mean(predicted == LABELS)
        assert result.predictions["y_pred"].tolist() == predicted.tolist()
        assert (result.scores["n_train"][0], result.scores["n_test"][0]) == (20, 20)
        assert result.table().loc["accuracy", "method"] == "beta-binomial"
        assert result.table().loc["log_loss", "low"] < result.pooled()["log_loss"]
        outcome = {check.name: check.outcome for check in result.checks}
        assert outcome["training-scans"] == outcome["training-people"] == "not found"

    def test_intervals_are_over_people(self, decoder):
        twice = [image for image in draw(1) for _ in range(2)]
        rng = np.random.default_rng(0)
        noisy = [
            nibabel.Nifti1Image(i.get_fdata() + rng.normal(size=i.shape) / 9, AFFINE) for i in twice
        ]
        people = np.repeat([f"new-{n}" for n in range(20)], 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = decoder.evaluate_on(noisy, np.repeat(LABELS, 2), people)
        assert result.table().loc["accuracy", "method"] == "group bootstrap"
        assert result.settings["n_groups"] == 20

    @pytest.mark.parametrize("change", ["same", "scaled", "reversed", "double", "among others"])
    def test_training_scans_are_found(self, decoder, change):
        images, labels = draw(0), LABELS
        if change == "scaled":
            images = draw(0, scale=3.0)
        elif change == "reversed":
            images, labels = images[::-1], labels[::-1]
        elif change == "double":
            images = [nibabel.Nifti1Image(i.get_fdata(), AFFINE) for i in images]
        elif change == "among others":
            images = [*draw(1)[:19], images[1]]
        with pytest.raises(AuditError, match=r"\[training-scans\] (20|1) of 20 scans"):
            decoder.evaluate_on(images, labels)

    def test_allowed_by_name_it_stays_on_record(self, decoder):
        result = decoder.evaluate_on(draw(0), LABELS, allow=["training-scans"])
        assert [f.allowed for f in result.findings if f.name == "training-scans"] == [True]

    def test_people_are_found_by_their_identifier(self, decoder):
        people = [f"new-{n}" for n in range(19)] + ["sub-07"]
        with pytest.raises(AuditError, match=r"\[training-people\] 1 of 20 groups .*: sub-07"):
            decoder.evaluate_on(draw(1), LABELS, people)

    @pytest.mark.parametrize("people", [range(20), range(1, 21)])
    def test_groups_that_are_counted_name_nobody(self, people):
        decoder = fitted().fit(draw(0), LABELS, groups=list(people))
        assert decoder.training_.people is None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = decoder.evaluate_on(draw(1), LABELS, list(people))
        told = {check.name: check for check in result.checks}["training-people"]
        assert told.outcome == "not checked"
        assert "counted" in told.reason

    def test_centred_by_group_whole_groups_are_found_in_any_order(self):
        runs = np.repeat(["a", "b", "c", "d", "e"], 4)
        decoder = fitted(standardize="group").fit(draw(0), LABELS, groups=runs)
        order = np.r_[16:20, 0:4][::-1]
        images = [draw(0)[i] for i in order]
        with pytest.raises(AuditError, match="8 of 8 scans are training scans"):
            decoder.evaluate_on(images, LABELS[order], runs[order])

    def test_no_name_is_in_the_file(self, decoder, tmp_path):
        kept = decoder.save(tmp_path / "m.skops").read_bytes()
        assert b"sub-0" not in kept
        again = Decoder.load(tmp_path / "m.skops")
        assert again.save(tmp_path / "again.skops").read_bytes() == kept
        with pytest.raises(AuditError, match="training-people"):
            again.evaluate_on(draw(1), LABELS, PEOPLE)
        with pytest.raises(AuditError, match="training-scans"):
            again.evaluate_on(draw(0), LABELS)

    def test_a_file_without_digests_says_that_it_cannot_tell(self, decoder):
        decoder.training_ = None
        with pytest.warns(InputWarning, match=r"could not|cannot be found.*0\.2"):
            result = decoder.evaluate_on(draw(0), LABELS)
        told = {check.name: check.outcome for check in result.checks}
        assert told["training-scans"] == told["sample-shifted"] == "not checked"
        assert decoder.unlikeness(draw(1)) is None

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            (np.tile(["ill", "healthy"], 10), "does not know, healthy"),
            (np.repeat("ill", 20), "a single class"),
            (None, "no labels"),
        ],
    )
    def test_labels_that_cannot_be_scored(self, decoder, labels, message):
        with pytest.raises(InputError, match=message):
            decoder.evaluate_on(draw(1), labels)

    def test_a_dataset_that_was_read_alike(self, decoder):
        data = load_maps(draw(1), images=decoder.masker_)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = decoder.evaluate_on(data, list(LABELS))
            assert result.equals(decoder.evaluate_on(draw(1), LABELS))

    def test_numbers(self):
        ages = np.linspace(20, 80, 20)
        decoder = fitted(Ridge()).fit(draw(0), ages)
        with pytest.warns(Warning, match=r"mean of the number 150 .*50 .*in training"):
            result = decoder.evaluate_on(draw(1), ages + 100)
        assert result.task == "regression"
        with pytest.raises(InputError, match="predicts a number"):
            decoder.evaluate_on(draw(1), LABELS)


def test_the_page_shows_both_samples(decoder, tmp_path):
    data = load_maps(draw(1), LABELS, images=decoder.masker_)
    done = validate_externally(decoder, data, title="Elsewhere", positive="ill")
    done.write(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "This sample and the training sample" in page
    assert "The model was fitted before, to other scans, and was tested as it is" in page
    assert "root mean square of the scans" in page
    assert done.summary()["verdict"] == done.verdict.text
    table = pd.read_csv(tmp_path / "predictions.tsv", sep="\t")
    np.testing.assert_allclose(table["unlike"], decoder.unlikeness(data), rtol=1e-4)


class TestShifts:
    def shifted(self, decoder, images, labels=LABELS, **more):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = decoder.evaluate_on(images, labels, **more)
        told = [f.message for f in result.findings if f.name == "sample-shifted"]
        return told, result

    def test_nothing_is_said_of_a_sample_like_training(self, decoder):
        assert self.shifted(decoder, draw(1))[0] == []

    def test_scale(self, decoder):
        (told,), result = self.shifted(decoder, draw(1, scale=1.5))
        assert "root mean square of the scans 15" in told
        assert "10.11 in training" in told
        assert "unlike-training" in names(result)

    def test_prevalence(self, decoder):
        labels = np.array(["ill"] * 2 + ["well"] * 38)
        told, result = self.shifted(decoder, draw(1, n=40), labels)
        assert "share of ill 5.0% here, 50.0% in training" in told[0]
        assert ["scans", "20", "40", ""] in result.settings["samples"]

    def test_covariates(self):
        before = pd.DataFrame(
            {"age": 50 + 5 * np.sin(np.arange(20)), "sex": ["F", "M", "M", "F"] * 5}
        )
        after = before.assign(age=before["age"] + 20, sex=["F"] * 19 + ["M"])
        decoder = fitted().fit(draw(0), LABELS, covariates=before)
        told, _ = self.shifted(decoder, draw(1), covariates=after)
        assert any(one.startswith("mean of age 70") and "50" in one for one in told)
        assert any("share of sex F 95.0% here, 50.0% in training" in one for one in told)


class TestUnlikeness:
    def test_one_is_the_farthest_when_left_out(self):
        X = np.random.default_rng(0).normal(size=(9, 60))
        images = [nibabel.Nifti1Image(x.reshape(5, 4, 3).astype("f4"), AFFINE) for x in X]
        labels = ["a", "b", "a"] * 3
        decoder = fitted().fit(images, labels)
        X = X.astype("f4").astype(float)
        away = [np.linalg.norm(x - np.delete(X, i, axis=0).mean(axis=0)) for i, x in enumerate(X)]
        expected = np.linalg.norm(X - X.mean(axis=0), axis=1) / max(away)
        np.testing.assert_allclose(decoder.unlikeness(images), expected, rtol=1e-5)
        assert decoder.unlikeness(images).max() < 1

    @pytest.mark.parametrize("model", [GaussianNB(), Ridge(), "auto", "gp", "sharing", "network"])
    def test_every_model_warns_of_strange_scans(self, model):
        labels = np.arange(20.0) if isinstance(model, Ridge) else LABELS
        decoder = fitted(model).fit(draw(0), labels)
        with pytest.warns(InputWarning, match="1 of 1 scans are farther .* number 1"):
            decoder.predict(draw(1, n=1, scale=4.0))

    def test_one_of_n_plus_one_lies_beyond_by_chance(self):
        beyond = []
        for seed in range(40):
            decoder = fitted().fit(draw(100 + seed), LABELS)
            beyond.append(decoder.unlikeness(draw(200 + seed)) > 1)
        assert 0.01 < np.mean(beyond) < 0.1  # 1/21


class TestDigests:
    def test_blocks_of_any_width_give_the_same(self, decoder):
        from voxprior import blocks

        X = np.random.default_rng(0).normal(size=(6, 3001)).astype("f4")
        mean = X.mean(axis=0)
        sample = decoder.training_._replace(mean=mean)
        with blocks.max_memory(1000):
            narrow = sample.seen(X)
        wide = sample.seen(X)
        assert (narrow.digest == wide.digest).all()
        assert len(np.unique(wide.digest, axis=0)) == 6
        np.testing.assert_allclose(narrow.distance, wide.distance)

    def test_another_model_has_another_key(self):
        one, other = (fitted().fit(draw(s), LABELS, groups=PEOPLE).training_ for s in (0, 1))
        assert not set(map(tuple, one.people)) & set(map(tuple, other.people))

    @pytest.mark.parametrize("field", TrainingSample._fields)
    def test_what_a_file_may_not_hold_is_refused(self, decoder, tmp_path, field):
        for wrong in (None, "x", np.array(["a"]), np.full((2, 2), np.nan), {"a": {"b": -1}}, -1):
            if field in ("people", "target") and wrong is None:
                continue
            if field in ("numbers", "levels") and wrong is None:
                continue
            decoder.training_ = decoder.training_._replace(**{field: wrong})
            path = decoder.save(tmp_path / "m.skops")
            with pytest.raises(InputError, match="training sample that is not what it should be"):
                Decoder.load(path)


class TestScikitLearn:
    def test_tags_and_clone(self):
        assert is_classifier(Decoder())
        assert is_classifier(Decoder("gp"))
        assert is_regressor(Decoder("ridge"))
        decoder = fitted(LogisticRegression(), scoring="roc_auc")
        assert clone(decoder).scoring == "roc_auc"
        assert is_regressor(fitted(Ridge()).fit(draw(0), np.arange(20.0)))

    @pytest.mark.parametrize("scoring", [None, "accuracy", "roc_auc", "neg_log_loss"])
    def test_cross_val_score(self, scoring, tmp_path):
        files = [str(tmp_path / f"{n}.nii") for n in range(20)]
        for file, image in zip(files, draw(0)):
            nibabel.save(image, file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = [
                cross_val_score(fitted(scoring=scoring), given, LABELS, cv=3)
                for given in (files, draw(0))
            ]
            other = cross_val_score(fitted(), files, LABELS, cv=3, scoring=scoring or "accuracy")
            whole = cross_val_score(
                fitted(), files, LABELS, groups=np.repeat([0, 1], 10), cv=LeaveOneGroupOut()
            )
        np.testing.assert_array_equal(scores[0], scores[1])
        np.testing.assert_array_equal(scores[0], other)
        assert len(whole) == 2

    def test_grid_search(self):
        grid = {"standardize": ["train", "none"], "estimator__C": [0.01, 1.0]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = GridSearchCV(fitted(LogisticRegression()), grid, cv=2).fit(draw(0), LABELS)
            assert found.best_estimator_.score(draw(1), LABELS) == np.mean(
                found.predict(draw(1)) == LABELS
            )
        assert found.classes_.tolist() == ["ill", "well"]
        assert set(found.best_params_) == set(grid)

    def test_a_score_by_a_function_and_by_a_wrong_name(self, decoder):
        decoder.scoring = lambda fitted, images, y: 7.0
        assert decoder.score(draw(1), LABELS) == 7
        decoder.scoring = "acuracy"
        with pytest.raises(InputError, match=r"'acuracy'.*nearest is 'accuracy'"):
            decoder.score(draw(1), LABELS)


class TestReadingRuns:
    @pytest.fixture
    def run(self):
        values = np.random.default_rng(0).normal(size=(5, 4, 3, 40))
        return nibabel.Nifti1Image(values.astype("f4"), np.diag([3.0, 3, 3, 1]))

    @pytest.fixture
    def events(self):
        onset = np.arange(0, 40, 5.0)
        return pd.DataFrame(
            {"onset": onset, "duration": 2.0, "trial_type": np.tile(["face", "house"], 4)}
        )

    @pytest.mark.parametrize("kept", [False, True])
    def test_events_cut_trials(self, run, events, kept, tmp_path):
        decoder = Decoder(
            GaussianNB(), mask="data", memory=str(tmp_path) if kept else None, t_r=1.0
        )
        for delay in (0.0, 1.0):  # what was kept of other trials is not taken
            data = decoder.read([run, run], events=[events, events], delay=delay)
            assert data.y.tolist() == ["face", "house"] * 8
            assert data.trials["delay"] == delay
        assert decoder.fit(data).trials_["delay"] == 1.0

    @pytest.mark.parametrize("more", [{"y": ["a", "b"]}, {"covariates": pd.DataFrame({"a": [1]})}])
    def test_labels_beside_events_are_refused(self, run, events, more):
        with pytest.raises(InputError, match="would have no effect"):
            Decoder(mask="data").read(run, events=events, **more)

    def test_a_dataset_has_no_events(self, run, events):
        data = Decoder(mask="data", t_r=1.0).read(run, events=events)
        with pytest.raises(InputError, match="already cut into trials"):
            Decoder().read(data, events=events)
