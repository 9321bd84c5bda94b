"""The kinds of devices for kernels. Fallbacks for primitives that their compilers do not lower."""

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from dpjax.engine import devices
from dpjax.engine.evaluate import rebind
from dpjax.engine.one_kernel import Unfit
from dpjax.kernels.entries import spread


def _like(x, number):
    """The number, with the dtype of ``x``."""
    return np.asarray(number, x.dtype)[()]


def _round(eqn, x, floor=jnp.floor):
    """Round to the nearest integer, with ties to even."""
    low = floor(x)
    rest, odd = x - low, low * _like(x, 0.5) != floor(low * _like(x, 0.5))
    up = (rest > _like(x, 0.5)) | ((rest == _like(x, 0.5)) & odd)
    return jnp.where(up, low + _like(x, 1), low)


def _sign(eqn, x):
    if x.dtype.kind == "u":
        return jnp.where(x > _like(x, 0), _like(x, 1), _like(x, 0))
    positive = jnp.where(x > _like(x, 0), _like(x, 1), x)
    return jnp.where(x < _like(x, 0), _like(x, -1), positive)


def _reduce_precision(eqn, x):
    kept = jnp.finfo(x.dtype)
    if (eqn.params["exponent_bits"], eqn.params["mantissa_bits"]) != (kept.nexp, kept.nmant):
        raise Unfit("numbers are rounded to another precision")
    return x


def _select_n(eqn, index, *cases):
    if len(cases) == 2:
        return rebind(eqn, [index, *cases])[0]
    selected = cases[-1]
    for i, case in reversed(list(enumerate(cases[:-1]))):
        selected = jnp.where(index <= _like(index, i), case, selected)
    return selected


def _population_count(eqn, x):
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F)):
        mask = np.asarray(mask, np.uint32).astype(x.dtype)[()]
        x = (x & mask) + (lax.shift_right_logical(x, _like(x, shift)) & mask)
    return lax.shift_right_logical(x * _like(x, 0x01010101), _like(x, 24))


def _expm1(eqn, x):
    """e^x - 1 by Kahan's formula, in which two rounding errors cancel."""
    power = jnp.exp(x)
    less = power - _like(x, 1)
    exact = (less == _like(x, 0)) | (less == _like(x, -1)) | (less > _like(x, 2**24))
    ratio = less * x / jnp.log(jnp.where(exact, _like(x, 2), power))
    return jnp.where(less == _like(x, 0), x, jnp.where(exact, less, ratio))


def _floor(x):
    whole = x.astype(jnp.int32).astype(x.dtype)
    low = jnp.where(whole > x, whole - _like(x, 1), whole)
    return jnp.where(jnp.abs(x) < _like(x, 2**23), low, x)  # larger numbers are integers


def _sqrt(x):
    """One step of Heron's method, from an approximation."""
    root = x * lax.rsqrt(x)
    root = (root + x / root) * _like(x, 0.5)
    return jnp.where((x == _like(x, 0)) | (x == _like(x, np.inf)), x, root)


def _log1p(x):
    """log(1 + x) by Kahan's formula, in which two rounding errors cancel."""
    total = x + _like(x, 1)
    less = total - _like(x, 1)
    exact = (less == _like(x, 0)) | (total == _like(x, np.inf))
    return jnp.where(exact, x, jnp.log(total) * (x / jnp.where(exact, _like(x, 1), less)))


def _pow(eqn, x, y):
    """x^y. The relative error grows with the logarithm of the result."""
    y = y.astype(x.dtype)
    power, half = jnp.exp(y * jnp.log(jnp.abs(x))), y * _like(x, 0.5)
    negative = jnp.where(_floor(half) == half, power, -power)
    negative = jnp.where(_floor(y) == y, negative, _like(x, np.nan))
    power = jnp.where(x < _like(x, 0), negative, power)
    return jnp.where((y == _like(x, 0)) | (x == _like(x, 1)), _like(x, 1), power)


def _integer_pow(eqn, x):
    exponent = eqn.params["y"]
    if exponent >= 0:
        return rebind(eqn, [x])[0]
    return _like(x, 1) / lax.integer_pow(x, -exponent)


