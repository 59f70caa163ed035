"""The claims of the slides on simulated maps, where the truth is known."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from voxprior import GPClassifier, GPRegressor, RVMClassifier, RVMRegressor
from voxprior.decision import correct_priors
from voxprior.papers.claims import Claim, paired
from voxprior.papers.frame import Part, Table
from voxprior.simulate import smooth_maps

Models = dict[str, Callable[[], Any]]
N_TEST = 400


class PeerGPC(GaussianProcessClassifier):
    """scikit-learn's GPC with a linear kernel in the unit of the scans."""

    def fit(self, X, y):
        """Centre, then fit with the scale start at one over the mean squared norm."""
        self.center_ = X.mean(axis=0)
        norm = float(((X - self.center_) ** 2).sum(axis=1).mean())
        self.kernel = ConstantKernel(1 / norm, (1e-12, 1e3)) * DotProduct(np.sqrt(norm), "fixed")
        return super().fit(X - self.center_, y)

    def predict(self, X):
        """Most probable class."""
        return super().predict(X - self.center_)

    def predict_proba(self, X):
        """Class probabilities."""
        return super().predict_proba(X - self.center_)


def binary_models() -> Models:
    """The algorithms that the slides compare, and ours."""
    return {
        "linear SVM": lambda: SVC(kernel="linear"),
        "logistic": lambda: LogisticRegression(C=1e-3, max_iter=500),
        "GP, probit EP (default)": GPClassifier,
        "GP, logistic Laplace": lambda: GPClassifier(likelihood="logistic"),
        "GP, as PRoNTo": GPClassifier.paper,
        "RVM, samples (default)": RVMClassifier,
        "RVM, samples, as Tipping": RVMClassifier.paper,
        "RVM, voxels": lambda: RVMClassifier("voxels"),
    }


def multiclass_models() -> Models:
    """Several classes: softmax and one-vs-rest, ours and peers."""
    return {
        "GP, EP one-vs-rest (default)": GPClassifier,
        "GP, softmax Laplace": lambda: GPClassifier(inference="laplace"),
        "GP, softmax Laplace, mode": lambda: GPClassifier(inference="laplace", averaging="mode"),
        "GP, softmax as PRoNTo": GPClassifier.paper,
        "scikit-learn GPC, one-vs-rest": PeerGPC,
        "multinomial logistic": lambda: LogisticRegression(C=1e-3, max_iter=500),
    }


def cohort(seed: int, n: int, shape: tuple[int, ...], n_classes: int = 2, **options):
    """Training and test scans of one simulated study: X, y, test X, test y, truth of the test."""
    data = smooth_maps(
        shape, n + N_TEST, n_classes=n_classes, random_state=seed, smoothness=1.0, **options
    )
    truth = {key: data.truth[key][n:] for key in ("latent", "probability") if key in data.truth}
    return data.X[:n], data.y[:n], data.X[n:], data.y[n:], truth


def binary_alike(seeds: int, n: int, shape: tuple[int, ...]) -> Part:
    """Accuracy and log-loss of every algorithm; differences to the SVM with standard errors."""
    accuracy: dict[str, list[float]] = {name: [] for name in binary_models()}
    loss: dict[str, list[float]] = {name: [] for name in binary_models()}
    for seed in range(seeds):
        X, y, X_test, y_test, _ = cohort(seed, n, shape, strength=6.0)
        for name, make in binary_models().items():
            model = make().fit(X, y)
            accuracy[name].append(float((model.predict(X_test) == y_test).mean()))
            if hasattr(model, "predict_proba"):
                loss[name].append(log_loss(y_test, model.predict_proba(X_test)))
    base = np.array(accuracy["linear SVM"])
    rows = []
    for name, values in accuracy.items():
        difference = np.array(values) - base
        error = difference.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0
        rows.append({
            "method": name, "accuracy": float(np.mean(values)),
            "minus SVM": float(difference.mean()), "standard error": float(error),
            "log-loss": float(np.mean(loss[name])) if loss[name] else None,
        })  # fmt: skip
    alike = [
        Claim(f"{name} performs as a linear SVM does (accuracy within .03)",
              paired(values, base), studies(seeds), "introduction, after Rasmussen 2011", DIFFERS,
              -0.03, 0.03)
        for name, values in list(accuracy.items())[1:]
    ]  # fmt: skip
    return Part({"Binary: most algorithms perform alike": Table(rows, DIFFERS)}, {}, alike)


DIFFERS = "the slides report no experiment; studies are simulated"


