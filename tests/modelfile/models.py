"""Every kind of model that voxprior saves: families, recipes, baselines, wrappers, pipelines."""

import fractions
import warnings

import nibabel
import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from voxprior import Decoder, FeatureSharingNB, ScanPreparation, VoxelSpace
from voxprior.decision import (
    BayesDecision,
    CombinedClassifier,
    IsotonicCalibrated,
    TemperatureCalibrated,
)
from voxprior.decoder import with_prior_from
from voxprior.images import load_runs
from voxprior.models.sharing import few_shot_decoder
from voxprior.registry import model, models

SHAPE, AFFINE = (4, 4, 3), np.diag([3.0, 3.0, 3.0, 1.0])
LABELS = np.tile(["face", "house", "shoe"], 8)
LINKS = VoxelSpace.grid(SHAPE).adjacency().astype(float)
LINKS_MATRIX = sparse.csr_matrix(LINKS.toarray())

FAMILIES = models(role="family")


def scans(n=24):
    """Maps in which each label has its own spot."""
    values = np.random.default_rng(0).normal(size=(n, *SHAPE)).astype("f4")
    for i in range(3):
        values[i::3, i] += 1.0
    return [nibabel.Nifti1Image(v, AFFINE) for v in values]


def fitted(estimator, y=LABELS, n=24, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence on noise
        return Decoder(estimator).fit(scans(n), y, **settings)


def family(name, paper=False):
    """A fitted family, with its defaults or as printed."""
    entry = FAMILIES[name]
    two = LABELS[:24] == "face"
    y = np.where(two, "face", "house") if entry.kind == "classifier" else np.arange(24.0)
    return fitted(entry.estimator.paper() if paper else entry.make(), y)


def few_shot():
    rng = np.random.default_rng(0)
    labels = np.tile(np.repeat(["face", "house"], 9), 3)
    runs = [
        nibabel.Nifti1Image(rng.normal(size=(*SHAPE, 54)).astype("f4"), AFFINE) for _ in range(3)
    ]
    return Decoder(few_shot_decoder()).fit(
        load_runs(runs, labels=[labels] * 3, unit="window", window=9, mask="data")
    )


def with_covariates():
    table = pd.DataFrame(
        {
            "age": np.linspace(20, 70, 24),
            "site": np.tile(list("AB"), 12),
            "left": np.tile([True, True, False], 8),
        }
    )
    return fitted(model("logistic").make(), covariates=table)


def centered_by_group():
    return Decoder("logistic", standardize="group").fit(scans(), LABELS, np.repeat([0, 1], 12))


def taught():
    """A decoder with a prior from three others in the same space, maps included."""
    runs, reader = np.repeat(np.arange(4), 6), Decoder(mask=np.ones(SHAPE, bool))
    rng = np.random.default_rng(1)
    others = {}
    for name in ("anna", "ben", "cleo"):
        moved = [
            nibabel.Nifti1Image(one.get_fdata() + rng.normal(size=SHAPE), AFFINE) for one in scans()
        ]
        others[name] = reader.read(moved, LABELS, runs)
    decoder = with_prior_from(reader, others, max_episodes=2)
    return decoder.fit(scans(), LABELS, runs)


def decided(classes, **settings):
    """Costs and priors by label, as a user has them from ``np.unique(labels)``."""
    priors = dict.fromkeys(classes, 1 / len(classes))
    return BayesDecision(model("naive-bayes").make(), priors=priors, **settings)


def numpy_parameters():
    """Parameters as they come out of a table or a grid of numpy."""
    built = model("boosting").make(n_iterations=np.int64(5), radius=np.float32(1.5))
    return fitted(built.set_params(backward=np.bool(False), step=np.str_("exact")))


MODELS = (
    {name: lambda name=name: family(name) for name in FAMILIES}
    | {
        f"{name} as printed": lambda name=name: family(name, paper=True)
        for name, entry in FAMILIES.items()
        if hasattr(entry.estimator, "paper")
    }
    | {
        f"{name} with three classes": lambda name=name: fitted(FAMILIES[name].make())
        for name, entry in FAMILIES.items()
        if entry.kind == "classifier"
    }
    | {
        name: lambda name=name, kind=entry.kind: fitted(
            model(name).make(), LABELS if kind == "classifier" else np.arange(24.0)
        )
        for name, entry in models(role="baseline").items()
    }
    | {
        "few-shot": few_shot,
        "prior from others": taught,
        "covariates": with_covariates,
        "centred by group": centered_by_group,
        "prepared": lambda: fitted(make_pipeline(ScanPreparation(), model("logistic").make())),
        "a pipeline of scikit-learn": lambda: fitted(
            make_pipeline(StandardScaler(), model("logistic").make())
        ),
        "labels as objects": lambda: fitted(model("logistic").make(), LABELS.astype(object)),
        "numpy parameters": numpy_parameters,
        "temperature": lambda: fitted(TemperatureCalibrated(model("gp").make())),
        "isotonic": lambda: fitted(
            IsotonicCalibrated(model("naive-bayes").make()), np.arange(300) % 3, n=300
        ),
        "costs": lambda: fitted(decided(["face", "house", "shoe"], costs=1 - np.eye(3))),
        "priors by text of numpy": lambda: fitted(decided(np.unique(LABELS), reject=0.5)),
        "priors by number": lambda: fitted(decided([0, 1, 2]), np.arange(24) % 3),
        "priors by number of numpy": lambda: fitted(decided(np.arange(3)), np.arange(24) % 3),
        "combined": lambda: fitted(
            CombinedClassifier([("bayes", model("naive-bayes").make()), ("gp", model("gp").make())])
        ),
        "sparse array": lambda: fitted(FeatureSharingNB(means=LINKS)),
        "learned groups": lambda: fitted(
            FeatureSharingNB(means="correlated", hyperparameters="integrated")
        ),
        "sparse matrix": lambda: fitted(FeatureSharingNB(means=LINKS_MATRIX)),
    }
)


class OwnClassifier(ClassifierMixin, BaseEstimator):
    """A model of a user that holds what skops knows and voxprior's own models do not have."""

    def __init__(self, function=np.mean):
        self.function = function

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.random_ = np.random.RandomState(0)
        self.names_ = {"a"}
        self.bytes_ = (b"same", b"same")
        self.dtype_ = X.dtype
        self.slope_ = fractions.Fraction(1, 3)
        return self

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


# What a file with it names beyond the list of voxprior.
OWN = [
    "tests.modelfile.models.OwnClassifier",
    "builtins.bytes",
    "builtins.set",
    "fractions.Fraction",
    "numpy.dtype",
    "numpy.mean",
    "numpy.random.mtrand.RandomState",
]