# Coefficients of Giles, "Approximating the erfinv function" (2012), highest power first.
_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def _erf_inv(eqn, x):
    w = -_log1p(-x * x)
    central = w < _like(x, 5)
    z = jnp.where(central, w - _like(x, 2.5), _sqrt(w) - _like(x, 3))
    ratio = jnp.where(central, _like(x, _CENTRE[0]), _like(x, _TAIL[0]))
    for centre, tail in zip(_CENTRE[1:], _TAIL[1:], strict=True):
        ratio = jnp.where(central, _like(x, centre), _like(x, tail)) + ratio * z
    return jnp.where(jnp.abs(x) == _like(x, 1), x * _like(x, np.inf), ratio * x)


def _convert(eqn, x):
    """Convert to another type. Mosaic does not convert booleans of a vector on a GPU."""
    dtype = eqn.params["new_dtype"]
    if x.dtype == np.bool_:
        return jnp.where(x, dtype.type(1), dtype.type(0))
    return x != _like(x, 0) if dtype == np.bool_ else rebind(eqn, [x])[0]


# Each is (equation, *operands) -> output, for an elementwise equation that GPUs do not support.
_WITHOUT_CODE = {
    "add_any": lambda eqn, x, y: x + y,
    "clamp": lambda eqn, low, x, high: jnp.minimum(jnp.maximum(x, low), high),
    "is_finite": lambda eqn, x: jnp.abs(x) < _like(x, np.inf),
    "reduce_precision": _reduce_precision,
    "round": _round,
    "select_n": _select_n,
    "sign": _sign,
}


class Target:
    """A kind of device. The base class is Pallas's interpreter, which runs on a CPU."""

    lanes: tuple[int, ...] = (32,)  # the shape of a vector over the trials of a block
    replaced: ClassVar[dict] = {}  # elementwise primitives that are computed by other primitives
    takes_zeros = False  # whether a kernel has a vector of zeros that compilers do not know as 0
    reads_apart = True  # whether trials may read an array in memory at different places

    def options(self) -> dict:
        """The options of ``pallas_call``."""
        return {"interpret": True}

    def call(self, kernel, arrays, shapes, blocks, in_specs, out_specs) -> list:
        """Run a kernel for all blocks of trials, and return its arrays of these shapes."""
        return pl.pallas_call(
            kernel, out_shape=shapes, grid=(blocks,), in_specs=in_specs, out_specs=out_specs,
            **self.options(),
        )(*arrays)  # fmt: skip

    def within(self, zeros) -> "Target":
        """The target within a kernel that receives these zeros."""
        return self

    def elementwise(self, eqn, operands) -> Any:
        """The result of an elementwise equation on scalars and vectors over the trials."""
        if any(np.shape(x) for x in operands):
            operands = [spread(x, self.lanes) for x in operands]
        function = self.replaced.get(eqn.primitive.name)
        return function(eqn, *operands) if function else rebind(eqn, operands)[0]

    def block(self, words, generator) -> list:
        """The random words of a generator's block, from the words of a key and a counter."""
        return list(generator.block(*words))

    def carried(self, number, differs) -> Any:
        """A number in the form in which loops and branches carry it."""
        return spread(number, self.lanes) if differs else jnp.asarray(number)

    def shared(self, array) -> tuple:
        """An array (n,) that all trials share, and its BlockSpec."""
        size = 1 << (max(len(array), 1) - 1).bit_length()  # Triton supports only powers of two
        return jnp.pad(array, (0, size - len(array))), pl.BlockSpec((size,), lambda i: (0,))


class Triton(Target):
    """An NVIDIA GPU, through Triton. A warp has 32 trials and does not wait for other warps."""

    replaced: ClassVar[dict] = _WITHOUT_CODE

    def options(self):
        from jax.experimental.pallas import triton

        return {"compiler_params": triton.CompilerParams(num_warps=1, num_stages=1)}

    def carried(self, number, differs):
        number = spread(number, self.lanes) if differs else number
        if isinstance(number, np.generic):
            # Triton cannot return constants from a loop or branch.
            nothing: Any = pl.program_id(0) * np.int32(0)
            return nothing.astype(number.dtype) + number
        return number

    def block(self, words, generator):
        """Use the generator's PTX if there is one, once for each word.

        The assembler merges the common parts of these blocks.
        """
        if not generator.text or not any(np.shape(x) for x in words):
            return super().block(words, generator)
        words = [lax.bitcast_convert_type(spread(x, self.lanes), jnp.int32) for x in words]
        return [self._assembled(words, generator.text(i)) for i in range(2)]

    def _assembled(self, words, text):
        from jax.experimental.pallas import triton

        (word,) = triton.elementwise_inline_asm(
            text, args=words, constraints="=r,r,r,r", pack=1,
            result_shape_dtypes=[jax.ShapeDtypeStruct(self.lanes, jnp.int32)],
        )  # fmt: skip
        return lax.bitcast_convert_type(word, jnp.uint32)