def studies(seeds: int) -> str:
    """What the units are."""
    return f"{seeds} simulated studies"


def age(seeds: int, n: int, shape: tuple[int, ...]) -> Part:
    """Age from maps: evidence against the best point of a grid, and against kernel ridge."""
    rows: dict[str, list[tuple[float, float | None]]] = {}

    def note(name: str, error: np.ndarray, density: float | None = None) -> None:
        rows.setdefault(name, []).append((float(np.sqrt(np.mean(error**2))), density))

    for seed in range(seeds):
        data = smooth_maps(
            shape, n + N_TEST, task="regression", r2=0.8, smoothness=1.0, random_state=seed
        )
        X, y, X_test, y_test = data.X[:n], data.y[:n], data.X[n:], data.y[n:]
        gp = GPRegressor().fit(X, y)
        note("GP, evidence", *_scored(gp, X_test, y_test))
        grid = [_at(X, y, gp.theta_ + np.array([0.0, d]), X_test, y_test) for d in GRID]
        best = grid[int(np.argmax([point[1] for point in grid]))]
        note("GP, best noise of a grid on the test scans", *best)
        note("GP, as PRoNTo", *_scored(GPRegressor.paper().fit(X, y), X_test, y_test))
        for name, rvm in (
            ("RVM, samples (default)", RVMRegressor()),
            ("RVM, samples, as Tipping", RVMRegressor.paper()),
            ("RVM, voxels", RVMRegressor("voxels")),
        ):
            note(name, *_scored(rvm.fit(X, y), X_test, y_test))
        for unit, words in ((1.0, ""), (0.01, ", scans in a unit 100 times larger")):
            Z, Z_test = unit * (X - X.mean(axis=0)), unit * (X_test - X.mean(axis=0))
            ridge = KernelRidge().fit(Z, y - y.mean())
            note(f"kernel ridge, penalty 1{words}", ridge.predict(Z_test) + y.mean() - y_test)
            if words:
                note(f"GP, evidence{words}", *_scored(GPRegressor().fit(Z, y), Z_test, y_test))
        note("mean age", np.full(N_TEST, y.mean()) - y_test)
    table = [
        {"method": name, "error, years": float(np.mean([v[0] for v in values])),
         "log predictive density": (
             None if values[0][1] is None else float(np.mean([v[1] for v in values])))}
        for name, values in rows.items()
    ]  # fmt: skip
    error = {name: [value[0] for value in values] for name, values in rows.items()}
    evidence, ridge = "GP, evidence", "kernel ridge, penalty 1"
    larger = ", scans in a unit 100 times larger"
    found = [
        Claim("the evidence finds a noise that is no worse than the best on the test scans (years)",
              paired(error[evidence], error["GP, best noise of a grid on the test scans"]),
              studies(seeds), "Bayesian model selection", DIFFERS, -np.inf, 0.1),
        Claim("GP regression errs less than kernel ridge with its default penalty (years)",
              paired(error[ridge], error[evidence]), studies(seeds), "GP regression", DIFFERS),
        Claim("... and with scans in a unit 100 times larger",
              paired(error[ridge + larger], error[evidence + larger]), studies(seeds),
              "GP regression", DIFFERS),
    ]  # fmt: skip
    return Part({"Age: the evidence finds scale and noise": Table(table, DIFFERS)}, {}, found)


GRID = np.linspace(-3, 3, 25)


