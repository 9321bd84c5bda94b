"""Follow the regularized leader for adversarial semi-bandits, with noise on entry losses."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import random as jr

from dpjax import noise
from dpjax.combinators import minibatch
from dpjax.core import Array, BatchLearner, Learner, Model, Number, Privacy, Read
from dpjax.domains import Domain, box_losses, check_domain
from dpjax.feedback import semi_bandit
from dpjax.maths.clipping import add_counts


class SemiBanditFtrlState(NamedTuple):
    estimates: Array  # (d,) L, sums of estimated losses
    action: Array  # (d,) float32, the current vertex
    marginals: Array  # (d,) x, the probability that each entry is one
    reads: Array  # (d,) bool, the entries whose losses are read
    skipped: Array  # () int32


class SemiBanditFtrlReport(NamedTuple):
    skipped: Array  # () int32, ignored estimates that were too large for a stable step


def semi_bandit_ftrl(
    horizon: int,
    domain: Domain,
    *,
    epsilon: Number,
    delta: Number | None = None,
    read: Read = "one",
    model: Model = "local",
) -> Learner | BatchLearner:
    """FTRL for adversarial semi-bandits on k-sets and paths, with noise on losses.

    An action is a vertex of the domain: a set of at most k of the d entries. Its loss is the sum of
    their losses, each of which is observed. Each round draws an action a with P(a_i = 1) = x_i. On
    sets of k entries (simplex, ``capped_simplex``, ``partition_matroid``) the
    regularizer is the Tsallis entropy,

        x = argmin <L, x> - (2 / eta) sum_i sqrt(x_i),    eta = 1 / sqrt(2 T V),

    and on paths P(a) is proportional to exp(-eta <L, a>), eta = sqrt(ln N / (2 d T V)) for N paths.
    Either one uniformly drawn entry J of the action is read with noise, or all its entries are. The
    estimates that are added to L are

        "one"  y_J = |a| (l_J + Lap(1 / epsilon)) / x_J    V = k (1 + 2 / epsilon^2)
        "all"  y_i = (l_i + Lap(k / epsilon)) / x_i        V = 1 + 2 k^2 / epsilon^2

    Estimates with eta |y_i| sqrt(x_i) > 1/2, or eta |y_i| > 1 on paths, are skipped. With Gaussian
    noise, the variance of this noise replaces 2 / epsilon^2 and 2 k^2 / epsilon^2; with "all" this
    variance grows as k.

    Args:
      horizon: T, rounds.
      domain: a Domain of sets or paths as above, created outside traced code.
      epsilon: privacy parameter; inf adds no noise.
      delta: for Gaussian noise; by default the noise is Laplace and privacy is pure.
      read: "one" or "all" entries of an action. Paths allow only "one", since the estimates of
        several edges of a path would add up.
      model: "local", or "central" for batches of tau rounds that play one action. The same entries
        are read in all rounds of a batch, and noise is added to their sums. In V the variance of
        this noise is then divided by tau^2. tau is the standard deviation of this noise, rounded
        up. For Laplace noise it is sqrt(2) / epsilon or sqrt(2) k / epsilon.

    Returns:
      A Learner with semi-bandit feedback, or in the central model a BatchLearner. The report counts
      skipped estimates.

    Privacy: epsilon-DP, or (epsilon, delta)-DP, for replacement of one round's loss vector.
    Released values: the noisy losses, or in the central model actions 1..T. A replaced round
    changes one read loss by at most 1, or k of them. The choice of losses to read depends only on
    coins and earlier releases.

    Regret: at most 5.66 sqrt(d k T V) on sets and 2.83 sqrt(d ln N T V) on paths, in expectation
    (oblivious losses in [0, 1]); see :func:`dpjax.bounds.semi_bandit_ftrl`. The constants are ours.
    Losses are not centred, since a skipped estimate must have a mean of at least 0.

    Reference: Audibert, Bubeck & Lugosi, "Regret in online combinatorial optimization", 2014, for
    the game; Zimmert & Seldin 2021 for the entropy; Takimoto & Warmuth 2003 for paths. The noise,
    the batches and skipping (as Huang, Dai & Huang 2022 do for heavy tails) are ours.

    Raises:
      ValueError, TypeError: an argument is invalid; no law of vertices is known for the domain.

    Examples:
      >>> pairs = domains.capped_simplex(4, 2)  # all choices of 2 out of 4
      >>> learner = learners.semi_bandit_ftrl(1000, pairs, epsilon=1.0)
      >>> learner.privacy.model, learner.feedback.name
      ('local', 'semi_bandit')
    """
    check_domain(domain)
    dim, lottery, one, local = domain.dim, domain.lottery, read == "one", model == "local"
    if lottery is None:
        raise ValueError("domain must be sets with a fixed number of entries, such "
                         "as domains.capped_simplex, or domains.paths")  # fmt: skip
    if not (one or lottery.reads_all):
        raise ValueError("read must be 'one' on this domain, got 'all'")
    law, name = noise.laplace, "Laplace"
    if delta is not None:
        law, name = noise.gaussian, "Gaussian"
    change = (1.0, 1.0) if one else (float(lottery.ones), lottery.ones**0.5)
    of_sum = law.calibrate(change, epsilon, delta)
    tau = 1.0 if local else jnp.clip(jnp.ceil(jnp.sqrt(law.variance(of_sum.scale))), 1.0, horizon)
    scale = of_sum.scale / tau
    second_moment = (lottery.ones if one else 1.0) * (1.0 + law.variance(scale))  # V
    rounds = horizon / tau
    rate = jnp.sqrt(lottery.penalty / (lottery.stability * rounds * second_moment))

    def draw(key, estimates, skipped):
        action_key, read_key = jr.split(key)
        action, x = lottery.draw(action_key, rate * estimates, noise.choose)
        reads = action > 0.5
        if one:
            reads = jnp.arange(dim) == noise.choose(read_key, action / jnp.sum(action))
        return SemiBanditFtrlState(estimates, action, x, reads, skipped), action

    def init(key):
        return draw(key, jnp.zeros(dim, jnp.float32), jnp.zeros((), jnp.int32))

    def step(state, key, loss):
        noise_key, draw_key = jr.split(key)
        x, read_losses = state.marginals, jnp.where(state.reads, loss, 0.0)
        noisy = law(noise_key, jnp.sum(read_losses) if one else read_losses, scale)
        times = jnp.sum(state.action) if one else 1.0
        y = jnp.where(state.reads, times * noisy / x, 0.0)
        used = rate * jnp.abs(y) <= lottery.reach(x)
        skipped = add_counts(state.skipped, jnp.sum(~used, dtype=jnp.int32))
        return draw(draw_key, state.estimates + jnp.where(used, y, 0.0), skipped)

    def report(state):
        return SemiBanditFtrlReport(state.skipped)

    entries = "one entry" if one else "all entries"
    declared = Privacy(
        epsilon=epsilon, delta=0.0 if delta is None else delta, rho=of_sum.rho, model=model,
        released="randomized losses 1..T" if local else "actions 1..T",
        accountant=f"{name} mechanism on {entries} of a {'round' if local else 'batch'}",
    )  # fmt: skip
    actions = domain._replace(losses=box_losses(dim, 0.0, 1.0))
    learner = Learner(init, step, semi_bandit, actions, horizon, declared, report)
    return learner if local else minibatch(learner, horizon, tau)._replace(privacy=declared)
