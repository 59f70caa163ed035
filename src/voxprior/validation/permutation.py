"""Permutation tests: how often would a result this good come about if labels meant nothing?

The whole validation is done again for relabelled data; with b of m relabellings at least as good as
the true labels,

    p = (1 + b) / (1 + m)                                                                   (1)

Any statistic will do, if the true labels go the same way as the others. Three ways are offered:

* ``refit``: the decoder itself is fitted again for every fold and relabelling. Results are ordered
  by the score, and where it ties by the held-out log-probability: see `voxprior.validation.refit`;
* ``batch``: the family fits many relabellings at once, by a quicker model of the same kind;
* ``fast``: a ridge decoder with its penalty chosen by evidence, anew in every fold and relabelling,
  stands in for the decoder. Thousands of relabellings take less than a second.

The last two test the mean held-out margin, which is finer than accuracy, and give p of the accuracy
as well, of the same decoder: see `voxprior.validation.batch`. Their p shows whether scans carry
information on labels; it is not the p of the decoder's own accuracy, and the result states that.

* Labels are exchanged as the design allows, see `relabelling`; the result states how.
* Where there are no more distinct relabellings than were asked for, all are used and p is exact.
* The result states the smallest p that the design can give at all.
* Early stopping [1]_ where a decoder is refitted: once h relabellings have scored as well, after l
  of them, p = h / l and the rest is not run. The order is fixed by the seed, so the answer does not
  depend on the workers.
* Hyper-parameters that a search inside the estimator chooses are chosen again for every
  relabelling, or chosen once with the true labels and then fixed; that favours the true labels and
  is reported.
* Scores are kept in a folder as they come, if one is given: a test that was stopped goes on, and
  ends in the same result as one that was not, early stopping included.

References
----------
.. [1] Besag & Clifford, "Sequential Monte Carlo p-values", Biometrika 78, 1991.
.. [2] Ojala & Garriga, "Permutation tests for studying classifier performance", JMLR 11, 2010.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from voxprior.blocks import blocked
from voxprior.errors import InputError, option
from voxprior.validation.audit import Finding
from voxprior.validation.batch import (
    batch_decoder,
    batch_ranks,
    choose_test,
    folds_without_labels,
    labels_at_once,
)
from voxprior.validation.folds import (
    audit_once,
    check_data,
    default_split,
    last_step,
    make_folds,
    prepare_for_labels,
)
from voxprior.validation.ranks import p_value
from voxprior.validation.refit import Design, refit_ranks, score_store, settle_search, sign_of
from voxprior.validation.relabel import (
    Relabelling,
    every_relabelling,
    random_relabellings,
    relabelling,
    within_folds,
)
from voxprior.validation.scores import score_name

LEVEL = 0.05  # above it a statement claims nothing


class Secondary(NamedTuple):
    """Another score of the same test, reported next to the one that was chosen in advance."""

    score: str
    observed: float
    p_value: float
    null: np.ndarray | None = None  # (m,) scores of the relabellings


class PermutationResult(NamedTuple):
    """Outcome of a permutation test."""

    score: str
    observed: float
    null: np.ndarray  # (m,) scores of the relabellings that count
    p_value: float
    smallest_p: float  # that the design and the number of relabellings can give
    scheme: str  # how labels were exchanged, in words
    n_distinct: int  # distinct relabellings of the design
    exact: bool  # whether all of them were used
    stopped_early: bool
    hyperparameters: str  # what was done about a search
    complete: bool  # False after Ctrl-C
    findings: tuple[Finding, ...] = ()  # what the audit found, allowed ones included
    test: str = "refit"  # or "batch", "fast"
    decoder: str = ""  # whose score it is
    stands_for: str = ""  # what was not tested itself, where another decoder stands in
    secondary: tuple[Secondary, ...] = ()

    def __repr__(self) -> str:
        return f"Permutation test: {self.line}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"

    @property
    def line(self) -> str:
        """Scores with their p, how many relabellings of which kind, and the smallest p possible."""
        of = f" of {self.decoder}" if self.stands_for else ""
        told = [f"{score_name(self.score)} {self.observed:.3f}{of}, p = {self.p_value:.3g}"]
        told += [
            f"{score_name(one.score)} {one.observed:.3f}, p = {one.p_value:.3g}"
            for one in self.secondary
        ]
        number = f"all {len(self.null)}" if self.exact else f"{len(self.null)} random"
        how = [f"{number} relabellings", self.scheme, f"smallest possible p {self.smallest_p:.3g}"]
        how += ["stopped early"] * self.stopped_early + ["interrupted"] * (not self.complete)
        return f"{'; '.join(told)} ({', '.join(how)})"

    @property
    def statement(self) -> str:
        """How labels were exchanged, the smallest p, which statistic p belongs to, and the rest."""
        said = [self._exchange(), self._floor(), self._value()]
        said += [
            f"Secondary, of the same decoder: {score_name(one.score)} was {one.observed:.3f}, "
            f"p was {one.p_value:.3g}."
            for one in self.secondary
        ]
        said += ["The test stopped early, as its rule allows."] * self.stopped_early
        said += ["The test was interrupted."] * (not self.complete)
        return " ".join(said)

    def _exchange(self) -> str:
        used = "all of them" if self.exact else f"{len(self.null):,} random ones"
        return (
            f"In a permutation test, with {self.scheme}, {_count(self.n_distinct)} distinct "
            f"relabellings existed and {used} were used."
        )

    def _floor(self) -> str:
        return f"The smallest p that this could give was {self.smallest_p:.3g}."

    def _value(self) -> str:
        text = f"p was {self.p_value:.3g} for the {score_name(self.score)} of {self.observed:.3f}"
        if not self.stands_for:
            return f"{text} ({self.hyperparameters})."
        shown = self.p_value <= LEVEL
        meaning = "labels carried information in these scans" if shown else (
            "that labels carried information in these scans was not shown"
        )  # fmt: skip
        return f"{text} of {self.decoder}: {meaning}; it was not the p of {self.stands_for}."

    def null_of(self, score: str) -> np.ndarray | None:
        """Scores under relabelling of the decoder itself; None where another was tested."""
        known = {self.score: self.null} | {one.score: one.null for one in self.secondary}
        return None if self.stands_for else known.get(score)

    def summary(self) -> dict[str, Any]:
        """Plain dictionary for a report."""
        content = self._asdict() | {"n_relabellings": len(self.null), "statement": self.statement}
        content["null"] = self.null.tolist()
        content["findings"] = [finding.to_dict() for finding in self.findings]
        content["secondary"] = [
            {"score": one.score, "observed": one.observed, "p_value": one.p_value}
            for one in self.secondary
        ]
        return content


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"more than 10^{len(str(number)) - 1}"


def permutation_test(
    estimator,
    X,
    y,
    groups=None,
    cv=None,
    *,
    test: str = "auto",
    score: str | None = None,
    reported: str | None = None,
    blocks=None,
    scheme: str = "auto",
    n_permutations: int = 1000,
    stop_after: int | None = 50,
    hyperparameters: str = "rechosen",
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: bool = False,
    variables: Mapping[str, Any] | None = None,
    columns: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    findings: Sequence[tuple[str, str]] = (),
    looked: Collection[str] = (),
    allow: Collection[str] = (),
    audited: Sequence[Finding] | None = None,
    folder: str | os.PathLike | None = None,
) -> PermutationResult:
    """Test a decoder against relabelled data, after the audit of the split.

    Parameters
    ----------
    estimator, X, y, groups, cv, n_jobs, random_state, progress
        As in `cross_validate`. An estimator on a Gram matrix (``kernel="precomputed"``) reuses it
        for every relabelling, and one that offers ``fit_prepared`` what it has prepared.
    variables, columns, names, findings, looked, allow, audited
        For the audit, as in `cross_validate`.
    test : {"auto", "batch", "fast", "refit"}
        Which statistic is relabelled: that of the family fitted in batch, of a ridge decoder that
        stands in, or of the decoder refitted every time. "auto" takes "batch" where the family
        offers it and scans are not many, "fast" for other linear models and kernel machines, and
        "refit" for all else.
    score : str
        Score of all predictions taken together, chosen before the test. Default where the decoder
        is refitted: accuracy, balanced accuracy for unequal classes, R² for regression; in batch
        the mean margin, or R². A score of probabilities means refitting.
    reported : str
        Score that is reported for the decoder, for instance ``Result.score_names[0]``: the default
        where it is refitted, and the secondary one in batch.
    blocks, scheme
        See `relabelling`.
    n_permutations : int
        Relabellings to draw; fewer if the design has fewer.
    stop_after : int or None
        Where the decoder is refitted, stop once so many score as well as the true labels; None
        never stops early.
    hyperparameters : {"rechosen", "fixed"}
        For a `GridSearchCV` or `RandomizedSearchCV`.
    folder : path
        Keep the scores of finished relabellings there; the same call goes on where it was stopped,
        and gives what it would have given without the stop.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import permutation_test
    >>> y, runs = np.tile([0, 1], 5), np.repeat(range(5), 2)
    >>> X = np.random.default_rng(0).normal(size=(10, 3)) + 5 * y[:, None]
    >>> test = permutation_test(GaussianNB(), X, y, runs, stop_after=None)
    >>> test
    Permutation test: accuracy 1.000, p = 0.0625 (all 31 relabellings,
    labels exchanged among scans within each group, smallest possible p 0.0625)
    >>> permutation_test(LogisticRegression(), X, y, runs).decoder
    'a ridge decoder with its penalty chosen by evidence in every fold and relabelling'
    """
    if n_permutations < 1:
        raise InputError(
            f"{option('n_permutations', n_permutations)} tests nothing", expected="1 or more"
        )
    X = blocked(X)
    y, groups, classes = check_data(estimator, X, y, groups)
    test = choose_test(test, estimator, X, score)
    # Every relabelling goes through it.
    cv = default_split(estimator, y, groups) if cv is None else cv
    cv = list(cv) if isinstance(cv, Iterator) else cv
    folds, _ = make_folds(estimator, X, y, groups, cv)
    known: dict[str, Any] = {"variables": variables, "columns": columns, "names": names}
    known |= {"findings": findings, "looked": looked, "allow": allow}
    found = audit_once(audited, estimator, X, y, groups, folds, **known)
    structure, cv, fixed = _exchanged(
        estimator, X, y, groups, cv, folds, test, blocks, scheme, n_permutations
    )
    estimator, said = settle_search(estimator, X, y, groups, hyperparameters)
    codes, exact = _draw(structure, n_permutations, random_state)
    scores = _scores(test, score, reported or _default_score(y, classes), classes)
    prepared = prepare_for_labels(estimator, X, groups) if test == "refit" else None
    design = Design(structure, np.unique(y), estimator, X, groups, cv, classes, prepared)
    options: dict[str, Any] = {"n_jobs": n_jobs, "random_state": random_state, "progress": progress}
    kept: dict[str, Any] = {"test": test, "scores": scores}
    if test != "refit":  # what is kept are blocks of so many
        kept["labels_at_once"] = labels_at_once(test, estimator, fixed)
    options["store"] = score_store(folder, codes, y, folds, design, random_state, kept)
    if test == "refit":
        ranks, complete = refit_ranks(codes, design, scores[0], stop_after, options)
        p, used, stopped = p_value(ranks[0], ranks[1:], stop_after, len(codes) - 1)
        words: dict[str, Any] = {"decoder": type(last_step(estimator)).__name__}
    else:
        held = folds if fixed else None
        ranks, complete = batch_ranks(codes, held, design, test, scores, options)
        p, used, stopped = _p_in_batch(ranks, scores, scores[0])
        words = _stand_in(test, estimator, scores, ranks)
    _refuse_undefined(ranks[0, 0], scores[0])
    smallest = _smallest_p(structure, n_permutations)
    sign = sign_of(scores[0])
    return PermutationResult(
        scores[0],
        float(sign * ranks[0, 0]),
        sign * ranks[1 : used + 1, 0],
        p,
        smallest,
        structure.statement,
        structure.n_distinct,
        exact and complete and not stopped,
        stopped,
        said,
        complete,
        tuple(found),
        test=test,
        **words,
    )


class Exchange(NamedTuple):
    """How a permutation test would relabel."""

    test: str  # "batch", "fast" or "refit"
    scheme: str  # how labels are exchanged, in words
    n: int  # relabellings
    smallest_p: float


def planned_exchange(
    estimator, X, y, groups, cv, folds, *, test: str, n_permutations: int, blocks=None
) -> Exchange:
    """Describe how `permutation_test` would relabel, and the smallest p that it can give.

    Parameters
    ----------
    estimator, X, y, groups, cv
        As in `permutation_test`.
    folds : list of (train, test)
        Of this split.
    test, n_permutations, blocks
        As in `permutation_test`.
    """
    test = choose_test(test, estimator, X, None)
    cv = default_split(estimator, y, groups) if cv is None else cv
    structure, _, _ = _exchanged(
        estimator, X, y, groups, cv, folds, test, blocks, "auto", n_permutations
    )
    n = min(n_permutations, structure.n_distinct - 1)
    return Exchange(test, structure.statement, n, _smallest_p(structure, n_permutations))


def _exchanged(
    estimator, X, y, groups, cv, folds, test, blocks, scheme, n_permutations
) -> tuple[Relabelling, Any, bool]:
    """What is exchanged, the split, and whether the folds are the same for every relabelling."""
    symmetric = is_classifier(estimator)
    structure = relabelling(y, groups, blocks, scheme=scheme, symmetric=symmetric)
    fixed = test == "refit" or folds_without_labels(folds, X, groups, cv, estimator)
    alone = scheme == "auto" and structure.scheme != "within" and len(structure.code) == len(y)
    if not fixed and alone and blocks is None:
        inside = within_folds(y, folds, symmetric=symmetric)
        if inside is not None and _floor(inside) <= 1 / (n_permutations + 1):
            return inside, folds, True
    return structure, cv, fixed


def _floor(structure: Relabelling) -> float:
    """The smallest p that the design allows, (2) of `relabel`."""
    return structure.n_symmetric / structure.n_distinct


def _smallest_p(structure: Relabelling, n_permutations: int) -> float:
    """The smallest p that the design and the number of relabellings allow."""
    return float(max(1 / min(n_permutations + 1, structure.n_distinct), _floor(structure)))


def _default_score(y, classes) -> str:
    if len(classes) == 0:
        return "r2"
    counts = np.unique(y, return_counts=True)[1]
    return "accuracy" if counts.min() == counts.max() else "balanced_accuracy"


def _scores(test: str, score: str | None, reported: str, classes) -> tuple[str, ...]:
    """The score to be tested first; in batch, also others, which break its ties."""
    if test == "refit" or len(classes) == 0:
        return (score or reported,)
    told = reported if reported in ("accuracy", "balanced_accuracy") else "accuracy"
    return tuple(dict.fromkeys((score or "margin", "margin", told)))


def _stand_in(test: str, estimator, scores: tuple[str, ...], ranks: np.ndarray) -> dict[str, Any]:
    """What was tested in batch, for which decoder, and the secondary scores with their p."""
    secondary = [
        Secondary(
            name, float(ranks[0, place]), _p_in_batch(ranks, scores, name)[0], ranks[1:, place]
        )
        for place, name in enumerate(scores)
        if place > 0
    ]
    fitted, name = batch_decoder(test, estimator), type(last_step(estimator)).__name__
    itself = getattr(fitted, "fit_many_is_fit", False)
    return {
        "decoder": name if itself else fitted.fit_many_words,
        "stands_for": "" if itself else f"the score of {name}",
        "secondary": tuple(secondary),
    }


def _p_in_batch(ranks: np.ndarray, scores: tuple[str, ...], score: str) -> tuple[float, int, bool]:
    """Return p of one of the scores; the margin breaks the ties of the others."""
    columns = [scores.index(score)]
    if "margin" in scores and score != "margin":
        columns.append(scores.index("margin"))
    return p_value(ranks[0, columns], ranks[1:, columns])


def _refuse_undefined(observed: float, score: str) -> None:
    if np.isnan(observed):
        raise InputError(
            f"The score {score!r} is not defined for this split",
            remedy=f"Choose another score or another {option('cv')}",
        )


def _draw(structure: Relabelling, n_permutations: int, random_state) -> tuple[list, bool]:
    """Unit codes to score, the true ones first, and whether these are all there are."""
    if structure.n_distinct - 1 <= n_permutations:
        return list(every_relabelling(structure)), True
    rng = np.random.default_rng((random_state, 1))
    return [structure.code, *random_relabellings(structure, n_permutations, rng)], False
