"""Gaussian process classification by Laplace's method: two classes, and the softmax of more.

Two classes (Alg. 3.1 posterior, 3.2 prediction, 5.1 gradient):

    p(y_i | f_i) = λ(y_i f_i),  y_i = ±1,   λ = logistic 1/(1 + e^{−z}) or probit Φ(z)
    Newton on  Ψ(f) = Σ log p(y_i | f_i) − ½ fᵀK⁻¹f,   W = −∇² log p
    log q(y) = Ψ(f̂) − Σ log L_ii,                     B = I + W^½ K W^½ = L Lᵀ
    prediction:  mean k_*ᵀa,    variance k_** − vᵀv,    v = L⁻¹ W^½ k_*
    gradient:    R = W^½ B⁻¹ W^½,  Σ = K − K R K,  s₂ = ½ diag Σ ∘ ∇³ log p,  t = s₂ − R K s₂
                 ∂ log q = ½ aᵀK'a − ½ tr(R K') + tᵀK'∇

C classes (Alg. 3.3 posterior, 3.4 prediction):

    p(y_i = c | f_i) = e^{f_i^c} / Σ_k e^{f_i^k},   f^c ~ N(0, K_c) independently,   W = D − ΠΠᵀ
    B_c = I + D_c^½ K_c D_c^½ = L_c L_cᵀ,  E_c = D_c^½ B_c⁻¹ D_c^½,  z_c = Σ log L_c,ii,
    M Mᵀ = Σ_c E_c
    Newton:  b = W f + y − π,  c = E K b,  a = b − c + E R M⁻ᵀM⁻¹ Rᵀc,  f = K a
    log q(y) = −½ aᵀf + yᵀf − Σ_i log Σ_c e^{f_i^c} − Σ_c z_c − Σ_i log M_ii
    prediction:  mean_c = k_cᵀ(y_c − π_c)
                 Cov_cc' = δ_cc'(k_** − k_cᵀE_ck_c) + (M⁻¹E_ck_c)ᵀ(M⁻¹E_c'k_c')
    gradient:    ½ aᵀK'a − ½ tr(R̃K') + Σ s·df,  R̃ = E − ER(MMᵀ)⁻¹RᵀE,  df = (I − K R̃) K'a
                 s_i = −½[p∘diag S − p(pᵀdiag S) − 2p∘(Sp) + 2p(pᵀSp)]
                 with S = block i (C, C) of K − K R̃ K and p = π_i

The last sum of log q belongs to ½ log|I + W^½KW^½| because RᵀDR = I makes |I + KW| =
∏|B_c| · |Σ E_c|; without it (as the algorithm is often printed) the evidence is wrong.

| symbol | variable | shape |
|---|---|---|
| K, K_c | `K` | (n, n), shared by all classes, or (C, n, n) |
| y | `sign`; `onehot` | (n,); (n, C) |
| f, a = K⁻¹f | `f`, `a` | (n,); (n, C) |
| ∇, W, ∇³ | `d1`, `W`, `d3` | (n,) |
| W^½ | `root` | (n,) |
| π | `p` | (n, C) |
| E_c, M | `E`, `M` | (C, n, n), (n, n) |

Reference: Rasmussen & Williams 2006, chapters 3 and 5 (with ∂W/∂f = −∇³ log p written out);
D. Barber, C. K. I. Williams, NIPS 1997.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import expit, log_expit, log_ndtr, log_softmax, softmax

from voxprior.models.gaussian.covariance import cholesky_factor, inverse_from_factor

MAX_NEWTON = 100
MAX_HALVINGS = 30
# Newton squares its error: after a step this small, what is left is some 1e-10.
STEP_TOLERANCE = 1e-5
# ∂K/∂θ (P, n, n) of a kernel that all classes share, or one such array per class.
Derivatives = np.ndarray | list[np.ndarray]


class BinaryPosterior(NamedTuple):
    """Gaussian approximation of p(f | y) for labels −1 and +1, by Laplace's method or EP.

    Both replace the likelihood by n Gaussian sites of precision W_i = root_i².
    """

    a: np.ndarray
    root: np.ndarray
    cholesky: np.ndarray
    f: np.ndarray
    log_evidence: float


class SoftmaxPosterior(NamedTuple):
    """Laplace approximation of p(f | y) for C classes."""

    a: np.ndarray
    E: np.ndarray
    M: np.ndarray
    f: np.ndarray
    log_evidence: float


class SoftmaxMoments(NamedTuple):
    """Mean (n_new, C) and covariance (n_new, C, C) of the latent values of new scans."""

    mean: np.ndarray
    covariance: np.ndarray


class Likelihood(NamedTuple):
    """Log likelihood and its first three derivatives; W is minus the second."""

    value: float
    d1: np.ndarray
    W: np.ndarray
    d3: np.ndarray


def logistic(sign: np.ndarray, f: np.ndarray) -> Likelihood:
    """Logistic likelihood."""
    p = expit(f)
    W = p * expit(-f)
    return Likelihood(
        float(log_expit(sign * f).sum()), sign * expit(-sign * f), W, -W * (1.0 - 2.0 * p)
    )


def probit(sign: np.ndarray, f: np.ndarray) -> Likelihood:
    """Cumulative normal likelihood; r = φ(z)/Φ(z) is formed from logarithms to survive z ≪ 0."""
    z = sign * f
    log_cdf = log_ndtr(z)
    r = np.exp(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - log_cdf)
    d3 = sign * (r * (z + r) * (2.0 * r + z) - r)
    return Likelihood(float(log_cdf.sum()), sign * r, np.maximum(r * (z + r), 0.0), d3)


LIKELIHOODS = {"logistic": logistic, "probit": probit}


def laplace(
    K: np.ndarray, sign: np.ndarray, likelihood: str = "logistic", start: np.ndarray | None = None
) -> BinaryPosterior:
    """Mode and Laplace evidence (Alg. 3.1).

    Parameters
    ----------
    K : array (n, n)
    sign : array (n,) of −1 and +1
    likelihood : {"logistic", "probit"}
    start : array (n,), optional
        Latent values to start Newton from; the mode is unique, so this changes speed only.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 0], [0.5, 1], [-1, 0.5], [-0.5, -1]])
    >>> round(laplace(X @ X.T + 1, np.array([1, -1, -1, 1])).log_evidence, 6)
    -2.9018
    """
    derivatives = LIKELIHOODS[likelihood]

    def evaluate(a):
        f = K @ a
        return f, derivatives(sign, f).value - 0.5 * a @ f

    f = np.zeros(len(sign)) if start is None else start
    a, objective = np.zeros(len(sign)), -np.inf
    for _ in range(MAX_NEWTON):
        at = derivatives(sign, f)
        target = _newton_target(K, f, at)
        a, f_new, objective = _climb(evaluate, a, target, objective)
        change = np.abs(f_new - f).max()
        f = f_new
        if change <= STEP_TOLERANCE * (1.0 + np.abs(f).max()):
            break
    at = derivatives(sign, f)
    root = np.sqrt(at.W)
    L = cholesky_factor(_site_covariance(K, root), overwrite=True)
    return BinaryPosterior(a, root, L, f, float(objective - np.log(np.diag(L)).sum()))


def _newton_target(K: np.ndarray, f: np.ndarray, at: Likelihood) -> np.ndarray:
    """Lines 4 to 8 of Alg. 3.1: the dual vector a of a full Newton step."""
    root = np.sqrt(at.W)
    L = cholesky_factor(_site_covariance(K, root), overwrite=True)
    b = at.W * f + at.d1
    return b - root * cho_solve((L, True), root * (K @ b), check_finite=False)


def _site_covariance(K: np.ndarray, root: np.ndarray) -> np.ndarray:
    """B = I + W^½ K W^½, the one matrix that is made of K."""
    B = root[:, None] * K
    B *= root
    B.flat[:: len(root) + 1] += 1.0
    return B


def _climb(
    evaluate: Callable, a: np.ndarray, target: np.ndarray, objective: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Full step if the objective rises (it is concave), else halve until it does."""
    step = 1.0
    for _ in range(MAX_HALVINGS):
        a_new = a + step * (target - a)
        f_new, value = evaluate(a_new)
        if value >= objective - 1e-12 * abs(value):
            return a_new, f_new, value
        step *= 0.5
    return a, evaluate(a)[0], objective


