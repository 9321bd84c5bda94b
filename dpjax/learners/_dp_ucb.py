"""Private UCB with a binary tree for each arm."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from dpjax import domains, mechanisms
from dpjax.core import Arms, Array, Learner, Number, PyTree
from dpjax.feedback import bandit
from dpjax.learners.parts.prefix_sums import prefix_sums
from dpjax.maths.laws import smallest
from dpjax.privacy.printed import stated


class DpUcbState(NamedTuple):
    round: Array  # () int32, t
    pulls: Array  # (K,) int32
    sums: PyTree  # state of the private prefix sums
    arm: Array  # () int32, the current arm


def dp_ucb(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    failure: Number = 0.1,
    exploration: Number = 4.0,
    split: Literal["parallel", "paper"] = "parallel",
) -> Learner:
    """Private UCB: confidence bounds on the noisy sums of a binary tree for each arm.

    All trees share the game's clock: each round inserts the loss into the tree of the played arm,
    and 0 into the others. Let L~_a be the noisy sums and e the epsilon of a tree. Round t plays the
    arm with the smallest

        L~_a / n_a - sqrt(alpha ln t / (2 n_a)) - Gamma / n_a,
        Gamma = ln(T)^2 ln(K T ln(T) / gamma) / e,

    where Gamma bounds the noise of all sums.

    Args:
      horizon: T, rounds.
      arms: K, at least 2. Each is first played once, in random order.
      epsilon: privacy parameter; inf adds no noise and no bonus.
      failure: gamma in (0, 1), the probability that the noise exceeds Gamma.
      exploration: alpha, positive, as in :func:`ucb1`. The paper's 4 gives sqrt(2 ln t / n_a).
      split: "parallel" gives each tree epsilon, "paper" epsilon / K.

    Returns:
      A Learner with bandit feedback.

    Privacy: epsilon-DP for replacement of one round. Released values: actions 1..T. A round's loss
    enters only one tree, and at most ceil(log2 T) of its nodes. So the trees compose in parallel,
    and the arms need not share the budget. With "paper" they share it, and epsilon / K is declared.
    Nodes have Laplace noise of scale ceil(log2 T) / e. Some implementations use ln T instead of the
    number of levels, which is too small by a factor of 1.44.

    Regret: of the type O(sum_a log^2 T log(K T) / (epsilon Delta_a^2)) for "paper".

    Reference: Mishra & Thakurta, "(Nearly) optimal differentially private stochastic multi-arm
    bandits", 2015, via public implementations.

    Examples:
      >>> made = [learners.dp_ucb(1000, 4, epsilon=1.0, split=x) for x in ("parallel", "paper")]
      >>> [float(x.privacy.epsilon) for x in made]
      [1.0, 0.25]
    """
    share = jnp.asarray(epsilon, jnp.float32) / (arms if split == "paper" else 1)
    sums = prefix_sums(
        horizon,
        domains.box_losses(arms, 0.0, 1.0),
        epsilon=share,
        delta=None,
        mechanism=mechanisms.tree,
        noise="laplace",
        unit="entry",
    )
    log_horizon = jnp.log(jnp.float32(max(horizon, 2)))
    gamma_bonus = log_horizon**2 * jnp.log(float(arms * horizon) * log_horizon / failure) / share

    def choose(key, t, pulls, state, release):
        n = jnp.maximum(pulls, 1).astype(jnp.float32)
        log_t = jnp.log(t.astype(jnp.float32) + 1.0)
        bounds = release / n - jnp.sqrt(0.5 * exploration * log_t / n) - gamma_bonus / n
        arm = smallest(key, jnp.where(pulls == 0, -jnp.inf, bounds))
        return DpUcbState(t, pulls, state, arm), arm

    def init(key):
        sums_key, key = jax.random.split(key)
        zero = jnp.zeros((), jnp.int32)
        return choose(key, zero, jnp.zeros(arms, jnp.int32), *sums.init(sums_key))

    def step(state, key, loss):
        sums_key, key = jax.random.split(key)
        losses = jnp.zeros(arms, jnp.float32).at[state.arm].set(loss)
        released = sums.step(state.sums, sums_key, losses)
        return choose(key, state.round + 1, state.pulls.at[state.arm].add(1), *released)

    declared = sums.privacy._replace(unit="round")
    if split == "paper":
        declared = stated(declared, "printed", jnp.asarray(epsilon, jnp.float32))
    return Learner(init, step, bandit, Arms(arms), horizon, declared)
