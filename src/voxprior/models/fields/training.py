"""From scans at chosen nodes to the fields of all classes: solvers by name, noise, strength.

Solvers give the same field of a class; they differ in what they form on the way:

* ``kalman``    the recursion as printed, one filter per node: the one to read;
* ``compiled``  the same recursion, compiled;
* ``dual``      all nodes from one system of the size of the scans: the fast one, which cannot
  compress after each scan.

The strength (γ, ρ, N_τ) of a field is chosen by held-out prediction of nodes. In every fold each
class is trained without its held-out scans and predicts them, node by node; the setting with the
highest held-out Gaussian log-likelihood −½ Σ_i log σ_i, σ_i the held-out variance, is chosen. No
labels but the classes of the scans are used, and no decision: what is scored is the structure. A
field with fewer pseudo-measurements is a stop on the way to one with more, so for each γ the path
over all 0 .. N_τ costs one fit.

| symbol | variable | shape |
|---|---|---|
| X, scans of all classes at the nodes, standardised | `Z` | (k, n) |
| θ, class of each scan, 0 .. C−1 | `codes` | (k,) |
| B_θ, row i predicts node i | `coef` | (C, n, n) |
| b_θ | `intercept` | (C, n) |
| σ_θ, residual variances | `noise` | (C, n) |
| γ, prior precisions tried | `gammas` | list |
| ρ, strength of a pseudo-measurement, n/(γ R_ε) | `rho` | scalar |

Reference: A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via
compressed random fields. IBM Research Report, 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from voxprior.errors import InputError, option
from voxprior.models.fields.dual import dual_system, held_out_path, solve_dual
from voxprior.models.fields.field import Field, Fields, Training, noise_from_strength
from voxprior.models.fields.kalman import solve_kalman
from voxprior.models.fields.kalman_compiled import solve_compiled

# Scans (k, n) of one class and their training to its field and residual variances (n,).
Solver = Callable[[np.ndarray, Training], tuple[Field, np.ndarray]]
SOLVERS: dict[str, Solver] = {
    "dual": solve_dual,
    "compiled": solve_compiled,
    "kalman": solve_kalman,
}

GAMMAS = (1.0, 10.0, 100.0, 1000.0)
# Above this prior precision coefficients are so small that their norm needs no second penalty.
LARGEST_COMPRESSED_GAMMA = 100.0
# Small steps: at ρ = 1 no step overshoots, and 40 of them reach any strength that pays.
PATH_RHO = 1.0
# With 40 pseudo-measurements of strength 1, close to the best on simulated chains of every size.
UNTUNED_GAMMA = 10.0


class Strength(NamedTuple):
    """The chosen setting, and all that were tried as rows (γ, ρ, N_τ, held-out value)."""

    gamma: float
    rho: float
    n_pseudo: int
    tried: np.ndarray


def check_solver(solver: str, after_each: bool, propagates: bool) -> None:
    """Refuse a solver that cannot compress after each scan, or move in time, where it should."""
    if solver == "dual" and propagates:
        raise InputError(
            f"{option('solver', 'dual')} cannot move coefficients in time",
            expected=f"{option('transition', 1)} and {option('drift', 0)}",
            remedy=f"Set {option('solver', 'auto')}, {option('solver', 'compiled')} or "
            f"{option('solver', 'kalman')}",
        )
    if solver == "dual" and after_each:
        raise InputError(
            f"{option('solver', 'dual')} cannot compress after each scan",
            expected=f"{option('mode', 'end')}, or no compression",
            got=f"{option('mode', 'each')}",
            remedy=f"Set {option('solver', 'auto')}, {option('solver', 'compiled')} or "
            f"{option('solver', 'kalman')}",
        )


def train_fields(Z: np.ndarray, codes: np.ndarray, training: Training) -> Fields:
    """Train the fields of all classes.

    Parameters
    ----------
    Z : ndarray of shape (k, n)
        Scans at the nodes.
    codes : ndarray of shape (k,)
        Class of each scan, 0 .. C−1, at least two of each.
    training : Training
        Prior, compression, bias, noise and solver.
    """
    n_classes, n = int(codes.max()) + 1, Z.shape[1]
    coef, intercept = np.empty((n_classes, n, n)), np.empty((n_classes, n))
    variance = np.empty((n_classes, n))
    for c in range(n_classes):
        field, variance[c] = train_class(Z[codes == c], training)
        coef[c], intercept[c] = field.coef, field.intercept
    counts = np.bincount(codes, minlength=n_classes)
    return Fields(coef, intercept, settle_noise(variance, counts, Z.var(axis=0), training))


def train_class(X: np.ndarray, training: Training) -> tuple[Field, np.ndarray]:
    """The field of one class and its residual variances (n,), before scope and floor."""
    name = training.solver
    if name == "auto":
        name = "compiled" if training.after_each or training.propagates else "dual"
    check_solver(name, training.after_each, training.propagates)
    return SOLVERS[name](X, training)


def settle_noise(variance, counts, total_variance, training: Training) -> np.ndarray:
    """Average over classes if shared, and keep every variance above the floor.

    The floor is a part of the node's variance over all scans (of 1 where that is zero, a constant
    node).
    """
    if training.variance_scope == "shared":
        shared = (counts[:, None] * variance).sum(axis=0) / counts.sum()
        variance = np.broadcast_to(shared, variance.shape)
    scale = np.where(total_variance > 0, total_variance, 1.0)
    return np.maximum(variance, training.variance_floor * scale)


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters of `RandomFieldClassifier` that do not go together, before any work."""
    compressed = parameters["r_eps"] is not None or parameters["compression"] not in (None, 0)
    after_each = parameters["mode"] == "each" and compressed and parameters["n_pseudo"] > 0
    propagates = parameters["transition"] != 1 or parameters["drift"] > 0
    check_solver(parameters["solver"], after_each, propagates)
    if parameters["r_eps"] is not None and parameters["gamma"] == "auto":
        raise InputError(
            f"{option('r_eps')} needs {option('gamma')} as a number",
            remedy=f"Set it, or {option('compression')} instead of {option('r_eps')}",
        )


