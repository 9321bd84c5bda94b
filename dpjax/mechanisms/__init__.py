"""Noisy prefix sums of a private stream, one file for each mechanism.

``__all__`` is the registry.

A mechanism is made in two steps. The factory ``name(horizon, *, noise)`` returns a
:class:`dpjax.Mechanism`. The horizon and the law of the noise determine the factorization of the
matrix of prefix sums. So the mechanism knows its sensitivity, its variance and its matrices before
the noise has a scale. Then ``mechanism.stream(shape, *, scale)`` returns a :class:`dpjax.Stream`
for values of this shape. The scale is at least 0: b of Laplace noise, or the standard deviation of
Gaussian noise::

    mechanism = mechanisms.tree(1024)
    stream = mechanism.stream((10,), scale=mechanism.sensitivity[0] * change / epsilon)

The scale follows from the mechanism's sensitivity. Let Delta_1 and Delta_2 be the largest L1 and L2
norms of the change of one value. Laplace noise of scale sensitivity[0] Delta_1 / epsilon makes all
releases together epsilon-DP. Gaussian noise makes them one Gaussian mechanism of sensitivity
sensitivity[1] Delta_2, and no composition is needed.

This also holds for adaptively chosen values, with any factorization. Let value t change by d. The
shift z -> z - C e_t d of the noise offsets this change and leaves all releases the same. Since d
depends only on releases before t, the shift preserves volume, and the sensitivity bounds the change
of the density. (For Gaussian noise see Denisov, McMahan, Rush, Smith & Thakurta 2022.)

Each mechanism declares its trust model. For all but one it is the central model: a trusted party
runs the learner and keeps the sums. The values of :func:`per_item` are randomized before they are
summed, and a learner with it declares the local model.

The sums are float32 with Kahan's correction, and a release is the rounded sum plus the noise. So a
release has the declared law if sums are below about 2^24 times the noise scale. The sums of
:mod:`dpjax.maths.exact_sums` have no such limit, but round each value to a multiple of 2^-30.
Values here may have any size.
"""

from dpjax.core._exports import public
from dpjax.mechanisms._exact import exact as exact
from dpjax.mechanisms._hybrid import hybrid as hybrid
from dpjax.mechanisms._kary import kary as kary
from dpjax.mechanisms._per_item import per_item as per_item
from dpjax.mechanisms._smooth import smooth as smooth
from dpjax.mechanisms._stationary import stationary as stationary
from dpjax.mechanisms._unbounded import unbounded as unbounded
from dpjax.mechanisms.toeplitz import buffered as buffered
from dpjax.mechanisms.toeplitz import square_root as square_root
from dpjax.mechanisms.trees import honaker as honaker
from dpjax.mechanisms.trees import tree as tree

__all__ = public(globals())
