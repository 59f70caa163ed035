"""What the automatic classifier decided, one sentence per choice with the number that made it."""

from __future__ import annotations

from typing import Any

import numpy as np

from voxprior.auto.folds import Design

__all__ = ["decisions"]

VIEWS = {
    "raw": "as they are",
    "z": "each voxel in units of its standard deviation",
    "smooth": "the same, smoothed over neighbouring voxels",
}


def decisions(model: Any, design: Design, n_left_out: int) -> list[str]:
    """Sentences about a fitted `AutoClassifier`."""
    return [
        _views(model),
        _shrinkage(model),
        *([_sharing(model)] if model.sharing else []),
        *([_nothing(model)] if design.folds else []),
        _weight(model),
        _source(model, design, n_left_out),
    ]


def _views(model: Any) -> str:
    shares = model.member_weights_.sum(axis=1)
    told = [f"{VIEWS[v]} ({v}, {_percent(s)})" for v, s in zip(model.views_, shares)]
    return f"Scans were read in {len(told)} views, weighted by left-out scans: {'; '.join(told)}."


def _shrinkage(model: Any) -> str:
    shares = model.member_weights_.sum(axis=0) / model.member_weights_.sum()
    best = int(shares.argmax())
    tau = model.shrinkages_[best]
    covariance = f"shrinkage {tau:g}" if np.isfinite(tau) else "no covariance at all"
    return (
        f"Of {len(shares)} shrinkages of the covariance within classes, from "
        f"{model.shrinkages_[0]:g} to no covariance at all, {covariance} has the largest "
        f"weight, {_percent(shares[best])}."
    )


def _sharing(model: Any) -> str:
    if model.sharing_ is not None:
        share = _percent(model.sharing_weight_)
        return f"Feature sharing between voxels keeps {share} of the weight (prior: 12 %)."
    return (
        "Feature sharing between voxels is not used, because too few scans would be left, or scans "
        "of a class do not differ."
    )


def _nothing(model: Any) -> str:
    share = _percent(model.nothing_weight_)
    return f'The hypothesis "no class information" keeps {share} of the weight (prior: 50 %).'


def _weight(model: Any) -> str:
    shares = model.weight_posterior_.sum(axis=(0, 1))
    center = float(np.exp(shares @ model.log_weights_ / shares.sum()))
    return (
        f"The mean weight of the scores is {center:.3g}, as for classes that are "
        f"{np.sqrt(center):.2g} standard deviations of the noise apart."
    )


def _source(model: Any, design: Design, n_left_out: int) -> str:
    if not design.folds:
        return (
            "All weights are those of the prior, because no scan could be left out "
            f"({len(model.classes_)} classes, folds without one of them dropped)."
        )
    prior = model.class_prior_
    chance = -float(prior @ np.log(prior))
    why = f" (not more, because {design.why})" if design.why else ""
    return (
        f"Weights were learned from {n_left_out} predictions of training scans in "
        f"{len(design.folds)} folds that left out {design.unit}: log-loss "
        f"{model.left_out_log_loss_:.3f}, {chance:.3f} by class frequencies alone. Effective "
        f"sample size: {design.n_effective}{why}."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 or share == 0 else f"{100 * share:.1g} %"