def check_two_scans(classes: np.ndarray, codes: np.ndarray) -> None:
    """Refuse a class whose residual variances cannot be known."""
    counts = np.bincount(codes)
    if counts.min() < 2:
        raise InputError(
            "The residual variances of a class need more scans",
            expected="at least 2 scans of every class",
            got=f"{counts.min()} of class {classes.tolist()[counts.argmin()]!r}",
        )


def choose_training(
    parameters: Mapping[str, Any],
    Z: np.ndarray,
    codes: np.ndarray,
    block_of: np.ndarray | None = None,
) -> Training:
    """The training by parameters of `RandomFieldClassifier`; "auto" ones are chosen on the scans.

    Parameters
    ----------
    parameters : mapping
        The parameters by name.
    Z, codes : ndarrays of shape (k, n) and (k,)
        Training scans at the nodes, and their classes.
    block_of : ndarray of shape (n,), optional
        Block of every node.
    """
    taken = set(Training._fields) & set(parameters) - {"gamma", "r_eps"}
    base = Training(**{name: parameters[name] for name in taken}, block_of=block_of)
    gamma, rho, n_pseudo = parameters["gamma"], parameters["compression"], base.n_pseudo
    if parameters["r_eps"] is not None:
        return base._replace(gamma=float(gamma), r_eps=float(parameters["r_eps"]))
    rho = 0.0 if rho is None else rho
    if "auto" in (gamma, rho):
        gammas = GAMMAS if gamma == "auto" else (float(gamma),)
        fixed = None if rho == "auto" else float(rho)
        chosen = choose_strength(Z, codes, base, gammas, fixed, parameters["cv"])
        gamma, rho, n_pseudo = chosen.gamma, chosen.rho, chosen.n_pseudo
    return base.with_strength(float(gamma), float(rho), n_pseudo, Z.shape[1])


