"""Every solver of the registry against every other, and the choice of the strength."""

from itertools import product

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from voxprior.models.fields.field import Training, noise_from_strength
from voxprior.models.fields.training import (
    SOLVERS,
    choose_strength,
    choose_training,
    train_class,
    train_fields,
)

PLAIN = {"plain": {}}
# The gradient of a quasi-norm is many times that of the norm, so its noise is larger too.
COMPRESSED = {
    f"{mode}, norm {norm}": {"r_eps": r_eps, "n_pseudo": 6, "mode": mode, "norm": norm}
    for mode, (norm, r_eps) in product(("end", "each"), ((1.0, 8.0), (0.5, 8000.0)))
}
SETTINGS = PLAIN | COMPRESSED
BIASES = ("centered", "penalized", None)
SIZES = ((6, 9), (9, 9), (14, 6), (2, 5))


def supported(solver: str, settings: dict) -> bool:
    return solver != "dual" or settings.get("mode") != "each"


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_all_solvers_agree(rng, name, bias, size):
    X = rng.normal(size=size) + 0.5
    kinds = ("residual", "innovation", "loo") if name in PLAIN else ("residual", "innovation")
    for kind in kinds:
        training = Training(gamma=0.7, bias=bias, variance=kind, **SETTINGS[name])
        solved = {
            solver: train_class(X, training._replace(solver=solver))
            for solver in SOLVERS
            if supported(solver, SETTINGS[name])
        }
        assert {"kalman", "compiled"} <= set(solved)
        field, variance = solved["kalman"]
        assert (np.diagonal(field.coef) == 0).all()
        for other, other_variance in solved.values():
            np.testing.assert_allclose(other.coef, field.coef, rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(other.intercept, field.intercept, rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(other.residual, field.residual, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(other_variance, variance, rtol=1e-6, atol=1e-12)


def test_auto_is_the_fast_solver_that_can_do_it(rng):
    X = rng.normal(size=(8, 5))
    for settings, fast in (({}, "dual"), (COMPRESSED["each, norm 1.0"], "compiled")):
        auto = train_class(X, Training(**settings))
        named = train_class(X, Training(**settings, solver=fast))
        assert np.array_equal(auto[0].coef, named[0].coef)


def test_what_a_solver_cannot_do_is_refused_in_words():
    each = Training(**COMPRESSED["each, norm 1.0"], solver="dual")
    with pytest.raises(ValueError, match="cannot compress after each scan") as error:
        train_class(None, each)  # no scans: it is refused before any work
    assert "solver='compiled'" in str(error.value)


def test_parameters_become_a_training(rng):
    Z, codes = rng.normal(size=(12, 4)), np.arange(12) % 2
    parameters = {"gamma": 2.0, "compression": 0.5, "r_eps": None, "n_pseudo": 7, "cv": 3}
    training = choose_training(parameters, Z, codes)
    assert training == Training(2.0, noise_from_strength(0.5, 4, 2.0), 7)
    assert choose_training(parameters | {"compression": None}, Z, codes).plain
    assert choose_training(parameters | {"r_eps": 3.0}, Z, codes).r_eps == 3.0
    chosen = choose_training(parameters | {"gamma": "auto", "solver": "kalman"}, Z, codes)
    assert chosen.gamma in (1.0, 10.0, 100.0, 1000.0)
    assert train_fields(Z, codes, chosen).coef.shape == (2, 4, 4)


def test_choice_of_strength_is_the_best_held_out_value(rng):
    Z, codes = rng.normal(size=(40, 15)), np.repeat([0, 1], 20)
    Z[:20, 1::2] += Z[:20, :-1:2]
    chosen = choose_strength(Z, codes, Training(n_pseudo=10), n_folds=4)
    gamma, rho, n_pseudo, _ = chosen.tried[chosen.tried[:, 3].argmax()]
    assert (chosen.gamma, chosen.rho, chosen.n_pseudo) == (gamma, rho, n_pseudo)
    assert len(chosen.tried) == 3 * 11 + 1
    # One entry recomputed from fits to the folds.
    row = chosen.tried[(chosen.tried[:, 0] == 10) & (chosen.tried[:, 2] == 7)][0]
    squares = np.zeros(15)
    for train, held in StratifiedKFold(4).split(Z, codes):
        for c in (0, 1):
            training = Training(variance="residual").with_strength(10.0, 1.0, 7, 15)
            field, _ = train_class(Z[train][codes[train] == c], training)
            out = Z[held][codes[held] == c]
            squares += ((out - out @ field.coef.T - field.intercept) ** 2).sum(axis=0)
    np.testing.assert_allclose(row[3], -0.5 * np.log(squares / 40).mean(), rtol=1e-8)
