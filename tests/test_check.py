"""The validators: accepted values, and errors that name the refused argument."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.core import _check

NAN, INF = float("nan"), float("inf")

# Name: (call with the value as an argument called "rate", accepted values, refused values).
FLOATS = {
    "positive": (
        lambda rate: _check.positive(rate=rate),
        [2e-38, 1, 0.5, np.float32(2), np.array(0.1), jnp.float32(3)],
        [0.0, -0.0, -1, INF, -INF, NAN, 1e-45, 10**400, np.array(0.0), jnp.float32(-2)],
    ),
    "positive or infinite": (
        lambda rate: _check.positive_or_inf(rate=rate),
        [2e-38, INF, 10**400],
        [0.0, -1, -INF, NAN, 1e-45, -(10**400)],
    ),
    "between": (
        lambda rate: _check.between(0.0, 1.0, rate=rate),
        [0, 0.0, 1, 0.25, np.int32(1), jnp.zeros(()), np.float16(0.5), jnp.bfloat16(0.5)],
        [-1e-9, 1.0 + 1e-9, INF, -INF, NAN, np.array(2.0), jnp.float32(NAN)],
    ),
    "between, unbounded": (
        lambda rate: _check.between(1.0, INF, rate=rate),
        [1, 1e300, INF],
        [0.999, -INF, NAN],
    ),
    "inside": (
        lambda rate: _check.inside(0.0, 1.0, rate=rate),
        [2e-38, 0.5, 1.0 - 1e-7, np.array(0.9)],
        [0.0, 1.0, -0.5, 2, INF, NAN, 1e-45, 1.0 - 1e-9],
    ),
}
every_float_check = pytest.mark.parametrize("name", FLOATS)


@every_float_check
def test_numbers_in_the_set_pass_and_others_are_refused_by_name(name):
    """Those of Python, NumPy and JAX, as given and as rounded to float32."""
    check, good, bad = FLOATS[name]
    for value in good:
        assert check(value) is None
    for value in bad:
        with pytest.raises(ValueError, match=r"^rate must be "):
            check(value)


@every_float_check
def test_what_is_not_a_number_is_a_type_error(name):
    """Strings, objects, arrays, complex numbers and booleans: TypeError with the name."""
    check = FLOATS[name][0]
    arrays = [np.array([0.5, 0.5]), jnp.zeros((2, 2)), np.zeros(0), np.array(True), jnp.array(1j)]
    for value in ("1", b"1", object(), [0.5], (0.5,), {}, 1j, True, np.True_, None, *arrays):
        with pytest.raises(TypeError, match=r"^rate must be .* and one number, got "):
            check(value)


@every_float_check
def test_tracers_pass(name):
    """Under jit, vmap or grad, a traced number has no value, but its type is checked."""
    check, _, bad = FLOATS[name]

    def traced(value):
        check(value)
        for wrong in (value[None], value > 0.0, jax.lax.complex(value, value), [value]):
            with pytest.raises(TypeError, match=r"^rate must be .* and one number, got "):
                check(wrong)
        return 2.0 * value

    value = jnp.float32(bad[0])
    assert jax.jit(traced)(value) == 2.0 * value
    assert jax.vmap(traced)(value[None]) == 2.0 * value
    assert jax.grad(traced)(value) == 2.0


def test_messages_say_what_is_wanted_and_the_first_bad_value():
    """The interval as given, the entry outside it, and nothing on valid arguments."""
    with pytest.raises(ValueError, match=r"^rate must be in \[0, 1\], got 1\.5$"):
        _check.between(0.0, 1.0, other=0.5, rate=np.array(1.5))
    with pytest.raises(ValueError, match=r"^delta must be strictly between 0 and 1, got 1$"):
        _check.inside(0.0, 1.0, delta=1)
    with pytest.raises(ValueError, match=r"^epsilon must be greater than 0 .*, got nan$"):
        _check.positive(rate=1.0, epsilon=NAN)


@pytest.mark.parametrize(("value", "found"), [
    (jnp.int32(3), "an int32"), (jnp.uint32(3), "a uint32"), (np.bool_(True), "a bool"),
    (jnp.float32(3), "a float32"), (OSError(), "an OSError"), (np.sin, "sin itself, .*"),
])  # fmt: skip
def test_a_refused_value_has_its_article(value, found):
    for check in (_check.key, _check.key_or_seed):
        with pytest.raises(TypeError, match=f", got {found}$"):
            check(key=value)


@pytest.mark.parametrize("value", [True, 1.5, "0", None, [0], jnp.int32(0)])
def test_a_seed_is_a_whole_number(value):
    assert type(_check.seed(key=np.uint32(7))) is int
    with pytest.raises(TypeError, match="^key must be a whole number from 0 to 4294967295, got "):
        _check.seed(key=value)


def test_size_accepts_integers_of_at_least_the_minimum():
    """Python and NumPy integers, including the minimum; a Python integer is returned."""
    for value in (2, 3, 2**31 - 1, np.int64(2), np.int32(5), np.array(4), jnp.int32(8)):
        checked = _check.size(2, arms=value)
        assert checked == value and type(checked) is int


@pytest.mark.parametrize("value", [1, 0, -3, np.int64(1), False, True])
def test_size_refuses_small_integers_and_truth_values_by_name(value):
    """True counts as 1 in Python, but as a size it is a mistake, for any minimum."""
    with pytest.raises(ValueError, match=r"^arms must be an integer of at least 2, got "):
        _check.size(2, arms=value)
    if isinstance(value, bool):
        with pytest.raises(ValueError, match=r"^arms must be an integer of at least 0, got "):
            _check.size(0, arms=value)


@pytest.mark.parametrize("value", [2.0, np.float64(3), "3", None, [3], np.array([3, 4])])
def test_size_refuses_what_is_not_an_integer_by_name(value):
    """A float is refused even if it is whole: it would fail later, as a shape."""
    with pytest.raises(TypeError, match=r"^arms must be an integer of at least 2, got "):
        _check.size(2, arms=value)


def test_size_refuses_tracers():
    """A size determines shapes, so a traced size is an error here instead of a puzzle later."""

    def traced(value):
        _check.size(1, horizon=value)
        return value

    with pytest.raises(TypeError, match=r"^horizon must be an integer of at least 1"):
        jax.jit(traced)(3)


def test_one_of_accepts_the_listed_words_and_refuses_others_by_name():
    """The message lists the words."""
    assert _check.one_of("multiscale", "gaussian", walk="gaussian") is None
    for value in ("Gaussian", "", None, 3):
        with pytest.raises(ValueError, match=r"^walk must be one of multiscale, gaussian; got "):
            _check.one_of("multiscale", "gaussian", walk=value)


def test_several_arguments_are_checked_one_by_one():
    """Each keyword is checked, and the wrong one is named."""
    for check, good, bad in [
        (_check.positive, 1.0, 0.0),
        (lambda **values: _check.between(0.0, 1.0, **values), 0.5, 2.0),
        (lambda **values: _check.inside(0.0, 1.0, **values), 0.5, 1.0),
        (lambda **values: _check.one_of("a", "b", **values), "a", "c"),
    ]:
        assert check(first=good, second=good) is None
        with pytest.raises(ValueError, match="^second must be"):
            check(first=good, second=bad)
        with pytest.raises(ValueError, match="^first must be"):
            check(first=bad, second=good)


def test_non_negative_refuses_infinity_by_name():
    """Zero is allowed; negative numbers, infinity and NaN are not."""
    assert _check.non_negative(threshold=0.0, other=np.array(1e30)) is None
    for value in (-1e-9, np.inf, NAN):
        with pytest.raises(ValueError, match=r"^threshold must be at least 0 and finite, got"):
            _check.non_negative(threshold=value)


def test_interval_passes_pairs_on_and_names_the_rest():
    """(low, high) is returned unchanged, also traced; anything else is refused."""
    assert _check.interval(loss_range=(-1.0, 2)) == (-1.0, 2)
    assert jax.jit(lambda high: jnp.asarray(_check.interval(rate=(0.0, high))))(3.0)[1] == 3.0
    for value in [(1.0, 1.0), (2.0, 1.0), (0.0, INF), (NAN, 1.0)]:
        with pytest.raises(ValueError, match=r"^loss_range must be a pair"):
            _check.interval(loss_range=value)
    for value in [3.0, (1.0,), (1.0, 2.0, 3.0), None]:
        with pytest.raises((TypeError, ValueError), match=r"^loss_range must be a pair"):
            _check.interval(loss_range=value)
    for value in ["01", (0.0, "1"), (0.0, 1j), (False, True), ([0.0], [1.0]), (0.0, None)]:
        with pytest.raises(TypeError, match=r"^loss_range must be a pair"):
            _check.interval(loss_range=value)
    for value in [(0.0, 1e-45), (1.0, 1.0 + 1e-9), (-3e38, 3e38)]:  # no width in float32
        with pytest.raises(ValueError, match=r"^loss_range must be a pair"):
            _check.interval(loss_range=value)


def test_integers_are_printed_with_all_their_digits():
    """Not 1.67772e+07, which would look the same as the bound in the message."""
    with pytest.raises(ValueError, match=r"^rate must be in \[1, 16777216\], got 16777217$"):
        _check.between(1, 2**24, rate=2**24 + 1)
    with pytest.raises(ValueError, match=r"^rate must be in \[0, 1\], got 16777218$"):
        _check.between(0.0, 1.0, rate=np.float32(2**24 + 2))


def test_what_float32_makes_of_a_number_is_said():
    """Numbers that are in the set but not after rounding to float32."""
    with pytest.raises(ValueError, match=r"^rate must be .*, got 1e-45, which is 0 in float32$"):
        _check.positive(rate=1e-45)
    with pytest.raises(ValueError, match=r"which is 1 in float32$"):
        _check.inside(0.0, 1.0, rate=1.0 - 1e-9)


def test_sizes_are_int32():
    """At most 2^31 - 1, and at most 2^23 arms."""
    for value in (2**31, 2**40, 10**30, np.int64(2**31)):
        with pytest.raises(ValueError, match=rf"^horizon must be at most 2147483647, .*{value}$"):
            _check.size(1, horizon=value)
    assert _check.arms(2**23) == 2**23
    with pytest.raises(ValueError, match=r"^arms must be at most 8388608, .*got 8388609$"):
        _check.arms(2**23 + 1)
    with pytest.raises(ValueError, match=r"^arms must be an integer of at least 3, got 2$"):
        _check.arms(2, 3)


def test_epsilon_is_at_least_one_that_float32_can_serve():
    """Plain numbers below 1e-12 are refused, traced ones are raised to it; inf is allowed."""
    for value in (1e-12, 1, 3e38, INF, np.float32(1e-12)):
        assert _check.epsilon(value) is value
    for value in (1e-30, 9e-13, 2e-38):
        with pytest.raises(ValueError, match=r"^epsilon must be at least 1e-12 .*, got .*e-"):
            _check.epsilon(value)
    for value in (0.0, 1e-45, -1.0, NAN):
        with pytest.raises(ValueError, match=r"^epsilon must be greater than 0 \(inf is allowed\)"):
            _check.epsilon(value)
    for value in (None, "1", [1.0], True, 1j):
        with pytest.raises(TypeError, match=r"^epsilon must be .* and one number, got "):
            _check.epsilon(value)
    raised = jax.jit(_check.epsilon)
    for value, expected in [(1e-45, 1e-12), (0.0, 1e-12), (1e-9, 1e-9), (INF, INF)]:
        assert raised(jnp.float32(value)) == jnp.float32(expected)
    assert jnp.isnan(raised(jnp.float32(NAN)))


def test_delta_is_at_least_one_that_float32_can_serve():
    """From 1e-30 to below 1, in float32."""
    for value in (1e-30, 1e-9, 0.5, 1.0 - 1e-7):
        assert _check.delta(value) is None
    for value in (0.0, 1e-45, 1e-31, 1.0, 1.0 - 1e-9, NAN, -1.0):
        with pytest.raises(ValueError, match=r"^delta must be "):
            _check.delta(value)
