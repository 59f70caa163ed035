"""Real scans: five fingers at 7 T and Haxby's eight categories, leave one run out."""

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss

from voxprior import GPClassifier, RVMClassifier
from voxprior.papers import datasets
from voxprior.papers.rao2017.claims import Models, PeerGPC, calibration_error


def models() -> Models:
    """Ours, as printed, and what a user of scikit-learn would take."""
    return {
        "GP, EP one-vs-rest (default)": GPClassifier,
        "the same, unseen variance counted": lambda: GPClassifier(unseen_variance=1.0),
        "GP, softmax Laplace": lambda: GPClassifier(inference="laplace"),
        "the same, unseen variance counted ": lambda: GPClassifier(
            inference="laplace", unseen_variance=1.0
        ),
        "GP, softmax Laplace, mode": lambda: GPClassifier(inference="laplace", averaging="mode"),
        "GP, softmax as PRoNTo": GPClassifier.paper,
        "RVM, samples (default)": RVMClassifier,
        "RVM, samples, as Tipping": RVMClassifier.paper,
        "RVM, voxels": lambda: RVMClassifier("voxels"),
        "scikit-learn GPC, one-vs-rest": PeerGPC,
        "multinomial logistic, C = 1": lambda: LogisticRegression(max_iter=500),
        "multinomial logistic, C by inner folds": lambda: LogisticRegressionCV(
            Cs=np.logspace(-6, 2, 9), cv=3, scoring="neg_log_loss", max_iter=300
        ),
    }


def fingers(subject: int) -> datasets.Patterns:
    """One subject's betas, standardised within runs."""
    data = datasets.finger7t(subject)
    return data._replace(X=datasets.standardize_by(data.X, data.run))


def categories() -> datasets.Patterns:
    """Block means of Haxby's subject 1, standardised within runs."""
    data = datasets.haxby_vt(volumes=False)
    return data._replace(X=datasets.standardize_by(data.X, data.run))


def out_of_run(make, data: datasets.Patterns) -> np.ndarray:
    """Probabilities of every scan from a model that has not seen its run."""
    codes = np.unique(data.y, return_inverse=True)[1]
    p = np.zeros((len(codes), codes.max() + 1))
    for run in np.unique(data.run):
        train = data.run != run
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p[~train] = make().fit(data.X[train], codes[train]).predict_proba(data.X[~train])
    return p


def table(sets: list[datasets.Patterns], names: list[str] | None = None) -> list[dict]:
    """Accuracy, log-loss and calibration error of every model, all scans of all sets together."""
    rows = []
    for name, make in models().items():
        if names is not None and name not in names:
            continue
        p = np.concatenate([out_of_run(make, data) for data in sets])
        codes = np.concatenate([np.unique(d.y, return_inverse=True)[1] for d in sets])
        rows.append({
            "method": name.strip(), "accuracy": float((p.argmax(axis=1) == codes).mean()),
            "log-loss": float(log_loss(codes, p)), "calibration error": calibration_error(p, codes),
        })  # fmt: skip
    return rows
