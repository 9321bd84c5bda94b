"""Log-densities of releases, and log-probabilities of draws with few outcomes.

The functions take the inputs of a release as :mod:`dpjax.noise` does, except for the key.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr
from jax.scipy.stats import binom

from dpjax.maths import exact_sums
from dpjax.maths.laws import as_laplace, random_words
from dpjax.noise.release import Site, over_members

# Quadrature on each interval between two values, for the probability of the least noisy value.
NODES, WEIGHTS = (np.float32(0.5 * row) for row in np.polynomial.legendre.leggauss(16))
NODES += np.float32(0.5)


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
    """The probability that z_i + x_i is the least, for each i, with independent Laplace noise z.

    Given u = F(z_i) the probability is the product of P(z_j > z_i + x_i - x_j) over j. With
    r = e^(z_i + x_i - x_j) such a factor is 1 - r / 2 below r = 1, and 1 / (2 r) above. So the
    product is smooth between the points at which some r is 1, and quadrature between them is exact.
    """
    units = value / jnp.asarray(scale, jnp.float32)
    order, arms = jnp.sort(units), jnp.arange(len(units))

    def chance(i):
        # The points in u, including 1/2.
        ends = jnp.concatenate([jnp.zeros(1), _below(order - units[i]), jnp.ones(1)])
        width = jnp.diff(ends)[:, None]
        u = (ends[:-1, None] + width * NODES[None]).reshape(-1, 1)
        apart = jnp.exp(jnp.clip(units[i] - units, -80.0, 80.0))  # neither 0 nor inf in float32
        r = jnp.where(u < 0.5, 2.0 * u, 0.5 / (1.0 - u)) * apart[None]
        above = jnp.where(r < 1.0, 1.0 - 0.5 * r, 0.5 / r)
        above = jnp.where((arms == i)[None], 1.0, above)
        return jnp.sum((width * WEIGHTS[None]).reshape(-1) * jnp.prod(above, axis=1))

    return _choice(jax.vmap(chance)(arms))


def _below(level):
    """P(z <= level) of a standard Laplace draw z."""
    tail = 0.5 * jnp.exp(-jnp.abs(level))
    return jnp.where(level < 0.0, tail, 1.0 - tail)


def _comparison(key, armed, threshold, value, scale):
    """The log-probabilities given the noise of the threshold, which depends on no loss."""
    own = jr.wrap_key_data(armed, impl=jr.key_impl(key))
    level = threshold + scale * as_laplace(random_words(own, ()))
    return _coin(_below((value - level) / scale))


# Each is (key, *inputs) -> the log-probability of each outcome.
OUTCOMES: dict[str, Callable] = {
    "choice": lambda key, probabilities: _choice(probabilities),
    "categorical": lambda key, logits: jax.nn.log_softmax(logits),
    "coin": lambda key, probability: _coin(probability),
    "least": lambda key, value, scale: _least(value, scale),
    "comparison": _comparison,
}


def outcomes(site: Site, inputs):
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
        more = binom.logpmf(kept, ones, 1.0 - flip) + binom.logpmf(seen - kept, bits - ones, flip)
        return jnp.logaddexp(total, more)

    return lax.fori_loop(0, value + 1, add, jnp.float32(-jnp.inf))


def log_density(site: Site, inputs, released):
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
