"""The operations that kernels compute by formulas, because a compiler does not support them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scipy import special

from dpjax.kernels.targets import Mosaic, MosaicGPU

KEY = np.random.default_rng(0)
SMALL = np.float32([0, 2e-38, 1e-20, 1e-7, 0.25, 0.5, 0.75, 1])
POSITIVE = np.concatenate([np.exp(KEY.uniform(-80, 88, 4000)), KEY.uniform(0, 4, 4000), [np.inf]])
REAL = np.concatenate([POSITIVE, -POSITIVE, KEY.normal(size=4000), SMALL, -SMALL, [np.nan]])
WITHIN = np.concatenate([np.tanh(KEY.normal(size=4000)), SMALL, -SMALL])
HALVES = np.arange(-9, 10) / 2
# Operation: (on JAX, the exact one, operands, the largest error in units in the last place).
FORMULAS = {
    "ceil": (lax.ceil, np.ceil, (np.append(REAL, HALVES),), 0),
    "erf_inv": (lax.erf_inv, special.erfinv, (WITHIN,), 15),
    "expm1": (lax.expm1, np.expm1, (np.append(KEY.uniform(-20, 90, 4000), REAL),), 3),
    "floor": (lax.floor, np.floor, (np.append(REAL, HALVES),), 0),
    "integer_pow": (lambda x: lax.integer_pow(x, -3), lambda x: x**-3.0, (WITHIN,), 3),
    "log1p": (lax.log1p, np.log1p, (np.append(POSITIVE, WITHIN),), 3),
    "pow": (lax.pow, np.power, np.meshgrid(np.append(KEY.uniform(-9, 9, 200), SMALL), HALVES), 40),
    "round": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), np.round,
              (np.append(REAL, HALVES),), 0),
    "sqrt": (lax.sqrt, np.sqrt, (REAL,), 1),
    "tan": (lax.tan, np.tan, (KEY.uniform(-1.5, 1.5, 4000),), 4),
}  # fmt: skip


def computed(target, operation, *operands):
    """An operation by the formula of a target, on arrays."""
    (eqn,) = jax.make_jaxpr(operation)(*operands).jaxpr.eqns
    return target.replaced[eqn.primitive.name](eqn, *map(jnp.asarray, operands))


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_has_few_wrong_last_bits(name):
    operation, exact, operands, most = FORMULAS[name]
    operands = [np.asarray(x, np.float32) for x in operands]
    with np.errstate(all="ignore"):
        expected = exact(*(x.astype(np.float64) for x in operands))
        rounded = expected.astype(np.float32)
    found = np.asarray(computed(MosaicGPU, operation, *operands))
    usual = np.isfinite(rounded) & (np.abs(rounded) > np.finfo(np.float32).tiny)
    np.testing.assert_array_equal(found[~np.isfinite(rounded)], rounded[~np.isfinite(rounded)])
    np.testing.assert_allclose(found[~usual], rounded[~usual], atol=1.2e-38)
    errors = np.abs(found[usual] - expected[usual]) / np.spacing(np.abs(rounded[usual]))
    assert errors.max() <= most + 0.5


def test_every_formula_is_tested():
    bits = {"convert_element_type", "population_count"}
    assert {*MosaicGPU.replaced} - {*FORMULAS} - bits == {*Mosaic.replaced} - {
        "expm1", "population_count", "round"
    }  # fmt: skip


@pytest.mark.parametrize("kind", [np.int32, np.uint32])
def test_bits_are_counted(kind):
    numbers = np.array([0, 1, 3, 255, -1], np.int64).astype(kind)
    np.testing.assert_array_equal(computed(Mosaic, lax.population_count, numbers), [0, 1, 2, 8, 32])


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.float32, np.bool_])
def test_booleans_are_converted(kind):
    numbers = np.array([0, 1, 3, 255], np.int64).astype(kind)
    other = np.float32 if kind == np.bool_ else np.bool_
    found = computed(MosaicGPU, lambda x: lax.convert_element_type(x, other), numbers)
    assert found.dtype == other
    np.testing.assert_array_equal(found, numbers.astype(other))
