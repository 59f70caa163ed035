"""Binary Gaussian process classification by Laplace's method, logistic or probit likelihood.

    p(y_i | f_i) = λ(y_i f_i),  y_i = ±1,   λ = logistic 1/(1 + e^{−z}) or probit Φ(z)
    Newton on  Ψ(f) = Σ log p(y_i | f_i) − ½ fᵀK⁻¹f,   W = −∇² log p
    log q(y) = Ψ(f̂) − Σ log L_ii,                     B = I + W^½ K W^½ = L Lᵀ

    gradient:  R = W^½ B⁻¹ W^½,  Σ = K − K R K
               ∂ log q = ½ aᵀK'a − ½ tr(R K') + s₂ᵀ(I − K R) K'∇,   s₂ = ½ diag Σ ∘ ∇³ log p

==========  ==================  ========
symbol      variable            shape
==========  ==================  ========
K           K                   (n, n)
y           sign                (n,)
f           f                   (n,)
a = K⁻¹f    a                   (n,)
∇, W, ∇³    d1, W, d3           (n,)
==========  ==================  ========

Reference: Rasmussen & Williams 2006, Alg. 3.1 and 5.1 (with ∂W/∂f = −∇³ log p written out).
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import expit, log_expit, log_ndtr

from voxprior.models.gaussian.binary import BinaryPosterior, factorise, site_matrix

MAX_NEWTON = 100
MAX_HALVINGS = 30
# Newton squares its error: after a step this small, what is left is some 1e-10.
STEP_TOLERANCE = 1e-5


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
    f = np.zeros(len(sign)) if start is None else start
    a, objective = np.zeros(len(sign)), -np.inf
    for _ in range(MAX_NEWTON):
        at = derivatives(sign, f)
        target = _newton_target(K, f, at)
        a, f_new, objective = _climb(K, sign, derivatives, a, target, objective)
        change = np.abs(f_new - f).max()
        f = f_new
        if change <= STEP_TOLERANCE * (1.0 + np.abs(f).max()):
            break
    at = derivatives(sign, f)
    root = np.sqrt(at.W)
    L = factorise(np.eye(len(f)) + root[:, None] * K * root)
    return BinaryPosterior(a, root, L, f, float(objective - np.log(np.diag(L)).sum()))


def _newton_target(K: np.ndarray, f: np.ndarray, at: Likelihood) -> np.ndarray:
    """Lines 4 to 8: the dual vector a of a full Newton step."""
    root = np.sqrt(at.W)
    L = factorise(np.eye(len(f)) + root[:, None] * K * root)
    b = at.W * f + at.d1
    return b - root * cho_solve((L, True), root * (K @ b))


def _climb(K, sign, derivatives, a, target, objective):
    """Full step if the objective rises (it is concave), else halve until it does."""
    step = 1.0
    for _ in range(MAX_HALVINGS):
        a_new = a + step * (target - a)
        f_new = K @ a_new
        value = derivatives(sign, f_new).value - 0.5 * a_new @ f_new
        if value >= objective - 1e-12 * abs(value):
            return a_new, f_new, value
        step *= 0.5
    return a, K @ a, objective


def laplace_gradient(
    posterior: BinaryPosterior,
    K: np.ndarray,
    sign: np.ndarray,
    dK: np.ndarray,
    likelihood: str = "logistic",
) -> np.ndarray:
    """∂ log q/∂θ for every kernel derivative in dK (P, n, n) (Alg. 5.1)."""
    at = LIKELIHOODS[likelihood](sign, posterior.f)
    R = site_matrix(posterior)
    C = solve_triangular(posterior.cholesky, posterior.root[:, None] * K, lower=True)
    s2 = 0.5 * (np.diag(K) - np.einsum("ij,ij->j", C, C)) * at.d3
    moved = dK @ at.d1
    s3 = moved - moved @ R @ K
    explicit = 0.5 * np.einsum("ij,pij->p", np.outer(at.d1, at.d1) - R, dK)
    return explicit + s3 @ s2