def choose_strength(
    Z: np.ndarray,
    codes: np.ndarray,
    training: Training,
    gammas: Sequence[float] = GAMMAS,
    rho: float | None = None,
    n_folds: int = 5,
) -> Strength:
    """Choose γ, and unless ``rho`` is given N_τ, by held-out prediction of nodes.

    Parameters
    ----------
    Z : ndarray of shape (k, n)
        Training scans at the nodes.
    codes : ndarray of shape (k,)
        Their classes, 0 .. C−1.
    training : Training
        Its γ and R_ε are chosen here; its N_τ is the largest number of pseudo-measurements tried.
        Settings are tried by the fast solvers, whatever its solver.
    gammas : sequence of float
        Prior precisions to try.
    rho : float, optional
        Given, all N_τ pseudo-measurements have this strength (0: none). If not, they have strength
        ``PATH_RHO`` and any number 0 .. N_τ of them is tried (0 or N_τ where they come after each
        scan, or coefficients move in time).
    n_folds : int
        Folds, at most as many as scans in the smallest class.
    """
    folds = fold_indices(codes, n_folds)
    strength = PATH_RHO if rho is None else rho
    if not folds:  # two scans in a class: nothing can be held out
        gamma = UNTUNED_GAMMA if len(gammas) > 1 else gammas[0]
        return Strength(gamma, strength, training.n_pseudo, np.empty((0, 4)))
    tried: list[tuple[float, float, int, float]] = []
    for gamma in gammas:
        too_small = rho is None and len(gammas) > 1 and gamma > LARGEST_COMPRESSED_GAMMA
        used = 0.0 if too_small else strength
        stops = _stops(training, used, fixed=rho is not None)
        errors = [_held_out(Z, codes, fold, training, gamma, used, stops) for fold in folds]
        value = _held_out_value(sum(errors[1:], errors[0]), codes, training.variance_scope)
        tried += [(gamma, used if t else 0.0, t, float(v)) for t, v in zip(stops, value)]
    gamma, strength, n_pseudo, _ = max(tried, key=lambda row: row[3])
    return Strength(float(gamma), float(strength), int(n_pseudo), np.array(tried))


def fold_indices(codes: np.ndarray, n_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Stratified folds without shuffling; none if a class would keep fewer than two scans."""
    smallest = int(np.bincount(codes).min())
    n_folds = min(n_folds, smallest)
    if smallest < 3 or n_folds < 2:
        return []
    return list(StratifiedKFold(n_folds).split(np.zeros(len(codes)), codes))


def _stops(training: Training, strength: float, fixed: bool) -> list[int]:
    """Numbers of pseudo-measurements to try."""
    if strength == 0.0 or training.n_pseudo == 0:
        return [0]
    if fixed:
        return [training.n_pseudo]
    return (
        [0, training.n_pseudo] if _fits_each_stop(training) else list(range(training.n_pseudo + 1))
    )


def _fits_each_stop(training: Training) -> bool:
    """Whether every number of pseudo-measurements needs a fit of its own."""
    return training.mode == "each" or training.propagates


def _held_out(Z, codes, fold, training: Training, gamma, rho, stops) -> np.ndarray:
    """Summed squared held-out errors (C, stops, n) of one fold."""
    train, test = fold
    path = _errors_of_fits if _fits_each_stop(training) else _errors_along_path
    return np.array(
        [
            path(
                Z[train][codes[train] == c], Z[test][codes[test] == c], training, gamma, rho, stops
            )
            for c in range(int(codes.max()) + 1)
        ]
    )


def _errors_of_fits(inside, outside, training: Training, gamma, rho, stops) -> list[np.ndarray]:
    """One fit for each number of pseudo-measurements, where they follow every scan."""
    fast, n = training._replace(solver="auto", variance="residual"), inside.shape[1]
    errors = []
    for stop in stops:
        field, _ = train_class(inside, fast.with_strength(gamma, rho, stop, n))
        error = outside - outside @ field.coef.T - field.intercept
        errors.append((error**2).sum(axis=0))
    return errors


def _errors_along_path(inside, outside, training: Training, gamma, rho, stops) -> np.ndarray:
    r_eps = noise_from_strength(rho, inside.shape[1], gamma) if rho > 0 else np.inf
    system = dual_system(inside, gamma, training.bias, training.block_of)
    return held_out_path(system, outside, r_eps, stops[-1], training.norm, training.memory)[stops]


def _held_out_value(squares: np.ndarray, codes: np.ndarray, scope: str) -> np.ndarray:
    """Mean held-out log-likelihood (stops,) per class and node, from squared errors."""
    if scope == "shared":
        variance = squares.sum(axis=0, keepdims=True) / len(codes)
    else:
        variance = squares / np.bincount(codes)[:, None, None]
    # A constant node is predicted without error by every setting.
    return -0.5 * np.log(np.maximum(variance, 1e-12)).mean(axis=(0, 2))
