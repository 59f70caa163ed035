"""NoiseWhitening: a noise covariance learned without labels, and patterns without it.

Voxels share noise: breathing, motion, slow drifts. Two examples per class cannot tell that noise
from signal, but a run has hundreds of volumes, and its labels are not needed. From volumes
z_1 .. z_n, centred and (``standardize``) divided by their standard deviations,

    S = (1/n) Σ z zᵀ,      Σ = (1 − a) S + a μ I,      μ = tr S / V
    a = min(1, [ (1/n²) Σ_i |z_i|⁴ − (1/n) tr S² ] / [ tr S² − V μ² ])           Ledoit & Wolf
    x ← √μ Σ^(−1/2) x

The square root is the symmetric one, which moves a pattern as little as any whitening can, so that
voxels stay where they are. With the thin decomposition Z = U diag(s) Wᵀ of rank q and λ = s²/n,

    √μ Σ^(−1/2) = I/√a + W diag( √μ/√((1 − a) λ + a μ) − 1/√a ) Wᵀ

so no voxel-by-voxel matrix is ever formed: O(n² V) to fit, O(q V) per scan.

| symbol | variable | shape |
|---|---|---|
| z, volumes, centred | `volumes` | (n, V) |
| W, principal noise patterns | `components_` | (q, V) |
| λ, their variances | `variances_` | (q,) |
| μ, the mean variance | `mean_variance_` | scalar |
| a, weight of the identity | `shrinkage_` | scalar |

Reference: O. Ledoit, M. Wolf, "A well-conditioned estimator for large-dimensional covariance
matrices", Journal of Multivariate Analysis 2004.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import linalg
from sklearn.base import OneToOneFeatureMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, validate_data

from voxprior.errors import InputError, option
from voxprior.models.base import VoxelTransformer
from voxprior.space import VoxelSpace


class NoiseCovariance(NamedTuple):
    """Noise patterns W (q, V), their variances λ (q,), the mean variance μ and shrinkage a."""

    components: np.ndarray
    variances: np.ndarray
    mean: float
    shrinkage: float


def noise_covariance(volumes: np.ndarray, shrinkage: float | None = None) -> NoiseCovariance:
    """Shrunk covariance of centred volumes (n, V) by a thin decomposition of the n x n Gram matrix.

    Examples
    --------
    >>> import numpy as np
    >>> volumes = np.random.default_rng(0).normal(size=(200, 5)) * [3, 1, 1, 1, 1]
    >>> noise = noise_covariance(volumes - volumes.mean(axis=0))
    >>> int(abs(noise.components[0]).argmax())
    0
    """
    n, V = volumes.shape
    power, patterns = _thin(volumes)
    variances = power / n
    mean, square = float(variances.sum() / V), float((variances**2).sum())
    if mean <= 0:
        raise InputError("The volumes do not vary, so there is no noise to learn")
    if shrinkage is None:
        fourth = ((volumes**2).sum(axis=1) ** 2).sum() / n**2
        distance = square - V * mean**2
        shrinkage = min(1.0, max(0.0, (fourth - square / n) / distance)) if distance > 0 else 1.0
    return NoiseCovariance(patterns, variances, mean, float(shrinkage))


def whiten(X: np.ndarray, noise: NoiseCovariance) -> np.ndarray:
    """√μ Σ^(−1/2) applied to the rows of X (n, V).

    Examples
    --------
    >>> import numpy as np
    >>> noise = NoiseCovariance(np.array([[1.0, 0.0]]), np.array([3.0]), 2.0, 0.5)
    >>> whiten(np.array([[1.0, 1.0]]), noise).round(4)
    array([[0.8944, 1.4142]])
    """
    a, mu = noise.shrinkage, noise.mean
    if a <= 0:
        # Only a full-rank covariance has an inverse without help from the identity.
        factor = np.sqrt(mu / noise.variances)
        return ((X @ noise.components.T) * factor) @ noise.components
    outside = 1 / np.sqrt(a)
    inside = np.sqrt(mu / ((1 - a) * noise.variances + a * mu))
    return outside * X + ((X @ noise.components.T) * (inside - outside)) @ noise.components


def _thin(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared singular values, falling, and right singular vectors (rows) of Z."""
    n, V = Z.shape
    if n >= V:
        power, vectors = linalg.eigh(Z.T @ Z)
        patterns = vectors.T
    else:
        power, vectors = linalg.eigh(Z @ Z.T)
        patterns = vectors.T @ Z
    keep = np.flatnonzero(power > power[-1] * max(n, V) * np.finfo(float).eps)[::-1]
    patterns = patterns[keep]
    return power[keep], patterns / np.linalg.norm(patterns, axis=1, keepdims=True)


