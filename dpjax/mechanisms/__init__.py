"""Noisy prefix sums of a private stream, a file for each mechanism. Authors of mechanisms come in.

``__all__`` is the registry.

A mechanism is made in two steps. The first step is the factory ``name(horizon, *, noise)``, which
returns a :class:`dpjax.Mechanism`. The horizon and the law of the noise determine how the matrix of
prefix sums is factorized, so the mechanism knows its sensitivity, its variance and its matrices
before any noise has a scale. The second step is ``mechanism.stream(shape, *, scale)``, which
returns a :class:`dpjax.Stream`, the transducer of values of that shape. The scale is at least 0. It
is b of Laplace noise, and the standard deviation of Gaussian noise::

    mechanism = mechanisms.tree(1024)
    stream = mechanism.stream((10,), scale=mechanism.sensitivity[0] * change / epsilon)

Hence the scale follows from what the mechanism declares. Let Delta be the largest change of one
value. Laplace noise of scale sensitivity[0] Delta_1 / epsilon makes all releases together
epsilon-DP. Gaussian noise makes them one Gaussian mechanism of sensitivity sensitivity[1] Delta_2,
and no composition is needed.

That holds for adaptively chosen values too, whatever the factorization. Let value t change by d.
The shift z -> z - C e_t d of the noise offsets this change and leaves all releases as they are.
Since d depends only on releases before t, which stay the same, the shift preserves volume, and
densities change by the factor that the sensitivity bounds. (For Gaussian noise see Denisov,
McMahan, Rush, Smith & Thakurta 2022.)

Each mechanism says which model it is for. The sums of all but one are kept by whoever runs the
learner, who is trusted: the central model. The values of :func:`per_item` are randomized before
anyone sums them up, and a learner on it declares the local model.

The sums are float32 with Kahan's correction, and a release is their rounded sum with the noise. So
what is released is the declared mechanism as long as sums stay below about 2^24 times the scale of
a draw. The sums of :mod:`dpjax.maths.exact_sums` have no such limit, but they fix a unit, and the
values here may be of any size.
"""

from dpjax.mechanisms.exact import exact
from dpjax.mechanisms.hybrid import hybrid
from dpjax.mechanisms.kary import kary
from dpjax.mechanisms.per_item import per_item
from dpjax.mechanisms.smooth import smooth
from dpjax.mechanisms.stationary import stationary
from dpjax.mechanisms.toeplitz import buffered, square_root
from dpjax.mechanisms.tree import honaker, tree

__all__ = [
    "buffered",
    "exact",
    "honaker",
    "hybrid",
    "kary",
    "per_item",
    "smooth",
    "square_root",
    "stationary",
    "tree",
]
