"""What the estimators of this family share: Gram matrices, and the evidence of a Gaussian process.

One Gram matrix per kernel: all features, the features of one region, or a given matrix. Matrices
are centred by kernel algebra with training statistics and divided by the mean of their training
diagonal, so that hyper-parameters do not depend on the unit of X.

| symbol | variable | shape |
|---|---|---|
| G | `gram_` | (M, n, n) |
| m | `gram_means_` | (M, n) |
| scale | `gram_scale_` | (M,) |
"""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, column_or_1d

from voxprior.algebra import blas_threads_for
from voxprior.blocks import BlockedScans, gram_matrix, is_on_disk
from voxprior.errors import InputError, InputWarning, option
from voxprior.models.base import VoxelModel
from voxprior.models.gaussian.covariance import (
    KERNEL_NAMES,
    Kernel,
    covariance,
    scale_positions,
    variance,
)
from voxprior.models.gaussian.evidence import Evidence, Optimum, evidence_grid, maximize
from voxprior.models.gaussian.gram import (
    Cross,
    asymmetry,
    center_cross,
    center_gram,
    cross_gram,
    weight_maps,
)

# Kernels that are inner products of voxels.
LINEAR = ("linear", "precomputed")
# Log scales tried before climbing: a start at s ≪ 1 may sit on the plateau where f = 0. Where
# voxels outnumber scans by far, classes are separable and the evidence is flat from about 5 on.
SCALE_SHIFTS = (0.0, 3.0, 5.0)
ALL = slice(None)
# Squared deviations from the mean scan, relative to squared scans: up to the first they are
# rounding, and below the second few of their digits are left.
CONSTANT, FEW_DIGITS = 1e-14, 1e-10
# Asymmetry and negative eigenvalues of a given kernel that are taken for rounding, relative.
KERNEL_TOLERANCE = 1e-6


