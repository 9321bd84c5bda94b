"""DP-UCB-Bound: UCB on hybrid counters, one for each arm, that advance only when it is played."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax import mechanisms, privacy
from dpjax.core import Arms, Array, Learner, Number, PyTree
from dpjax.feedback import bandit
from dpjax.learners.parts import arm_sums
from dpjax.maths.laws import smallest
from dpjax.maths.places import at


class DpUcbBoundState(NamedTuple):
    round: Array  # () int32, t
    pulls: Array  # (K,) int32
    counters: PyTree  # states of the arms' mechanisms, leading axis (K,)
    sums: Array  # (K,) float32, noisy sums of losses
    arm: Array  # () int32, the current arm


def dp_ucb_bound(horizon: int, arms: int, *, epsilon: Number, exploration: Number = 4.0) -> Learner:
    """DP-UCB-Bound: UCB on hybrid counters, with bounds that allow for their noise.

    The losses of arm a enter its own hybrid mechanism. Half of the budget is spent on the totals at
    n_a = 1, 2, 4, ... and half on the trees between them. Round t plays the arm with the smallest

        L~_a / n_a - sqrt(alpha ln t / (2 n_a)) - nu_a / n_a,
        nu_a = (sqrt(8) / epsilon) ln(4 t^alpha), times ln(n_a) + 1 if n_a is not a power of 2.

    Args:
      horizon: T, rounds. Only the depth of the counters depends on it.
      arms: K, at least 2. Each is first played once, in random order.
      epsilon: privacy parameter; inf adds no noise and no bonus.
      exploration: alpha, positive, as in :func:`ucb1`. The paper's 4 gives sqrt(2 ln t / n_a).

    Returns:
      A Learner with bandit feedback.

    Privacy: epsilon-DP for replacement of one round. Released values: actions 1..T. A round's loss
    enters the counter of one arm, whose releases together are epsilon-DP.

    Regret: polylogarithmic in T, with an additive term in 1 / epsilon for each arm. We do not know
    the theorem's constants.

    Reference: Tossou & Dimitrakakis, "Algorithms for differentially private multi-armed bandits",
    2016, via two public implementations; Chan, Shi & Song 2011 for the counter.

    Examples:
      >>> declared = learners.dp_ucb_bound(1000, 4, epsilon=1.0).privacy
      >>> declared.epsilon, declared.accountant
      (1.0, 'Laplace mechanism on the encoded stream of each arm')
    """
    mechanism = mechanisms.hybrid(horizon, totals="separate")
    counter = mechanism.stream((), scale=privacy.laplace_scale(mechanism.sensitivity[0], epsilon))

    def choose(key, state):
        n = jnp.maximum(state.pulls, 1)
        real = n.astype(jnp.float32)
        t = state.round.astype(jnp.float32) + 1.0
        between = jnp.where(n & (n - 1) == 0, 1.0, jnp.log(real) + 1.0)
        noise_bound = (
            8.0**0.5
            / jnp.asarray(epsilon, jnp.float32)
            * (jnp.log(4.0) + exploration * jnp.log(t))
            * between
        )
        bounds = (state.sums - noise_bound) / real - jnp.sqrt(0.5 * exploration * jnp.log(t) / real)
        arm = smallest(key, jnp.where(state.pulls == 0, -jnp.inf, bounds))
        return state._replace(arm=arm), arm

    def init(key):
        counter_key, key = jax.random.split(key)
        counters, sums = jax.vmap(counter.init)(jax.random.split(counter_key, arms))
        zero = jnp.zeros((), jnp.int32)
        pulls = jnp.zeros(arms, jnp.int32)
        return choose(key, DpUcbBoundState(zero, pulls, counters, sums, zero))

    def step(state, key, loss):
        counter_key, key = jax.random.split(key)
        # Masks read and write the counters: indexing made the compiled program 18 % slower.
        mine = jax.tree.map(lambda leaf: at(leaf, state.arm), state.counters)
        new, total = counter.step(mine, counter_key, loss)
        played = jnp.arange(arms) == state.arm

        def put(leaf, value):
            return jnp.where(played.reshape(-1, *[1] * value.ndim), value[None], leaf)

        return choose(
            key,
            DpUcbBoundState(
                round=state.round + 1,
                pulls=state.pulls + played.astype(jnp.int32),
                counters=jax.tree.map(put, state.counters, new),
                sums=put(state.sums, total),
                arm=state.arm,
            ),
        )

    declared = arm_sums.one_release(epsilon, "Laplace mechanism on the encoded stream of each arm")
    return Learner(init, step, bandit, Arms(arms), horizon, declared)
