"""Dueling bandits: a round compares two arms and shows the winner."""

from typing import Literal

import jax.numpy as jnp
import numpy as np

from dpjax.core import Environment, Numbers, Pairs, _arrays, _check
from dpjax.environments._bernoulli import bernoulli

_ROUNDING = 1e-6  # in P_ij + P_ji


def dueling(
    preferences: Numbers, *, regret: Literal["condorcet", "utility", "borda"] = "condorcet"
) -> Environment:
    """Duels of K arms: arm i beats arm j with probability preferences[i, j].

    An action is a pair (i, j), as the index i K + j of :class:`dpjax.core.Pairs`. Its loss is 1 if
    the row player i loses, with probability P_ji, and 0 otherwise. An arm may duel itself, P = 1/2.

    Regret is not a sum of these losses. It is the sum of (Delta_i + Delta_j) / 2 over the played
    pairs, with one of these gaps:

        condorcet   P_bi - 1/2, for the arm b that beats each other one with probability 1/2 or more
        utility     2 P_bi - 1, which is m_i - m_b under the linear link below
        borda       max_k B_k - B_i, where B_i is the mean of P_ij over j other than i

    Args:
      preferences: (K, K), K at least 2, in [0, 1] with P_ij + P_ji = 1; or mean losses m (K,) in
        [0, 1], for the linear link P_ij = (1 + m_j - m_i) / 2. May be traced; then only [0, 1] is
        checked.
      regret: "condorcet", "utility" or "borda".

    Returns:
      An Environment with pseudo-regret, which can also be played by batches.

    Raises:
      ValueError: bad arguments, by name; "condorcet" and "utility" need an arm b, and none exists.

    Reference: Yue, Broder, Kleinberg & Joachims, "The K-armed dueling bandits problem", 2012; the
    linear link of Ailon, Karnin & Joachims, "Reducing dueling bandits to cardinal bandits", 2014,
    as recalled.

    Examples:
      >>> environment = environments.dueling([0.25, 0.75])  # arm 0 beats arm 1 three times in four
      >>> key = jax.random.key(0)
      >>> [float(environment.step((), key, pair)[1].tally) for pair in range(4)]
      [0.0, 0.125, 0.125, 0.25]
    """
    _check.one_of("condorcet", "utility", "borda", regret=regret)
    traced = _check.is_traced(preferences)
    numbers = jnp if traced else np
    wins = numbers.asarray(_arrays.entries(0.0, 1.0, preferences=preferences), np.float32)
    if wins.ndim == 1:
        wins = 0.5 + 0.5 * (wins[None, :] - wins[:, None])
    arms = wins.shape[0] if wins.ndim else 0
    if wins.shape != (arms, arms) or arms < 2:
        raise ValueError(
            f"preferences must have shape (K, K) or (K,) with K at least 2, got {wins.shape}"
        )
    worst = numbers.min(wins, axis=1)
    if not traced and np.abs(wins + wins.T - 1.0).max() > _ROUNDING:
        raise ValueError("preferences must have entries P_ij + P_ji = 1, and 1/2 for i = j")
    if not traced and regret != "borda" and worst.max() < 0.5 - _ROUNDING:
        raise ValueError(
            'preferences must have an arm that no other one beats; regret="borda" needs none'
        )
    if regret == "borda":
        scores = (numbers.sum(wins, axis=1) - 0.5) / (arms - 1)
        gaps = numbers.max(scores) - scores
    else:
        gaps = (wins[numbers.argmax(worst)] - 0.5) * (2.0 if regret == "utility" else 1.0)
    tally = jnp.asarray(0.5 * (gaps[:, None] + gaps[None, :]), jnp.float32).ravel()
    duels = bernoulli(wins.T.ravel(), regret="pseudo")

    def step(state, key, pair):
        state, outcome = duels.step(state, key, pair)
        return state, outcome._replace(tally=tally[pair])

    def batch(state, key, pair, rounds, feedback):
        state, total, _ = duels.batch(state, key, pair, rounds, feedback)
        return state, total, tally[pair]

    return duels._replace(step=step, batch=batch, action_set=Pairs(arms * arms))
