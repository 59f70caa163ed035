"""Trained fields and later scans: streams of labelled scans, adaptation to unlabelled ones.

**Streams.** Fields that grow scan by scan equal at every moment the fit to all scans so far.
Residual variances need the scans themselves, so those at the nodes are kept. Where
pseudo-measurements come after each scan the states of the filters are kept as well (8 n³ bytes per
class) and go on from where they stood; otherwise the fields are solved anew, which takes
milliseconds. A stream is a dict of arrays, so that it can be saved with the model.

**Adaptation.** The filter goes on over new scans without labels, with gain D_j:

    β_{j+1} = (I − D_j G(j)ᵀ) β_j + D_j x(j)                                       (1.26)
    σ_new = ((k−1) σ_old + Σ_j (x(j) − βᵀ_new G(j))²) / (k + k_test − 1)           (1.27)

with D_j = d K_j, K_j the Kalman gain with P carried over (and moved in time before each scan, where
coefficients move) and d in (0, 1] a damping. With d = 1 the adapted coefficients of a plain field
are those of a fit to its training scans and the new ones together.

* ``literal``   every class absorbs every scan, as printed. When training and new scans together are
  fewer than the nodes this does harm: the wrong class learns to predict the scan too.
* ``assigned``  a scan goes only to the class that the field assigns it to.
* ``sigma``     coefficients stay, variances follow (1.27).

Fields that have changed need another threshold: the old one, compared with their log-likelihoods,
may put every scan into one class.

| symbol | variable | shape |
|---|---|---|
| all scans of a stream so far at the nodes | `scans` | (k, n) |
| their classes | `codes` | (k,) |
| filter states of a stream compressed after each scan | as in `FilterState` | (C, ...) |
| d | `damping` | scalar |

Reference: A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via
compressed random fields. IBM Research Report, 2009. Section 1.3.2.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from voxprior.errors import InputError, InputWarning, option
from voxprior.models.fields.dual import dual_system, plain_field
from voxprior.models.fields.field import Fields, Training, residual_variance
from voxprior.models.fields.kalman_compiled import (
    FilterState,
    compress_state,
    field_of_state,
    filter_more,
    initial_state,
)
from voxprior.models.fields.training import settle_noise, train_fields

ADAPTATIONS = ("none", "literal", "assigned", "sigma")
Stream = dict[str, np.ndarray]


def stream_needs(parameters: Mapping[str, Any]) -> list[str]:
    """What `RandomFieldClassifier` would have to be given so that a stream equals one fit."""
    needs = []
    if parameters["nodes"] is None:
        needs.append("nodes given (ranking needs all scans)")
    if parameters["standardize"]:
        needs.append("standardize=False (statistics need all scans; standardise beforehand)")
    strength = [parameters["gamma"]]
    strength += [parameters["compression"]] if parameters["r_eps"] is None else []
    if "auto" in strength:
        needs.append("gamma and compression as numbers (choosing them needs all scans)")
    if parameters["mode"] == "each" and parameters["solver"] == "kalman":
        needs.append("solver='auto' (only the compiled filter goes on from where it stood)")
    return needs


def can_stream(model: Any) -> bool:
    """Whether fitting scan by scan can equal fitting at once; says why not."""
    if needs := stream_needs(vars(model)):
        raise AttributeError(f"partial_fit needs {'; '.join(needs)}.")
    return True


def empty_stream(n_nodes: int, n_classes: int, training: Training) -> Stream:
    """A stream before its first scan."""
    stream = {"scans": np.empty((0, n_nodes)), "codes": np.empty(0, dtype=np.intp)}
    if training.after_each:
        stream |= _stacked([initial_state(n_nodes, training)] * n_classes)
    return stream


def absorb_scans(stream: Stream, Z: np.ndarray, codes: np.ndarray, training: Training) -> Stream:
    """The stream after more scans."""
    longer = {
        "scans": np.vstack([stream["scans"], Z]),
        "codes": np.concatenate([stream["codes"], codes]),
    }
    if training.after_each:
        states = enumerate(_states(stream))
        longer |= _stacked([filter_more(state, Z[codes == c], training) for c, state in states])
    return longer


def stream_fields(stream: Stream, training: Training) -> Fields:
    """The fields of all scans so far; every class must have two."""
    Z, codes = stream["scans"], stream["codes"]
    if not training.after_each:
        return train_fields(Z, codes, training)
    fields, variances = [], []
    for c, state in enumerate(_states(stream)):
        field = field_of_state(state, Z[codes == c], training.bias)
        seen = state.n_seen - (training.bias == "centered")
        innovation = state.innovation / max(seen, 1)
        by_innovation = training.variance_kind == "innovation"
        variances.append(innovation if by_innovation else residual_variance(field.residual))
        fields.append(field)
    noise = settle_noise(np.array(variances), np.bincount(codes), Z.var(axis=0), training)
    return Fields(
        np.array([f.coef for f in fields]), np.array([f.intercept for f in fields]), noise
    )


def _stacked(states: list[FilterState]) -> Stream:
    return {name: np.array([getattr(s, name) for s in states]) for name in FilterState._fields}


def _states(stream: Stream) -> list[FilterState]:
    parts = zip(*(stream[name] for name in FilterState._fields), strict=True)
    return [FilterState(*part)._replace(n_seen=int(part[3])) for part in parts]


def adapt_fields(
    fields: Fields,
    scans: np.ndarray,
    codes: np.ndarray,
    new: np.ndarray,
    assigned: np.ndarray,
    training: Training,
    how: str,
    damping: float = 1.0,
) -> Fields:
    """Adapt the fields of all classes to new scans.

    Parameters
    ----------
    fields : Fields
        As trained.
    scans, codes : ndarrays of shape (k, n) and (k,)
        The training scans at the nodes and their classes.
    new : ndarray of shape (m, n)
        Unlabelled scans at the nodes.
    assigned : ndarray of shape (m,)
        Class that the trained fields give to each new scan.
    training : Training
        How the fields were trained.
    how : {"literal", "assigned", "sigma"}
        Which scans change what, see the module's text.
    damping : float
        d in (0, 1].
    """
    coef, intercept, noise = (part.copy() for part in fields)
    for c in range(len(coef)):
        own = scans[codes == c]
        takes = new[assigned == c] if how == "assigned" else new
        if not len(takes):
            continue
        if how != "sigma":
            coef[c], intercept[c] = adapt_class(own, takes, training, damping)
        error = takes - takes @ coef[c].T - intercept[c]
        noise[c] = adapted_variance(noise[c], len(own), error)
    return Fields(coef, intercept, noise)


def check_adapts(how: str) -> None:
    """Refuse to adapt a model that was not fitted for adaptation."""
    if how == "none":
        raise InputError(
            "The training scans at the nodes were not kept, which adapt needs",
            remedy=f"Fit with {option('adaptation', 'literal')}, "
            f"{option('adaptation', 'assigned')} or {option('adaptation', 'sigma')}",
        )


def lost_all_but_one(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether scans of several classes (m,) have become one class; warns if they have."""
    if len(np.unique(after)) > 1 or len(np.unique(before)) < 2:
        return False
    warnings.warn(
        InputWarning(
            f"Adapted, the fields put all {len(after)} scans into one class, so the classifier "
            f"stays as it was. Another {option('adaptation')}, a smaller {option('damping')} or "
            f"labelled scans ({option('X_dev')}, {option('y_dev')}) may do better."
        ),
        stacklevel=3,
    )
    return True


def adapt_class(
    own: np.ndarray, new: np.ndarray, training: Training, damping: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (n, n) and intercepts (n,) of one class after the new scans, equation (1.26).

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
    >>> new = np.array([[1.0, 1, 0], [0, 2, 1]])
    >>> coef, _ = adapt_class(rows, new, Training(gamma=0.1, bias=None))
    >>> coef[0].round(6)
    array([0.      , 0.439082, 0.010943])
    """
    if training.plain and damping == 1.0 and not training.propagates:
        together = (np.vstack([own, new]), training.gamma, training.bias, training.block_of)
        field = plain_field(dual_system(*together))
        return field.coef, field.intercept
    state = filter_more(initial_state(own.shape[1], training), own, training)
    if not training.plain and training.mode == "end":
        state = compress_state(state, training)
    field = field_of_state(filter_more(state, new, training, damping), own, training.bias)
    return field.coef, field.intercept


def adapted_variance(noise: np.ndarray, k: int, error: np.ndarray) -> np.ndarray:
    """(1.27); the part of the training scans is not recomputed with the new coefficients."""
    return ((k - 1) * noise + (error**2).sum(axis=0)) / (k + len(error) - 1)
