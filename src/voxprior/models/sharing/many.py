"""Feature sharing for permutation tests: fits of many labellings of the same scans at once."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from voxprior.models.base import VoxelClassifier
from voxprior.models.sharing.batch import ManySharers, can_batch
from voxprior.models.sharing.naive_bayes import Prepared, SharingRules


class ManyLabellings(VoxelClassifier):
    """What `voxprior.validation.batch` asks of a family, for rules of sharing that allow it."""

    # What `fit_many` fits, labellings that it takes at once, and up to how many scans.
    fit_many_words: ClassVar[str] = (
        "feature-sharing naive Bayes, whose margins are log-odds before calibration"
    )
    labels_at_once: ClassVar[int] = 1024
    most_scans_at_once: ClassVar[float] = np.inf
    fit_many_in_memory: ClassVar[bool] = True

    priors: Any

    @abstractmethod
    def _rules(self) -> SharingRules:
        """How features share."""

    @available_if(lambda self: can_batch(self._rules()))
    def fit_many(self, prepared: Prepared, rows: Any, Y: Any, n_classes: int) -> ManySharers:
        """Fit many labellings of some of the prepared scans, side by side.

        Parameters
        ----------
        prepared : Prepared
            What ``prepare`` returned for an estimator of the same parameters.
        rows : integer array of shape (m,)
            Which scans train.
        Y : integer array of shape (m, B)
            Class codes, one labelling per column.
        n_classes : int

        Returns
        -------
        ManySharers
            Its ``decision_function(rows)`` gives the log-odds of naive Bayes, uncalibrated.

        Examples
        --------
        >>> import numpy as np
        >>> from voxprior import FeatureSharingNB, VoxelSpace
        >>> y, rng = np.tile([0, 1], 8), np.random.default_rng(0)
        >>> X = rng.normal(size=(16, 8)) + 3 * y[:, None]
        >>> model, train = FeatureSharingNB(VoxelSpace.grid((8,))), np.arange(12)
        >>> many = model.fit_many(model.prepare(X), train, np.column_stack([y, 1 - y])[train], 2)
        >>> (many.decision_function(np.arange(12, 16)) > 0).T.astype(int)
        array([[0, 1, 0, 1],
               [1, 0, 1, 0]])
        """
        return ManySharers(
            prepared, np.asarray(rows), np.asarray(Y), n_classes, self._rules(), self.priors
        )
