"""Experiment: a data set, how it is split, and how the work is run. All tests of models go here.

One object serves every test, so that all see the same scans, the same preparation (`prepared`) and
the same split, and the audit that came first need not be made again.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from voxprior import registry
from voxprior.decoder.comparison import Comparison, reason
from voxprior.decoder.preparation import prepared
from voxprior.errors import InputError, InputWarning, option
from voxprior.images import Dataset
from voxprior.validation import (
    AuditError,
    LearningCurve,
    PermutationResult,
    Result,
    compare_with_covariates,
    cross_validate,
    learning_curve,
    permutation_test,
)
from voxprior.validation.choice import score_after_nested_choice
from voxprior.validation.covariates import CovariateComparison


@dataclass(frozen=True)
class Experiment:
    """All that decides a result, apart from the model.

    Attributes
    ----------
    data : Dataset
        The scans, with labels.
    cv : splitter, int or None
        How they are split.
    allow : collection of str
        Findings of the audit that the user overrides.
    folder : path or None
        Where finished work is kept.
    running : dict
        n_jobs, random_state and progress.
    """

    data: Dataset
    cv: Any
    allow: Any
    folder: Path | None
    running: dict[str, Any]

    def evaluate(self, estimator: Any) -> Result:
        """Test a model on held-out scans."""
        model, X = prepared(estimator, self.data)
        result = cross_validate(model, X, self.data.y, self.data.groups, self.cv, **self._options())
        images = self.data.images
        told = {} if images is None else {"mask": images.mask_words}
        return replace(result, settings=result.settings | told)

    def permutation_test(
        self, estimator: Any, result: Result | None, **options: Any
    ) -> PermutationResult:
        """Test the score of a model against relabelled scans."""
        model, X = prepared(estimator, self.data)
        if result is not None:
            options = {"reported": result.score_names[0], "audited": result.audit} | options
        options = self._options() | {"blocks": self.data.blocks} | options
        return permutation_test(model, X, self.data.y, self.data.groups, self.cv, **options)

    def learning_curve(
        self, estimators: Mapping[str, Any], result: Result | None, **options: Any
    ) -> LearningCurve:
        """Score models at growing numbers of training scans."""
        tasks = {name: prepared(model, self.data) for name, model in estimators.items()}
        models = {name: task.estimator for name, task in tasks.items()}
        X = next(iter(tasks.values())).X  # the same for all
        if result is not None:
            options = {"audited": result.audit} | options
        options = self._options() | options
        return learning_curve(models, X, self.data.y, self.data.groups, **options)

    def compare(self, estimators: Mapping[str, Any], repeats: int) -> Comparison:
        """Test several models on the same folds, and how they learn."""
        results, failures = self._test_all(estimators)
        curve = None
        if repeats and registry.kind_of(self.data.y) == "classifier":
            tested = {name: estimators[name] for name in results}
            first = next(iter(results.values()))
            curve = whole(self.learning_curve(tested, first, n_repeats=repeats))
        found = Comparison(results, failures, curve)
        return replace(found, nested=self._chosen_anew(estimators, found.rivals))

    def _chosen_anew(self, estimators: Mapping[str, Any], rivals: dict[str, Result]) -> Any:
        """Score of the choice among rivals, made anew for every group; None where it cannot be."""
        tasks = {name: prepared(estimators[name], self.data) for name in rivals}
        models = {name: task.estimator for name, task in tasks.items()}
        X = next(iter(tasks.values())).X  # the same for all
        try:
            return score_after_nested_choice(
                models, X, self.data.y, self.data.groups, rivals, folder=self.folder, **self.running
            )
        except (OSError, MemoryError):  # not of the models
            raise
        except Exception as error:
            told = f"The choice was not made anew for every group: {reason(error)}"
            warnings.warn(InputWarning(told), stacklevel=4)
            return None

    def _test_all(self, estimators: Mapping[str, Any]) -> tuple[dict, dict]:
        """Results by model, and what models failed with, if some did."""
        results: dict[str, Result] = {}
        failures: dict[str, Exception] = {}
        told: set[str] = set()
        for name, estimator in estimators.items():
            if self.running["progress"]:
                print(name, file=sys.stderr)
            try:
                with each_told_once(told):
                    results[name] = whole(self.evaluate(estimator))
            except (AuditError, OSError, MemoryError):  # not of this model alone
                raise
            except Exception as error:
                failures[name] = error
                warnings.warn(InputWarning(f"{name} failed: {reason(error)}"), stacklevel=4)
        if not results:
            raise next(iter(failures.values()))
        return results, failures

    def covariates(self, estimator: Any) -> CovariateComparison:
        """Decode from images, images without covariates, and covariates alone."""
        data = self.data
        if data.covariates is None:
            raise InputError(
                "There are no covariates to decode from",
                remedy=f"Give {option('covariates')}, one row per scan",
            )
        model, X = prepared(estimator, replace(data, covariates=None))
        options = self._options()
        options.pop("folder")
        return compare_with_covariates(
            model, X, data.y, data.covariates, data.groups, self.cv, **options
        )

    def _options(self) -> dict[str, Any]:
        known = self.data.known() | self.running
        return known | {"allow": self.allow, "folder": self.folder}


@contextmanager
def each_told_once(told: set[str]) -> Iterator[None]:
    """Pass on warnings not yet reported: audits of several models find the same."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        for one in caught:
            if str(one.message) not in told:
                told.add(str(one.message))
                warnings.warn(one.message, stacklevel=5)


def split_of(cv: Any, data: Dataset, random_state: Any) -> Any:
    """Splitter for a name, or the one that was given; warns if all scans are from one run."""
    if data.trials is not None and data.groups is None:
        one_run = "All scans are of one run: training and test scans share its drift and noise"
        if cv == "groups":
            remedy = f"Give more runs, or take {option('cv', 'auto')}"
            raise InputError(f"{one_run}, so none can be held out", remedy=remedy)
        warnings.warn(InputWarning(f"{one_run}, which flatters the score."), stacklevel=4)
    if cv is None or cv == "auto":
        return None  # as `cross_validate` chooses
    if not isinstance(cv, str):
        return cv
    classes, groups = registry.kind_of(data.y) == "classifier", data.groups is not None
    return registry.splitter(cv, random_state, classes=classes, groups=groups)


def all_models(y: Any) -> list[str]:
    """Families, then baselines, for such a target."""
    kind = registry.kind_of(y)
    return [*registry.models(kind, "family"), *registry.models(kind, "baseline")]


def whole(found: Any) -> Any:
    """What was found, unless Ctrl-C cut it short."""
    if not found.complete:
        raise KeyboardInterrupt
    return found


def by_name(models: Any) -> dict[str, Any]:
    """Models by name; those that are only named are built from the registry."""
    if isinstance(models, Mapping):
        return dict(models)
    names = [models] if isinstance(models, str) else models
    return {name: registry.model(name).make() for name in names}
