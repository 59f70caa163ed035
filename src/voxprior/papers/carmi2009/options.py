"""When blocks of nodes and coefficients that move in time pay: designs with and without them."""

from __future__ import annotations

import numpy as np

from voxprior import RandomFieldClassifier
from voxprior.papers.carmi2009 import arms
from voxprior.papers.carmi2009.chain import on_new_scans
from voxprior.papers.claims import told
from voxprior.papers.frame import Part, Run, Table
from voxprior.simulate import chains

REGIONS, SIZE = 16, 5
SETTINGS: dict[str, dict] = {"plain": {"compression": None}, "compressed": {}}


def blocks(run: Run) -> Part:
    """All nodes as predictors, or those of other regions only, on 80 nodes in 16 regions."""
    region = np.repeat(np.arange(REGIONS), SIZE)
    ways = {"all": None, "blocks": region}
    rows = []
    k = 19
    for design in run.each(DESIGNS):
        rounds = []
        for seed in arms.data_sets(run):
            X, y = DESIGNS[design](seed, k + 150)
            methods = {
                f"{kind}, {way}": RandomFieldClassifier(None, blocks=b, temperature=1.0, **settings)
                for kind, settings in SETTINGS.items()
                for way, b in ways.items()
            }
            rounds.append(on_new_scans(methods, X, y, k))
        found = {"classes differ": design, "scans per class": k, "data sets": len(rounds)}
        effects = arms.gain(rounds, "compressed, all", "compressed, blocks")
        rows.append(found | arms.pooled(rounds) | {"gain of blocks": told(effects)})
    return Part({"Equations (1.23)-(1.25): blocks of nodes (ours)": Table(rows)})


def between_regions(seed: int, n_per_class: int):
    """Regions whose voxels are near copies; chains run over regions."""
    data = chains(n_per_class=n_per_class, n_nodes=REGIONS, coupling=0.6, random_state=seed)
    noise = np.random.default_rng(1000 + seed).normal(size=(len(data.y), REGIONS * SIZE))
    return np.sqrt(0.7) * np.repeat(data.X, SIZE, axis=1) + np.sqrt(0.3) * noise, data.y


def within_regions(seed: int, n_per_class: int):
    """A short chain inside each region, nothing between them."""
    parts = [
        chains(n_per_class=n_per_class, n_nodes=SIZE, coupling=0.5, random_state=100 * seed + r)
        for r in range(REGIONS)
    ]
    return np.hstack([part.X for part in parts]), parts[0].y


def anywhere(seed: int, n_per_class: int):
    """Chains over all nodes; regions mean nothing."""
    data = chains(n_per_class=n_per_class, n_nodes=REGIONS * SIZE, coupling=0.5, random_state=seed)
    return data.X, data.y


DESIGNS = {
    "between regions": between_regions,
    "within regions": within_regions,
    "anywhere": anywhere,
}


def time(run: Run) -> Part:
    """A field that turns into another while it is measured, or not; tested after the turn."""
    rows = []
    n = 30
    for design, k in run.each((d, k) for d in ("still", "gradual", "sudden") for k in (30, 90)):
        rounds = []
        for seed in arms.data_sets(run):
            X, y = _turning(design, seed, k, n)
            methods = {
                f"{kind}, drift {q:g}": RandomFieldClassifier(
                    n, gamma=10.0, compression=rho, drift=q, temperature=1.0
                )
                for kind, rho in (("plain", None), ("compressed", 1.0))
                for q in (0.0, 0.001, 0.01, 0.1)
            }
            rounds.append(on_new_scans(methods, X, y, k))
        found = {"the field is": design, "scans per class": k, "data sets": len(rounds)}
        effects = arms.gain(rounds, "compressed, drift 0", "compressed, drift 0.001")
        rows.append(found | arms.pooled(rounds) | {"gain of drift .001": told(effects)})
    title = "Section 1.3: coefficients that move in time, A = I, Q = qI (ours)"
    differs = "Gradual: from the first to the last training scan. Sudden: after two thirds of them."
    return Part({title: Table(rows, differs)})


def _turning(design: str, seed: int, k: int, n: int):
    before, after = (
        chains(n_per_class=k + 100, n_nodes=n, coupling=0.6, random_state=s)
        for s in (seed, 500 + seed)
    )
    moment = np.empty(len(before.y))
    for label in (0, 1):
        moment[before.y == label] = np.arange(k + 100) / k
    turned = {
        "still": np.zeros(len(moment)),
        "gradual": np.clip(moment, 0, 1),
        "sudden": (moment >= 2 / 3).astype(float),
    }[design][:, None]
    return np.sqrt(1 - turned) * before.X + np.sqrt(turned) * after.X, before.y
