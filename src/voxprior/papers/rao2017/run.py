"""The claims of the PRoNTo course on probabilistic models, shown on simulated and real scans.

The slides report no experiment; ``published.csv`` lists what they claim and how it is shown here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from voxprior import GPRegressor
from voxprior.papers.frame import Paper, Part, Run, Step, Table, drawing
from voxprior.papers.rao2017 import claims, decoding
from voxprior.simulate import smooth_maps


def size(quick: bool) -> tuple[int, int, tuple[int, ...]]:
    """Studies, training scans, and shape of the maps."""
    return (1, 40, (8, 8, 6)) if quick else (10, 100, (16, 16, 10))


def regression(run: Run) -> Part:
    """Age, with the evidence surface as a picture."""
    seeds, n, shape = size(run.quick)
    found = claims.age(seeds, n, shape)
    caption = "The slides sketch such a surface; here that of the age example, its maximum marked."
    found.figures["evidence_surface"] = drawing(evidence_surface(n, shape), caption)
    return found


def on_studies(work: Callable[..., Part]) -> Callable[[Run], Part]:
    """A step of a function of the number of studies, training scans, and shape of the maps."""
    return lambda run: work(*size(run.quick))


def fingers(run: Run) -> Part:
    """Five fingers of four subjects."""
    names = QUICK if run.quick else None
    subjects = [decoding.fingers(s) for s in ([1] if run.quick else [1, 2, 3, 4])]
    title = "Five fingers, 7 T, leave one run out"
    return Part({title: Table(decoding.table(subjects, names), CHOSEN)})


def categories(run: Run) -> Part:
    """Haxby's eight categories."""
    title = "Haxby, eight categories, block means, leave one run out"
    names = QUICK if run.quick else None
    return Part({title: Table(decoding.table([decoding.categories()], names), CHOSEN)})


CHOSEN = (
    "Not in the slides. That the default takes expectation propagation and chooses how much unseen "
    "variance to keep was decided on these two sets; the simulated studies are other data."
)


QUICK = ["GP, EP one-vs-rest (default)", "multinomial logistic, C = 1"]


def evidence_surface(n: int, shape: tuple[int, ...]) -> Any:
    """The evidence surface of the age example."""
    from voxprior.report.pictures.gaussian import draw_evidence_surface

    data = smooth_maps(shape, n, task="regression", r2=0.8, smoothness=1.0, random_state=0)
    gp = GPRegressor().fit(data.X, data.y)
    steps = np.linspace(-2.5, 2.5, 41)
    scale, noise = gp.theta_[0] + steps, gp.theta_[1] + steps
    best = (gp.theta_[0], gp.theta_[1])
    return draw_evidence_surface(gp.evidence_surface(scale, noise), scale, noise, best=best)


PAPER = Paper(
    "Rao & Marquand 2017",
    [
        Step("binary", on_studies(claims.binary_alike), 0.1),
        Step("age", regression, 0.1),
        Step("evidence", on_studies(claims.evidence_and_test_loss), 0.1),
        Step("relevance vectors", on_studies(claims.sparsity), 0.3),
        Step("three groups", on_studies(claims.three_groups), 0.2),
        Step("prevalence", on_studies(claims.prevalence), 0.05),
        Step("severity and noisy labels", on_studies(claims.severity_and_noise), 0.05),
        Step("fingers", fingers, 0.6),
        Step("categories", categories, 0.7),
    ],
)