class Mosaic(Target):
    """A TPU, whose vectors are 8 x 128."""

    lanes: tuple[int, ...] = (8, 128)
    replaced: ClassVar[dict] = {
        **_WITHOUT_CODE,
        "expm1": _expm1,
        "population_count": _population_count,
    }
    takes_zeros = True
    reads_apart = False

    def __init__(self, zeros=None):
        self.zeros = zeros

    def within(self, zeros):
        return type(self)(zeros)

    def options(self):
        from jax.experimental.pallas import tpu

        return {"compiler_params": tpu.CompilerParams(dimension_semantics=("parallel",))}

    def carried(self, number, differs):
        if differs and not np.shape(number):
            # A constant vector has another layout, which changes in a loop.
            return spread(number, self.lanes) + self.zeros.astype(number.dtype)
        return super().carried(number, differs)

    def shared(self, array):
        from jax.experimental.pallas import tpu

        return array, pl.BlockSpec(memory_space=tpu.SMEM)


class MosaicGPU(Mosaic):
    """An NVIDIA GPU, through Mosaic. A block is four warps, and each thread has one trial.

    Raises:
      Unfit: if a kernel is called, and JAX's default device is a GPU older than Hopper.
    """

    lanes = (128,)  # Mosaic has no layout for fewer
    replaced: ClassVar[dict] = {
        **Mosaic.replaced,
        "ceil": lambda eqn, x: -_floor(-x),
        "convert_element_type": _convert,
        "erf_inv": _erf_inv,
        "floor": lambda eqn, x: _floor(x),
        "integer_pow": _integer_pow,
        "log1p": lambda eqn, x: _log1p(x),
        "pow": _pow,
        "round": partial(_round, floor=_floor),
        "sqrt": lambda eqn, x: _sqrt(x),
        "tan": lambda eqn, x: jnp.sin(x) / jnp.cos(x),
    }

    def call(self, kernel, arrays, shapes, blocks, in_specs, out_specs):
        from jax.experimental.pallas import mosaic_gpu

        capability = getattr(devices.default(), "compute_capability", "9.0")
        if float(capability) < 9:  # the compiler would end the process
            raise Unfit(f"Mosaic needs compute capability 9.0, and the GPU has {capability}")

        def body(*refs):
            start = lax.axis_index("block") * self.lanes[0]
            places = pl.ds(start, self.lanes[0])
            pairs = zip(refs, [*in_specs, *out_specs], strict=True)
            kernel(*[ref if spec is None else ref.at[:, places] for ref, spec in pairs])

        # By default, layouts are inferred. This takes a minute of CPU time for FTRL with jax 0.10.
        options = mosaic_gpu.CompilerParams(lowering_semantics=mosaic_gpu.LoweringSemantics.Lane)
        return mosaic_gpu.kernel(
            body, out_type=shapes, grid=(blocks,), grid_names=("block",), compiler_params=options
        )(*arrays)

    def elementwise(self, eqn, operands):
        result = super().elementwise(eqn, operands)
        if np.issubdtype(result.dtype, np.integer) and eqn.primitive.name in self.replaced:
            # Mosaic loses whether an integer has a sign if it selects a constant.
            number = lax.bitcast_convert_type(result, np.float32)
            return lax.bitcast_convert_type(number, result.dtype)
        return result

    def shared(self, array):
        return jnp.pad(array, (0, not len(array))), None


TARGETS = {"interpret": Target(), "triton": Triton(), "mosaic_gpu": MosaicGPU(), "tpu": Mosaic()}