class GramModel(VoxelModel):
    """Base of all estimators of this family.

    Subclasses have the parameters `kernel`, `regions`, `center`, `normalize`, `offset`, `degree`
    and `copy_X`.
    """

    _reads_blocks: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        "kernel": [str, list, tuple],
        "regions": ["array-like", None],
        "center": ["boolean"],
        "normalize": ["boolean"],
        "offset": [Interval(Real, 0, None, closed="left")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "copy_X": ["boolean"],
        "random_state": ["random_state"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    @property
    def reads_gram(self) -> bool:
        """Whether scans enter through their inner products alone, one Gram matrix at most given."""
        given = self.kernel.values() if isinstance(self.kernel, dict) else self.kernel
        return isinstance(self.kernel, str) or not any("precomputed" in one for one in given)

    def _kernels(self) -> list[Kernel]:
        """The terms of the covariance, one per Gram matrix."""
        names = [name for part in self._kernel_parts() for name in part]
        unknown = [name for name in names if name not in KERNEL_NAMES]
        if unknown or not names:
            raise InputError(
                f"{option('kernel')} of {type(self).__name__} cannot be used",
                expected=f"one of {', '.join(KERNEL_NAMES)}, or a list of these",
                got=repr(unknown[0]) if unknown else "an empty list",
            )
        if "precomputed" in names and set(names) != {"precomputed"}:
            raise InputError(
                "Precomputed kernels cannot be mixed with kernels of voxels",
                got=str(names),
                remedy="Give all Gram matrices side by side as X (n, M n) with 'precomputed' M "
                f"times as {option('kernel')}, or none",
            )
        if self.regions is not None:
            n_regions = len(np.unique(self.regions))
            names = names * n_regions if len(names) == 1 else names
            if len(names) != n_regions:
                raise InputError(
                    f"{option('kernel')} does not fit {option('regions')}",
                    expected=f"one kernel, or one for each of {n_regions} regions by sorted label",
                    got=f"{len(names)} kernels",
                )
        return [Kernel(name, float(self.offset), int(self.degree)) for name in names]

    def _kernel_parts(self) -> list[list[str]]:
        """Names of kernels: one list for all classes, or one per class in the order given."""
        if not isinstance(self.kernel, dict):
            return [[self.kernel] if isinstance(self.kernel, str) else list(self.kernel)]
        if self.regions is not None:
            raise InputError(
                f"{option('kernel')} by class cannot be used with {option('regions')}",
                remedy="Give precomputed kernels of the regions, side by side",
            )
        return [[one] if isinstance(one, str) else list(one) for one in self.kernel.values()]

    def _columns(self) -> list[np.ndarray | None]:
        """Features of each kernel; None is all of them."""
        if self.regions is None:
            return [None] * len(self._kernels())
        labels = np.asarray(self.regions)
        if labels.shape != (self.n_features_in_,):
            raise InputError(
                f"{option('regions')} cannot be used",
                expected=f"the region of each of the {self.n_features_in_} features",
                got=f"an array of shape {labels.shape}",
            )
        return [np.flatnonzero(labels == label) for label in np.unique(labels)]

    @property
    def _precomputed(self) -> bool:
        return self._kernels()[0].name == "precomputed"

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Check X; voxels are checked by the Gram diagonal later, which saves a pass over them."""
        few = 2 if reset else 1
        return self._checked_scans(
            X, reset, ensure_all_finite=self._precomputed, ensure_min_samples=few
        )

    def _new_scans(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._read(X, reset=False)

    def _fit_gram(self, X: Any) -> np.ndarray:
        """Gram matrices (M, n, n) of the training scans, centred and scaled."""
        if self._precomputed:
            grams = self._given_grams(X)
        elif self.regions is None:
            grams = [gram_matrix(X)] * len(self._kernels())
        else:
            grams = [gram_matrix(X, columns) for columns in self._columns()]
        self._refuse_infinite(X, np.array([np.diag(gram) for gram in grams]))
        self.gram_means_ = np.array([gram.mean(axis=0) for gram in grams])
        # The one copy: matrices that are given, or shared with other folds, are not touched.
        self.gram_ = np.array(grams)
        del grams
        if self.center:
            for gram in self.gram_:
                whole = np.trace(gram)
                center_gram(gram, out=gram)
                if not self._precomputed:
                    self._look_at_digits(gram, whole)
        self.gram_scale_ = np.array([self._scale(gram) for gram in self.gram_])
        self.gram_ /= self.gram_scale_[:, None, None]
        if not self._precomputed:
            keep = not self.copy_X or isinstance(X, BlockedScans) or is_on_disk(X)
            self.X_fit_ = X if keep else X.copy()
        return self.gram_

    @staticmethod
    def _look_at_digits(gram: np.ndarray, whole: float) -> None:
        """Warn where centring leaves few digits of inner products; what is rounding becomes 0."""
        left = np.trace(gram)
        if left <= CONSTANT * whole:
            gram[:] = 0.0
        if left < FEW_DIGITS * whole:
            warnings.warn(
                InputWarning(
                    "Scans differ by less than a hundred-thousandth of their size, so that few "
                    "digits of their differences are left: subtract their mean first."
                ),
                stacklevel=5,
            )

    def _keep_evidence(self, evidences: list[float]) -> None:
        """Evidence of the labels as a whole, or of each class against the rest; never both."""
        for name in ("log_evidence_", "log_evidences_"):
            self.__dict__.pop(name, None)
        if len(evidences) == 1:
            self.log_evidence_ = float(evidences[0])
        else:
            self.log_evidences_ = np.array(evidences)

    def _scale(self, gram: np.ndarray) -> float:
        mean = float(np.trace(gram)) / len(gram)
        return mean if self.normalize and mean > 0 else 1.0

    def _part(self, X: Any, rows: np.ndarray, trained: np.ndarray) -> Any:
        """Scans, or of given kernels side by side the rows and the columns of the trained."""
        if not self._precomputed:
            return X[rows]
        X, n_kernels = np.asarray(X), len(self._kernels())
        starts = X.shape[1] // n_kernels * np.arange(n_kernels)
        return X[np.ix_(rows, np.add.outer(starts, trained).ravel())]

    def _given_grams(self, X: Any) -> list[np.ndarray]:
        n, n_kernels = X.shape[0], len(self._kernels())
        if X.shape[1] != n_kernels * n:
            raise InputError(
                "A precomputed kernel matrix must be square",
                expected=f"shape ({n}, {n_kernels * n}) for {n_kernels} kernel(s)",
                got=str(X.shape),
            )
        grams = [np.asarray(part, dtype=float) for part in np.split(X, n_kernels, axis=1)]
        for gram in grams:
            worst = asymmetry(gram)
            if worst > KERNEL_TOLERANCE * max(gram.max(), -gram.min(), np.finfo(float).tiny):
                raise InputError(
                    "A precomputed training kernel must be symmetric",
                    got=f"differences from its transpose up to {worst:.3g}",
                    remedy="Pass K(train, train) to fit",
                )
        return grams

    def _cross_gram(self, X: Any, diagonal: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Inner products of new scans with the training scans (M, n_new, n), and with themselves.

        The second array, squared norms, is (M, n_new).
        """
        if self._precomputed:
            crosses = self._given_crosses(X, diagonal)
        elif self.regions is None:
            crosses = [cross_gram(X, self.X_fit_)] * len(self._kernels())
        else:
            crosses = [cross_gram(X, self.X_fit_, columns) for columns in self._columns()]
        self._refuse_infinite(X, np.array([cross.squared_norms for cross in crosses]))
        if self.center:
            crosses = [center_cross(c, means) for c, means in zip(crosses, self.gram_means_)]
        scale = self.gram_scale_
        gram = np.array([cross.gram / s for cross, s in zip(crosses, scale)])
        gram[~self.gram_.any(axis=(1, 2))] = 0.0  # training scans that are alike: the rest is noise
        return gram, np.array([cross.squared_norms / s for cross, s in zip(crosses, scale)])

    def _given_crosses(self, X: np.ndarray, diagonal: np.ndarray | None) -> list[Cross]:
        parts = np.split(np.asarray(X, dtype=float), len(self._kernels()), axis=1)
        if diagonal is None:
            # Undo centring: g_ii = gc_ii + 2 m_i − m̄, whose mean over the training scans is
            # tr/n + m̄.
            own = np.einsum("mii->m", self.gram_) / self.gram_.shape[1] * self.gram_scale_
            own = own + self.gram_means_.mean(axis=1) if self.center else own
            diagonal = np.repeat(own[:, None], len(X), axis=1)
        norms = np.asarray(diagonal, dtype=float).reshape(len(parts), -1)
        if norms.shape[1] != len(X):
            raise InputError(
                f"{option('diagonal')} cannot be used",
                expected=f"k(x, x) of each of {len(X)} new scans for each of {len(parts)} "
                "kernel(s)",
                got=f"shape {np.shape(diagonal)}",
            )
        return [Cross(part, norm) for part, norm in zip(parts, norms)]

    def _refuse_infinite(self, X: Any, norms: np.ndarray) -> None:
        if np.isfinite(norms).all():
            return
        if not isinstance(X, BlockedScans):
            assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
        raise InputError("X contains NaN, infinity or values too large to be squared")


class GaussianProcess(GramModel):
    """Base with `theta`, `optimize`, `n_restarts`, `max_evals`, `bounds` and `hyperprior`."""

    _parameter_constraints: ClassVar[dict] = GramModel._parameter_constraints | {
        "theta": ["array-like", None],
        "optimize": ["boolean"],
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
        "max_evals": [Interval(Integral, 1, None, closed="left"), None],
        "bounds": ["array-like"],
        "hyperprior": [Interval(Real, 0, None, closed="neither"), None],
    }

    def _given_grams(self, X: Any) -> list[np.ndarray]:
        grams = super()._given_grams(X)
        for gram in grams:
            # Centring may well make a covariance of what is not one before it.
            lowest = np.linalg.eigvalsh(center_gram(gram)[0] if self.center else gram)[0]
            if lowest < -KERNEL_TOLERANCE * max(np.linalg.norm(gram), np.finfo(float).tiny):
                raise InputError(
                    "A precomputed training kernel must be positive semi-definite",
                    got=f"a smallest eigenvalue of {lowest:.3g}",
                    remedy="Pass a covariance, not a distance",
                )
        return grams

    @staticmethod
    def _group_labels(groups: Any, n_scans: int) -> np.ndarray | None:
        """Groups (n,) of the training scans, or None where every scan is its own."""
        if groups is None:
            return None
        labels = column_or_1d(groups)
        if len(labels) != n_scans:
            raise InputError(
                f"{option('groups')} cannot be used",
                expected=f"the group of each of {n_scans} scans",
                got=str(len(labels)),
            )
        return np.unique(labels, return_inverse=True)[1]

    def _start(self, n_parameters: int) -> np.ndarray:
        if self.theta is None:
            return np.zeros(n_parameters)
        theta = np.asarray(self.theta, dtype=float).ravel()
        if theta.shape != (n_parameters,):
            raise InputError(
                f"{option('theta')} does not fit the kernel and the classes",
                expected=f"{n_parameters} log hyper-parameter(s)",
                got=str(theta.size),
            )
        return theta

    def _limits(self) -> np.ndarray:
        limits = np.asarray(self.bounds, dtype=float)
        if limits.shape != (2,) or not limits[0] < limits[1]:
            raise InputError(
                f"{option('bounds')} cannot be used",
                expected="the lowest and the highest log hyper-parameter",
                got=repr(self.bounds),
            )
        return limits

    def _climb(
        self,
        evidence: Any,
        start: np.ndarray,
        center: float = 0.0,
        hyperprior: float | None = None,
    ) -> Optimum:
        """Maximise the evidence, or evaluate it if not `optimize`; bounds shift by `center`."""
        if not self.optimize:
            value, _ = evidence(start)
            return Optimum(start, value, np.array([value]))
        bounds = np.tile(self._limits() + center, (len(start), 1))
        starts = [start]
        # Where evaluations are rationed none is spent on looking around.
        if self.max_evals is None:
            starts = [start + shift * evidence.is_scale for shift in SCALE_SHIFTS]
            rng = check_random_state(self.random_state)
            starts += [
                start + rng.normal(scale=2.0, size=len(start)) for _ in range(self.n_restarts)
            ]
        return maximize(
            evidence,
            starts,
            bounds,
            n_climbs=1 + self.n_restarts,
            max_evals=self.max_evals,
            prior_sd=self.hyperprior if hyperprior is None else hyperprior,
        )

    def _covariance_to(
        self, theta: np.ndarray, cross: np.ndarray, norms: np.ndarray, terms: slice = ALL
    ) -> tuple[np.ndarray, np.ndarray]:
        """K_* (n_new, n) and k_** (n_new,) of some terms, at one set of hyper-parameters."""
        kernels, norms = self._kernels()[terms], norms[terms]
        rows = np.einsum("mii->mi", self.gram_)[terms]
        K = covariance(kernels, theta, cross[terms], norms, rows)
        return K, variance(kernels, theta, norms)

    def _surface(self, evidence: Evidence, theta, first, second, parameters) -> np.ndarray:
        axes = {parameters[0]: np.asarray(first, dtype=float)}
        if second is not None:
            axes[parameters[1]] = np.asarray(second, dtype=float)
        with blas_threads_for(self.gram_.shape[-1]):
            return evidence_grid(evidence, theta, axes)

    def _weight_prior(self, theta: np.ndarray, terms: slice = ALL) -> np.ndarray:
        """Prior variance of every voxel's weight: scales of the linear terms it is in."""
        kernels, columns = self._kernels()[terms], self._columns()[terms]
        prior = np.zeros(self.n_features_in_)
        for m, position in enumerate(scale_positions(kernels)):
            if kernels[m].name == "linear":
                where = slice(None) if columns[m] is None else columns[m]
                prior[where] += np.exp(2.0 * theta[position]) / self.gram_scale_[terms][m]
        return prior

    def _kernel_shares(self, theta: np.ndarray, terms: slice = ALL) -> np.ndarray:
        """Part of the prior variance of f that each kernel has, mean over training scans."""
        kernels = self._kernels()[terms]
        rows = np.einsum("mii->mi", self.gram_)[terms]
        parts = []
        for m, position in enumerate(scale_positions(kernels)):
            own = variance([kernels[m]], theta[position : position + 2], rows[m : m + 1])
            parts.append(own.mean())
        return np.array(parts) / max(np.sum(parts), np.finfo(float).tiny)

    def _voxel_maps(
        self, dual: np.ndarray, precision: np.ndarray, prior: np.ndarray, latent: np.ndarray, names
    ) -> dict[str, np.ndarray]:
        """Maps of every class; only a linear kernel has weights."""
        if self._precomputed:
            raise InputError(
                "A model of precomputed kernels has seen no voxels",
                remedy="Fit on voxels, or call voxprior.models.gaussian.gram.weight_maps with the "
                "scans and 'dual_coef_'",
            )
        maps = weight_maps(self.X_fit_, dual, precision, prior, latent, self.center)
        out: dict[str, np.ndarray] = {}
        for c, name in enumerate(names):
            if prior.any():
                out[f"weight{name}"] = maps.weight[c]
                out[f"weight_sd{name}"] = maps.deviation[c]
            out[f"pattern{name}"] = maps.pattern[c]
        return out


def against_rest(codes: np.ndarray, n_classes: int) -> list[np.ndarray]:
    """Labels ±1 of the binary problems: one for two classes, beyond them each against the rest.

    Examples
    --------
    >>> import numpy as np
    >>> against_rest(np.array([0, 1]), 2)
    [array([-1.,  1.])]
    """
    positives = [1] if n_classes == 2 else range(n_classes)
    return [np.where(codes == c, 1.0, -1.0) for c in positives]
