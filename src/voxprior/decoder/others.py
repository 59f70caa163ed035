"""What other subjects teach, from their images: the estimator for a new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone, is_classifier

from voxprior import registry
from voxprior.decoder.preparation import name_of
from voxprior.errors import InputError
from voxprior.images import Dataset
from voxprior.transfer import TransferClassifier, TransferPrior
from voxprior.validation.learning import usable_sizes

if TYPE_CHECKING:
    from voxprior.decoder.decoder import Decoder


def with_prior_from(decoder: Decoder, others: Mapping[str, Dataset], **options: Any) -> Decoder:
    """Copy of a decoder whose model has a prior from other subjects.

    Parameters
    ----------
    decoder : Decoder
        Its model becomes the base, reference and fall-back of the one with a prior; without a
        model, the default of `voxprior.transfer.TransferPrior` is used.
    others : dict of str to Dataset
        Labelled scans of other subjects, by name; `Decoder.read` reads them.
    **options
        As in `voxprior.transfer.TransferPrior`.
    """
    base = decoder.estimator
    if isinstance(base, str):
        base = registry.model(base).make()
    taught = clone(decoder)
    return taught.set_params(estimator=taught_by(others, base, **options))


def curve_decoders(
    estimator: Any, data: Dataset, random_state: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Decoders of a learning curve by name, and its options: with a prior, also without it.

    The one without others is the base, or the default decoder where there is no base. Both can
    be fitted to one scan per class if the base is the default decoder.
    """
    if not isinstance(estimator, TransferClassifier):
        return {name_of(estimator, data.y): estimator}, {}
    base = registry.default_model(data.y) if estimator.base is None else estimator.base
    both = {"decoder with others": estimator, "decoder without others": base}
    if name_of(base) != registry.default_model(data.y):
        return both, {}
    drawn = {"random_state": random_state, "n_repeats": 10, "pool": 0.5, "draw": "sample"}
    return both, {"sizes": [1, *usable_sizes(np.asarray(data.y), data.groups, drawn)]} | drawn


def taught_by(others: Mapping[str, Dataset], base: Any, **options: Any) -> TransferClassifier:
    """A classifier for a new subject, with the prior that others give; it is not fitted yet.

    Parameters
    ----------
    others : dict of str to Dataset
        Labelled scans of other subjects, by name. Prior maps are learned where all are in one
        space.
    base : classifier or None
        Reference and fall-back, see `voxprior.transfer.TransferPrior`.
    **options
        As in `TransferPrior`.
    """
    for name, data in others.items():
        if data.y is None:
            raise InputError(f"The scans of {name} have no labels")
        if data.covariates is not None:
            raise InputError(
                f"The scans of {name} have covariates, which a prior from others cannot use",
                remedy="Leave the covariates out",
            )
    if base is not None and not is_classifier(base):
        raise InputError("A prior from other subjects is for classes", got=type(base).__name__)
    known = list(others.values())
    spaces = {data.space for data in known if data.n_times == 1}
    space = spaces.pop() if len(spaces) == 1 and all(d.n_times == 1 for d in known) else None
    prior = TransferPrior(base, space=space, **options)
    prior.fit({name: (data.X, data.y, data.groups) for name, data in others.items()})
    return TransferClassifier(prior.prior_, base=base)
