"""InverseTreeClassifier: the scikit-learn face of the inverse-tree Bayesian network."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from voxprior.algebra import floored_log
from voxprior.errors import option
from voxprior.models.base import class_prior
from voxprior.models.doubt import MOST_FOLDS, Doubt, check_beta, doubted, learn_doubt
from voxprior.models.growth import NETWORK, tell_if_long
from voxprior.models.network.batch import TreesInBatch
from voxprior.models.network.bits import above, learn_cut
from voxprior.models.network.chance import GainTest, permutation_null
from voxprior.models.network.joint import joint_probabilities, joint_states
from voxprior.models.network.relabelled import cut_and_pack, cut_and_pack_many
from voxprior.models.network.score import class_cells
from voxprior.models.network.stability import Frequencies, bootstrap_paths, frequencies
from voxprior.models.network.tree import (
    Rules,
    class_probabilities,
    jackknife_paths,
    latent_log_odds,
    learn_tree,
)
from voxprior.space import VoxelSpace

COUNT = Interval(Integral, 0, None, closed="left")
FRACTION = Interval(Real, 0, 1, closed="neither")
# Prior of having found something, where the network passed its test, and where it failed.
GATE = ((2.0, 1.0), (1.0, 3.0))
# Alternatives that take less time than a network with doubt.
LESS = f"{option('doubt', None)} or the model sharing"


class InverseTreeClassifier(TreesInBatch):
    r"""Bayesian network: a few voxels are parents of the class, each with a cluster's latent state.

    Voxels are binary. Greedy search adds the voxel that raises the Cooper-Herskovits score of the
    class most, while one raises it; voxels that are in the state of a parent in nearly every sample
    join its cluster; a latent variable, inferred by iterated conditional modes, is the state of the
    cluster; the class depends on the latent states through a table. With no parent found,
    predictions are the class frequencies.

    Parameters
    ----------
    space : VoxelSpace, optional
        Where the voxels are; only ``equivalence="belief"`` uses it. With time, features are
        time-major.
    alpha : float or "bdeu", default=1.0
        Dirichlet parameter of every cell: 1 (K2), "bdeu" for 1/(states · configurations), or any
        positive number.
    max_parents : int, optional
        Upper bound on the number of parents.
    select : {"permutation", "jackknife", "gain"}, default="permutation"
        How many of the greedy parents stay: those before the first whose gain is no better than
        under permuted labels; those up to the largest number at which the model dominates its
        jackknife; all that raise the score. The first two keep at least one: see ``validated_``.
    equivalence : {"dirichlet", "mean", "frequency", "belief"}, default="dirichlet"
        When two voxels are equivalent: see `voxprior.models.network.equivalence`.
    tolerance : float, default=0.1
        How often equivalent voxels may differ, each way.
    confidence : float, default=0.5
        Posterior probability that "dirichlet" asks for.
    coupling : float, default=0.5
        Weight, in nats, of neighbours having the same label under "belief".
    connectivity : {6, 18, 26}, default=6
        Neighbours on a grid under "belief".
    timing : {"after", "during"}, default="after"
        Find clusters from all voxels after the search, or during it and out of the race (Algorithm
        1).
    by_cluster : bool, default=True
        Whether voxels of one cluster count as the same parent where ``select="jackknife"`` compares
        models.
    latent : {"icm", "synchronous", "gibbs"} or None, default="icm"
        How latent states are inferred; None lets each parent stand for itself.
    start : {"parent", "majority"}, default="parent"
        Where latent states start.
    n_restarts : int, default=0
        Further random starts.
    state : {"hard", "soft"}, default="soft"
        New samples take the likelier latent state, or average over both.
    new_samples : {"fixed", "joint"}, default="fixed"
        Latent states of a new sample: given those of the training samples as learned, or inferred
        together with them anew, one sample at a time; the training samples at the clusters are
        kept for that.
    table : {"laplace", "dirichlet", "ml"}, default="laplace"
        Class table by equation (2), equation (3), or maximum likelihood.
    cut : {"auto", "median", "class"} or float, default="auto"
        Where continuous voxels are cut (above is 1): the training median; the middle between the
        lowest and the highest class mean; a number. "auto" cuts at 1/2 where all values are 0 or 1,
        else like "class".
    n_permutations : int, default=39
        Label permutations of ``select="permutation"``.
    level : float, default=0.05
        Its significance level.
    doubt : "gated", (float, float) or None, default="gated"
        Average probabilities over a temperature and over the case that nothing was found, both
        learned from scans held out of the training scans (`voxprior.models.doubt`), with this Beta
        prior of having found something. "gated" is (2, 1) where the network passed its own test,
        and (1, 3) where it did not: the best of many voxels looks like a finding on noise too. The
        network is learned up to ten times more; None trusts the table.
    random_state : int, RandomState or None, default=0
        For restarts, Gibbs sampling and permutations.

    Attributes
    ----------
    parents_ : ndarray (d,)
        Parents of the class in order of entry.
    score_path_ : ndarray (d + 1,)
        Score of the class with 0, 1, .. d parents.
    ties_ : ndarray (d,)
        How many voxels would have been as good as each parent; the lowest number was taken.
    equivalents_ : list of d ndarrays
        Voxels equivalent to each parent.
    latent_ : ndarray (n, d)
        Latent states of the training samples.
    gain_, gain_given_parents_ : ndarray (n_features,)
        Gain of every voxel as the first parent, and as one parent more.
    configurations_, table_, unseen_ : ndarrays (J, d), (J, K), (K,)
        Latent configurations met in training, the class given each, and given any other.
    validated_ : bool or None
        Whether the network passed the test of ``select``; if not, the first parent was kept all the
        same. None for "gain", which tests nothing.
    verdict_ : str
        The same in plain words, for instance that a parent is no better than chance.
    doubt_ : dict or None
        What the held-out scans showed, see `voxprior.models.doubt.Doubt`.
    cut_ : ndarray (n_features,) or (1,)
        Cut of every voxel.
    classes_, class_prior_ : ndarrays (K,)
        Classes and their training frequencies.

    References
    ----------
    Chen and Herskovits, A Bayesian network classifier with inverse tree structure for voxelwise
    magnetic resonance image analysis, KDD 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import InverseTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, (40, 500))
    >>> y = np.where(X[:, 7] | X[:, 8], "patient", "control")
    >>> model = InverseTreeClassifier(max_parents=2).fit(X, y)
    >>> model.parents_
    array([7, 8])
    >>> model.predict(X[:3]) == y[:3]
    array([ True,  True,  True])
    """

    _parameter_constraints: ClassVar[dict] = {
        "space": [VoxelSpace, None],
        "alpha": [Interval(Real, 0, None, closed="neither"), StrOptions({"bdeu"})],
        "max_parents": [COUNT, None],
        "select": [StrOptions({"gain", "jackknife", "permutation"})],
        "equivalence": [StrOptions({"dirichlet", "mean", "frequency", "belief"})],
        "tolerance": [FRACTION],
        "confidence": [FRACTION],
        "coupling": [Real],
        "connectivity": "no_validation",
        "timing": [StrOptions({"after", "during"})],
        "by_cluster": ["boolean"],
        "latent": [StrOptions({"icm", "synchronous", "gibbs"}), None],
        "start": [StrOptions({"parent", "majority"})],
        "n_restarts": [COUNT],
        "state": [StrOptions({"hard", "soft"})],
        "new_samples": [StrOptions({"fixed", "joint"})],
        "table": [StrOptions({"laplace", "dirichlet", "ml"})],
        "cut": [Real, StrOptions({"auto", "median", "class"})],
        "n_permutations": [Interval(Integral, 1, None, closed="left")],
        "level": [FRACTION],
        "doubt": [StrOptions({"gated"}), tuple, list, None],
        "random_state": ["random_state"],
    }
    _reads_blocks: ClassVar[bool] = True
    # Values are only compared.
    _scan_range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    # Binary voxels stay bytes: as floats a million of them would not fit.
    _scan_dtype: ClassVar[Any] = "numeric"
    _tells_chance: ClassVar[bool] = True

    def __init__(
        self,
        space=None,
        alpha=1.0,
        max_parents=None,
        select="permutation",
        equivalence="dirichlet",
        tolerance=0.1,
        confidence=0.5,
        coupling=0.5,
        connectivity=6,
        timing="after",
        by_cluster=True,
        latent="icm",
        start="parent",
        n_restarts=0,
        state="soft",
        new_samples="fixed",
        table="laplace",
        cut="auto",
        n_permutations=39,
        level=0.05,
        doubt="gated",
        random_state=0,
    ):
        self.space = space
        self.alpha = alpha
        self.max_parents = max_parents
        self.select = select
        self.equivalence = equivalence
        self.tolerance = tolerance
        self.confidence = confidence
        self.coupling = coupling
        self.connectivity = connectivity
        self.timing = timing
        self.by_cluster = by_cluster
        self.latent = latent
        self.start = start
        self.n_restarts = n_restarts
        self.state = state
        self.new_samples = new_samples
        self.table = table
        self.cut = cut
        self.n_permutations = n_permutations
        self.level = level
        self.doubt = doubt
        self.random_state = random_state

    @classmethod
    def paper(cls, space=None, max_parents=None):
        """As printed: Algorithm 1, jackknife by voxel, ICM from the parent, hard states, (2)."""
        return cls(
            space=space,
            alpha=1.0,
            max_parents=max_parents,
            select="jackknife",
            equivalence="dirichlet",
            timing="during",
            by_cluster=False,
            latent="icm",
            start="parent",
            n_restarts=0,
            state="hard",
            table="laplace",
            doubt=None,
        )

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Learn parents, clusters, latent states and the class table.

        Parameters
        ----------
        X : array (n, n_features)
            Booleans, 0/1, or continuous values, which are cut.
        y : array (n,)
            Labels of two or more classes.

        Returns
        -------
        self
        """
        given = self.doubt if self.doubt == "gated" else check_beta(self.doubt)
        X, codes = self._training_scans(X, y)
        K = len(self.classes_)
        fits = 1 if given is None else MOST_FOLDS + 1
        n, n_voxels = X.shape
        tell_if_long(self, NETWORK * fits * n * n_voxels, n, n_voxels, less=LESS)
        self.class_prior_ = class_prior(None, np.bincount(codes))
        self.cut_ = learn_cut(X, codes, K, self.cut)
        words, binarize = cut_and_pack(X, self.cut_), self._binarizer(X)
        tree = learn_tree(words, codes, K, self._rules(), self._rng(), binarize)
        self.parents_, self.score_path_, self.ties_ = tree.parents, tree.scores, tree.ties
        self.equivalents_, self.beliefs_ = tree.equivalents, tree.beliefs
        self.latent_ = tree.latent
        self.validated_, self.verdict_ = tree.validated, tree.verdict
        self.latent_bias_, self.latent_weights_ = tree.biases, tree.weights
        self.configurations_, self.table_ = tree.configurations, tree.table
        self.unseen_ = tree.unseen
        self.gain_, self.gain_given_parents_ = tree.first_gain, tree.last_gain
        self.known_ = None
        if self.new_samples == "joint" and self.latent is not None and len(self.parents_):
            self.known_ = {"clusters": self._cluster_states(X), "codes": codes}
        beta = GATE[self.validated_ is False] if given == "gated" else given
        if not len(self.parents_):
            beta = None  # the class frequencies are beyond doubt
        self.doubt_ = None if beta is None else learn_doubt(self, X, codes, beta)._asdict()
        return self

    def predict_proba(self, X):
        """Class probabilities (n, K), columns as in ``classes_``."""
        check_is_fitted(self)
        soft = self.state == "soft"
        if self.known_ is not None:
            known, new = self.known_["clusters"], self._cluster_states(self._new_scans(X))
            rest = (self.known_["codes"], len(self.classes_), self._rules(), soft, self._seed())
            p = joint_probabilities(known, new, *rest)
        else:
            cells = (self.configurations_, self.table_, self.unseen_)
            p = class_probabilities(self.latent_log_odds(X), *cells, soft)
        return p if self.doubt_ is None else doubted(floored_log(p), Doubt(**self.doubt_))

    def latent_log_odds(self, X):
        """Log-odds (n, d) that each cluster's latent state is 1."""
        X = self._new_scans(X)
        states = self._cluster_states(X)
        if self.known_ is not None:
            known, rules, seed = self.known_["clusters"], self._rules(), self._seed()
            draws = (
                joint_states(known, x, rules, np.random.default_rng(seed)) for x in zip(*states)
            )
            return np.concatenate([odds for _, odds in draws])
        return latent_log_odds(self.latent_bias_, self.latent_weights_, states, len(X))

    def voxel_maps(self):
        """Maps (n_features,) of what the network used.

        ``gain`` and ``gain_given_parents`` (nats), ``parents`` and ``clusters`` (1 for the first
        parent, 2 for the second, ..; 0 elsewhere), and with ``equivalence="belief"`` the largest
        ``belief`` of being equivalent to a parent.
        """
        check_is_fitted(self)
        parents = np.zeros(self.n_features_in_)
        clusters = np.zeros(self.n_features_in_)
        for order, members in reversed(list(enumerate(self._clusters(), start=1))):
            parents[members[0]] = order
            clusters[members] = order
        maps = {
            "gain": self.gain_,
            "gain_given_parents": self.gain_given_parents_,
            "parents": parents,
            "clusters": clusters,
        }
        if self.beliefs_ is not None:
            maps["belief"] = self.beliefs_.max(axis=0, initial=0.0)
        return maps

    def jackknife(self, X, y, by_cluster=False) -> Frequencies:
        """Model and edge frequencies (4), (5) over the data without each sample in turn.

        Samples are binary by the fitted cuts; exact for these. The dimensionality is that of the
        fitted network.

        Parameters
        ----------
        X, y : arrays
            The training data.
        by_cluster : bool
            Whether voxels of one cluster count as the same parent.
        """
        X, codes = self._labeled_scans(X, y)
        words = cut_and_pack(X, self.cut_)
        rules = self._rules()._replace(max_parents=len(self.parents_))
        paths = jackknife_paths(words, codes, len(self.classes_), rules)
        return frequencies(paths, self.parents_.tolist(), self._groups() if by_cluster else None)

    def bootstrap(self, X, y, n_bootstrap=100, by_cluster=False) -> Frequencies:
        """Model and edge frequencies over samples drawn with replacement."""
        X, codes = self._labeled_scans(X, y)
        words = cut_and_pack(X, self.cut_)
        K, d, rng = len(self.classes_), len(self.parents_), self._rng()
        paths = bootstrap_paths(words, codes, K, self.alpha, d, n_bootstrap, rng)
        return frequencies(paths, self.parents_.tolist(), self._groups() if by_cluster else None)

    def significance(self, X, y, n_permutations=399) -> GainTest:
        """Test every parent's gain against the best gain of permuted labels.

        The result's ``verdict()`` says plainly where a parent is no better than chance. X, y are
        the training data.
        """
        X, codes = self._labeled_scans(X, y)
        words = cut_and_pack(X, self.cut_)
        K, parents = len(self.classes_), self.parents_.tolist()
        nested = [parents[:d] for d in range(len(parents) + 1)]
        cell_sets = [class_cells(words, codes, K, before, self.alpha) for before in nested]
        scores = np.array([cells.score for cells in cell_sets])
        rest = (self.alpha, n_permutations, self._rng(), None, self._binarizer(X))
        return permutation_null(words, codes, K, parents, scores, *rest)

    def _to_refit(self, X):
        return _HeldOutTree(**self.get_params(deep=False)), X

    def _cluster_states(self, X):
        return [above(X, self.cut_, members) for members in self._clusters()]

    def _clusters(self):
        return [np.append(p, E).astype(np.intp) for p, E in zip(self.parents_, self.equivalents_)]

    def _groups(self):
        groups = {}
        for members in self._clusters():
            groups.update({v: int(members[0]) for v in members.tolist() if v not in groups})
        return groups

    def _binarizer(self, X):
        """Cuts learned with the labels must be learned again wherever labels are permuted."""
        if len(self.cut_) == 1 or self.cut == "median":
            return None
        return lambda labels: cut_and_pack_many(X, labels, len(self.classes_))

    def _rng(self):
        return np.random.default_rng(self._seed())

    def _seed(self):
        return check_random_state(self.random_state).randint(2**31 - 1)

    def _rules(self):
        own = [name for name in Rules._fields if name not in ("adjacency", "tells_chance")]
        named = {name: getattr(self, name) for name in own}
        return Rules(**named, adjacency=self._adjacency(), tells_chance=self._tells_chance)

    def _adjacency(self):
        if self.space is None:
            return None
        self._n_voxels()  # refuses scans that do not fit the space
        return self.space.adjacency(self.connectivity) if self.equivalence == "belief" else None


class _HeldOutTree(InverseTreeClassifier):
    """The same network where only the decision of its verdict is needed; it is found sooner."""

    _tells_chance: ClassVar[bool] = False