class NoiseWhitening(OneToOneFeatureMixin, VoxelTransformer):
    """Remove the covariance of the noise, learned without labels from the volumes of runs.

    Parameters
    ----------
    space : VoxelSpace, optional
        Where the voxels are; gives the number V of voxels of samples that hold T time points
        (time-major). Without one a sample is a single volume.
    volumes : array of shape (n_volumes, V), optional
        Volumes of the *training* runs, at rest or all of them, detrended and centred by run as the
        samples were. Without them the samples' own time points are the volumes.
    shrinkage : "ledoit-wolf" or float in [0, 1]
        Weight of the identity in the covariance.
    standardize : bool
        Divide voxels by their standard deviation over the volumes first, so that loud voxels do
        not set the scale of the identity.
    min_volumes : int
        Refuse to learn from fewer volumes than this (or than twice the voxels, if that is less):
        a covariance estimated from a handful of maps removes their signal with the noise.

    Attributes
    ----------
    components_, variances_ : arrays of shape (q, V) and (q,)
        Noise patterns and their variances.
    shrinkage_ : float
        The weight of the identity.
    center_, scale_ : arrays of shape (V,)
        Mean and standard deviation of the volumes.
    n_volumes_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import NoiseWhitening
    >>> rng = np.random.default_rng(0)
    >>> breathing = rng.normal(size=(300, 1)) * np.linspace(1, 2, 40)
    >>> volumes = breathing + 0.1 * rng.normal(size=(300, 40))
    >>> white = NoiseWhitening().fit_transform(volumes)
    >>> bool(np.linalg.cond(np.cov(white.T)) < 0.05 * np.linalg.cond(np.cov(volumes.T)))
    True
    """

    words = "whitening by a noise covariance learned without labels"
    _parameter_constraints: ClassVar[dict] = {
        "space": [VoxelSpace, None],
        "volumes": ["array-like", None],
        "shrinkage": [StrOptions({"ledoit-wolf"}), Interval(Real, 0, 1, closed="both")],
        "standardize": ["boolean"],
        "min_volumes": [Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        space: VoxelSpace | None = None,
        volumes: Any = None,
        shrinkage: str | float = "ledoit-wolf",
        standardize: bool = True,
        min_volumes: int = 100,
    ):
        self.space = space
        self.volumes = volumes
        self.shrinkage = shrinkage
        self.standardize = standardize
        self.min_volumes = min_volumes

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn the noise covariance from ``volumes``, or from the time points of ``X``.

        Parameters
        ----------
        X : array of shape (n, T V)
            Samples. Their values are not used where ``volumes`` were given.
        y : ignored
            Labels are never looked at.
        """
        X = self._in_range(validate_data(self, X, dtype=np.float64), learns=True)
        V = self._n_voxels()
        volumes = X.reshape(-1, V) if self.volumes is None else self._checked_volumes(V)
        self._refuse_few(len(volumes), V)
        self.center_ = volumes.mean(axis=0)
        self.scale_ = np.ones(V)
        if self.standardize:
            deviation = volumes.std(axis=0)
            self.scale_ = np.where(deviation > 0, deviation, 1.0)
        fixed = None if isinstance(self.shrinkage, str) else float(self.shrinkage)
        noise = noise_covariance((volumes - self.center_) / self.scale_, fixed)
        if noise.shrinkage == 0 and len(noise.variances) < V:
            raise InputError(
                f"{option('shrinkage', 0)} needs a covariance of full rank: {len(volumes)} volumes "
                f"span only {len(noise.variances)} of {V} dimensions",
                remedy=f"Use {option('shrinkage', 'ledoit-wolf')}",
            )
        self.components_, self.variances_, self.mean_variance_, self.shrinkage_ = noise
        self.n_volumes_ = len(volumes)
        return self

    def transform(self, X):
        """Whiten every time point of every sample."""
        X = self._new_scans(X)
        volumes = (X.reshape(-1, len(self.center_)) - self.center_) / self.scale_
        noise = NoiseCovariance(
            self.components_, self.variances_, self.mean_variance_, self.shrinkage_
        )
        return whiten(volumes, noise).reshape(X.shape)

    def _checked_volumes(self, V: int) -> np.ndarray:
        volumes = check_array(self.volumes, dtype=np.float64, input_name="volumes")
        if volumes.shape[1] != V:
            raise InputError(
                f"{option('volumes')} do not fit the samples",
                expected=f"{V} columns, one per voxel",
                got=f"{volumes.shape[1]}",
                remedy="Mask and order them as the samples",
            )
        return volumes

    def _refuse_few(self, n_volumes: int, V: int) -> None:
        needed = min(self.min_volumes, 2 * V)
        if n_volumes < needed:
            raise InputError(
                f"The noise covariance of {V} voxels cannot be learned",
                expected=f"at least {needed} volumes",
                got=f"n_samples = {n_volumes} volumes",
                remedy=f"Cut runs into windows ({option('unit', 'window')}), give the volumes of "
                f"the training runs to fit, leave whitening out ({option('whiten', False)}), or "
                f"lower {option('min_volumes')} if you know better",
            )