def _scored(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    mean, sd = model.predict(X, return_std=True)
    density = -0.5 * ((y - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    return mean - y, float(density.mean())


def _at(X, y, theta, X_test, y_test) -> tuple[np.ndarray, float]:
    return _scored(GPRegressor(theta=theta, optimize=False).fit(X, y), X_test, y_test)


def evidence_and_test_loss(seeds: int, n: int, shape: tuple[int, ...]) -> Part:
    """Log-loss on test scans over a grid of kernel scales, and where the evidence would stop."""
    scales = np.linspace(-3, 6, 10)
    losses: dict[str, list[np.ndarray]] = {"EP": [], "Laplace": []}
    chosen: dict[str, list[tuple[float, float]]] = {"EP": [], "Laplace": []}
    for seed in range(seeds):
        X, y, X_test, y_test, _ = cohort(seed, n, shape, strength=6.0)
        for name, likelihood in (("EP", "probit"), ("Laplace", "logistic")):
            fitted = [
                GPClassifier(likelihood=likelihood, theta=[s], optimize=False).fit(X, y)
                for s in scales
            ]
            losses[name].append([log_loss(y_test, m.predict_proba(X_test)) for m in fitted])
            best = GPClassifier(likelihood=likelihood).fit(X, y)
            chosen[name].append(
                (float(best.theta_[0]), log_loss(y_test, best.predict_proba(X_test)))
            )
    rows = []
    for name, values in losses.items():
        mean = np.mean(values, axis=0)
        rows.append({
            "inference": name,
            "log scale of highest evidence": np.mean([c[0] for c in chosen[name]]),
            "log-loss there": np.mean([c[1] for c in chosen[name]]),
            "best log scale on test": float(scales[mean.argmin()]), "log-loss there ": mean.min(),
            "log-loss at scale 1": float(np.interp(0.0, scales, mean)),
        })  # fmt: skip
    found = [
        Claim(f"the scale of highest evidence, by {name}, is no worse than the best on the test "
              "scans (.01 nats)",
              paired([c[1] for c in chosen[name]], np.array(losses[name]).min(axis=1)),
              studies(seeds), "Bayesian model selection", DIFFERS, -np.inf, 0.01)
        for name in losses
    ]  # fmt: skip
    title = "Classes: where the evidence stops, and where the test would"
    return Part({title: Table(rows, DIFFERS)}, {}, found)


def sparsity(seeds: int, n: int, shape: tuple[int, ...]) -> Part:
    """How few samples or voxels a relevance vector machine keeps, and what that costs."""
    rows, found = [], []
    for basis in ("kernel", "voxels"):
        for task in ("classes", "age"):
            kept, score = [], []
            for seed in range(seeds):
                if task == "classes":
                    X, y, X_test, y_test, _ = cohort(seed, n, shape, strength=6.0)
                    # A weight each, as the slides have it; what ``auto`` takes is the models' own.
                    model = RVMClassifier(basis, alpha="each").fit(X, y)
                    score.append((model.predict(X_test) == y_test).mean())
                else:
                    data = smooth_maps(
                        shape, n + N_TEST, task="regression", r2=0.8, smoothness=1.0,
                        random_state=seed,
                    )  # fmt: skip
                    model = RVMRegressor(basis, alpha="each").fit(data.X[:n], data.y[:n])
                    score.append(np.corrcoef(model.predict(data.X[n:]), data.y[n:])[0, 1])
                kept.append(len(model.relevance_))
            of = n if basis == "kernel" else X.shape[1]
            what = "samples" if basis == "kernel" else "voxels"
            found.append(
                Claim(f"relevance vectors concentrate on less than a third of the {what}, {task}",
                      np.array(kept) / of, studies(seeds), "relevance vector machines", DIFFERS,
                      -np.inf, 0.333)
            )  # fmt: skip
            rows.append({
                "weights on": what, "task": task,
                "relevant": float(np.mean(kept)), "of": of,
                "accuracy or correlation": float(np.mean(score)),
            })  # fmt: skip
    return Part({"Relevance vectors are few": Table(rows, DIFFERS)}, {}, found)


def calibration_error(p: np.ndarray, codes: np.ndarray, n_bins: int = 10) -> float:
    """Expected calibration error of the winning class."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == codes
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = [
        abs(confidence[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean()
        for b in np.unique(bins)
    ]
    return float(np.sum(gaps))


def three_groups(seeds: int, n: int, shape: tuple[int, ...]) -> Part:
    """Controls, unipolar depression and schizophrenia: scores, and accuracy of the confident."""
    names, quantiles = multiclass_models(), (1.0, 0.75, 0.5, 0.25)
    scores: dict[str, list] = {name: [] for name in names}
    curves: dict[str, list] = {name: [] for name in names}
    ideal = []
    for seed in range(seeds):
        X, y, X_test, y_test, truth = cohort(seed, n, shape, n_classes=3, strength=6.0)
        ideal.append(log_loss(y_test, truth["probability"]))
        for name, make in names.items():
            p = make().fit(X, y).predict_proba(X_test)
            right = p.argmax(axis=1) == y_test
            order = np.argsort(-p.max(axis=1), kind="stable")
            scores[name].append((right.mean(), log_loss(y_test, p), calibration_error(p, y_test)))
            curves[name].append([right[order[: int(q * len(order))]].mean() for q in quantiles])
    table = [
        dict(zip(("method", "accuracy", "log-loss", "calibration error"),
                 (name, *map(float, np.mean(values, axis=0)))))
        for name, values in scores.items()
    ]  # fmt: skip
    table.append({
        "method": "true probabilities", "accuracy": None, "log-loss": float(np.mean(ideal)),
        "calibration error": None,
    })  # fmt: skip
    rising = [
        {"method": name}
        | {f"accuracy, {q:.0%} answered": float(v) for q, v in zip(quantiles, mean)}
        for name, mean in ((name, np.mean(values, axis=0)) for name, values in curves.items())
    ]
    default = "GP, EP one-vs-rest (default)"
    answered = np.array(curves[default])
    found = [
        Claim("three groups are told apart (accuracy above a third)", answered[:, 0],
              studies(seeds), "multi-class GP", DIFFERS, 1 / 3),
        Claim("the confident answers are right more often (a quarter answered, less all)",
              paired(answered[:, -1], answered[:, 0]), studies(seeds),
              "decision theory: .55 against .99", DIFFERS),
    ]  # fmt: skip
    return Part(
        {
            "Three groups: control, unipolar depression, schizophrenia": Table(table, DIFFERS),
            "Reject: accuracy among the most confident": Table(rising, DIFFERS),
        },
        {},
        found,
    )


def prevalence(seeds: int, n: int, shape: tuple[int, ...]) -> Part:
    """Trained on about equal groups, used where one in ten is a patient."""
    rows: dict[str, list] = {"as trained": [], "corrected": []}
    for seed in range(seeds):
        X, y, X_test, y_test, _ = cohort(seed, n, shape, strength=6.0)
        rng = np.random.default_rng(seed)
        patients = rng.permutation(np.flatnonzero(y_test == 1))[: int((y_test == 0).sum() / 9)]
        keep = np.concatenate([np.flatnonzero(y_test == 0), patients])
        p = GPClassifier().fit(X, y).predict_proba(X_test[keep])
        trained = np.bincount(y) / len(y)
        for name, q in (("as trained", p), ("corrected", correct_priors(p, trained, [0.9, 0.1]))):
            found = q.argmax(axis=1)
            rows[name].append(
                (
                    log_loss(y_test[keep], q, labels=[0, 1]),
                    (found == y_test[keep]).mean(),
                    q[:, 1].mean(),
                )
            )
    names = ("probabilities", "log-loss", "accuracy", "mean P(patient); true .10")
    table = [dict(zip(names, (k, *map(float, np.mean(v, axis=0))))) for k, v in rows.items()]
    saved = paired([v[0] for v in rows["as trained"]], [v[0] for v in rows["corrected"]])
    text = "correcting the priors lowers the log-loss at another prevalence (nats)"
    claim = Claim(text, saved, studies(seeds), "decision theory: prevalence", DIFFERS)
    return Part({"Prevalence: one patient in ten": Table(table, DIFFERS)}, {}, [claim])


def severity_and_noise(seeds: int, n: int, shape: tuple[int, ...]) -> Part:
    """P(patient) against the latent severity; and training with a fifth of the labels flipped."""
    rank, noisy = [], {name: [] for name in ("clean labels", "a fifth flipped")}
    for seed in range(seeds):
        X, y, X_test, y_test, truth = cohort(seed, n, shape, strength=6.0)
        flipped = y.copy()
        where = np.random.default_rng(seed).permutation(n)[: n // 5]
        flipped[where] = 1 - flipped[where]
        for name, labels in (("clean labels", y), ("a fifth flipped", flipped)):
            p = GPClassifier().fit(X, labels).predict_proba(X_test)
            right = p.argmax(axis=1) == y_test
            noisy[name].append((right.mean(), p.max(axis=1).mean(), log_loss(y_test, p)))
            if labels is y:
                rank.append(float(spearmanr(p[:, 1], truth["latent"][:, 0]).statistic))
    rows = [{"rank correlation of P(patient) with severity": float(np.mean(rank)),
             "lowest of all studies": float(np.min(rank))}]  # fmt: skip
    names = ("training", "accuracy", "mean confidence", "log-loss")
    flips = [dict(zip(names, (k, *map(float, np.mean(v, axis=0))))) for k, v in noisy.items()]
    stated = {name: [value[1] for value in values] for name, values in noisy.items()}
    found = [
        Claim("P(patient) follows the severity (rank correlation)", rank, studies(seeds),
              "probabilistic predictions", DIFFERS),
        Claim("noisy labels make the model less confident",
              paired(stated["clean labels"], stated["a fifth flipped"]), studies(seeds),
              "probabilistic predictions", DIFFERS),
    ]  # fmt: skip
    tables = {"Severity": Table(rows, DIFFERS), "Noisy labels": Table(flips, DIFFERS)}
    return Part(tables, {}, found)
