"""The laws of private selections of the arm with the smallest sum of losses.

They are given as logits, up to a common constant. A probability could underflow to 0 on one of two
neighbouring sequences and not on the other.
"""

import math

import jax.numpy as jnp
import numpy as np

from dpjax.core import Number
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum


def exponential(total: ExactSum, epsilon: Number):
    """The logits -epsilon S / 2 of an ExactSum S (K,): the exponential mechanism.

    At epsilon = inf its law is uniform over the smallest entries of S.
    """
    excess = exact_sums.excess(total)
    # The product would be 0 * inf = nan for the smallest entries.
    return jnp.where(excess > 0.0, -0.5 * epsilon * excess, 0.0)


def permute_and_flip(total: ExactSum, epsilon: Number):
    """The logits of argmin(S - E) of an ExactSum S (K,), E_i exponential of mean 2 / epsilon.

    With q_i = exp(-epsilon (S_i - min S) / 2) it is

        P_i = q_i times the integral over u in [0, 1] of prod_{j != i} (1 - u q_j).

    Permute-and-flip draws a random order of the arms, and selects the first arm i whose coin of
    bias q_i shows heads (McKenna & Sheldon 2020). With u uniform as the place of arm i in the
    order, each other arm comes before it and shows heads with probability u q_j. The integrand is a
    polynomial of degree K - 1, which Gauss-Legendre quadrature with K / 2 nodes integrates exactly.
    Above K = 50 about 2 sqrt(K) nodes give float32 accuracy.
    """
    logits = exponential(total, epsilon)
    q = jnp.exp(logits)
    count = len(q)
    nodes = min(math.ceil(count / 2), 16 + math.ceil(2.2 * math.sqrt(count)))
    places, parts = np.polynomial.legendre.leggauss(nodes)
    u = jnp.asarray(0.5 + 0.5 * places, jnp.float32)[:, None]
    tails = 1.0 - u * q[None]  # (nodes, K)
    every = jnp.asarray(0.5 * parts, jnp.float32) * jnp.exp(jnp.sum(jnp.log(tails), axis=1))
    return logits + jnp.log(jnp.sum(every[:, None] / tails, axis=0))
