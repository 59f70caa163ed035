"""The rules that every estimator of the registry obeys; a new one joins by its registry line."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior import GPClassifier, GPRegressor, VoxelSpace
from voxprior.errors import InputError
from voxprior.models.base import VoxelClassifier
from voxprior.registry import models
from voxprior.validation import cross_validate

FAMILIES = models(role="family")
CLASSIFIERS = models("classifier", "family").values()
# The automatic models are of no paper.
PUBLISHED = [family for family in FAMILIES.values() if hasattr(family.estimator, "paper")]
every = pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda f: f.name)
every_classifier = pytest.mark.parametrize("family", CLASSIFIERS, ids=lambda f: f.name)

# Settings that keep scikit-learn's many fits short; everything else runs with the defaults.
CHEAP: dict[str, dict] = {"gp": {"optimize": False}, "rvm": {"doubt": None}}
# Settings that are checked too: because they take another kind of input, or because they are the
# defaults and take long.
GIVEN_KERNELS = [
    FAMILIES[name].make(kernel="precomputed", **CHEAP.get(name, {}))
    for name in ("gp", "gp-regression", "rvm", "rvm-regression")
]
VARIANTS = [FAMILIES["rvm"].make(), *GIVEN_KERNELS]


def expected_failures(estimator):
    """{scikit-learn check: reason it must fail}."""
    if isinstance(estimator, GPClassifier | GPRegressor) and estimator.kernel == "precomputed":
        return {"check_estimators_dtypes": "cut to integers, a kernel is not a covariance any more"}
    return {}


@parametrize_with_checks([family.make(**CHEAP.get(name, {})) for name, family in FAMILIES.items()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(VARIANTS, expected_failed_checks=expected_failures)
def test_scikit_learn_contract_of_variants(estimator, check):
    check(estimator)


def problem(family, n_classes=2, n=24, shape=(4, 4, 3), seed=0):
    """A small problem with a compact signal; returns X, y, space."""
    rng = np.random.default_rng(seed)
    space = VoxelSpace.grid(shape)
    X = rng.standard_normal((n, space.n_voxels))
    if family.kind == "regressor":
        return X, X[:, :4].sum(axis=1) + 0.1 * rng.standard_normal(n), space
    y = np.arange(n) % n_classes
    for c in range(n_classes):
        X[y == c, 5 * c : 5 * c + 4] += 1.5
    return X, y, space


def scores(model, X):
    """What a model says of each scan: log-probabilities, or predictions of a regressor."""
    if hasattr(model, "predict_proba"):
        with np.errstate(divide="ignore"):
            return np.log(model.predict_proba(X))
    return model.predict(X)


@every
def test_a_scan_alone_is_scored_as_in_any_batch(family):
    X, y, space = problem(family)
    model = family.make(space).fit(X, y)
    together = scores(model, X)
    alone = np.concatenate([scores(model, x[None]) for x in X])
    assert_allclose(alone, together, rtol=1e-9, atol=1e-9)
    assert_allclose(scores(model, X[::-1])[::-1], together, rtol=1e-9, atol=1e-9)


@every_classifier
def test_answers_and_probabilities_of_one_look_are_those_of_two(family):
    X, y, space = problem(family, n_classes=3)
    model = family.make(space).fit(X, np.array(["cat", "dog", "fox"])[y])
    if not hasattr(model, "predict_with_proba"):
        assert family.name in ("sharing", "fields", "boosting")  # have rules of their own
        return
    answers, p = model.predict_with_proba(X)
    np.testing.assert_array_equal(answers, model.predict(X))
    np.testing.assert_array_equal(p, model.predict_proba(X))


def test_pipelines_of_any_form_give_the_answers_of_the_model():
    X, y, _ = problem(FAMILIES["gp"])
    model = GPClassifier(optimize=False)
    expected = cross_validate(model, X, y).predictions
    forms = [
        make_pipeline(model),
        make_pipeline("passthrough", model),
        make_pipeline("passthrough", make_pipeline(model)),
        make_pipeline(make_pipeline("passthrough", model)),
    ]
    for form in forms:
        pd.testing.assert_frame_equal(cross_validate(form, X, y).predictions, expected)


@every
def test_same_input_same_output(family):
    X, y, space = problem(family)
    first, again = (scores(family.make(space).fit(X, y), X) for _ in range(2))
    assert_allclose(first, again, rtol=0, atol=0)


@every
def test_voxels_have_no_order(family):
    X, y, space = problem(family)
    order = np.random.default_rng(1).permutation(space.n_voxels)
    straight = family.make(space).fit(X, y)
    permuted = family.make(space.take(order)).fit(X[:, order], y)
    assert_allclose(scores(permuted, X[:, order]), scores(straight, X), rtol=1e-5, atol=1e-6)


@every_classifier
def test_labels_are_only_names(family):
    X, y, space = problem(family, n_classes=3)
    by_number = family.make(space).fit(X, y)
    by_name = family.make(space).fit(X, np.array(["apple", "pear", "plum"])[y])
    assert list(by_name.classes_) == ["apple", "pear", "plum"]
    assert_allclose(by_name.predict_proba(X), by_number.predict_proba(X), rtol=1e-12)
    assert_allclose(
        by_name.classes_[by_name.predict_proba(X).argmax(axis=1)] == by_name.predict(X), True
    )


@every
def test_single_precision_says_the_same(family):
    X, y, space = problem(family)
    single = X.astype(np.float32)
    narrow = family.make(space).fit(single, y)
    wide = family.make(space).fit(single.astype(np.float64), y)
    assert_allclose(scores(narrow, single), scores(wide, single), rtol=1e-3, atol=1e-3)


@every
def test_read_only_and_fortran_input(family):
    X, y, space = problem(family)
    expected = scores(family.make(space).fit(X, y), X)
    for other in (np.asfortranarray(X), X.copy()):
        other.flags.writeable = False
        assert_allclose(
            scores(family.make(space).fit(other, y), other), expected, rtol=1e-9, atol=1e-9
        )
        assert_allclose(other, X)


@every_classifier
def test_probabilities_are_finite_with_a_hundred_thousand_features(family):
    rng = np.random.default_rng(0)
    y = np.arange(8) % 2
    X = (rng.standard_normal((8, 100_000)) + 0.5 * y[:, None]).astype(np.float32)
    model = family.make().fit(X, y)
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    assert_allclose(P.sum(axis=1), 1.0)


@every
def test_one_or_two_scans_per_class(family):
    X, y, space = problem(family, n=4)
    model = family.make(space).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


@every
def test_constant_and_duplicated_voxels(family):
    X, y, space = problem(family)
    X[:, 10] = 3.0
    X[:, 20] = X[:, 1]
    model = family.make(space).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


@every
def test_clone_and_skops_round_trip(family):
    skops = pytest.importorskip("skops.io")
    X, y, space = problem(family)
    model = clone(family.make(space)).fit(X, y)
    text = skops.dumps(model)
    trusted = skops.get_untrusted_types(data=text)
    assert all(name.startswith(("voxprior.", "numpy.", "scipy.", "sklearn.")) for name in trusted)
    again = skops.loads(text, trusted=trusted)
    assert_allclose(scores(again, X), scores(model, X), rtol=1e-12)


@every
def test_voxel_maps_have_one_value_per_voxel(family):
    X, y, space = problem(family)
    maps = family.make(space).fit(X, y).voxel_maps()
    assert maps
    for name, values in maps.items():
        assert isinstance(name, str)
        assert np.shape(values) == (space.n_voxels,)


@every
def test_errors_say_what_to_do(family):
    X, y, space = problem(family)
    with pytest.raises(ValueError, match=r"NaN"):
        family.make(space).fit(np.where(X > 2, np.nan, X), y)
    if family.kind == "classifier":
        with pytest.raises(ValueError, match=r"class"):
            family.make(space).fit(X, np.zeros(len(X), int))
    if "space" in family.make().get_params():
        with pytest.raises(ValueError, match=r"48|47"):
            family.make(space).fit(X[:, :47], y)


@pytest.mark.parametrize("family", PUBLISHED, ids=lambda f: f.name)
def test_paper_is_a_configured_estimator(family):
    X, y, _ = problem(family)
    paper = family.estimator.paper()
    assert isinstance(paper, family.estimator)
    assert np.isfinite(clone(paper).fit(X, y).predict(X)).all()


def one_voxel(value):
    def put(X):
        X = X.copy()
        X[:, 7] = value * np.sign(X[:, 7])
        return X

    return put


EXTREMES = {
    "times 1e-160": lambda X: X * 1e-160,
    "times 1e-310": lambda X: X * 1e-310,
    "times 1e150": lambda X: X * 1e150,
    "times 1e300": lambda X: X * 1e300,
    "a voxel of 1e200": one_voxel(1e200),
    "a voxel of 1e-310": one_voxel(1e-310),
    "the largest float32": lambda X: (X * 1e37).astype(np.float32),
    "denormal float32": lambda X: (X * 1e-40).astype(np.float32),
}
ANSWERS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "predict_interval")
everything = pytest.mark.parametrize("family", models().values(), ids=lambda f: f.name)
extremes = pytest.mark.parametrize("extreme", EXTREMES.values(), ids=EXTREMES)


def finite_answers(model, X):
    """Whether all that a model says of scans is finite, or the scans are refused."""
    for name in [name for name in ANSWERS if hasattr(model, name)]:
        try:
            given = np.asarray(getattr(model, name)(X))
        except InputError:
            continue
        assert given.dtype.kind != "f" or np.isfinite(given).all(), name


@pytest.mark.filterwarnings("ignore")
@every
@extremes
def test_extreme_scans_are_learned_alike_or_refused(family, extreme):
    X, y, space = problem(family)
    ordinary = family.make(space).fit(X, y)
    finite_answers(ordinary, extreme(X))
    try:
        model = family.make(space).fit(extreme(X), y)
    except InputError:
        return
    finite_answers(model, extreme(X))
    finite_answers(model, X)
    if not np.isclose(extreme(X)[:, 7] / extreme(X)[:, 6], X[:, 7] / X[:, 6], rtol=0.1).all():
        return
    assert model.score(extreme(X), y) > ordinary.score(X, y) - 0.1  # of one factor on all voxels


@pytest.mark.filterwarnings("ignore")
@every
def test_a_scan_alone_is_scored_alike_far_from_zero_too(family):
    X, y, space = problem(family)
    X = X + 1e12
    model = family.make(space).fit(X, y)
    alone = np.concatenate([scores(model, x[None]) for x in X])
    assert_allclose(alone, scores(model, X), rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@everything
@extremes
def test_results_hold_finite_numbers_whatever_the_model(family, extreme):
    X, y, space = problem(family)
    # scikit-learn's own models raise other errors too, of scans that no family is fitted to.
    theirs = (ValueError, np.linalg.LinAlgError) if family.role == "baseline" else ()
    try:
        with np.errstate(all="ignore"):
            result = cross_validate(family.make(space), extreme(X), y, cv=2, audited=())
    except (InputError, *theirs):
        return
    assert np.isfinite(result.predictions.select_dtypes("number").to_numpy()).all()


def test_a_family_of_another_package_is_guarded_too():
    class Silly(VoxelClassifier):
        def fit(self, X, y):
            X, _ = self._training_scans(X, y)
            return self

        def predict_proba(self, X):
            X = self._new_scans(X)
            return np.full((len(X), 2), np.nan)

        def voxel_maps(self):
            return {}

    model = Silly().fit(np.eye(4), [0, 1, 0, 1])
    for method in (model.predict_proba, model.predict, model.predict_log_proba):
        with pytest.raises(InputError, match="Silly has no finite answer for 3 of 3 scans"):
            method(np.ones((3, 4)))
