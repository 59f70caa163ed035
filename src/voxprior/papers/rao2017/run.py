"""The claims of the PRoNTo course on probabilistic models, shown on simulated and real scans.

The slides report no experiment; ``published.csv`` lists what they claim and how it is shown here.
"""

from typing import Any

import numpy as np

from voxprior import GPRegressor
from voxprior.papers.frame import Paper, Part, Run, Step, Table, drawing
from voxprior.papers.rao2017 import claims, decoding
from voxprior.simulate import smooth_maps


def size(quick: bool) -> tuple[int, int, tuple[int, ...]]:
    """Studies, training scans, and shape of the maps."""
    return (1, 40, (8, 8, 6)) if quick else (10, 100, (16, 16, 10))


def binary(run: Run) -> Part:
    return Part(
        {"Binary: most algorithms perform alike": Table(claims.binary_alike(*size(run.quick)))}
    )


def regression(run: Run) -> Part:
    seeds, n, shape = size(run.quick)
    tables = {"Age: the evidence finds scale and noise": Table(claims.age(seeds, n, shape))}
    return Part(tables, {"evidence_surface": drawing(evidence_surface(n, shape))})


def evidence(run: Run) -> Part:
    seeds, n, shape = size(run.quick)
    title = "Classes: where the evidence stops, and where the test would"
    return Part({title: Table(claims.evidence_and_test_loss(n, shape, seeds))})


def relevance(run: Run) -> Part:
    return Part({"Relevance vectors are few": Table(claims.sparsity(*size(run.quick)))})


def decisions(run: Run) -> Part:
    """Three groups, reject, prevalence, severity, noisy labels."""
    groups, rising = claims.three_groups(*size(run.quick))
    severity, flips = claims.severity_and_noise(*size(run.quick))
    return Part(
        {
            "Three groups: control, unipolar depression, schizophrenia": Table(groups),
            "Reject: accuracy among the most confident": Table(rising),
            "Prevalence: one patient in ten": Table(claims.prevalence(*size(run.quick))),
            "Severity": Table(severity),
            "Noisy labels": Table(flips),
        }
    )


def fingers(run: Run) -> Part:
    """Five fingers of four subjects."""
    names = QUICK if run.quick else None
    subjects = [decoding.fingers(s) for s in ([1] if run.quick else [1, 2, 3, 4])]
    title = "Five fingers, 7 T, leave one run out"
    return Part({title: Table(decoding.table(subjects, names))})


def categories(run: Run) -> Part:
    """Haxby's eight categories."""
    title = "Haxby, eight categories, block means, leave one run out"
    names = QUICK if run.quick else None
    return Part({title: Table(decoding.table([decoding.categories()], names))})


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
        Step("binary", binary),
        Step("age", regression),
        Step("evidence", evidence),
        Step("relevance vectors", relevance),
        Step("decisions", decisions),
        Step("fingers", fingers),
        Step("categories", categories),
    ],
)
