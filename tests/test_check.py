"""The validators: what they let pass, and that they name the argument they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import _check

NAN, INF = float("nan"), float("inf")

# Name: (call with the value as an argument called "rate", accepted values, refused values).
FLOATS = {
    "positive": (
        lambda rate: _check.positive(rate=rate),
        [1e-45, 1, 0.5, INF, np.float32(2), np.array([0.1, INF]), jnp.float32(3), [1.0, 2.0]],
        [0.0, -0.0, -1, -INF, NAN, np.array([1.0, NAN]), jnp.array([1.0, 0.0]), [1.0, -2.0]],
    ),
    "between": (
        lambda rate: _check.between(0.0, 1.0, rate=rate),
        [0, 0.0, 1, 0.25, np.array([0.0, 1.0]), jnp.zeros((2, 2)), np.zeros(0), True],
        [-1e-9, 1.0 + 1e-9, INF, -INF, NAN, np.array([0.5, 2.0]), jnp.array([[NAN]])],
    ),
    "between, unbounded": (
        lambda rate: _check.between(1.0, INF, rate=rate),
        [1, 1e300, INF],
        [0.999, -INF, NAN],
    ),
    "inside": (
        lambda rate: _check.inside(0.0, 1.0, rate=rate),
        [1e-300, 0.5, 1.0 - 1e-12, np.array([0.1, 0.9])],
        [0.0, 1.0, -0.5, 2, INF, NAN, np.array([0.5, 1.0])],
    ),
}
every_float_check = pytest.mark.parametrize("name", FLOATS)


@every_float_check
def test_numbers_in_the_set_pass_and_others_are_refused_by_name(name):
    """Python numbers, lists, NumPy and JAX arrays alike; one bad entry spoils an array."""
    check, good, bad = FLOATS[name]
    for value in good:
        assert check(value) is None
    for value in bad:
        with pytest.raises(ValueError, match=r"^rate must be "):
            check(value)


@every_float_check
def test_what_is_not_a_number_is_a_type_error(name):
    """Words and objects raise TypeError with the argument's name."""
    check = FLOATS[name][0]
    for value in ("high", object(), [0.5, "x"]):
        with pytest.raises(TypeError, match=r"^rate must be "):
            check(value)


@every_float_check
def test_none_and_tracers_pass(name):
    """A missing argument is not looked at; a traced one cannot be, under jit, vmap or grad."""
    check, _, bad = FLOATS[name]
    assert check(None) is None

    def traced(value):
        check(value)
        check([0.5, value])  # a container that holds a tracer
        return 2.0 * value

    value = jnp.float32(bad[0])
    assert jax.jit(traced)(value) == 2.0 * value
    assert jax.vmap(traced)(value[None]) == 2.0 * value
    assert jax.grad(traced)(value) == 2.0


def test_messages_say_what_is_wanted_and_the_first_bad_value():
    """The interval as given, the entry that is out of it, and no word of the good arguments."""
    with pytest.raises(ValueError, match=r"^rate must be in \[0, 1\], got 1\.5$"):
        _check.between(0.0, 1.0, other=0.5, rate=np.array([0.5, 1.5, 7.0]))
    with pytest.raises(ValueError, match=r"^delta must be strictly between 0 and 1, got 1$"):
        _check.inside(0.0, 1.0, delta=1)
    with pytest.raises(ValueError, match=r"^epsilon must be greater than 0 .*, got nan$"):
        _check.positive(rate=1.0, epsilon=NAN)


def test_size_accepts_integers_of_at_least_the_minimum():
    """Python and NumPy integers, the minimum included; what comes back is Python's."""
    for value in (2, 3, 10**12, np.int64(2), np.int32(5), np.array(4)):
        checked = _check.size(2, arms=value)
        assert checked == value and type(checked) is int


@pytest.mark.parametrize("value", [1, 0, -3, np.int64(1), False, True])
def test_size_refuses_small_integers_and_truth_values_by_name(value):
    """True counts as 1 in Python; as a size it is a mistake, whatever the minimum."""
    with pytest.raises(ValueError, match=r"^arms must be an integer of at least 2, got "):
        _check.size(2, arms=value)
    if isinstance(value, bool):
        with pytest.raises(ValueError, match=r"^arms must be an integer of at least 0, got "):
            _check.size(0, arms=value)


@pytest.mark.parametrize("value", [2.0, np.float64(3), "3", None, [3], np.array([3, 4])])
def test_size_refuses_what_is_not_an_integer_by_name(value):
    """A float is refused even where it is whole: it would fail later, as a shape."""
    with pytest.raises(TypeError, match=r"^arms must be an integer of at least 2, got "):
        _check.size(2, arms=value)


def test_size_refuses_tracers():
    """A size decides shapes, so that a traced one is an error here and not a puzzle later."""

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
    """Each keyword is looked at, and the one at fault is named."""
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
    assert _check.non_negative(threshold=0.0, other=np.array([1e30, 2.0])) is None
    for value in (-1e-9, np.inf, NAN):
        with pytest.raises(ValueError, match=r"^threshold must be at least 0 and finite, got"):
            _check.non_negative(threshold=value)


def test_interval_passes_pairs_on_and_names_the_rest():
    """(low, high) comes back as it is, traced too; other things are refused."""
    assert _check.interval(loss_range=(-1.0, 2)) == (-1.0, 2)
    assert jax.jit(lambda high: jnp.asarray(_check.interval(rate=(0.0, high))))(3.0)[1] == 3.0
    for value in [(1.0, 1.0), (2.0, 1.0), (0.0, INF), (NAN, 1.0)]:
        with pytest.raises(ValueError, match=r"^loss_range must be a pair"):
            _check.interval(loss_range=value)
    for value in [3.0, (1.0,), (1.0, 2.0, 3.0), None]:
        with pytest.raises((TypeError, ValueError), match=r"^loss_range must be a pair"):
            _check.interval(loss_range=value)
