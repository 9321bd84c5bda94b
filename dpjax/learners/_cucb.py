"""CUCB: confidence bounds on the vertices of a polytope, from semi-bandit feedback."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import noise, privacy
from dpjax.core import Array, Learner, Model, Number, Privacy, Read
from dpjax.domains import Domain, box_losses, check_domain
from dpjax.feedback import semi_bandit
from dpjax.learners.parts.arm_sums import ArmSums, no_losses
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum
from dpjax.maths.laws import smallest

VARIANCE = 0.25  # of a loss in [0, 1], at most
# Each radius is enlarged by a random share of up to SPREAD, which breaks ties at random.
SPREAD = 2.0**-12
# Number of vertices that are checked to have entries 0 and 1 only.
_LOOKS = 64


class CucbState(NamedTuple):
    round: Array  # () int32, t
    samples: Array  # (d,) int32, O: losses in the total of each entry
    totals: ExactSum  # (d,), noisy
    buffer: ArmSums  # losses of each entry read since that total
    action: Array  # (d,) float32, the current vertex


def cucb(
    horizon: int,
    domain: Domain,
    *,
    epsilon: Number,
    read: Read = "one",
    model: Model = "central",
    exploration: Number = 3.0,
) -> Learner:
    """CUCB with private means: combinatorial semi-bandits on k-sets, trees and paths.

    An action is a vertex of the domain: a set of at most k of the d entries. Its loss is the sum of
    their losses, each of which is observed. Let entry i have a private mean of O_i losses, and let
    b = 1/4. Each round plays the vertex with the smallest sum of

        mean_i - sqrt(2 alpha b ln t / O_i) - alpha h ln t / O_i

    over its entries. Entries without a mean come first, in random order, and ties are broken at
    random. The losses read from an entry are collected in a buffer. When the buffer holds 2 O_i
    losses (one, for the first mean), their mean with Laplace noise of scale h / (2 O_i) replaces
    the old mean, and O_i doubles.

    Args:
      horizon: T, rounds. Only the end of the game depends on it.
      domain: a Domain whose vertices have entries 0 and 1, created outside traced code. k is the
        largest number of ones.
      epsilon: privacy parameter; inf adds no noise.
      read: "all" reads all entries of the action, with h = k / epsilon. "one" reads the entry with
        the fewest losses so far, with h = 1 / epsilon and ties broken at random.
      model: "central" or "local". In the local model each loss gets its own noise when it is read,
        and the mean is over all losses of an entry so far. Then b = 1/4 + 2 h^2, since a Laplace
        variable of scale h has variance 2 h^2.
      exploration: alpha, positive. A one-sided bound fails with probability at most 1.5 t^-alpha in
        the central model, and t^-alpha in the local one.

    Returns:
      A Learner with semi-bandit feedback.

    Privacy: epsilon-DP for replacement of one round's loss vector. Released values: actions 1..T,
    or in the local model the noisy losses. With "all", a replaced round changes at most k sums, and
    each is released at most once with noise for epsilon / k. With "one", the entry to read depends
    only on actions, counts and coins, so a round enters only one sum.

    Regret: O(d k^2 ln T / Delta + d k h ln^2 T).

    Reference: Chen, Wang, Yuan & Wang, "Combinatorial multi-armed bandit and its extension to
    probabilistically triggered arms", 2016; Chen, Zheng, Zhou, Yang, Chen & Wang,
    "(Locally) differentially private combinatorial semi-bandits", 2020, for privacy. The doubling,
    as in :func:`lazy_ucb`, and the constants are ours.

    Raises:
      ValueError, TypeError: an argument is invalid; a vertex has an entry that is not 0 or 1.

    Examples:
      >>> pairs = domains.capped_simplex(4, 2)  # all choices of 2 out of 4
      >>> learner = learners.cucb(1000, pairs, epsilon=1.0, model="local")
      >>> learner.privacy.released, learner.feedback.name
      ('randomized losses 1..T', 'semi_bandit')
    """
    ones, dim = most_ones(domain), domain.dim
    local = model == "local"
    scale = privacy.laplace_scale(1.0 if read == "one" else float(ones), epsilon)
    variance = VARIANCE + 2.0 * jnp.square(scale) if local else VARIANCE

    def choose(key, t, samples, totals):
        count = jnp.maximum(samples, 1).astype(jnp.float32)
        log_t = jnp.log(t.astype(jnp.float32) + 1.0)  # of the next round
        length = jnp.sqrt(2.0 * exploration * variance * log_t / count)
        length = length + exploration * scale * log_t / count
        longer = 1.0 + SPREAD * jr.uniform(key, (dim,))
        index = exact_sums.mean(totals, count) - length * longer
        seen = samples > 0
        # Actions with an entry that was never read come before all others.
        limit = 1.0 + 2.0 * ones * jnp.max(jnp.where(seen, jnp.abs(index), 0.0))
        return domain.minimizer(jnp.where(seen, index, -limit * (1.0 + (longer - 1.0) / SPREAD)))

    def init(key):
        zero, buffer = jnp.zeros((), jnp.int32), no_losses(dim)
        action = choose(key, zero, buffer.pulls, buffer.losses)
        return CucbState(zero, buffer.pulls, buffer.losses, buffer, action), action

    def step(state, key, loss):
        noise_key, choice_key, read_key = jr.split(key, 3)
        played = state.action > 0.5
        if read == "one":
            # An action may be empty. Then no entry is read.
            reads = jnp.where(played, state.buffer.pulls + state.samples, horizon)
            # If ties were broken by index, regret would depend on the order of the entries.
            played = played & (jnp.arange(dim) == smallest(read_key, reads))
        pulls = state.buffer.pulls + played.astype(jnp.int32)
        losses = exact_sums.add(state.buffer.losses, exact_sums.of(jnp.where(played, loss, 0.0)))
        # In the local model each loss is released separately, and the releases are added up.
        size = jnp.ones_like(pulls) if local else jnp.maximum(2 * state.samples, 1)
        full = pulls == size

        def where_full(new, old):
            return jax.tree.map(lambda new, old: jnp.where(full, new, old), new, old)

        nothing = no_losses(dim)
        full_losses = where_full(losses, nothing.losses)
        released = noise.laplace.total(noise_key, full_losses, scale)
        samples = where_full(size + (state.samples if local else 0), state.samples)
        total = exact_sums.add(state.totals, released) if local else released
        totals = where_full(total, state.totals)
        buffer = where_full(nothing, ArmSums(pulls, losses))
        t = state.round + 1
        action = choose(choice_key, t, samples, totals)
        return CucbState(t, samples, totals, buffer, action), action

    entries = "one entry" if read == "one" else "all entries"
    central = f"parallel composition of Laplace mechanisms, {entries} of a round"
    declared = Privacy(
        epsilon=epsilon, model=model,
        released="randomized losses 1..T" if local else "actions 1..T",
        accountant=f"Laplace mechanism on {entries} of a round" if local else central,
    )  # fmt: skip
    actions = domain._replace(losses=box_losses(dim, 0.0, 1.0))
    return Learner(init, step, semi_bandit, actions, horizon, declared)


def most_ones(domain: Domain) -> int:
    """The largest number k of ones in a vertex of a domain whose vertices have entries 0 and 1.

    Raises:
      TypeError: the argument is not a Domain.
      ValueError: a vertex has an entry that is not 0 or 1, or 0 is the only vertex. Only the
        extreme vertices in some fixed random directions are checked.
    """
    check_domain(domain)
    drawn = np.random.default_rng(0).normal(size=(_LOOKS, domain.dim))
    directions = np.concatenate([-np.ones((1, domain.dim)), drawn])
    with jax.core.eval_context():  # The game may be traced, but its sets are not.
        vertices = jax.vmap(domain.minimizer)(jnp.asarray(directions, jnp.float32))
        vertices = np.asarray(vertices)
    if not np.isin(vertices, (0.0, 1.0)).all():
        raise ValueError(
            "domain must have vertices of ones and zeros, such as domains.capped_simplex"
        )
    if not vertices[0].any():
        raise ValueError("domain must have a vertex other than 0")
    return int(vertices[0].sum())
