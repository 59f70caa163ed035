"""A shrunk linear discriminant with James-Stein class means, at all shrinkages, of many labellings.

    Σ = S_w + λ I,  λ = τ tr(W) / df²             Σ = I for τ = ∞
    s_c(x) = [(x - m)'Σ⁻¹u_c - (ρ/2) u_c'Σ⁻¹u_c] / D
    D = Σ_c 2 u_c'Σ⁻¹u_c / (C - 1)                mean squared distance between class means
    ρ = max(.05, 1 - (tr W / df) mean(1/n_c) / (Σ_c u_c'u_c / (C - 1)))     .3 where df = 0

S_w = W / df, W the scatter within classes, is all scatter less that between classes, which has rank
C - 1. On the eigenvectors E of the centred Gram matrix, K = E diag(d) E', which labels do not
change, it is therefore C x C algebra, up to 1/λ, which cancels: with R = E'M, μ = τ tr(W) / df and
g = μ / (d + μ) (1 for τ = ∞),

    A = diag(g) R F,   F = (R'diag(g)R)⁻¹ diag(1/n_c) P,   P = I - 11'/C
    L = R'diag(d) A,   B = P L
    s = (kEA - mean of the rows of L - (ρ/2) diag B) / (2 tr B / (C - 1))
    tr(W) = Σ_i d_i - Σ_c n_c r_c'diag(d)r_c

Nothing is subtracted in R'diag(g)R, so that tiny shrinkages do no harm. Scores are divided by D
because the best weight of such a score is then δ²/v, the squared distance of the classes in units
of the noise, whatever the number of scans: a weight that is learned from fewer scans is right for
all of them. Where n is small |u_c|² is mostly noise, and ρ keeps classes of small norm from being
preferred.

| symbol | variable | shape |
|---|---|---|
| k: inner products of new scans with training scans | `cross` | (m, n) |
| E, d | `Spectrum.vectors`, `Spectrum.values` | (n, n), (n,) |
| M = Z diag(1/n_c), Z class indicators | `Z / counts` | (B, n, C) |
| u_c = m_c - m, columns of MP | | |
| R | `R` | (B, n, C) |
| tr(W), df = n - C | `within`, `df` | (B,), scalar |
| g | `g` | (T, B, n, 1) |
| A / D and the constant of s | `Paths.dual`, `Paths.offset` | (T, B, n, C), (T, B, C) |

Reference: shrunken discriminants as in J. H. Friedman, "Regularized discriminant analysis", JASA
1989; the factor as in W. James, C. Stein, 4th Berkeley Symposium 1961.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from voxprior.models.gaussian.gram import center_gram

__all__ = ["SHRINKAGES", "Paths", "Spectrum", "discriminant_paths", "has_noise", "spectrum_of"]

# τ, in units of the mean non-zero eigenvalue of the covariance within classes.
SHRINKAGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, np.inf)
# The factor of the class means where nothing shows how noisy they are, and the smallest.
RHO_UNKNOWN, RHO_LEAST = 0.3, 0.05
# Parts of a Gram matrix below this share of it are rounding.
ROUNDING = 1e-10


class Spectrum(NamedTuple):
    """A Gram matrix (n, n), centred, in its eigenvectors: all that labels do not change."""

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    means: NDArray[np.float64]  # of the rows, before centring
    trace: float  # before centring


class Paths(NamedTuple):
    """Scores of B labellings for every shrinkage, from inner products with the training scans."""

    spectrum: Spectrum
    dual: NDArray[np.float64]  # (T, B, n, C) on the eigenvectors
    offset: NDArray[np.float64]  # (T, B, C)

    def scores(self, cross: NDArray) -> NDArray[np.float64]:
        """Scores (T, m, B, C) of new scans, given their inner products (m, n)."""
        rotated = (cross - self.spectrum.means) @ self.spectrum.vectors
        return np.tensordot(rotated, self.dual, (1, 2)).swapaxes(0, 1) + self.offset[:, None]

    def of_scans(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What multiplies the inner products of the first labelling, (T, n, C), and (T, C)."""
        dual = self.spectrum.vectors @ self.dual[:, 0]
        return dual, self.offset[:, 0] - self.spectrum.means @ dual


