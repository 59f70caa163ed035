"""Multi-class Gaussian process classification: softmax likelihood by Laplace's method.

    p(y_i = c | f_i) = e^{f_i^c} / Σ_k e^{f_i^k},   f^c ~ N(0, K_c) independently,   W = D − ΠΠᵀ
    B_c = I + D_c^½ K_c D_c^½ = L_c L_cᵀ,  E_c = D_c^½ B_c⁻¹ D_c^½,  z_c = Σ log L_c,ii,
    M Mᵀ = Σ_c E_c
    Newton:  b = W f + y − π,  c = E K b,  a = b − c + E R M⁻ᵀM⁻¹ Rᵀc,  f = K a
    log q(y) = −½ aᵀf + yᵀf − Σ_i log Σ_c e^{f_i^c} − Σ_c z_c − Σ_i log M_ii

The last sum belongs to ½ log|I + W^½KW^½| because RᵀDR = I makes |I + KW| = ∏|B_c| · |Σ E_c|;
without it (as the algorithm is often printed) the evidence is wrong.

    prediction:  mean_c = k_cᵀ(y_c − π_c)
                 Cov_cc' = δ_cc'(k_** − k_cᵀE_ck_c) + (M⁻¹E_ck_c)ᵀ(M⁻¹E_c'k_c')
    gradient:    ½ aᵀK'a − ½ tr(R̃K') + Σ s·df,  R̃ = E − ER(MMᵀ)⁻¹RᵀE,  df = (I − K R̃) K'a
                 s_i = −½[p∘diag S − p(pᵀdiag S) − 2p∘(Sp) + 2p(pᵀSp)]
                 with S = block i (C, C) of K − K R̃ K and p = π_i

==========  ==================  ============
symbol      variable            shape
==========  ==================  ============
K_c         K                   (C, n, n), or (n, n) shared by all classes
y           onehot              (n, C)
f, a, π     f, a, p             (n, C)
E_c         E                   (C, n, n)
M           M                   (n, n)
==========  ==================  ============

Reference: Rasmussen & Williams 2006, Alg. 3.3 and 3.4; D. Barber, C. K. I. Williams, NIPS 1997.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import log_softmax, softmax

from voxprior.models.gaussian.binary import factorise, inverse_of

MAX_NEWTON = 100
MAX_HALVINGS = 30
# Newton squares its error: after a step this small, what is left is some 1e-10.
STEP_TOLERANCE = 1e-5


class SoftmaxPosterior(NamedTuple):
    """Laplace approximation of p(f | y) for C classes."""

    a: np.ndarray
    E: np.ndarray
    M: np.ndarray
    f: np.ndarray
    log_evidence: float


class LatentMoments(NamedTuple):
    """Mean (n_new, C) and covariance (n_new, C, C) of the latent values of new scans."""

    mean: np.ndarray
    covariance: np.ndarray


def softmax_laplace(
    K: np.ndarray, onehot: np.ndarray, start: np.ndarray | None = None
) -> SoftmaxPosterior:
    """Mode and Laplace evidence (Alg. 3.3 with the full determinant).

    Parameters
    ----------
    K : array (n, n) or (C, n, n)
        One covariance for all classes, or one a class.
    onehot : array (n, C)
    start : array (n, C), optional
        Latent values to start from; the mode is unique, so this changes speed only.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 0], [0.5, 1], [-1, 0.5], [-0.5, -1]])
    >>> fit = softmax_laplace(X @ X.T + 1, np.eye(3)[[0, 1, 2, 1]])
    >>> round(fit.log_evidence, 6)
    -5.443355
    """
    f = np.zeros(onehot.shape) if start is None else start
    a, objective = np.zeros(onehot.shape), -np.inf
    for _ in range(MAX_NEWTON):
        p = softmax(f, axis=1)
        E, M, _ = _factors(K, p)
        target = _newton_target(K, onehot, f, p, E, M)
        a, f_new, objective = _climb(K, onehot, a, target, objective)
        change = np.abs(f_new - f).max()
        f = f_new
        if change <= STEP_TOLERANCE * (1.0 + np.abs(f).max()):
            break
    E, M, half_determinant = _factors(K, softmax(f, axis=1))
    return SoftmaxPosterior(a, E, M, f, float(objective - half_determinant))


def times(K: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """K_c @ column c for every class, whether K is shared (n, n) or one a class (C, n, n)."""
    if K.ndim == 2:
        return K @ columns
    return np.einsum("cij,jc->ic", K, columns, optimize=True)


def of_class(K: np.ndarray, c: int) -> np.ndarray:
    """The covariance of class c."""
    return K if K.ndim == 2 else K[c]


def _factors(K: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """E_c, M and ½ log|I + W^½KW^½| (lines 4 to 8)."""
    n, n_classes = p.shape
    E = np.empty((n_classes, n, n))
    half_determinant = 0.0
    for c in range(n_classes):
        root = np.sqrt(p[:, c])
        B = root[:, None] * of_class(K, c) * root
        B.flat[:: n + 1] += 1.0
        L = factorise(B)
        half_determinant += np.log(np.diag(L)).sum()
        E[c] = root[:, None] * inverse_of(L) * root
    M = factorise(E.sum(axis=0))
    return E, M, float(half_determinant + np.log(np.diag(M)).sum())


def _newton_target(K, onehot, f, p, E, M) -> np.ndarray:
    """Lines 9 to 11: the dual vector a of a full Newton step."""
    b = p * (f - (p * f).sum(axis=1, keepdims=True)) + onehot - p
    c = times(E, times(K, b))
    shared = cho_solve((M, True), c.sum(axis=1))
    return b - c + np.einsum("cij,j->ic", E, shared)


def _climb(K, onehot, a, target, objective):
    """Full step if the objective rises (it is concave), else halve until it does."""
    step = 1.0
    for _ in range(MAX_HALVINGS):
        a_new = a + step * (target - a)
        f_new = times(K, a_new)
        value = (onehot * log_softmax(f_new, axis=1)).sum() - 0.5 * (a_new * f_new).sum()
        if value >= objective - 1e-12 * abs(value):
            return a_new, f_new, value
        step *= 0.5
    return a, times(K, a), objective


def softmax_moments(
    posterior: SoftmaxPosterior, K_new: np.ndarray, k_new: np.ndarray
) -> LatentMoments:
    """Latent mean and covariance of new scans (Alg. 3.4).

    Parameters
    ----------
    posterior : SoftmaxPosterior
    K_new : array (n_new, n) or (C, n_new, n)
        Covariance between new and training scans.
    k_new : array (n_new,) or (C, n_new)
        Prior variance of the new scans.
    """
    n_classes = posterior.a.shape[1]
    mean = np.stack([of_class(K_new, c) @ posterior.a[:, c] for c in range(n_classes)], axis=1)
    covariance = np.zeros((len(mean), n_classes, n_classes))
    halves = []
    for c in range(n_classes):
        k_star = of_class(K_new, c).T
        b = posterior.E[c] @ k_star
        prior = k_new if k_new.ndim == 1 else k_new[c]
        covariance[:, c, c] = prior - np.einsum("ij,ij->j", b, k_star)
        halves.append(solve_triangular(posterior.M, b, lower=True))
    for c in range(n_classes):
        for d in range(c + 1):
            shared = np.einsum("ij,ij->j", halves[c], halves[d])
            covariance[:, c, d] += shared
            covariance[:, d, c] = covariance[:, c, d]
    return LatentMoments(mean, covariance)


def class_precision(posterior: SoftmaxPosterior, c: int) -> np.ndarray:
    """Block (c, c) of R̃ = W(I + KW)⁻¹: what the data say about the latent function of class c."""
    half = solve_triangular(posterior.M, posterior.E[c], lower=True)
    return posterior.E[c] - half.T @ half


def softmax_gradient(
    posterior: SoftmaxPosterior, K: np.ndarray, onehot: np.ndarray, dK: np.ndarray
) -> np.ndarray:
    """∂ log q/∂θ for every kernel derivative.

    Parameters
    ----------
    posterior : SoftmaxPosterior
    K : array (n, n) or (C, n, n)
    onehot : array (n, C)
    dK : array (P, n, n) for a shared kernel, or (C, P, n, n)

    Returns
    -------
    array (P,) for a shared kernel, or (C, P)
    """
    p = softmax(posterior.f, axis=1)
    residual = onehot - p
    s = _mode_sensitivity(posterior, K, p)
    # sᵀ(I − K R̃)K'a = tᵀK'a with t = s − R̃ K s, so that every parameter costs one product.
    Ks = times(K, s)
    shared = cho_solve((posterior.M, True), times(posterior.E, Ks).sum(axis=1))
    t = s - times(posterior.E, Ks) + np.einsum("cij,j->ic", posterior.E, shared)
    parts = []
    for c in range(onehot.shape[1]):
        inner = 0.5 * (np.outer(residual[:, c], residual[:, c]) - class_precision(posterior, c))
        inner += np.outer(t[:, c], residual[:, c])
        parts.append(np.einsum("ij,pij->p", inner, dK if dK.ndim == 3 else dK[c]))
    gradient = np.array(parts)
    return gradient.sum(axis=0) if dK.ndim == 3 else gradient


def _mode_sensitivity(posterior: SoftmaxPosterior, K: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Sensitivity s (n, C): how −½ log|I + W^½KW^½| changes with the latent values."""
    n, n_classes = p.shape
    S = np.zeros((n, n_classes, n_classes))
    halves = []
    for c in range(n_classes):
        K_c = of_class(K, c)
        EK = posterior.E[c] @ K_c
        S[:, c, c] = np.diag(K_c) - np.einsum("ij,ij->j", K_c, EK)
        halves.append(solve_triangular(posterior.M, EK, lower=True))
    for c in range(n_classes):
        for d in range(c + 1):
            S[:, c, d] += np.einsum("ij,ij->j", halves[c], halves[d])
            S[:, d, c] = S[:, c, d]
    diagonal = np.einsum("icc->ic", S)
    Sp = np.einsum("icd,id->ic", S, p)
    along = (p * diagonal).sum(axis=1, keepdims=True)
    quadratic = (p * Sp).sum(axis=1, keepdims=True)
    return -0.5 * (p * diagonal - p * along - 2.0 * p * Sp + 2.0 * p * quadratic)
