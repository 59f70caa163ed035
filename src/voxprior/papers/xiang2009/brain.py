"""Figure 6: the map of one subject on the brain, with the names of its peaks where they are known.

The movie data were never published. One simulated subject lies in MNI space, with signal in the
places that the paper finds, so that peaks can be called by name; Haxby's slice is a real subject,
in its own space, where they cannot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voxprior import VoxelSpace
from voxprior.mapping import Atlas
from voxprior.papers.datasets import Patterns, haxby_slice, standardize_by
from voxprior.papers.frame import Part, Run, Table, drawing
from voxprior.papers.xiang2009.arms import arms, morans_i
from voxprior.report.anatomy import ground_of
from voxprior.report.maps import draw_maps, millimeters
from voxprior.report.peaks import peak_table
from voxprior.simulate import blobs, brain

# Places in MNI space, millimetres. The first three carry the signal: fusiform face areas, and the
# posterior superior temporal sulcus for the paper's second place, which it names less precisely.
LANDMARKS = {
    "right fusiform face area": (40, -55, -12),
    "left fusiform face area": (-40, -55, -12),
    "right posterior superior temporal sulcus": (52, -42, 8),
    "left posterior superior temporal sulcus": (-52, -42, 8),
    "right parahippocampal place area": (28, -46, -8),
    "left parahippocampal place area": (-28, -46, -8),
    "primary visual cortex": (0, -90, 2),
    "right hand area": (38, -24, 56),
    "left hand area": (-38, -24, 56),
    "anterior cingulate": (0, 36, 20),
    "right frontal eye field": (28, -6, 52),
    "left frontal eye field": (-28, -6, 52),
}
N_WITH_SIGNAL = 3
RADIUS = 12.0
# Methods of the figure by what it calls them: names of equal width, so that rows are of equal size.
SHOWN = {
    "AdaBoost\nλ = 0": "AdaBoost (λ = 0)",
    "SRB (8)\nλ = 0.1": "SRB, conservative step (8)",
    "SRB (7)\nλ = 10": "SRB, λ = 10, same r",
}


def landmarks(space: VoxelSpace) -> Atlas:
    """An atlas of balls: each voxel is called by its nearest landmark, if that is near enough."""
    distances = _distances(space)
    codes = np.where(distances.min(axis=1) <= RADIUS, distances.argmin(axis=1) + 1, 0)
    return Atlas(codes, dict(enumerate(LANDMARKS, start=1)))


def _distances(space: VoxelSpace) -> NDArray:
    places = np.array(list(LANDMARKS.values()), dtype=float)
    return np.linalg.norm(millimeters(space)[:, None] - places, axis=2)


def simulated_subject(resolution: float, seed: int = 0) -> tuple[Patterns, NDArray]:
    """One subject in MNI space, 26 + 18 volumes; and which voxels carry the signal."""
    space = brain(resolution)
    data = blobs(space, n_per_class=26, effect=0.0, noise="correlated", random_state=seed)
    keep = np.concatenate([np.flatnonzero(data.y == 0), np.flatnonzero(data.y == 1)[:18]])
    X, y = data.X[keep], data.y[keep]
    near = _distances(space)[:, :N_WITH_SIGNAL].min(axis=1)
    bump = np.exp(-0.5 * (near / (RADIUS / 2)) ** 2)
    X[y == 1] += (1.2 * bump / X.std()).astype(X.dtype)
    return Patterns(X, y, np.zeros(len(y)), space), near <= RADIUS


def importance(data: Patterns, radius: float, n_iterations: int) -> dict[str, NDArray]:
    """β of the methods that the figure shows."""
    methods = arms(regularization=0.1, radius=radius, n_iterations=n_iterations)
    X = data.X.astype(np.float32)
    return {
        label: methods[name](data.space).fit(X, data.y).importance_ for label, name in SHOWN.items()
    }


def figure_six(run: Run) -> Part:
    """The simulated subject."""
    data, inside = simulated_subject(8 if run.quick else 6)
    maps = importance(data, 2.5, 10 if run.quick else 100)
    atlas, graph = landmarks(data.space), data.space.adjacency(26)
    rows, shares = [], []
    for label, beta in maps.items():
        name = SHOWN[label]
        peaks = peak_table(data.space, beta, atlas)
        rows += [{"method": name, **dict(zip(peaks["columns"], row))} for row in peaks["rows"][:5]]
        share = beta[inside].sum() / beta.sum()
        shares.append({
            "method": name, "β where there is signal": float(share),
            "if spread evenly": float(inside.mean()), "Moran's I": morans_i(beta, graph),
            "voxels used": int((beta > 0).sum()),
        })  # fmt: skip
    drawn = draw_maps(data.space, maps, unit="β", ground=ground_of(data.space, [IN_MNI]))
    tables = {
        "Figure 6: where the maps of a simulated subject lie": Table(shares),
        "Figure 6: five strongest peaks of a simulated subject, in MNI millimetres": Table(
            rows, f"Named by the nearest of {len(LANDMARKS)} landmarks within {RADIUS:g} mm."
        ),
    }
    return Part(tables, {"figure6_simulated_subject": drawing(drawn, CAPTION)})


IN_MNI = "space-MNI152NLin2009cAsym"
CAPTION = (
    "Published: the maps of one subject who watched a movie, AdaBoost scattered and SRB clustered "
    "at the fusiform face area and the posterior central sulcus. Here one simulated subject in MNI "
    "space, 6 mm, r = 2.5 voxels, signal in both fusiform face areas and one temporal sulcus."
)


def haxby_figure(run: Run) -> Part:
    """Faces against houses in the slice of Haxby's subject 1, which has no common space."""
    whole = haxby_slice()
    part = np.isin(whole.y, ["face", "house"])
    X = standardize_by(whole.X, whole.run)[part]
    data = Patterns(X, whole.y[part], whole.run[part], whole.space)
    drawn = draw_maps(data.space, importance(data, 2.0, 10 if run.quick else 100), unit="β")
    caption = (
        "Figure 6 on a real subject: faces against houses in half a slice of Haxby's subject 1, "
        "all volumes, r = 2. It is in the subject's own space, so that places have no names."
    )
    return Part({}, {"figure6_Haxby_slice": drawing(drawn, caption)})
