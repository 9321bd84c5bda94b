"""Arrays of numbers that users pass. One function reads them for every factory."""

import io
from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray

import dpjax
from dpjax import combinators, domains, environments, families, learners
from dpjax.core import _arrays
from dpjax.study.grid import axis
from dpjax.study.sweep import _is_list_of_numbers, _numbers
from dpjax.study.worst_case import _box
from tests import entries

MEANS, ROWS = np.array([0.25, 0.5]), np.full((3, 2), 0.25)
PLANE, SEGMENT, KEY = domains.cube(2), domains.cube(1), jax.random.key(0)


def swept(points):
    def game(mean):
        return learners.exp3(2, 2), environments.bernoulli([mean, 0.5])

    return dpjax.sweep(game, points, 1, KEY, checkpoints=1, progress=False)


def boxed(low):
    family = families.Family(environments.bernoulli, {"means": (low, np.ones(2))})
    return _box(family)


# {call: (the name of the argument, a valid array x)}
FACTORIES = {}
for use, name in entries("arrays.txt"):
    call, _, array = use.partition("; ")
    FACTORIES[call] = name, eval(array)


def make(call, x):
    eval(call, {name: getattr(dpjax, name) for name in dir(dpjax)} | globals() | {"x": x})


ENTRIES = {
    "NaN": (np.nan, "is missing"), "None": (None, "is missing"), "NA": (pd.NA, "is missing"),
    "NaT": (pd.NaT, "is missing"), "NumPy's NaT": (np.datetime64("NaT"), "is missing"),
    "complex": (0.5j, "is 0.5j, which is not a real number"),
    "a word": ("0.5", "is '0.5', which is not a real number"),
    "a duration": (np.timedelta64(1, "s"), "is np.timedelta64(1,'s'), which is not a real number"),
}  # fmt: skip


def first_and_last(array):
    """The places of two entries, in words."""
    if array.ndim == 2:
        return "row 1, column 1", f"row {array.shape[0]}, column {array.shape[1]}"
    last = [f"({', '.join(map(str, shape))})" for shape in ((1,) * array.ndim, array.shape)]
    return [f"entry {place.strip('()') if array.ndim == 1 else place}" for place in last]


def bad_arrays(array):
    """(the array with a bad entry, its place and description)."""
    first, last = first_and_last(array)
    mask = np.zeros(array.shape, bool)
    mask[(-1,) * array.ndim] = True
    masked = np.ma.array(array, mask=mask)
    yield masked, f"{last} is missing"
    if array.ndim > 1:
        yield list(masked), f"{last} is missing"
    yield array.astype(complex), f"{first} is {complex(array.flat[0])}, which is not a real number"
    yield np.full(array.shape, "NaT", "M8[s]"), f"{first} is missing"
    yield np.zeros(array.shape, "m8[s]"), f"{first} is np.timedelta64(0,'s'), which is not a real"
    for entry, words in ENTRIES.values():
        spoiled = array.astype(object)
        spoiled[(-1,) * array.ndim] = entry
        yield spoiled, f"{last} {words}"


@pytest.mark.parametrize("call", FACTORIES)
def test_every_factory_refuses_what_is_no_number_with_its_place(call):
    name, valid = FACTORIES[call]
    for given, words in bad_arrays(valid):
        if call.startswith("axis") and given.dtype == object:
            continue  # Objects are values with labels.
        if "convex_losses" in call and type(given) is list:
            continue  # A list is a pytree.
        with pytest.raises(ValueError) as error:
            make(call, given)
        assert str(error.value).startswith(f"{name}: {words}")


OTHERS = ("linear_losses(PLANE", "exp2", "recorded", "polytope(x", "swept")


@pytest.mark.parametrize("call", [
    call for call, (_, valid) in FACTORIES.items()
    if valid.ndim < 3 and not any(other in call for other in OTHERS)
])  # fmt: skip
def test_every_factory_accepts_tables_of_pandas_without_repeated_columns(call):
    name, valid = FACTORIES[call]
    make(call, (pd.Series if valid.ndim == 1 else pd.DataFrame)(valid))
    if valid.ndim == 2 and valid.shape[1] > 1:
        table = pd.DataFrame(valid, columns=["a"] * valid.shape[1])
        with pytest.raises(ValueError, match=f"^{name}: columns 1 and 2 are both named 'a'; re"):
            make(call, table)


def test_no_factory_that_takes_numbers_is_forgotten():
    """All public factories of a room with an argument of the type Numbers."""
    for room in (environments, domains, learners, combinators):
        for factory in room.__all__:
            takes = getattr(getattr(room, factory), "__annotations__", {}).values()
            if any("Numbers" in str(kind) for kind in takes):
                assert factory in ELSEWHERE or any(f".{factory}(" in call for call in FACTORIES)


