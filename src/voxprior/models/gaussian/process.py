"""What Gaussian process estimators share: climbing the evidence, covariances, voxel maps."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from voxprior.models.gaussian.evidence import Objective, Optimum, maximise, scan
from voxprior.models.gaussian.kernels import covariance, parameter_names, scale_positions, variance
from voxprior.models.gaussian.similarity import GramEstimator
from voxprior.models.gaussian.weights import WeightMaps, weight_maps

# Log scales tried before climbing: a start at s ≪ 1 may sit on the plateau where f = 0. Where
# voxels outnumber scans by far, classes are separable and the evidence is flat from about 5 on.
SCALE_SHIFTS = (0.0, 3.0, 5.0)


class GaussianProcess(GramEstimator):
    """Base with `theta`, `optimize`, `n_restarts`, `max_evals`, `bounds` and `hyperprior`."""

    _parameter_constraints: ClassVar[dict] = GramEstimator._parameter_constraints | {
        "theta": ["array-like", None],
        "optimize": ["boolean"],
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
        "max_evals": [Interval(Integral, 1, None, closed="left"), None],
        "bounds": ["array-like"],
        "hyperprior": [Interval(Real, 0, None, closed="neither"), None],
    }

    def _start(self, n_parameters: int) -> np.ndarray:
        if self.theta is None:
            return np.zeros(n_parameters)
        theta = np.asarray(self.theta, dtype=float).ravel()
        if theta.shape != (n_parameters,):
            raise ValueError(
                f"'theta' must have {n_parameters} log hyper-parameters for this kernel and "
                f"these classes; got {theta.size}."
            )
        return theta

    def _limits(self) -> np.ndarray:
        limits = np.asarray(self.bounds, dtype=float)
        if limits.shape != (2,) or not limits[0] < limits[1]:
            raise ValueError(
                f"'bounds' must be (lowest, highest) log hyper-parameter; got {self.bounds!r}."
            )
        return limits

    def _climb(self, objective: Objective, start: np.ndarray, center: float = 0.0) -> Optimum:
        """Maximise the evidence, or evaluate it if not `optimize`; bounds shift by `center`."""
        if not self.optimize:
            value, _ = objective(start)
            return Optimum(start, value, np.array([value]))
        bounds = np.tile(self._limits() + center, (len(start), 1))
        starts = [start]
        # Where evaluations are rationed none is spent on looking around.
        if self.max_evals is None:
            scales = self._is_scale(len(start))
            starts = [start + shift * scales for shift in SCALE_SHIFTS]
            rng = check_random_state(self.random_state)
            starts += [
                start + rng.normal(scale=2.0, size=len(start)) for _ in range(self.n_restarts)
            ]
        return maximise(
            objective,
            starts,
            bounds,
            n_climbs=1 + self.n_restarts,
            max_evals=self.max_evals,
            prior_sd=self.hyperprior,
        )

    def _is_scale(self, n_parameters: int) -> np.ndarray:
        """1 where θ holds a log scale, 0 at lengths (and at the noise of a regression)."""
        kernels = self._kernels()
        one = np.zeros(len(parameter_names(kernels)))
        one[scale_positions(kernels)] = 1.0
        whole = np.tile(one, n_parameters // len(one))
        return np.append(whole, np.zeros(n_parameters - len(whole)))

    def _covariance_to(self, theta: np.ndarray, cross: np.ndarray, norms: np.ndarray):
        """K_* (n_new, n) and k_** (n_new,) at one set of hyper-parameters."""
        kernels = self._kernels()
        rows = np.einsum("mii->mi", self.gram_)
        return covariance(kernels, theta, cross, norms, rows), variance(kernels, theta, norms)

    def _surface(self, objective: Objective, theta, first, second, parameters) -> np.ndarray:
        axes = {parameters[0]: np.asarray(first, dtype=float)}
        if second is not None:
            axes[parameters[1]] = np.asarray(second, dtype=float)
        return scan(objective, theta, axes)

    def _weight_prior(self, theta: np.ndarray) -> np.ndarray:
        """Prior variance of every voxel's weight: scales of the linear terms it is in."""
        kernels, columns = self._kernels(), self._columns()
        prior = np.zeros(self.n_features_in_)
        for m, position in enumerate(scale_positions(kernels)):
            if kernels[m].shape == "linear":
                where = slice(None) if columns[m] is None else columns[m]
                prior[where] += np.exp(2.0 * theta[position]) / self.gram_scale_[m]
        return prior

    def _share(self, theta: np.ndarray) -> np.ndarray:
        """Part of the prior variance of f that each kernel has, mean over training scans."""
        kernels = self._kernels()
        rows = np.einsum("mii->mi", self.gram_)
        parts = []
        for m, position in enumerate(scale_positions(kernels)):
            own = variance([kernels[m]], theta[position : position + 2], rows[m : m + 1])
            parts.append(own.mean())
        return np.array(parts) / max(np.sum(parts), np.finfo(float).tiny)

    def _voxel_maps(
        self, dual: np.ndarray, precision: np.ndarray, prior: np.ndarray, latent: np.ndarray, names
    ) -> dict[str, np.ndarray]:
        if self._precomputed:
            raise ValueError(
                "A model of precomputed kernels has seen no voxels: fit on voxels, or call "
                "voxprior.models.gaussian.weights.weight_maps with the scans and 'dual_coef_'."
            )
        maps = weight_maps(self.X_fit_, dual, precision, prior, latent, self.center)
        return _named(maps, names, linear=bool(prior.any()))


def _named(maps: WeightMaps, names: list[str], linear: bool) -> dict[str, np.ndarray]:
    """One entry a map and class; only a linear kernel has weights."""
    out: dict[str, Any] = {}
    for c, name in enumerate(names):
        if linear:
            out[f"weight{name}"] = maps.weight[c]
            out[f"weight_sd{name}"] = maps.deviation[c]
        out[f"pattern{name}"] = maps.pattern[c]
    return out