def latent_moments(
    posterior: BinaryPosterior, K_new: np.ndarray, k_new: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at new scans (Alg. 3.2, 3.6).

    K_new (n_new, n) is their covariance with the training scans, k_new (n_new,) their prior
    variance.
    """
    v = solve_triangular(posterior.cholesky, posterior.root[:, None] * K_new.T, lower=True)
    return K_new @ posterior.a, np.maximum(k_new - np.einsum("ij,ij->j", v, v), 0.0)


def site_matrix(posterior: BinaryPosterior, overwrite: bool = False) -> np.ndarray:
    """R = W^½ B⁻¹ W^½ = (K + W⁻¹)⁻¹, the precision that the data put on the latent values.

    With `overwrite` it takes the memory of the factor of a posterior that is not needed any more.
    """
    R = inverse_from_factor(posterior.cholesky, overwrite)
    R *= posterior.root[:, None]
    R *= posterior.root
    return R


def laplace_gradient(
    posterior: BinaryPosterior,
    K: np.ndarray,
    sign: np.ndarray,
    dK: Sequence[np.ndarray] | np.ndarray,
    likelihood: str = "logistic",
    overwrite: bool = False,
) -> np.ndarray:
    """∂ log q/∂θ for every kernel derivative in dK (P, n, n) (Alg. 5.1).

    With `overwrite` the factor in `posterior` is lost.
    """
    at = LIKELIHOODS[likelihood](sign, posterior.f)
    R = site_matrix(posterior, overwrite)
    # Σ_ii = (1 − [B⁻¹]_ii)/W_i and R_ii = W_i [B⁻¹]_ii: no triangular solve for K. Where W_i is so
    # small that the difference means nothing, so is the third derivative that it is multiplied by.
    certain = at.W > 0.0
    W = np.where(certain, at.W, 1.0)
    s2 = 0.5 * (1.0 - np.diag(R) / W) * np.where(certain, at.d3 / W, 0.0)
    t = s2 - R @ (K @ s2)
    moved = np.array([slope @ at.d1 for slope in dK])
    traces = np.array([np.einsum("ij,ij->", R, slope) for slope in dK])
    return moved @ (0.5 * at.d1 + t) - 0.5 * traces


def softmax_laplace(
    K: np.ndarray, onehot: np.ndarray, start: np.ndarray | None = None
) -> SoftmaxPosterior:
    """Mode and Laplace evidence (Alg. 3.3 with the full determinant).

    Parameters
    ----------
    K : array (n, n) or (C, n, n)
        One covariance for all classes, or one per class.
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

    def evaluate(a):
        f = _times(K, a)
        return f, (onehot * log_softmax(f, axis=1)).sum() - 0.5 * (a * f).sum()

    f = np.zeros(onehot.shape) if start is None else start
    a, objective = np.zeros(onehot.shape), -np.inf
    for _ in range(MAX_NEWTON):
        p = softmax(f, axis=1)
        E, M, _ = site_factors(K, p)
        target = softmax_target(K, onehot, f, p, E, M)
        a, f_new, objective = _climb(evaluate, a, target, objective)
        change = np.abs(f_new - f).max()
        f = f_new
        if change <= STEP_TOLERANCE * (1.0 + np.abs(f).max()):
            break
    E, M, half_determinant = site_factors(K, softmax(f, axis=1))
    return SoftmaxPosterior(a, E, M, f, float(objective - half_determinant))


def site_factors(K: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """E_c, M and ½ log|I + W^½KW^½| (lines 4 to 8 of Alg. 3.3)."""
    n, n_classes = p.shape
    E = np.empty((n_classes, n, n))
    half_determinant = 0.0
    for c in range(n_classes):
        root = np.sqrt(p[:, c])
        B = root[:, None] * of_class(K, c) * root
        B.flat[:: n + 1] += 1.0
        L = cholesky_factor(B)
        half_determinant += np.log(np.diag(L)).sum()
        E[c] = root[:, None] * inverse_from_factor(L) * root
    M = cholesky_factor(E.sum(axis=0))
    return E, M, float(half_determinant + np.log(np.diag(M)).sum())


def softmax_target(K, onehot, f, p, E, M) -> np.ndarray:
    """Lines 9 to 11 of Alg. 3.3: the dual vector a of a full Newton step."""
    b = p * (f - (p * f).sum(axis=1, keepdims=True)) + onehot - p
    c = _times(E, _times(K, b))
    shared = cho_solve((M, True), c.sum(axis=1))
    return b - c + np.einsum("cij,j->ic", E, shared)


def softmax_moments(
    posterior: SoftmaxPosterior, K_new: np.ndarray, k_new: np.ndarray
) -> SoftmaxMoments:
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
    return SoftmaxMoments(mean, covariance)


def class_precision(posterior: SoftmaxPosterior, c: int) -> np.ndarray:
    """Block (c, c) of R̃ = W(I + KW)⁻¹: what the data say about the latent function of class c."""
    half = solve_triangular(posterior.M, posterior.E[c], lower=True)
    return posterior.E[c] - half.T @ half


def softmax_gradient(
    posterior: SoftmaxPosterior, K: np.ndarray, onehot: np.ndarray, dK: Derivatives
) -> np.ndarray:
    """∂ log q/∂θ for every kernel derivative.

    Parameters
    ----------
    posterior : SoftmaxPosterior
    K : array (n, n) or (C, n, n)
    onehot : array (n, C)
    dK : array (P, n, n) for a shared kernel, or one such array per class

    Returns
    -------
    array (P,) for a shared kernel, or one after the other for all classes
    """
    p = softmax(posterior.f, axis=1)
    residual = onehot - p
    s = _mode_sensitivity(posterior, K, p)
    # sᵀ(I − K R̃)K'a = tᵀK'a with t = s − R̃ K s, so that every parameter costs one product.
    Ks = _times(K, s)
    shared = cho_solve((posterior.M, True), _times(posterior.E, Ks).sum(axis=1))
    t = s - _times(posterior.E, Ks) + np.einsum("cij,j->ic", posterior.E, shared)
    parts, shared_kernel = [], isinstance(dK, np.ndarray) and dK.ndim == 3
    for c in range(onehot.shape[1]):
        inner = 0.5 * (np.outer(residual[:, c], residual[:, c]) - class_precision(posterior, c))
        inner += np.outer(t[:, c], residual[:, c])
        parts.append(np.einsum("ij,pij->p", inner, dK if shared_kernel else dK[c]))
    return np.sum(parts, axis=0) if shared_kernel else np.concatenate(parts)


def softmax_marginals(posterior: SoftmaxPosterior, K: np.ndarray) -> np.ndarray:
    """Posterior covariance (n, C, C) of the latent values of every scan: blocks of K − K R̃ K."""
    n, n_classes = posterior.f.shape
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
    return S


def _mode_sensitivity(posterior: SoftmaxPosterior, K: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Sensitivity s (n, C): how −½ log|I + W^½KW^½| changes with the latent values."""
    S = softmax_marginals(posterior, K)
    diagonal = np.einsum("icc->ic", S)
    Sp = np.einsum("icd,id->ic", S, p)
    along = (p * diagonal).sum(axis=1, keepdims=True)
    quadratic = (p * Sp).sum(axis=1, keepdims=True)
    return -0.5 * (p * diagonal - p * along - 2.0 * p * Sp + 2.0 * p * quadratic)


def _times(K: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """K_c @ column c for every class, whether K is shared (n, n) or one per class (C, n, n)."""
    if K.ndim == 2:
        return K @ columns
    return np.einsum("cij,jc->ic", K, columns, optimize=True)


def of_class(K: np.ndarray, c: int) -> np.ndarray:
    """The covariance of class c."""
    return K if K.ndim == 2 else K[c]
