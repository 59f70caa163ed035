"""Every object of a model is checked by what it is, whatever holds it and wherever it stands."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.ensemble import VotingClassifier
from sklearn.svm import SVC, SVR
from tests.modelfile.models import FAMILIES, LABELS, MODELS, fitted, numpy_parameters

from voxprior import VoxelSpace
from voxprior.errors import InputError
from voxprior.modelfile import files
from voxprior.modelfile.objects import check_objects, objects
from voxprior.modelfile.parts import PARTS
from voxprior.registry import model

HUGE = 4 * 10**8
TYPES = ("sharing", "svm", "gp", "rvm", "auto", "network", "fields", "boosting", "naive-bayes")
TYPES += ("logistic", "lda", "ridge", "gp-regression", "rvm-regression", "auto-regression")
OTHERS = ("few-shot", "prior from others", "isotonic", "temperature", "costs", "combined")


def build(name):
    """A decoder of a model that has other classes in each of its ways to be held."""
    if name in OTHERS:
        return MODELS[name]()
    regressor = name == "ridge" or name.endswith("regression")
    return fitted(model(name).make(), np.arange(24.0) if regressor else LABELS)


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """What is read of the file of a model: a new copy each time."""
    folder, made = tmp_path_factory.mktemp("honest"), {}

    def read(name):
        if name not in made:
            made[name] = build(name).save(folder / f"{len(made)}.skops")
        state = files.read(made[name])
        del state["versions"]
        return state

    return read


def owner(state, attribute):
    """The first object with an attribute."""
    return next(thing for thing in objects(state) if attribute in vars(thing))


def setting(name, attribute, change):
    """A change of a state: an attribute of the first object that has it."""

    def forge(state):
        thing = owner(state, attribute)
        old = vars(thing)[attribute]
        vars(thing)[attribute] = change(old) if callable(change) else change

    return name, forge


def nan(array):
    changed = np.array(array, dtype=float)
    changed.flat[-1] = np.nan
    return changed


def shorter(array):
    return array[..., :-1].copy()


def record(array):
    return np.zeros(array.shape, dtype=[("a", "f8"), ("b", "f8")])


def in_an_array(state):
    """A machine whose counts overflow, inside an object array."""
    machine = owner(state, "_n_support")
    machine._n_support = np.array([2**30, -(2**30), 24], "i4")
    held = np.empty(1, object)
    held[0] = machine
    state["trials"] = {"unit": "block", "held": held}


FORGED = {
    "machine in an object array": ("svm", in_an_array),
    "n_features": setting("naive-bayes", "n_features_in_", HUGE),
    "restarts": setting("network", "n_restarts", 10**7),
    "draws": setting("gp", "n_draws", 2**40),
    "smoothing true": ("svm", lambda state: state["images"].update(smoothing_fwhm=True)),
    "t_r true": ("svm", lambda state: state["images"].update(t_r=True)),
    "classes alike": setting("logistic", "classes_", lambda old: np.full_like(old, old[0])),
    "classes reversed": setting("logistic", "classes_", lambda old: old[::-1].copy()),
    "classes nan": setting("costs", "classes_", np.array([1.0, 2.0, np.nan])),
    "sites beyond the grid": setting("sharing", "sites", lambda old: old + 2**40),
    "a grid of 10^18": setting("sharing", "shape", (10**6,) * 3),
    "stumps of other features": setting("boosting", "stumps_", lambda old: _far(old, "feature")),
    "nodes far away": setting("fields", "nodes_", lambda old: old + 10**6),
    "parents below zero": setting("network", "parents_", lambda old: old - 100),
    "relevance below zero": setting("rvm", "relevance_", lambda old: old - 100),
    "negative variances": setting("naive-bayes", "var_", lambda old: -old),
    "negative scale": setting("logistic", "scale_", lambda old: -old),
    "class frequencies": (
        "logistic",
        lambda state: state.update(class_frequencies=np.array([np.nan, 0.5, 0.5])),
    ),
    "window": ("few-shot", lambda state: state["trials"].update(window=10**9)),
    "unit": ("few-shot", lambda state: state["trials"].update(unit=[1])),
    "covariates twice": ("costs", lambda state: state.update(covariates={"a": ["x", "x", "y"]})),
    "likelihood": setting("gp", "likelihood_", "neither"),
    "kernel of nothing": setting("auto-regression", "kernels_", lambda old: []),
    "degrees that are text": setting("auto-regression", "degrees_of_freedom_", "many"),
    "noise that is a list": setting("rvm-regression", "interval_noise_", [1.0]),
    "negative noise": setting("gp-regression", "noise_", lambda old: -old),
    "no parents": setting("network", "parents_", []),
}
ARRAYS = {
    "svm": ("_dual_coef_", "support_vectors_", "_intercept_", "_probA", "support_", "_n_support"),
    "ridge": ("coef_",),
    "logistic": ("coef_", "intercept_"),
    "lda": ("coef_", "components_"),
    "naive-bayes": ("theta_",),
    "sharing": ("theta_", "var_"),
    "gp": ("X_fit_", "gram_means_", "gram_scale_"),
    "gp-regression": ("X_fit_", "targets_"),
    "rvm": ("coef_", "scans_", "design_"),
    "rvm-regression": ("variances_",),
    "auto": ("basis_", "dual_", "mean_"),
    "auto-regression": ("dual_coef_", "X_fit_", "weights_"),
    "fields": ("coef_", "noise_"),
    "boosting": ("stumps_",),
    "network": ("table_", "cut_"),
    "isotonic": ("y_thresholds_",),
    "costs": ("costs_",),
    "combined": ("class_prior_",),
    "few-shot": ("components_",),
    "prior from others": ("_means", "_center"),
}
CHANGES = {"nan": nan, "shorter": shorter, "record": record}


def _far(stumps, name):
    changed = stumps.copy()
    changed[name] += 10**9
    return changed


def forgeries():
    """Every forged file: by name, the model that it starts from and what is changed."""
    for kind, attributes in ARRAYS.items():
        for attribute in attributes:
            for name, change in CHANGES.items():
                kept = attribute in ("_probA", "gram_scale_", "stumps_") and name != "record"
                whole = attribute in ("support_", "_n_support") and name == "nan"
                if not (kept or whole):
                    yield f"{kind} {attribute} {name}", *setting(kind, attribute, change)
    for name, (kind, forge) in FORGED.items():
        yield name, kind, forge


@pytest.fixture(scope="module")
def outcomes(states, tmp_path_factory):
    """What each forged file ends in, in one process that none of them may end."""
    folder = tmp_path_factory.mktemp("forged")
    for name, kind, forge in forgeries():
        state = states(kind)
        forge(state)
        files.write(folder / f"{name}.skops", state)
    for kind in TYPES + OTHERS[2:]:
        files.write(folder / f"honest {kind}.skops", states(kind))
    command = [sys.executable, "-m", "tests.modelfile.load_all", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return dict(line.split("\t") for line in done.stdout.splitlines() if "\t" in line)


@pytest.mark.parametrize("name", [name for name, _, _ in forgeries()])
def test_a_forged_file_is_refused_in_one_line(name, outcomes):
    assert outcomes[name] == "refused"


@pytest.mark.parametrize("kind", TYPES + OTHERS[2:])
def test_the_honest_file_that_they_start_from_predicts(kind, outcomes):
    assert outcomes[f"honest {kind}"] == "predicted"


def test_no_forged_file_takes_a_gigabyte(outcomes):
    assert int(outcomes["memory"]) < 10**6


# ---------------------------------------------------------------------- any place, any holder


class Slotted:
    __slots__ = ("inside",)

    def __init__(self, inside):
        self.inside = inside


def in_array(thing):
    held = np.empty((1, 1), object)
    held[0, 0] = thing
    return held


HOLDERS = {
    "list": lambda thing: [thing],
    "tuple": lambda thing: (thing,),
    "set": lambda thing: {thing},
    "dict": lambda thing: {"a": thing},
    "key of a dict": lambda thing: {thing: 1},
    "object array": in_array,
    "slots": Slotted,
    "estimator": lambda thing: VotingClassifier([("a", thing)]),
    "several": lambda thing: [({"a": in_array(Slotted([thing]))},)],
}


@pytest.fixture(scope="module")
def machine():
    X = np.random.default_rng(0).normal(size=(12, 4))
    found = SVC(kernel="linear").fit(X, np.arange(12) % 3)
    found._n_support = np.array([2**30, -(2**30), 12], "i4")
    return found


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_a_machine_is_found_whatever_holds_it(holder, machine):
    with pytest.raises(InputError, match="support vector machine"):
        check_objects({"trials": holder(machine)}, 4)


def test_a_ring_of_objects_has_an_end():
    ring = []
    ring.append({"again": ring})
    check_objects(ring, 4)


@pytest.mark.parametrize("kind", [SVC, SVR])
def test_machines_that_a_user_trusts_are_checked_too(kind):
    class Own(kind):
        pass

    X = np.random.default_rng(0).normal(size=(12, 4))
    own = Own(kernel="linear").fit(X, np.arange(12) % 2)
    check_objects({"a": own}, 4)
    own._dual_coef_ = own._dual_coef_[:, :-1].copy()
    with pytest.raises(InputError, match="support vector machine"):
        check_objects({"a": own}, 4)


# ---------------------------------------------------------------------- nothing good is refused


def choices(entry):
    """Every choice among words, true and false, and None of a family, one at a time."""
    for name, rules in entry.estimator._parameter_constraints.items():
        for rule in rules if name not in ("space", "random_state") else ():
            options = getattr(rule, "options", [True, False] if rule == "boolean" else [])
            yield from ({name: option} for option in sorted(options, key=str))
            if rule is None:
                yield {name: None}


MORE = {
    "gp": [
        {"kernel": ["linear", "rbf"]},
        {"kernel": "poly", "likelihood": "logistic", "per_class": True},
        {"multiclass": "multinomial"},
        {"doubt": (2, 1)},
    ],
    "gp-regression": [{"kernel": "rbf"}],
    "rvm": [{"basis": "voxels"}, {"multiclass": "multinomial"}, {"alpha": "each"}],
    "rvm-regression": [{"basis": "voxels"}, {"kernel": "rbf"}],
    "network": [{"new_samples": "joint", "n_restarts": 3}, {"tolerance": 0.6}],
    "boosting": [{"calibrate": True, "early_stopping": True}, {"radius": [1.0, 2.0]}],
    "fields": [{"adaptation": "literal", "n_nodes": 5}, {"compression": None}],
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_every_choice_of_a_family_is_read(name):
    entry = FAMILIES[name]
    space = VoxelSpace.grid((4, 4, 3))
    X = np.random.default_rng(0).normal(size=(12, 48)) + 0.01
    X[::3, :3] += 1
    y = np.arange(12) % 3 if entry.kind == "classifier" else np.arange(12.0)
    n_fitted = 0
    for chosen in [{}, *choices(entry), *MORE.get(name, [])]:
        try:
            model = entry.make(space, **chosen).fit(X, y)
        except ValueError:
            continue  # a choice that needs another one
        check_objects({"estimator": model}, 48)
        n_fitted += 1
    assert n_fitted > 1


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_models_of_few_scans_of_many_voxels_are_read(name, n):
    entry = FAMILIES[name]
    X = np.random.default_rng(0).normal(size=(n, 2197))
    y = np.arange(n) % 2 if entry.kind == "classifier" else np.arange(float(n))
    try:
        model = entry.make(VoxelSpace.grid((13, 13, 13))).fit(X, y)
    except ValueError:
        pytest.skip("the family needs more scans")
    check_objects({"estimator": model}, 2197)


def test_parameters_of_numpy_are_read():
    check_objects({"estimator": numpy_parameters().estimator_}, 48)


def test_every_rule_is_about_an_attribute_that_models_have(states):
    def parts(thing, path):
        if not path or thing is None:
            return thing is not None
        if isinstance(thing, list):
            return any(parts(one, path) for one in thing)
        if isinstance(thing, np.ndarray):
            return path[0] in (thing.dtype.names or ())
        return path[0] in thing and parts(thing[path[0]], path[1:])

    held = {}
    for name in (*TYPES, *OTHERS):
        for thing in objects(states(name)):
            kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
            for path in PARTS.get(kind, ()):
                held.setdefault((kind, path), []).append(parts(vars(thing), path.split(".")))
    never = [pair for pair, found in held.items() if not any(found)]
    assert not {pair for pair in never if not PARTS[pair[0]][pair[1]].endswith(" ?")}


@pytest.mark.parametrize(
    ("name", "n"), [("gp", 24), ("auto-regression", 24), ("logistic", 0), ("auto", 0)]
)
def test_a_decoder_says_how_many_scans_it_keeps(name, n):
    assert build(name).scans_kept == n
