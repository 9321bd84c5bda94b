"""Values that only forward mode differentiates."""

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

# The tangent of ``forward_only``: it is passed on, and cannot be transposed.
tangent_p = Primitive("forward_only")
tangent_p.def_impl(lambda tangent: tangent)
tangent_p.def_abstract_eval(lambda tangent: tangent)
mlir.register_lowering(tangent_p, lambda context, tangent: [tangent])
batching.defvectorized(tangent_p)


def forward_only(tree):
    """The pytree, unchanged; reverse-mode derivatives raise an error with an explanation.

    The rounds of ``simulate`` are a loop whose length varies between checkpoints, which JAX
    differentiates only in forward mode.
    """
    return jax.tree.map(lambda x: _kept(x) if jnp.issubdtype(x.dtype, jnp.inexact) else x, tree)


@jax.custom_jvp
def _kept(value):
    return value


@_kept.defjvp
def _pass_on(primals, tangents):
    return _kept(*primals), tangent_p.bind(*tangents)


def _refuse(cotangent, tangent):
    del cotangent, tangent
    raise TypeError(
        "simulate cannot be differentiated in reverse mode; use forward mode (jax.jacfwd, "
        "jax.jvp), or differentiate the records of dpjax.trajectory"
    )


def _linear(primals, tangents):
    return tangent_p.bind(*primals), tangent_p.bind(*tangents)


ad.primitive_jvps[tangent_p] = _linear
ad.primitive_transposes[tangent_p] = _refuse
