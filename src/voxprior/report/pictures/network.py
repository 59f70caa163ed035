"""Pictures of an inverse-tree network: its structure, and its stability (Figure 7).

Every function takes plain data and returns a matplotlib figure; the figures are those of Chen and
Herskovits, KDD 2005.
"""

from collections.abc import Sequence

import numpy as np

from voxprior.report.figures import INK, PAPER, panels
from voxprior.report.maps import place_name
from voxprior.report.pictures import Legend, Picture

NETWORK = (
    "The class depends on the states L of a few voxels (orange), each read from the whole cluster "
    "of voxels that carry the same message (grey). Arrows show what each adds to the score of the "
    "class, in nats: the log of how much more probable it makes the labels."
)
FOUND = (
    "Share of the leave-one-out refits that find each set of voxels (model), and each voxel "
    "(edge); orange is the network above. Frequencies near 1: the scans agree on it."
)
LEGENDS = {
    "gain": Legend(
        "Gain of each voxel alone",
        "How much more probable the class becomes once the voxel is known; above zero it helps.",
        "nats",
    ),
    "gain_given_parents": Legend(
        "Gain once the network is known",
        "What a voxel would add to the chosen ones; below zero it adds nothing.",
        "nats",
    ),
    "parents": Legend("Chosen voxels", "The voxels that the class depends on, by order.", "order"),
    "clusters": Legend(
        "Clusters", "Voxels that carry the same message as each chosen one.", "cluster"
    ),
    "belief": Legend("Belief", "Probability of being equivalent to a chosen voxel.", "probability"),
}
ACCENT, FAINT = "#c2410c", "#cbd5e1"


def draw_network(parents, equivalents, scores, class_name="class", names=None):
    """Draw the class, its latent parents, and each one's cluster of voxels.

    Parameters
    ----------
    parents : sequence of int (d,)
        Parent voxels in order of entry.
    equivalents : sequence of d sequences
        Voxels equivalent to each parent.
    scores : sequence of float (d + 1,)
        Score of the class with 0, 1, .. d parents; arrows carry the gains.
    class_name : str
        What the leaf is called.
    names : sequence of str, optional
        Names of the parents, for instance their coordinates.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> figure = draw_network([7, 3], [[8, 9], []], [-20.0, -12.0, -9.0], "age")
    >>> [text.get_text() for text in figure.axes[0].texts][:2]
    ['age', 'L1']
    """
    d = len(parents)
    labels = [f"voxel {p}" for p in parents] if names is None else list(names)
    figure, (axes,) = panels(1, max(4.0, 2.4 * d), 4.2)
    center = (d - 1) / 2
    _node(axes, center, 0.0, class_name, ACCENT)
    for i in range(d):
        _node(axes, i, 1.0, f"L{i + 1}", INK)
        _arrow(axes, (i, 1.0), (center, 0.0))
        gain = scores[i + 1] - scores[i]
        middle = ((i + center) / 2, 0.5)
        axes.annotate(f"+{gain:.1f} nats", middle, ha="center", fontsize=8, backgroundcolor=PAPER)
        _cluster(axes, i, labels[i], len(equivalents[i]))
    if d == 0:
        axes.annotate("no voxel raises the score", (0, 0.6), ha="center", color=INK)
    axes.set(xlim=(-0.8, max(d, 1) - 0.2), ylim=(-0.4, 2.6))
    axes.axis("off")
    return figure


def _node(axes, x, y, text, color):
    box = {
        "boxstyle": "circle,pad=0.45",
        "facecolor": PAPER,
        "edgecolor": color,
        "linewidth": 1.6,
    }
    axes.text(x, y, text, ha="center", va="center", color=color, bbox=box, zorder=3)


def _arrow(axes, tail, head):
    style = {"arrowstyle": "-|>", "color": INK, "shrinkA": 16, "shrinkB": 20, "linewidth": 1.2}
    axes.annotate("", xy=head, xytext=tail, arrowprops=style)


def _cluster(axes, x, label, n_equivalents):
    """A parent and up to four of its equivalents as children of the latent state."""
    shown = min(n_equivalents, 4) + 1
    spread = np.linspace(-0.32, 0.32, shown) if shown > 1 else [0.0]
    for k, offset in enumerate(spread):
        _arrow(axes, (x, 1.0), (x + offset, 2.0))
        axes.plot(x + offset, 2.0, "o", color=ACCENT if k == 0 else FAINT, markeredgecolor=INK)
    more = f"{label}\n+ {n_equivalents} equivalent" if n_equivalents else label
    axes.annotate(more, (x, 2.2), ha="center", va="bottom", fontsize=8, color=INK)


def draw_frequencies(model_frequency, edge_frequency, selected=-1, edges_in_model=(), title=""):
    """Model and edge frequencies over resampled data, side by side (the paper's Figure 7).

    Parameters
    ----------
    model_frequency, edge_frequency : sequences of float
        By falling frequency.
    selected : int
        Place of the network learned from all samples; −1 if no resample found it.
    edges_in_model : sequence of int
        Places of its edges.
    title : str
        Name of the data set.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> figure = draw_frequencies([0.7, 0.3], [1.0, 0.7, 0.3], 0, [0, 1], "GM_Age")
    >>> len(figure.axes[0].patches), len(figure.axes[1].patches)
    (2, 3)
    """
    figure, (left, right) = panels(2, 4.0, 2.8)
    _bars(left, model_frequency, [selected] if selected >= 0 else [], "model")
    _bars(right, edge_frequency, edges_in_model, "edge")
    if 0 <= selected < len(model_frequency):
        left.annotate(
            "network of all samples",
            (selected + 1, model_frequency[selected]),
            (0.98, 0.9),
            textcoords="axes fraction",
            ha="right",
            color=ACCENT,
            arrowprops={"arrowstyle": "-", "color": ACCENT},
        )
    else:
        left.set_title("no resample gives the network of all samples", fontsize=9, color=ACCENT)
    if title:
        figure.suptitle(title)
    return figure


def _bars(axes, frequency, highlighted: Sequence[int], what):
    from matplotlib.ticker import MaxNLocator

    colors = [ACCENT if i in set(highlighted) else FAINT for i in range(len(frequency))]
    places = np.arange(1, len(frequency) + 1)
    axes.bar(places, frequency, color=colors, edgecolor=INK, linewidth=0.4)
    # A single bar would fill the panel, and read as its background.
    axes.set(xlabel=f"{what}, by frequency", ylabel="frequency", ylim=(0, 1.05))
    axes.set_xlim(0.4, max(len(frequency), 6) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)


def draw(model, X, y, space=None):
    """Draw what a report shows of a fitted model: its network, and how often resamples find it."""
    names = [place_name(parent, space) for parent in model.parents_]
    network = draw_network(
        model.parents_, model.equivalents_, model.score_path_, names=[f"voxel {n}" for n in names]
    )
    text = f"{NETWORK} {model.verdict_}"
    shown = [Picture("The network", network, text)]
    if len(model.parents_):
        found = model.jackknife(X, y)
        edges = np.flatnonzero(np.isin(found.edges, model.parents_)).tolist()
        figure = draw_frequencies(
            found.model_frequency, found.edge_frequency, found.selected, edges
        )
        shown.append(Picture("Is it found without each scan in turn?", figure, FOUND))
    return shown
