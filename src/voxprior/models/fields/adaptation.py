"""Adapting trained fields to scans without labels.

The filter goes on over the new scans with gain D_j,

    β_{j+1} = (I − D_j G(j)ᵀ) β_j + D_j x(j)                                       (1.26)
    σ_new = ((k−1) σ_old + Σ_j (x(j) − βᵀ_new G(j))²) / (k + k_test − 1)           (1.27)

with D_j = d K_j, K_j the Kalman gain with P carried over and d in (0, 1] a damping. With d = 1 the
adapted coefficients of a plain field are those of a fit to its training scans and the new ones
together.

``literal``  every class absorbs every scan, as printed. When training and new scans together are
             fewer than the nodes this does harm: the wrong class learns to predict the scan too.
``assigned`` a scan goes only to the class that the field assigns it to.
``sigma``    coefficients stay, variances follow (1.27).

Reference: A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via
compressed random fields. IBM Research Report, 2009. Section 1.3.2.
"""

import numpy as np

from voxprior.models.fields.dual import dual_system, solve_field
from voxprior.models.fields.online import compress_state, field_of_state, proceed, start
from voxprior.models.fields.training import Fields, Recipe

ADAPTATIONS = ("none", "literal", "assigned", "sigma")


def adapt_fields(
    fields: Fields,
    scans: np.ndarray,
    codes: np.ndarray,
    new: np.ndarray,
    assigned: np.ndarray,
    recipe: Recipe,
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
    recipe : Recipe
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
            coef[c], intercept[c] = adapt_class(own, takes, recipe, damping)
        error = takes - takes @ coef[c].T - intercept[c]
        noise[c] = adapted_variance(noise[c], len(own), error)
    return Fields(coef, intercept, noise)


def adapt_class(own: np.ndarray, new: np.ndarray, recipe: Recipe, damping: float = 1.0):
    """Coefficients (n, n) and intercepts (n,) of one class after the new scans, equation (1.26).

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
    >>> new = np.array([[1.0, 1, 0], [0, 2, 1]])
    >>> coef, _ = adapt_class(rows, new, Recipe(gamma=0.1, bias=None))
    >>> coef[0].round(6)
    array([0.      , 0.439082, 0.010943])
    """
    if recipe.plain and damping == 1.0:
        field = solve_field(dual_system(np.vstack([own, new]), recipe.gamma, recipe.bias))
        return field.coef, field.intercept
    schedule = recipe.schedule
    state = proceed(start(own.shape[1], schedule), own, schedule)
    if not recipe.plain and recipe.mode == "end":
        state = compress_state(state, schedule)
    field = field_of_state(proceed(state, new, schedule, damping), own, recipe.bias)
    return field.coef, field.intercept


def adapted_variance(noise: np.ndarray, k: int, error: np.ndarray) -> np.ndarray:
    """(1.27); the part of the training scans is not recomputed with the new coefficients."""
    return ((k - 1) * noise + (error**2).sum(axis=0)) / (k + len(error) - 1)