ELSEWHERE = {
    "box_losses": "numbers", "adac_gope": "as linear_elimination",
    "spanning_trees": "integers", "partition_matroid": "integers", "paths": "integers",
}  # fmt: skip


@pytest.mark.parametrize("make", [
    lambda x: domains.spanning_trees(x, 3), lambda x: domains.paths(x, 0, 2),
    lambda x: domains.partition_matroid(x[:, 0], [1, 1]),
])  # fmt: skip
def test_integers_are_neither_masked_nor_of_other_kinds(make):
    edges = np.array([[0, 1], [1, 2], [0, 2]])
    with pytest.raises(ValueError, match="(edges: row 2, column 1|blocks: entry 2) is missing"):
        make(np.ma.array(edges, mask=[[0, 0], [1, 0], [0, 0]]))
    for given in (edges * 1.0, edges * 1j, edges.astype("m8[s]"), edges.astype(object), edges[:0]):
        with pytest.raises(TypeError, match="(edges|blocks) must be .*integers"):
            make(given)


def test_numbers_are_read_as_float64():
    for given in ([0, 0.5], [False, 0.5], [Decimal(0), Fraction(1, 2)], jnp.array([0, 0.5]),
                  jnp.array([0, 0.5], jnp.bfloat16), pd.array([0, 0.5], dtype="Float64"),
                  xarray.DataArray([0, 0.5]), [jnp.float32(0), 0.5]):  # fmt: skip
        read = _arrays.real("means", given)
        assert read.dtype == np.float64 and read.tolist() == [0.0, 0.5]
    for dtype in (jnp.int2, jnp.uint4, jnp.int8, np.uint64, jnp.float8_e5m2):
        given = np.array([[1, 0], [0, 1]]).astype(dtype)
        assert _arrays.real("losses", given).tolist() == [[1.0, 0.0], [0.0, 1.0]]
        environments.table(given)
    assert _arrays.real("means", 0.5).shape == () and _arrays.real("means", []).shape == (0,)


@pytest.mark.parametrize("number", [1 + 2**-52, -1e-20, 1.0000001, 1.5, np.float32(1.0000001)])
def test_a_refused_number_is_shown_with_digits_that_are_refused(number):
    """A rounded one would look allowed."""
    with pytest.raises(ValueError) as error:
        environments.table([[0.5, number]])
    shown = str(error.value).removeprefix("losses: row 1, column 2 is ").split(";")[0]
    assert not 0.0 <= float(shown) <= 1.0
    assert len(shown) < 6 or float(shown) == number


@pytest.mark.parametrize(("given", "message"), [
    ([0.5, np.inf], "means: entry 2 is inf; means must be finite in float32"),
    (pd.NA, "means is missing; means must be finite in float32"),
    (np.array(np.timedelta64(1, "s")), "means is np.timedelta64(1,'s'), which is not a real "
     "number; means must be finite in float32"),
    (scipy.sparse.csr_array(ROWS), "means: must be an array of numbers, got a csr_array"),
])  # fmt: skip
def test_other_arrays_are_refused(given, message):
    with pytest.raises(ValueError) as error:
        _arrays.entries(means=given)
    assert str(error.value) == message


def test_a_traced_array_is_noted():
    regret = jax.jit(lambda m: environments.bernoulli(m).regret((), jnp.zeros(2)))
    assert regret(jnp.array([0.5, 1.0])) == 0.0 and jnp.isnan(regret(jnp.array([0.5, 1.5])))


@pytest.mark.parametrize("given", [
    jnp.array([0.5, 1]), pd.Series([0.5, 1]), pd.Index([0.5, 1]), xarray.DataArray([0.5, 1]),
    [jnp.float32(0.5), 1.0], (np.float64(0.5), np.array(1.0)),
])  # fmt: skip
def test_an_axis_and_points_may_be_arrays_of_any_package(given):
    """An array without axes is one value; a table is refused."""
    made = axis("epsilon", given)
    assert made.values == (0.5, 1.0) and made.traced and not made.single
    points = jax.tree.map(_numbers, given, is_leaf=_is_list_of_numbers)
    np.testing.assert_array_equal(points, [0.5, 1.0])
    made = axis("epsilon", given[0])
    assert made.values == (0.5,) and made.single
    with pytest.raises(ValueError, match="must be one value or a list of values, not a table"):
        axis("epsilon", [np.asarray(given), np.asarray(given)])


def test_a_word_among_numbers_of_a_table_is_named_with_its_column():
    """pandas reads the other entries of its column as words, too."""
    table = pd.read_csv(io.StringIO("a,b\n0.1,0.2\n0.3,oops\n"))
    with pytest.raises(ValueError, match=r"losses: row 2, column 2 \(b\) is 'oops', which is not"):
        environments.table(table)
