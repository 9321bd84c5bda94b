"""The JAX primitive of private releases. Audits find it in any traced program.

``release(kind, law, key, ...)`` computes a release of this kind: a value with noise of the law, or
a random choice. Under ``jax.vmap`` it remains one release, and records which inputs its members
share. Derivatives are with respect to the arguments, at fixed draws.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from dpjax.core import Array, PyTree, _check


class Site(NamedTuple):
    """The static parameters of a release in a traced program."""

    kind: str  # the function that computes the release, a name in KINDS
    law: Any  # the Law of the noise; None for a draw without noise
    sensitivity: Any = None  # (L1, L2) of the mechanism of prefix sums, else None
    mapped: tuple = ()  # for each jax.vmap around the release, outermost first, the mapped axis of
    # each argument, or None if the members share the argument


# Each is (law, key, *arguments) -> the release.
KINDS: dict[str, Callable] = {}


def kind(name: str) -> Callable:
    """Register a function of (law, key, *arguments) as a kind of release."""
    return lambda function: KINDS.setdefault(name, function)


def release(kind: str, law: Any, key: Array, *arguments: PyTree, sensitivity=None) -> Array:
    """Make a release of this kind with noise of this law. Consumes the key."""
    _check.key(key=key)
    return bind(Site(kind, law, sensitivity), key, *arguments)


def bind(site: Site, *inputs: PyTree) -> Array:
    """Make the release of a site from its inputs. The first input is the key."""
    inputs = tuple(map(_of_program, inputs))
    shapes = (jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=_is_weak(x)) for x in inputs)
    return release_p.bind(*inputs, site=site, jaxpr=_compiled(site).trace(*shapes).jaxpr)


def _of_program(x) -> Array:
    """An array with the program's dtype, even if the learner was made with 64-bit types."""
    x = x if isinstance(x, jax.Array) else jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jax.dtypes.extended):  # a key
        return x
    dtype = jax.dtypes.canonicalize_dtype(x.dtype)
    return x if x.dtype == dtype else x.astype(dtype)


def over_members(function: Callable, site: Site) -> Callable:
    """Map a function of the inputs of one release over the members of a site."""
    for axes in reversed(site.mapped):
        function = jax.vmap(function, in_axes=axes)
    return function


def _is_weak(array):
    return getattr(jax.typeof(array), "weak_type", False)


@lru_cache(maxsize=1024)
def _compiled(site):
    def one(key, *arguments):
        return KINDS[site.kind](site.law, key, *arguments)

    return jax.jit(over_members(one, site))


release_p = Primitive("release")


@release_p.def_impl
def _run(*inputs, site, jaxpr):
    del jaxpr
    return _compiled(site)(*inputs)


@release_p.def_abstract_eval
def _aval(*inputs, site, jaxpr):
    del inputs, site
    return jaxpr.out_avals[0]


def _lower(context, *inputs, site, jaxpr):
    del jaxpr
    return mlir.lower_fun(_compiled(site), multiple_results=False)(context, *inputs)


def _batch(inputs, axes, *, site, jaxpr):
    del jaxpr
    axes = tuple(axis if isinstance(axis, int) else None for axis in axes)
    return bind(site._replace(mapped=(axes, *site.mapped)), *inputs), 0


def _differentiate(primals, tangents, *, site, jaxpr):
    released = release_p.bind(*primals, site=site, jaxpr=jaxpr)
    moving = [i for i, tangent in enumerate(tangents) if type(tangent) is not ad.Zero]
    moving = [i for i in moving if tangents[i].dtype != jax.dtypes.float0]
    if not moving or not jnp.issubdtype(released.dtype, jnp.inexact):
        return released, ad.Zero(jax.typeof(released).to_tangent_aval())

    def at_fixed_draws(*arguments):
        inputs = list(primals)
        for i, argument in zip(moving, arguments, strict=True):
            inputs[i] = argument
        return _compiled(site)(*inputs)

    of_moving = [[row[i] for i in moving] for row in (primals, tangents)]
    return released, jax.jvp(at_fixed_draws, *of_moving)[1]


mlir.register_lowering(release_p, _lower)
batching.primitive_batchers[release_p] = _batch
ad.primitive_jvps[release_p] = _differentiate
