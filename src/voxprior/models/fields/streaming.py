"""Fields that grow scan by scan and at every moment equal the fit to all scans so far.

Residual variances need the scans themselves, so those at the nodes are kept. Where
pseudo-measurements come after each scan the filters' states are kept as well (8 n³ bytes a class)
and go on from where they stood; otherwise the fields are solved anew, which takes milliseconds.

The stream is a dict of arrays so that it can be saved with the model:

==========  ==============  ==========================================
key         shape           meaning
==========  ==============  ==========================================
scans       (k, n)          all scans so far at the nodes
codes       (k,)            their classes
coef        (C, n, p)       filter states (mode ``each`` only), see
covariance  (C, n, p, p)    :class:`~voxprior.models.fields.online.State`
mean        (C, n)
n_seen      (C,)
innovation  (C, n)
==========  ==============  ==========================================
"""

import numpy as np

from voxprior.models.fields.likelihood import residual_variance
from voxprior.models.fields.online import State, field_of_state, proceed, start
from voxprior.models.fields.training import (
    Fields,
    Recipe,
    noise_kind,
    settle_noise,
    train_fields,
)

Stream = dict[str, np.ndarray]


def empty_stream(n_nodes: int, n_classes: int, recipe: Recipe) -> Stream:
    """A stream before its first scan."""
    stream = {"scans": np.empty((0, n_nodes)), "codes": np.empty(0, dtype=np.intp)}
    if _goes_on(recipe):
        stream |= _stack([start(n_nodes, recipe.schedule)] * n_classes)
    return stream


def absorb_scans(stream: Stream, Z: np.ndarray, codes: np.ndarray, recipe: Recipe) -> Stream:
    """The stream after more scans."""
    new = {
        "scans": np.vstack([stream["scans"], Z]),
        "codes": np.concatenate([stream["codes"], codes]),
    }
    if _goes_on(recipe):
        states = [
            proceed(state, Z[codes == c], recipe.schedule)
            for c, state in enumerate(_states(stream))
        ]
        new |= _stack(states)
    return new


def stream_fields(stream: Stream, recipe: Recipe) -> Fields:
    """The fields of all scans so far; every class must have two."""
    Z, codes = stream["scans"], stream["codes"]
    if not _goes_on(recipe):
        return train_fields(Z, codes, recipe)
    coefs, intercepts, variances = [], [], []
    for c, state in enumerate(_states(stream)):
        field = field_of_state(state, Z[codes == c], recipe.bias)
        coefs.append(field.coef)
        intercepts.append(field.intercept)
        seen = state.n_seen - (recipe.bias == "centered")
        innovation = state.innovation / max(seen, 1)
        printed = residual_variance(field.residual)
        variances.append(innovation if noise_kind(recipe) == "innovation" else printed)
    noise = settle_noise(np.array(variances), np.bincount(codes), Z.var(axis=0), recipe)
    return Fields(np.array(coefs), np.array(intercepts), noise)


def _goes_on(recipe: Recipe) -> bool:
    return recipe.mode == "each" and not recipe.plain


def _stack(states: list[State]) -> Stream:
    return {name: np.array([getattr(s, name) for s in states]) for name in State._fields}


def _states(stream: Stream) -> list[State]:
    parts = zip(*(stream[name] for name in State._fields), strict=True)
    return [State(*part)._replace(n_seen=int(part[3])) for part in parts]
