"""The claims of the PRoNTo course on probabilistic models, shown on simulated and real scans.

``python -m voxprior.papers.rao2017.run [--data DIR] [--quick] [--figures DIR]``

The slides report no experiment; ``published.csv`` lists what they claim and how it is shown here.
"""

from pathlib import Path
from typing import Any

import numpy as np

from voxprior import GPRegressor
from voxprior.papers import tables
from voxprior.papers.rao2017 import claims, decoding
from voxprior.simulate import smooth_maps


def simulated(seeds: int, n: int, shape: tuple[int, ...]) -> dict[str, Any]:
    """All claims on simulated studies."""
    severity, flips = claims.severity_and_noise(seeds, n, shape)
    groups, rising = claims.three_groups(seeds, n, shape)
    return {
        "Binary: most algorithms perform alike": claims.binary_alike(seeds, n, shape),
        "Age: the evidence finds scale and noise": claims.age(seeds, n, shape),
        "Classes: where the evidence stops, and where the test would": (
            claims.evidence_and_test_loss(n, shape, seeds)
        ),
        "Relevance vectors are few": claims.sparsity(seeds, n, shape),
        "Three groups: control, unipolar depression, schizophrenia": groups,
        "Reject: accuracy among the most confident": rising,
        "Prevalence: one patient in ten": claims.prevalence(seeds, n, shape),
        "Severity": severity,
        "Noisy labels": flips,
    }


def real(quick: bool) -> dict[str, Any]:
    """Fingers and categories where the data are present; says so where they are not."""
    names = ["GP, EP one-vs-rest (default)", "multinomial logistic, C = 1"] if quick else None
    found: dict[str, Any] = {}
    try:
        subjects = [1] if quick else [1, 2, 3, 4]
        title = "Five fingers, 7 T, leave one run out"
        found[title] = decoding.table([decoding.fingers(s) for s in subjects], names)
        if not quick:
            title = "Haxby, eight categories, block means, leave one run out"
            found[title] = decoding.table([decoding.categories()], names)
    except FileNotFoundError as missing:
        found["Real scans"] = f"Left out: {missing}"
    return found


def figures(folder: Path, n: int, shape: tuple[int, ...]) -> None:
    """The evidence surface of the age example."""
    from voxprior.report.pictures.gaussian import draw_evidence_surface

    data = smooth_maps(shape, n, task="regression", r2=0.8, smoothness=1.0, random_state=0)
    gp = GPRegressor().fit(data.X, data.y)
    steps = np.linspace(-2.5, 2.5, 41)
    scale, noise = gp.theta_[0] + steps, gp.theta_[1] + steps
    picture = draw_evidence_surface(
        gp.evidence_surface(scale, noise), scale, noise, best=(gp.theta_[0], gp.theta_[1])
    )
    folder.mkdir(parents=True, exist_ok=True)
    picture.savefig(folder / "evidence.png", dpi=120)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run the studies and return the tables; with --out they are written as results.md."""
    options = tables.options(__doc__, argv)
    seeds, n, shape = (1, 40, (8, 8, 6)) if options.quick else (10, 100, (16, 16, 10))
    sections = simulated(seeds, n, shape) | real(options.quick)
    if options.out is not None:
        figures(options.out, n, shape)
    note = (
        f"Simulated: {seeds} studies of {n} training and {claims.N_TEST} test scans, "
        f"{np.prod(shape):,} voxels; means over studies. {tables.machine()}."
    )
    tables.save(
        options.out and options.out / "results.md",
        "Probabilistic pattern recognition",
        sections,
        note,
    )
    return sections


if __name__ == "__main__":
    main()
