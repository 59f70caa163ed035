"""Decoder: images, a model, its validation and its report in one object.

    images -> ImageSpace -> X -> estimator -> probabilities, maps as images, Result, page

Reading is `voxprior.images`, fitting is the estimator's own business, validation is
`voxprior.validation`, the page is `voxprior.report`; this file only joins them, so every step can
also be taken by hand, with `voxprior.decoder.prepared`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from voxprior import modelfile
from voxprior.decoder.comparison import Comparison
from voxprior.decoder.decoding import Decoding, decode
from voxprior.decoder.experiment import Experiment, all_models, by_name, split_of
from voxprior.decoder.facts import mean_image
from voxprior.decoder.mapping import Mapped, map_data
from voxprior.decoder.one_class import ClassSpread
from voxprior.decoder.plan import Plan, plan
from voxprior.decoder.preparation import name_of, prepared
from voxprior.decoder.saving import restored, state_of
from voxprior.decoder.second_sample import SecondSample
from voxprior.decoder.showing import decoder_html, maps_figure
from voxprior.decoder.training import TrainingSample
from voxprior.errors import InputTypeError
from voxprior.images import Dataset, ImageSpace
from voxprior.mapping import MapTest
from voxprior.report import Report, make_report
from voxprior.validation import LearningCurve, PermutationResult, Result
from voxprior.validation.covariates import CovariateCoding, CovariateComparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Decoder(SecondSample):
    """Decode brain images with any scikit-learn classifier or regressor.

    All tests of the decoder (`evaluate`, `permutation_test`, `learning_curve`, `compare`) read the
    same images, prepare the same estimator and make one audit, so they all arrive at the same
    numbers. `searchlight` and `region_test` show where in the brain labels can be decoded.

    Parameters
    ----------
    estimator : str, classifier or regressor, default=None
        A model, or its name: ``voxprior families`` lists them. None is "auto" for classes, see
        `voxprior.registry.default_model`. A parameter called ``space`` (nested ones too) that is
        None is set to the place of the voxels.
    mask : path, image, boolean array, masker, list of run masks, or None
        None computes one, see `voxprior.images.fit_image_space`.
    mesh : path, "fsaverage5" and the like, or dict of hemisphere to path, default=None
        Mesh of GIFTI images.
    smoothing_fwhm : float, default=None
        Width of the Gaussian that images are smoothed with, in millimetres; None for none.
    detrend : bool, default=False
        Whether a linear trend is taken out of every run.
    high_pass, low_pass : float, default=None
        Limits of the filter of runs, in hertz.
    t_r : float, default=None
        Seconds between volumes; None takes them from the header.
    standardize : {"auto", "run", "baseline", "group", "train", "none"}, default="auto"
        Voxels to mean 0 and variance 1 within a run, by its rest volumes, or by the training scans;
        "group" subtracts the mean of a group from its maps. "auto" is "run" for runs; for maps it
        is chosen by their values, see `voxprior.images.preparation`.
    scale : {"auto", "global", "none"}, default="auto"
        "global" divides each image by its mean in the mask; "auto" decides by the values of maps.
    resample : bool, default=False
        Whether images on another grid are resampled; else they are refused.
    memory : str or joblib.Memory, default=None
        Where to keep what was read from files.
    n_jobs : int, default=1
        Number of workers for all tests.
    verbose : int, default=0
        1 shows progress.
    random_state : int, default=0
        Random seed.
    scoring : str or callable, default=None
        What `score` returns, and so scikit-learn's `cross_val_score` and `GridSearchCV`: a name
        that `sklearn.metrics.get_scorer` knows, or a function of decoder, images and labels. None
        is accuracy, and R² for numbers.

    Attributes
    ----------
    masker_ : ImageSpace
        Turns images into rows and maps into images.
    estimator_ : estimator
        Fitted on all images.
    classes_ : ndarray
        Labels, for a classifier.
    class_frequencies_ : ndarray of shape (n_classes,) or None
        Share of each class in training, in the order of `classes_`.
    class_spread_ : ClassSpread or None
        How far scans of a group spread along the class means, where scans are centred by group.
    training_ : TrainingSample or None
        What identifies scans and people of the training sample, see `evaluate_on`. None in
        a decoder that was read from a file of version 0.2.
    trials_ : dict or None
        How runs were cut into samples, as keywords of `voxprior.images.load_runs`.
    maps_ : dict of str to image
        What the fitted model used, as images in the space of the input.

    Examples
    --------
    >>> import nibabel, numpy as np
    >>> from voxprior import Decoder
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["face", "house"], 4)
    >>> values = rng.normal(size=(8, 4, 4, 3)) + (y == "face")[:, None, None, None]
    >>> images = [nibabel.Nifti1Image(v.astype("f4"), np.eye(4)) for v in values]
    >>> decoder = Decoder().fit(images, y)
    >>> decoder.predict(images[:1])
    array(['face'], dtype='<U5')
    >>> decoder.predict_proba(images).shape
    (8, 2)
    """

    def __init__(
        self, estimator=None, *, mask=None, mesh=None, smoothing_fwhm=None, detrend=False,
        high_pass=None, low_pass=None, t_r=None, standardize="auto", scale="auto", resample=False,
        memory=None, n_jobs=1, verbose=0, random_state=0, scoring=None
    ):  # fmt: skip
        self.estimator = estimator
        self.mask = mask
        self.mesh = mesh
        self.smoothing_fwhm = smoothing_fwhm
        self.detrend = detrend
        self.high_pass = high_pass
        self.low_pass = low_pass
        self.t_r = t_r
        self.standardize = standardize
        self.scale = scale
        self.resample = resample
        self.memory = memory
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.scoring = scoring

    # ------------------------------------------------------------------ images in

    def fit(self, images, y=None, groups=None, covariates=None) -> Decoder:
        """Fit the estimator on images and labels.

        Parameters
        ----------
        images : path, glob, image, SurfaceImage, list of these, or Dataset
            One map per sample, or 4-D beta series. Runs with events or labels per volume are cut
            into trials by `voxprior.images.load_runs`, whose Dataset is given here without `y`.
        y : array-like of shape (n_samples,)
            Labels or targets; None for a Dataset, which has its own.
        groups : array-like of shape (n_samples,), default=None
            Run or subject of each sample.
        covariates : DataFrame, default=None
            Nuisance variables: their linear effect, learned on these samples, is taken out of every
            image.

        Returns
        -------
        Decoder
        """
        data = self._labelled(images, y, groups, covariates)
        self.masker_ = data.images or ImageSpace(data.space, standardize=data.standardize)
        self.trials_ = data.trials
        self.covariates_ = None if data.covariates is None else CovariateCoding.of(data.covariates)
        self.estimator_ = prepared(self.estimator, data).fit(data)
        self.training_ = TrainingSample.of(data, self.masker_)
        self.class_frequencies_, self.class_spread_ = None, None
        if hasattr(self.estimator_, "classes_"):
            self.classes_ = self.estimator_.classes_
            if self.masker_.standardize == "group" and data.groups is not None:
                self.class_spread_ = ClassSpread.of(data.X, data.y, data.groups)
            self.class_frequencies_ = np.array([np.mean(data.y == c) for c in self.classes_])
        return self

    # ------------------------------------------------------------------ honest numbers

    def evaluate(
        self, images, y=None, groups=None, covariates=None, *, cv=None, allow=(), folder=None
    ) -> Result:
        """Test the decoder on held-out images, after an audit of scans and split.

        Parameters
        ----------
        images, y, groups, covariates
            As in `fit`.
        cv : str, splitter, int or None
            A split by name, such as "few-shot:2" (see `voxprior.registry.split_names`), or any
            splitter. None leaves one group out at a time; where every scan is a group of its own,
            or most groups are of one class, up to 5 folds have every class, see
            `voxprior.validation.cross_validate`.
        allow : sequence of str
            Names of audit findings to override.
        folder : path, optional
            Keep finished folds there; the same call goes on where it was stopped.

        Returns
        -------
        Result
            With the findings of the audit.
        """
        known = self._experiment(images, y, groups, covariates, cv, allow, folder)
        return known.evaluate(self.estimator)

    def permutation_test(
        self, images, y=None, groups=None, covariates=None, *, cv=None, allow=(), result=None,
        folder=None, **options
    ) -> PermutationResult:  # fmt: skip
        """Test the score of `evaluate` against relabelled images.

        Parameters
        ----------
        images, y, groups, covariates, cv, allow, folder
            As in `evaluate`.
        result : Result, optional
            What `evaluate` found with the same images and split: its audit is not made again.
        **options
            As in `voxprior.validation.permutation_test`: test, n_permutations, score, ...
        """
        known = self._experiment(images, y, groups, covariates, cv, allow, folder)
        return known.permutation_test(self.estimator, result, **options)

    def learning_curve(
        self, images, y=None, groups=None, covariates=None, *, models=None, allow=(), result=None,
        folder=None, **options
    ) -> LearningCurve:  # fmt: skip
        """Score the decoder, and other models, at growing numbers of training scans per class.

        Parameters
        ----------
        images, y, groups, covariates, allow, folder
            As in `evaluate`.
        models : sequence of str, or dict of str to estimator, optional
            Models to compare with this one.
        result : Result, optional
            What `evaluate` found with the same images: its audit is not made again.
        **options
            As in `voxprior.validation.learning_curve`: sizes, n_repeats, ...
        """
        known = self._experiment(images, y, groups, covariates, None, allow, folder)
        estimators = {name_of(self.estimator, known.data.y): self.estimator} | by_name(models or ())
        return known.learning_curve(estimators, result, **options)

    def compare(
        self, images, y=None, groups=None, covariates=None, *, models=None, cv=None, allow=(),
        repeats=10, folder=None
    ) -> Comparison:  # fmt: skip
        """Test several models on the same folds, and how they learn.

        Parameters
        ----------
        images, y, groups, covariates, cv, allow, folder
            As in `evaluate`.
        models : sequence of str, or dict of str to estimator, optional
            None takes all families and baselines of the registry. This decoder's own estimator
            joins where it has one.
        repeats : int
            Splits at every size of the learning curve; 0 for no curve. Numbers have none.
        """
        known = self._experiment(images, y, groups, covariates, cv, allow, folder)
        estimators = by_name(all_models(known.data.y) if models is None else models)
        if self.estimator is not None:
            estimators = {name_of(self.estimator): self.estimator} | estimators
        return known.compare(estimators, repeats)

    def evaluate_covariates(
        self, images, y=None, groups=None, covariates=None, *, cv=None, allow=()
    ) -> CovariateComparison:
        """Decode the same folds from images, images without covariates, and covariates alone.

        Parameters are those of `evaluate`. The images count only as far as they predict better
        than the covariates alone.
        """
        known = self._experiment(images, y, groups, covariates, cv, allow, None)
        return known.covariates(self.estimator)

    # ------------------------------------------------------------------ where in the brain

    def map_test(self, images, y=None, groups=None, covariates=None, **options) -> MapTest:
        """Test every voxel against relabelled images; parameters are those of `map`."""
        return self.map(images, y, groups, covariates, **options).test

    def map(
        self, images, y=None, groups=None, covariates=None, *, atlas=None, title=None,
        despite_floor=False, **options
    ) -> Mapped:  # fmt: skip
        """Map where classes differ, whatever the model: as the command ``voxprior map`` does.

        Parameters
        ----------
        images, y, groups, covariates
            As in `fit`; without labels the mean of the images is tested against zero.
        atlas : Atlas, optional
            Names places in the tables, see `voxprior.mapping.read_atlas`.
        title, despite_floor, **options
            Heading of the page; whether to go on where the design cannot reach the level at all;
            and as in `voxprior.mapping.map_test`: statistic, correction, level, ...
        """
        data = self.read(images, y, groups, covariates)
        running = {"random_state": self.random_state, "progress": bool(self.verbose)} | options
        return map_data(data, atlas, title, despite_floor=despite_floor, **running)

    def _experiment(self, images, y, groups, covariates, cv, allow, folder) -> Experiment:
        data = self._labelled(images, y, groups, covariates)
        running = {
            "n_jobs": self.n_jobs,
            "random_state": self.random_state,
            "progress": bool(self.verbose),
        }
        return Experiment(data, split_of(cv, data, self.random_state), allow, folder, running)

    # ------------------------------------------------------------------ all of it, and the page

    def decode(
        self, images, y=None, groups=None, covariates=None, *, cv=None, allow=(), folder=None,
        **asked
    ) -> Decoding:  # fmt: skip
        """Do what the command ``voxprior decode`` does: test, fit on all images, make the report.

        Parameters
        ----------
        images, y, groups, covariates, cv, allow, folder
            As in `evaluate`.
        **asked
            What else is wanted, see `voxprior.decoder.decoding.decode`: permutations, test, curve,
            stock, title, positive, prevalence, atlas, mapping (for instance `map`), ...

        Returns
        -------
        Decoding
            Its `write` leaves report, predictions, maps and model in a folder.
        """
        known = self._experiment(images, y, groups, covariates, cv, allow, folder)
        return decode(self, known, **asked)

    def plan(
        self, images, y=None, groups=None, covariates=None, *, cv=None, allow=(), **asked
    ) -> Plan:  # fmt: skip
        """Say what `decode` would test, what the audit finds, and how long it would take.

        Some of the scans are fitted, for the estimate; nothing is written, and no finding of the
        audit raises.

        Parameters
        ----------
        images, y, groups, covariates, cv, allow
            As in `evaluate`.
        **asked
            As in `decode`: permutations, test, curve, stock, title.

        Examples
        --------
        >>> import numpy as np
        >>> from voxprior import Decoder, VoxelSpace
        >>> from voxprior.images import Dataset
        >>> X = np.random.default_rng(0).normal(size=(12, 27)).astype("f4")
        >>> data = Dataset(X, np.tile(["a", "b"], 6), VoxelSpace.grid((3, 3, 3)))
        >>> plan = Decoder("gp").plan(data, permutations=99)
        >>> plan.class_counts, plan.permutation.smallest_p
        ({'a': 6, 'b': 6}, 0.01)
        """
        return plan(self, self._experiment(images, y, groups, covariates, cv, allow, None), **asked)

    def generate_report(
        self,
        result: Result | None = None,
        title: str = "Decoding report",
        data: Dataset | None = None,
        **parts,
    ) -> Report:
        """Make the page of a Result, with the maps and pictures of the fitted decoder.

        Parameters
        ----------
        result : Result
            What `evaluate` returned.
        title : str
            Heading.
        data : Dataset, optional
            What the decoder was fitted on (`read` returns it); with it the scans are named and the
            pictures of the family are drawn, which need the scans again.
        **parts
            Further parts, see `voxprior.report.summarize`.
        """
        check_is_fitted(self)
        if not isinstance(result, Result):
            raise InputTypeError(
                "A report shows what a test found",
                expected="a Result",
                got="none" if result is None else type(result).__name__,
                remedy="Give decoder.evaluate(images, y), or take decoder.decode(images, y)",
            )
        training = None
        if data is not None:
            training = (self._rows(data).X, data.y)
            parts = {"names": data.names, "mean": mean_image(data)} | parts
        parts["of_model"] = self.voxel_maps()
        return make_report(self.estimator_, self.masker_, result, title, training, **parts)

    def plot_maps(self, *names: str, data: Dataset | None = None) -> Figure:
        """Draw maps of the fitted model below each other, as the report draws them.

        Parameters
        ----------
        *names : str
            Names in `maps_`; without any, all maps in which there is something to see.
        data : Dataset, optional
            The scans. Where their names show that they are in the space of the template, it is
            the anatomy; otherwise their mean is.
        """
        return maps_figure(self, names, data)

    def _repr_html_(self) -> str:
        return decoder_html(self)

    def _repr_mimebundle_(self, **_) -> dict[str, str]:
        """Notebooks call this one first; scikit-learn's version shows only the parameters."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    # ------------------------------------------------------------------ kept and read again

    def save(self, path) -> Path:
        """Write the fitted decoder to a ``.skops`` file, without code and always the same bytes.

        Some models predict from training scans, which are then in the file: see `scans_kept`.
        """
        check_is_fitted(self)
        path = Path(path)
        modelfile.write(path, state_of(self))
        return path

    @classmethod
    def load(cls, path, trusted: Sequence[str] = ()) -> Decoder:
        """Read a decoder that `save` wrote; nothing in the file is run.

        Parameters
        ----------
        path : path
            The file.
        trusted : sequence of str
            Full names of your own types (``package.module.Type``) that the file may hold. Building
            them runs their code.
        """
        return restored(cls, Path(path), trusted)
