"""A fitted decoder on new images: predictions, and how unlike training they are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from voxprior import modelfile
from voxprior.algebra import finite_or_refused
from voxprior.decoder.local_maps import LocalMaps
from voxprior.decoder.preparation import named
from voxprior.decoder.rows import NewRows, new_rows, warn_of_alike
from voxprior.decoder.training import BEYOND, Seen, TrainingSample
from voxprior.errors import InputWarning
from voxprior.images import ImageSpace
from voxprior.images.findings import listed
from voxprior.report import model_maps
from voxprior.validation.folds import last_step, led_to_last_step
from voxprior.validation.scores import INTERVAL_LEVEL


class Predicting(LocalMaps):
    """Predictions of a fitted `Decoder`, and its maps."""

    masker_: ImageSpace
    estimator_: Any
    training_: TrainingSample | None
    class_frequencies_: Any
    class_spread_: Any
    covariates_: Any

    def __sklearn_tags__(self):
        """Classifier or regressor, as the model is: scikit-learn stratifies folds by it."""
        tags = super().__sklearn_tags__()
        model = get_tags(getattr(self, "estimator_", None) or named(self.estimator))
        tags.estimator_type = model.estimator_type
        tags.classifier_tags, tags.regressor_tags = model.classifier_tags, model.regressor_tags
        return tags

    def predict(self, images, groups=None, covariates=None) -> np.ndarray:
        """Predict the label or target of each image.

        Parameters
        ----------
        images : path, glob, image, SurfaceImage, list of these, or Dataset
            As in `fit`; a Dataset was read with ``images=decoder.masker_``.
        groups : sequence, default=None
            Run or other group of each image, where training images were centred by theirs
            (``masker_.standardize == "group"``): give whole groups. What has no group (None), or is
            alone in it, is centred by the training images, with a warning. A run of one class only
            must have none.
        covariates : DataFrame, default=None
            Of these images, where the decoder was fitted with some.
        """
        rows = self._rows_to_predict(images, groups, covariates)
        return finite_or_refused(self.estimator_.predict(rows.X), "The decoder")

    def predict_proba(self, images, groups=None, covariates=None) -> np.ndarray:
        """Predict class probabilities, (n_samples, n_classes), by `classes_`; see `predict`."""
        check_is_fitted(self)
        if not hasattr(self.estimator_, "predict_proba"):
            raise AttributeError(
                f"{type(self.estimator_).__name__} gives no probabilities; wrap it in "
                "voxprior.decision.TemperatureCalibrated, or choose another estimator."
            )
        rows = self._rows_to_predict(images, groups, covariates)
        return finite_or_refused(self.estimator_.predict_proba(rows.X), "The decoder")

    def predict_interval(
        self, images, groups=None, covariates=None, *, level: float = INTERVAL_LEVEL
    ) -> np.ndarray:
        """Predict the ends of the interval that holds each number with probability `level`.

        Parameters
        ----------
        images, groups, covariates
            As in `predict`.
        level : float, default=0.9
            Between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        check_is_fitted(self)
        if not self.has_intervals:
            raise AttributeError(
                f"{type(last_step(self.estimator_)).__name__} gives no intervals; for numbers "
                "choose voxprior.AutoRegressor, the default."
            )
        model, X = led_to_last_step(self.estimator_, self._rows(images, groups, covariates).X)
        return model.predict_interval(X, level=level)

    @property
    def has_intervals(self) -> bool:
        """Whether the fitted model has `predict_interval`."""
        return hasattr(last_step(self.estimator_), "predict_interval")

    @property
    def maps_(self) -> dict[str, Any]:
        """Maps of the fitted model by name, as images in the space of the input."""
        return {name: self.masker_.inverse_transform(m) for name, m in self.voxel_maps().items()}

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """Maps of the fitted model by name, as arrays with one value per feature or voxel."""
        check_is_fitted(self)
        model, maps = getattr(self, "_mapped", (None, {}))
        if model is not self.estimator_:  # a pass over all scans: the report and the files share it
            model, maps = self._mapped = self.estimator_, model_maps(self.estimator_)
        return dict(maps)

    @property
    def scans_kept(self) -> int:
        """How many training scans, or parts of them, the fitted model holds as they are."""
        return modelfile.n_scans_kept(self.estimator_)

    def unlikeness(self, images, groups=None, covariates=None) -> np.ndarray | None:
        """How unlike the training scans each image is; parameters are those of `predict`.

        1 is as far from the mean of the training scans as the farthest of these; see
        `voxprior.decoder.training`. None for a model file of version 0.2, which cannot say.
        """
        seen = self._look(self._rows(images, groups, covariates))
        return None if seen is None or self.training_ is None else self.training_.unlike(seen)

    def _rows(self, images, groups=None, covariates=None) -> NewRows:
        check_is_fitted(self)
        given = (images, groups, covariates, self.mesh)
        return new_rows(self.masker_, self.covariates_, *given)

    def _rows_to_predict(self, images, groups, covariates) -> NewRows:
        """Rows of new images, with a warning where predictions mean little."""
        rows = self._rows(images, groups, covariates)
        warn_of_alike(self.estimator_, rows, self.class_spread_)
        self._warn_of_unlike(rows)
        return rows

    def _look(self, rows: NewRows) -> Seen | None:
        """Look at rows as the training sample was looked at."""
        if self.training_ is None:
            return None
        n_values = len(self.training_.mean)  # covariates are the last columns
        return self.training_.seen(rows.X[:, :n_values])

    def _warn_of_unlike(self, rows: NewRows) -> None:
        seen = self._look(rows)
        if seen is None or self.training_ is None:
            return
        unlike = self.training_.unlike(seen)
        if (unlike > BEYOND).any():
            warnings.warn(InputWarning(beyond(self.training_, unlike)), stacklevel=4)


def beyond(training: TrainingSample, unlike: np.ndarray, names: Any = ()) -> str:
    """Report which scans lie beyond the farthest training scan."""
    far = np.flatnonzero(unlike > BEYOND)
    worst = far[np.argsort(-unlike[far], kind="stable")]
    told = listed([str(names[i]) if len(names) else f"number {i + 1}" for i in worst])
    n = len(training.scans)
    return (
        f"{len(far)} of {len(unlike)} scans are farther from the training scans than the farthest "
        f"of these, up to {unlike.max():.3g} times: {told}. By chance about one in {n + 1} is. "
        "The model may say little of them."
    )
