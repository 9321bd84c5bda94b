"""EXP4: exponential weights over experts who advise on arms, on losses with Laplace noise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax import noise, privacy
from dpjax.core import Array, Learner, Number, Policies, Privacy
from dpjax.feedback import contextual
from dpjax.learners._exp2 import Exp2Report, arms_as_actions, derived_rates
from dpjax.learners.parts.advised import Mixture, follow


class Exp4State(NamedTuple):
    exponents: Array  # (N,) -eta L, shifted so that the largest is 0
    violations: Array  # () int32


def exp4(horizon: int, arms: int, experts: int, *, epsilon: Number) -> Learner:
    """EXP4 on noisy losses: bandits with expert advice, locally private.

    In each round expert i advises a law E_i on the arms. The estimates L of the sums of the
    experts' losses start at zero. The arm is drawn from

        p = (1 - gamma) sum_i q_i E_i + gamma / K,    q_i = exp(-eta L_i) / sum_j exp(-eta L_j).

    Its loss l_a is observed with noise as f = l_a - 1/2 + Lap(1 / epsilon), and each L_i grows by
    y_i = E_ia f / p_a. The rates are

        eta = sqrt(ln N / (T K (3/4 + 2 / epsilon^2 + 2 ln T / epsilon))),
        gamma = min(1/2, eta K (1/2 + 2 ln T / epsilon)).

    If N = K and expert i always advises arm i, this is EXP2 over arms.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      experts: N, at least 2.
      epsilon: privacy parameter; inf adds no noise and gives EXP4 with the rates above.

    Returns:
      A Learner with contextual feedback. Its action is a policy: a function of the advice (K, N),
      with E_i as column i, that returns an arm. The policy contains the random number from which
      the arm is drawn, so environment and feedback get the same arm. The report counts the rounds
      with eta y_i < -1 for some expert, which the proof excludes. It also states whether gamma was
      cut to 1/2; the regret bound is then above T.

    Privacy: epsilon-DP, local, for replacement of one round's losses. Released values: the noisy
    losses, one in each round. Advice is public, and policies are computed from releases and coins.

    Regret: at most sqrt(T K ln N (3 + 8 / epsilon^2 + 8 ln T / epsilon)) + 1 against the best
    expert, in expectation, for oblivious losses in [0, 1] and advice (:func:`dpjax.bounds.exp4`).
    The proof is that of EXP2 with a different step: sum_i q_i E[y_i^2] <= K E[f^2] / (1 - gamma),
    since E_ia <= 1 and sum_i q_i E_ia <= p_a / (1 - gamma).

    Reference: Auer, Cesa-Bianchi, Freund & Schapire, "The nonstochastic multiarmed bandit
    problem", 2002, section 7, for EXP4; Agarwal & Singh 2017, Algorithm 4, for the noise. Rates and
    constants are ours.

    Examples:
      >>> learner = learners.exp4(1000, 4, 16, epsilon=1.0)
      >>> learner.privacy.model, learner.action_set
      ('local', Policies(dim=16, arms=4))
    """
    scale = privacy.laplace_scale(1.0, epsilon)
    # Regret is at most ln N / eta + eta T K (1/4 + 2 lambda^2) + gamma T + 1, as of EXP2.
    sizes = arms_as_actions(arms)._replace(count=experts)
    eta, gamma, capped = derived_rates(horizon, sizes, (0.0, 1.0), scale, 0.5)

    def act(key, exponents, violations):
        mixture = Mixture(jax.nn.softmax(exponents), gamma, jr.uniform(key))
        return Exp4State(exponents, violations), jax.tree_util.Partial(follow, mixture)

    def init(key):
        return act(key, jnp.zeros(experts, jnp.float32), jnp.zeros((), jnp.int32))

    def step(state, key, seen):
        noise_key, coin_key = jr.split(key)
        advised, loss = seen  # E_ia of all experts for the arm a, (N,), and its loss
        q = jax.nn.softmax(state.exponents)
        p = (1.0 - gamma) * jnp.sum(advised * q) + gamma / arms
        f = noise.laplace(noise_key, loss, scale) - 0.5
        steps = -eta * advised * f / p
        violations = state.violations + (jnp.max(steps) > 1.0).astype(jnp.int32)
        exponents = state.exponents + steps
        return act(coin_key, exponents - jnp.max(exponents), violations)

    def report(state):
        return Exp2Report(state.violations, jnp.asarray(capped, jnp.int32))

    declared = Privacy(
        epsilon=epsilon, unit="entry", model="local", released="randomized losses 1..T",
        accountant="Laplace mechanism on each observed loss",
    )  # fmt: skip
    return Learner(init, step, contextual, Policies(experts, arms), horizon, declared, report)
