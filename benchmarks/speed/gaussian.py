"""Gaussian processes and relevance vectors raced against scikit-learn, GPyTorch and RVM packages.

``python -m benchmarks.speed.gaussian [--quick]`` writes ``gaussian.md``. Every contender fits the
same float32 scans with its hyper-parameters optimised and predicts fresh scans; times are whole-fit
times, kernel included. A peer that is not installed is left out and the table says so.
``--growth`` measures only how fits of the package grow with scans and classes, `auto` among them,
and renews that table.
"""

import argparse
import os
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from voxprior import AutoClassifier, GPClassifier, GPRegressor, RVMClassifier, RVMRegressor
from voxprior.papers.measure import Measured, measure
from voxprior.papers.tables import machine, markdown, renew, save

HERE = Path(__file__).parent
LONG = 10.0


def scans(n: int, p: int, n_classes: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Scans with a weak pattern per class, and a number that a pattern carries."""
    rng = np.random.default_rng(seed)
    patterns = rng.standard_normal((n_classes, p), dtype=np.float32) * np.float32(16 / np.sqrt(p))
    out = {}
    for part in ("train", "test"):
        codes = np.arange(n) % n_classes
        X = rng.standard_normal((n, p), dtype=np.float32) + patterns[codes]
        amount = rng.standard_normal(n)
        X += np.outer(amount, patterns[0]).astype(np.float32)
        number = amount + 0.3 * rng.standard_normal(n)
        out |= {f"X_{part}": X, f"y_{part}": codes, f"t_{part}": number}
    return out


def _linear(p: int) -> Any:
    """A linear kernel with bias and scale free, started at the unit of the scans."""
    return ConstantKernel(1.0 / p, (1e-12, 1e6)) * DotProduct(np.sqrt(p), (1e-3, 1e6))


def _rbf(p: int) -> Any:
    return ConstantKernel(1.0, (1e-5, 1e5)) * RBF(np.sqrt(2.0 * p), (1.0, 1e6))


def classifiers(p: int, quick: bool) -> dict[str, Callable[[], Any]]:
    """GP classifiers; the first is the base."""
    return {
        "scikit-learn GPC (Laplace, one-vs-rest)": lambda: GaussianProcessClassifier(_linear(p)),
        "GPClassifier() (EP)": GPClassifier,
        "GPClassifier(inference='laplace')": lambda: GPClassifier(inference="laplace"),
    } | ({} if quick else _gpytorch("classifier"))


def rbf_classifiers(p: int) -> dict[str, Callable[[], Any]]:
    """The same with scale and length of an RBF kernel; the first is the base."""
    return {
        "scikit-learn GPC (Laplace, one-vs-rest)": lambda: GaussianProcessClassifier(_rbf(p)),
        "GPClassifier('rbf') (EP)": lambda: GPClassifier("rbf"),
        "GPClassifier('rbf', inference='laplace')": lambda: GPClassifier(
            "rbf", inference="laplace"
        ),
    }


def rbf_regressors(p: int) -> dict[str, Callable[[], Any]]:
    """The same for regression."""
    kernel = _rbf(p) + WhiteKernel(0.1, (1e-6, 1e3))
    return {
        "scikit-learn GPR": lambda: GaussianProcessRegressor(kernel, alpha=1e-8, normalize_y=True),
        "GPRegressor('rbf')": lambda: GPRegressor("rbf"),
    }


def regressors(p: int, quick: bool) -> dict[str, Callable[[], Any]]:
    """GP regression; the first is the base."""
    kernel = _linear(p) + WhiteKernel(0.1, (1e-6, 1e3))
    return {
        "scikit-learn GPR": lambda: GaussianProcessRegressor(kernel, alpha=1e-8, normalize_y=True),
        "GPRegressor()": GPRegressor,
    } | ({} if quick else _gpytorch("regressor"))


def relevance(task: str) -> dict[str, Callable[[], Any]]:
    """Relevance vector machines with a linear kernel of the scans; the first is the base."""
    fastrvm, em = _optional("fastrvm"), _optional("sklearn_rvm")
    models: dict[str, Callable[[], Any]] = {}
    classify = task == "classification"
    if fastrvm is not None:
        peer = fastrvm.RVC if classify else fastrvm.RVR
        models[f"fastrvm {peer.__name__}"] = lambda: peer(kernel="linear", fit_intercept=True)
    ours = RVMClassifier if classify else RVMRegressor
    # Peers give each column a precision and hold nothing out; the last row is our default.
    alike = {"alpha": "each"} | ({"doubt": None} if classify else {"intervals": "evidence"})
    models[f"{ours.__name__}(center=False), the peer's model"] = lambda: ours(center=False, **alike)
    models[f"{ours.__name__}(alpha='each')"] = lambda: ours(**alike)
    models[f"{ours.__name__}('voxels')"] = lambda: ours("voxels", **alike)
    models[f"{ours.__name__}(), with what it holds out"] = ours
    # sklearn-rvm's classifier needs minutes for 100 scans.
    if em is not None and not classify:
        models["sklearn-rvm EMRVR"] = lambda: _Returning(em.EMRVR(kernel="linear", gamma="auto"))
    return models


class _Returning:
    """sklearn-rvm's fit returns None; this one returns the fitted model."""

    def __init__(self, model: Any):
        self.model = model

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Fit and return the model."""
        self.model.fit(X, y)
        return self.model


def _optional(name: str) -> Any:
    """The module, or None where it is not installed."""
    return None if find_spec(name) is None else import_module(name)


def _gpytorch(kind: str) -> dict[str, Callable[[], Any]]:
    if _optional("gpytorch") is None:
        return {}
    from benchmarks.speed.gpytorch_peer import TorchClassifier, TorchRegressor

    if kind == "regressor":
        return {"GPyTorch ExactGP (100 Adam steps)": TorchRegressor}
    return {"GPyTorch Dirichlet GP (100 Adam steps)": TorchClassifier}


def race(
    models: dict[str, Callable], data: dict, target: str, repeats: int, threads: Sequence[int]
) -> list[dict]:
    """Rows of one problem: seconds and ratios for each number of threads, held-out quality."""
    rows: list[dict] = []
    for name, make in models.items():
        row: dict[str, Any] = {"method": name}
        for n_threads in threads:
            with threadpool_limits(n_threads, user_api="blas"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                took = _timed(make, data, target, repeats)
            seconds = f"s, {n_threads} threads" if n_threads > 1 else "s, 1 thread"
            base = rows[0][seconds] if rows else took.seconds
            row |= {seconds: took.seconds, f"ratio ({n_threads})": base / took.seconds}
        rows.append(
            row | {"peak MB beyond the input": took.peak_mb} | _quality(took.value, data, target)
        )
        print(rows[-1], flush=True)
    return rows


def _timed(make: Callable, data: dict, target: str, repeats: int) -> Measured:
    """Best of `repeats` after a warm-up; what takes long is run once and needs no warm-up."""

    def fit():
        return make().fit(data["X_train"], data[f"{target}_train"])

    first = measure(fit, repeats=1, warm_up=False)
    if first.seconds > LONG:
        return first
    again = measure(fit, repeats=repeats, warm_up=False)
    return again._replace(peak_mb=max(first.peak_mb, again.peak_mb))


def _quality(model: Any, data: dict, target: str) -> dict[str, float | None]:
    X, y = data["X_test"], data[f"{target}_test"]
    predicted = model.predict(X)
    if target == "t":
        return {"correlation, test": float(np.corrcoef(predicted, y)[0, 1])}
    loss = log_loss(y, model.predict_proba(X)) if hasattr(model, "predict_proba") else None
    return {"accuracy, test": float((predicted == y).mean()), "log-loss, test": loss}


def races(n: int, p: int, quick: bool, repeats: int) -> dict[str, list[dict]]:
    """All problems of one number of scans."""
    both = (max(os.cpu_count() or 1, 2), 1)
    options = {"repeats": repeats, "threads": both}
    # Peers compute this kernel voxel by voxel in one thread, for minutes: one setting will do.
    once = {"repeats": repeats, "threads": both[:1]}
    sections = {}
    for n_classes in (2, 3):
        title = f"{n_classes}-class classification, {n} scans"
        data = scans(n, p, n_classes)
        sections[f"{title}, linear"] = race(classifiers(p, quick), data, "y", **options)
        sections[f"{title}, RBF"] = race(rbf_classifiers(p), data, "y", **once)
    data = scans(n, p, 2)
    sections[f"regression, {n} scans, linear"] = race(regressors(p, quick), data, "t", **options)
    sections[f"regression, {n} scans, RBF"] = race(rbf_regressors(p), data, "t", **once)
    for task, target in (("classification", "y"), ("regression", "t")):
        models = relevance(task)
        sections[f"relevance vectors, {task}, {n} scans"] = race(models, data, target, **options)
    return sections


GROWTH = "Growth with scans and classes"
# Processor seconds that a size may be expected to take.
PATIENCE = 30.0
GROWING: dict[str, tuple[Callable[[], Any], str]] = {
    "GPClassifier()": (GPClassifier, "y"),
    "AutoClassifier()": (AutoClassifier, "y"),
    "RVMClassifier()": (RVMClassifier, "y"),
    "RVMRegressor()": (RVMRegressor, "t"),
}


def growth(quick: bool) -> str:
    """A row per model and size, with the exponent from the size before, on one thread."""
    numbers, p = ([20, 40], 500) if quick else ([200, 400, 800, 1600, 2000], 5000)
    sizes = [(n, 2) for n in numbers] + [(numbers[0], C) for C in (2, 4, 8)]
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (make, target) in GROWING.items():
            before: tuple[int, int, float] | None = None
            # Numbers have no classes.
            for n, C in sizes if target == "y" else sizes[: len(numbers)]:
                if before is not None and before[2] * (n / before[0]) ** 3 > PATIENCE:
                    continue
                data = scans(n, p, C)
                X, y = data["X_train"], data[f"{target}_train"]
                spent = min(_processor_seconds(make, X, y) for _ in range(2 if n < 1000 else 1))
                row = {"model": name, "scans": n, "classes": C, "CPU s": spent, "exponent": None}
                if before is not None and (n > before[0] or before[1] < C):
                    larger = n / before[0] if n > before[0] else C / before[1]
                    row["exponent"] = float(np.log(spent / before[2]) / np.log(larger))
                before = (n, C, spent)
                # Few voxels, whose blocks would else be most of the memory.
                peak = _peak(make, X[:, :50], y) if n == numbers[:3][-1] else None
                rows.append(row | {"matrices at peak": peak})
                print(rows[-1], flush=True)
    note = (
        f"One fit on {p:,} voxels, float32, with default parameters: relevance vectors with what "
        "they hold out, ten fits more. Processor time of one thread on a busy machine, the better "
        "of two below 1,000 scans. The exponent is that from the row before, in scans or in "
        "classes; sizes that by the cube would take over 30 s are left out. Peak memory, as Python "
        "allocates it for few voxels, is counted in matrices of scans x scans in double precision. "
        f"{machine()}."
    )
    return f"{note}\n\n{markdown(rows)}"


def _processor_seconds(make: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> float:
    began = time.process_time()
    make().fit(X, y)
    return time.process_time() - began


def _peak(make: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> float:
    """Peak memory of a fit beyond the scans, in matrices of scans x scans."""
    tracemalloc.start()
    make().fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (8.0 * len(X) ** 2)


def main(argv: list[str] | None = None) -> dict[str, list[dict]]:
    """Write and return the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small size, for a smoke test")
    parser.add_argument("--output", type=Path, default=HERE / "gaussian.md")
    parser.add_argument("--growth", action="store_true", help="only how fits grow")
    options = parser.parse_args(argv)
    if options.growth:
        text = growth(options.quick)
        if not options.quick:
            renew(options.output, GROWTH, text)
        return {}
    sizes, p = ([20], 500) if options.quick else ([100, 400], 80_000)
    repeats = 1 if options.quick else 5
    sections: dict[str, list[dict]] = {}
    for n in sizes:
        sections |= races(n, p, options.quick, repeats)
    missing = [name for name in ("fastrvm", "sklearn_rvm", "gpytorch") if find_spec(name) is None]
    versions = machine("fastrvm", "sklearn-rvm", "gpytorch", "torch")
    note = (
        f"{p:,} voxels, float32; hyper-parameters optimised; wall seconds, best of {repeats} after "
        f"a warm-up (one run where it takes over {LONG:.0f} s), with BLAS threads as "
        f"users have them, one per core, and with one; ratio: times faster than the first row. "
        f"{versions}."
        + (f" Not installed, left out: {', '.join(missing)}." if missing else "")
        + " sklearn-rvm's classifier is left out: it needs minutes for 100 scans."
    )
    text = {GROWTH: growth(options.quick)}
    save(options.output, "Speed: Gaussian processes and relevance vectors", sections | text, note)
    return sections


if __name__ == "__main__":
    main()