def spectrum_of(gram: NDArray) -> Spectrum:
    """Eigenvectors of a Gram matrix after centring."""
    centered, means = center_gram(gram)
    values, vectors = eigh(centered)
    return Spectrum(np.maximum(values, 0.0), vectors, means, float(np.trace(gram)))


def discriminant_paths(
    spectrum: Spectrum,
    codes: NDArray,
    n_classes: int,
    shrinkages: tuple[float, ...] = SHRINKAGES,
) -> Paths:
    """Discriminants of all shrinkages for class codes (n, B), one labelling per column.

    Every labelling has all classes. Where class means do not differ at all, every score is 0.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 0.0], [3.0, 1.0], [0.0, 2.0], [1.0, 3.0]])
    >>> codes = np.array([[0], [0], [1], [1]])
    >>> paths = discriminant_paths(spectrum_of(X @ X.T), codes, 2, (1.0, np.inf))
    >>> paths.scores(np.array([[2.0, 1.0]]) @ X.T).round(3)[:, 0, 0].tolist()
    [[0.016, -0.234], [0.016, -0.234]]
    """
    d, df = spectrum.values, len(codes) - n_classes
    Z = np.eye(n_classes)[codes]
    counts = Z.sum(axis=0)
    R = np.tensordot(spectrum.vectors, Z / counts, (0, 0)).swapaxes(0, 1)
    means = _products(R, d[:, None] * R)
    between = _trace(means) - means.sum(axis=(1, 2)) / n_classes
    within = d.sum() - np.einsum("bcc,bc->b", means, counts)
    rho = _james_stein(within, df, counts, between)
    g = _shares(d, within, df, spectrum.trace, np.array(shrinkages))
    mixed = np.eye(n_classes) - 1 / n_classes
    F = np.linalg.solve(_products(g * R, R), mixed / counts[:, :, None])
    dual = (g * R) @ F
    L = _products(d[:, None] * R, dual)
    center = L.mean(axis=2)
    distance = 2 * (_trace(L) - center.sum(axis=2)) / (n_classes - 1)
    offset = -center - rho[:, None] / 2 * (np.einsum("tbcc->tbc", L) - center)
    differ = between > ROUNDING * spectrum.trace
    weight = np.divide(differ, distance, out=np.zeros_like(distance), where=differ)
    return Paths(spectrum, dual * weight[..., None, None], offset * weight[..., None])


def _shares(d: NDArray, within: NDArray, df: int, trace: float, shrinkages: NDArray) -> NDArray:
    """Shares g (T, B, n, 1); 1 where no covariance is taken, or none is known."""
    if df == 0:
        return np.ones((len(shrinkages), len(within), len(d), 1))
    finite, noisy = np.isfinite(shrinkages)[:, None, None], within > ROUNDING * trace
    mu = np.where(finite, shrinkages[:, None, None], 1.0) * np.where(noisy, within, 1.0)[:, None]
    return np.where(finite & noisy[:, None], mu / (df * d + mu), 1.0)[..., None]


def _products(left: NDArray, right: NDArray) -> NDArray[np.float64]:
    """Products of the transposes of many (n, C) matrices with others."""
    return left.swapaxes(-1, -2) @ right


def _trace(matrices: NDArray) -> NDArray[np.float64]:
    return np.trace(matrices, axis1=-2, axis2=-1)


def has_noise(gram: NDArray, codes: NDArray, n_classes: int) -> bool:
    """Whether scans of a class differ, so that there is a covariance within classes."""
    Z = np.eye(n_classes)[codes]
    explained = np.einsum("ic,ij,jc->c", Z, gram, Z) / np.maximum(Z.sum(axis=0), 1)
    total = float(np.trace(gram))
    return len(codes) > n_classes and total - explained.sum() > ROUNDING * total


def _james_stein(within: NDArray, df: int, counts: NDArray, between: NDArray) -> NDArray:
    """Factors ρ (B,) of the class means."""
    if df == 0:
        return np.full(len(counts), RHO_UNKNOWN)
    noise = within / df * np.mean(1 / counts, axis=1)
    signal = between / (counts.shape[1] - 1)
    lost = np.divide(noise, signal, out=np.ones_like(noise), where=signal > 0)
    return np.maximum(RHO_LEAST, 1 - lost)
