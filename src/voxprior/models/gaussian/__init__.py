"""Gaussian processes and relevance vectors: smooth or sparse functions chosen by evidence.

| algorithm | file |
|---|---|
| Gram matrices of voxels, centring; weight maps | `gram` |
| covariance functions: linear, polynomial, RBF, sums | `covariance` |
| regression (Rasmussen & Williams, Alg. 2.1) | `regression` |
| Laplace's method: binary (3.1, 3.2), softmax (3.3, 3.4) | `laplace` |
| expectation propagation (3.5, 3.6) | `ep` |
| the same for C classes behind one multinomial probit | `ep_multinomial` |
| class probabilities | `prediction` |
| scans left out without a refit: score, weight of unseen variance, power | `left_out` |
| which problems C classes are | `class_processes` |
| evidence and its optimisation (section 5.4) | `evidence` |
| relevance vectors: EM and MacKay (Tipping 2001) | `rvm_em` |
| relevance vectors: fast sequential (Tipping & Faul 2003) | `rvm_sequential` |
| relevance vectors: one shared precision | `rvm_tied` |

Estimators: `gp_classifier`, `gp_regressor` and `rvm`, on what they share, `base` and `relevance`.
"""

from voxprior.models.gaussian.gp_classifier import GPClassifier
from voxprior.models.gaussian.gp_regressor import GPRegressor
from voxprior.models.gaussian.rvm import RVMClassifier, RVMRegressor

__all__ = ["GPClassifier", "GPRegressor", "RVMClassifier", "RVMRegressor"]
