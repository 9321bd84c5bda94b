"""Log-densities of releases, and log-probabilities of draws with few outcomes.

The functions take the inputs of a release as :mod:`dpjax.noise` does, except for the key.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr
from jax.scipy.stats import binom

from dpjax.core import Array
from dpjax.maths import exact_sums
from dpjax.maths.laws import as_laplace, random_words
from dpjax.noise.release import Site, over_members

# Gauss-Legendre quadrature on (0, 1), for the probability of the least noisy value.
NODES, WEIGHTS = (np.float32(0.5 * row) for row in np.polynomial.legendre.leggauss(16))
NODES += np.float32(0.5)
# The length of an interval outside of which e^-x is negligible.
LENGTH = 15.0


def refusal(site: Site) -> str:
    """The reason why the density of a release is not known; empty if it is known."""
    if site.kind in OUTCOMES or site.kind in ("prefix", "flips"):
        return ""
    if site.kind in ("value", "words") and site.law.log_density is not None:
        return ""
    return f"the density of a release ({site.law.name}, {site.kind}) is not known"


# Draws with few outcomes ------------------------------------------------------------------------


def _choice(probabilities):
    return jnp.log(probabilities / jnp.sum(probabilities))


def _coin(probability):
    p = jnp.clip(jnp.sum(probability), 0.0, 1.0)
    return jnp.stack([jnp.log1p(-p), jnp.log(p)])


def _least(value, scale):
    """The log-probability that x_i + z_i is the least, for each i, with Laplace noise z, (K,).

    It is the integral over t of the product S(t) of all P(x_j + z_j > t), times the hazard rate of
    x_i + z_i at t. After the m-th smallest x, S falls like e^-mt, and its other factors vary only
    near the next x. So quadrature is on the first part, the middle and the last part of each
    interval between two neighbouring x. The rate is 1 above x_i, and rises like e^t below it.
    """
    count = len(value)
    units = (value - jnp.min(value)) / jnp.asarray(scale, jnp.float32)
    # Below the smallest x, many factors may vary down to this point.
    ends = jnp.append(jnp.float32(-np.log(count)), jnp.sort(units))
    gaps = jnp.diff(ends)
    part = jnp.minimum(gaps / 3.0, LENGTH / np.maximum(np.arange(count) - 1.0, 1.0))
    starts = jnp.stack([0.0 * gaps, part, gaps - part], axis=1)[..., None]
    widths = jnp.stack([part, gaps - 2.0 * part, part], axis=1)[..., None]

    # Points after an end, with their weights. The first are below all ends, and exact in e^t. The
    # last one is above all ends, at which S falls like e^-Kt.
    inner = starts + widths * NODES[None, None]
    after = [np.log(NODES), inner.reshape(-1), np.float32([1.0 / count])]
    inner = widths * WEIGHTS[None, None]
    weights = [WEIGHTS / NODES, inner.reshape(-1), np.float32([np.e / count])]
    end = np.repeat(np.arange(count + 1), [4 * len(NODES), *[3 * len(NODES)] * (count - 1), 1])
    noise = (ends[end][None] - units[:, None]) + jnp.concatenate(after)[None]  # (K, points)

    rest = _log_survival(noise)
    logs = jnp.sum(rest, axis=0, keepdims=True) - rest - jnp.abs(noise) + math.log(0.5)
    most = lax.stop_gradient(jnp.max(logs, axis=1))
    # Widths may be 0, so their logarithms are not used.
    sums = jnp.sum(jnp.concatenate(weights)[None] * jnp.exp(logs - most[:, None]), axis=1)
    return jax.nn.log_softmax(most + jnp.log(sums))


def _log_survival(level):
    """ln P(z > level) of a standard Laplace draw z."""
    return jnp.log1p(-0.5 * jnp.exp(jnp.minimum(level, 0.0))) - jnp.maximum(level, 0.0)


def _comparison(key, armed, threshold, value, scale):
    """The log-probabilities given the noise of the threshold, which depends on no loss."""
    noise_key = jr.wrap_key_data(armed, impl=jr.key_impl(key))
    level = threshold + scale * as_laplace(random_words(noise_key, ()))
    above = jnp.sum((value - level) / scale)
    return _log_survival(jnp.stack([above, -above]))


# Each is (key, *inputs) -> the log-probability of each outcome.
OUTCOMES: dict[str, Callable] = {
    "choice": lambda key, probabilities: _choice(probabilities),
    "categorical": lambda key, logits: jax.nn.log_softmax(logits),
    "coin": lambda key, probability: _coin(probability),
    "least": lambda key, value, scale: _least(value, scale),
    "comparison": _comparison,
}


def outcomes(site: Site, inputs: Sequence):
    """The log-probabilities of all outcomes, with one leading axis of members per jax.vmap."""
    return over_members(OUTCOMES[site.kind], site)(*inputs)


# Noise ------------------------------------------------------------------------------------------


def _noise(site, value, released):
    if site.kind == "words":
        whole, part = released - value
        return whole.astype(jnp.float32) + exact_sums.UNIT * part.astype(jnp.float32)
    return released - value


def _of_law(site, _, value, scale, released):
    noise, scale = _noise(site, value, released), jnp.asarray(scale, jnp.float32)
    safe = jnp.where(scale > 0.0, scale, 1.0)
    bare = jnp.where(noise == 0.0, 0.0, -jnp.inf)
    return jnp.sum(jnp.where(scale > 0.0, site.law.log_density(noise, safe), bare))


def _flips(site, _, value, scale, count, released):
    """The log-probability of a sum of two binomials: ones that stay, and zeros that flip."""
    flip = 1.0 / (1.0 + jnp.exp(1.0 / jnp.asarray(scale, jnp.float32)))
    ones, bits, seen = (jnp.asarray(x, jnp.float32) for x in (value, count, released))

    def add(index, total):
        kept = index.astype(jnp.float32)
        more = binom.logpmf(ones - kept, ones, flip) + binom.logpmf(seen - kept, bits - ones, flip)
        return jnp.logaddexp(total, more)

    return lax.fori_loop(0, value + 1, add, jnp.float32(-jnp.inf))


def log_density(site: Site, inputs: Sequence, released: Array):
    """The logarithm of the density of a release, or of its probability, ()."""
    if site.kind in OUTCOMES:
        logs = outcomes(site, inputs)
        places = jnp.asarray(released, jnp.int32)[..., None]
        return jnp.sum(jnp.take_along_axis(logs, places, axis=-1))
    if site.kind == "prefix":  # its noise is counted at the draws within it
        return jnp.zeros(())
    of_kind = partial(_flips if site.kind == "flips" else _of_law, site._replace(mapped=()))
    # The leading axes of the release are its members: one per jax.vmap, the outermost first.
    mapped = tuple((*axes, 0) for axes in site.mapped)
    return jnp.sum(over_members(of_kind, site._replace(mapped=mapped))(*inputs, released))
