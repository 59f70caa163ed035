"""Ways of sharing that were tried against the defaults; those that lost live only here.

spatial prior     θ_c − θ̄ ~ N(0, τ² [a K_h + (1 − a) I]), K_h Gaussian; h, a, τ by evidence
James-Stein       θ_c ← θ̄ + ρ (θ_c − θ̄), ρ = 1 − noise / |contrasts|²
predictive        σ̂² ← σ̂² (1 + w/N)
"""

import numpy as np

from voxprior import FeatureSharingNB
from voxprior.models.sharing.calibration import attenuation


class JamesStein(FeatureSharingNB):
    """Class means drawn toward their mean by the share of their contrasts that is noise."""

    def _estimate(self, groups):
        super()._estimate(groups)
        ones = np.ones_like(self.theta_)
        rho = attenuation(self.mean_, self.mean_, ones, self.var_, self.class_count_)
        centre = self.theta_.mean(axis=0)
        self.theta_ = centre + rho * (self.theta_ - centre)
        self.temperature_ *= rho  # the attenuation is in the means now


class Predictive(FeatureSharingNB):
    """Variances of a new scan: those of the noise and of the class mean together."""

    def _estimate(self, groups):
        super()._estimate(groups)
        self.var_ = self.var_ * (1 + 1 / self.class_count_)[:, None]


class SpatialPrior(FeatureSharingNB):
    """Class contrasts under a Gaussian-process prior, hyper-parameters by evidence."""

    def _estimate(self, groups):
        super()._estimate(groups)
        centre, scale = self.mean_.mean(axis=0), np.sqrt(self.var_.mean(axis=0))
        contrasts = (self.mean_ - centre) / scale
        noise = (1 / self.class_count_).mean()
        best = (-np.inf, contrasts)
        for radius in (0.7, 1.0, 1.5, 2.0, 3.0):
            values, vectors = np.linalg.eigh(self.space.gaussian(radius).to_dense())
            best = max(
                best, _evidence(contrasts @ vectors, values.clip(0), vectors, noise),
                key=lambda found: found[0],
            )  # fmt: skip
        self.theta_ = centre + best[1] * scale


def _evidence(rotated, values, vectors, noise):
    """Best evidence over a and τ² on one kernel, and the posterior means that go with it."""
    power = (rotated**2).sum(axis=0) / (len(rotated) - 1)
    best = (-np.inf, None)
    for a in (0.0, 0.3, 0.6, 0.8, 0.9, 0.97):
        shape = a * values + 1 - a
        for tau2 in noise * np.geomspace(0.01, 10, 13):
            total = tau2 * shape + noise
            evidence = -0.5 * (np.log(total) + power / total).sum()
            if evidence > best[0]:
                best = (evidence, (rotated * (tau2 * shape / total)) @ vectors.T)
    return best
