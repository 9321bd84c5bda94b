"""Follow the perturbed leader on private prefix sums with Gaussian noise."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import mechanisms
from dpjax.core import Array, Learner, Neighbours, Number, PyTree, Unit, _check
from dpjax.domains import Domain, LossSet, fitting
from dpjax.feedback import full
from dpjax.learners.parts.prefix_sums import prefix_sums
from dpjax.maths import laws
from dpjax.maths.barriers import rounded_product
from dpjax.privacy.printed import Calibration, is_printed

IDENTICAL_LAW_TREE = partial(mechanisms.tree, identical_law=True)


class FtplState(NamedTuple):
    sums: PyTree  # state of the private prefix sums
    round: Array  # () int32, prefixes released


def default_perturbation(horizon: int, losses: LossSet) -> float:
    """s = |Y|_2 sqrt(T) (2 pi d)^(-1/4), the standard deviation of a leader's perturbation.

    It minimizes the regret bound s sqrt(d) |X|_2 + T |Y|_2^2 |X|_2 / (s sqrt(2 pi)). The minimum is
    1.263 d^(1/4) |X|_2 |Y|_2 sqrt(T).
    """
    return float(losses.norms[1] * np.sqrt(horizon) / (2 * np.pi * losses.dim) ** 0.25)


def printed_scale(horizon: int, losses: LossSet, epsilon: Number, delta: Number):
    """The paper's standard deviation of a node: Agarwal & Singh 2017, Theorem 3.5.

        max{|Y|_2 sqrt(T / (sqrt d log T)), sqrt(d) log T log(log T / delta) / epsilon}

    Logarithms of T count nodes and have base 2, as in FTRL. We read the theorem as a statement
    about (epsilon, delta)-DP. Its text ends with epsilon only, but Gaussian noise is not pure DP.
    The second term has sqrt(d) instead of |Y|_2 (the two are equal for experts with losses in
    [-1, 1]), and its second logarithm is outside the root. For |Y|_2 <= sqrt d and T >= 100, the
    printed scale is private, with more noise than necessary.
    """
    nodes = max(float(np.log2(horizon)), 1.0)
    dim = losses.dim
    leader = losses.norms[1] * np.sqrt(horizon / (np.sqrt(dim) * nodes))
    private = np.float32(np.sqrt(dim) * nodes) * jnp.log(nodes / jnp.asarray(delta, jnp.float32))
    return jnp.maximum(jnp.float32(leader), private / epsilon)


def ftpl(
    horizon: int,
    domain: Domain,
    *,
    epsilon: Number,
    delta: Number,
    mechanism: Callable = IDENTICAL_LAW_TREE,
    neighbours: Neighbours = "replace",
    unit: Unit = "round",
    perturbation: Number | None = None,
    calibration: Calibration = "derived",
) -> Learner:
    """Follow the perturbed leader, with the privacy noise as perturbation.

    Let L~_t be the released sum of the losses up to t. Then x_t minimizes <x, L~_(t-1)> over the
    domain. If the privacy noise is less than the leader needs, independent noise makes up the
    difference, so that each prefix has the larger of the two perturbations.

    Args:
      horizon: T, rounds.
      domain: a Domain.
      epsilon: privacy parameter; inf keeps only the leader's own perturbation.
      delta: in (0, 1).
      mechanism: a factory of ``dpjax.mechanisms``; the default is the paper's tree with
        ``identical_law=True``. With ``per_item`` the learner is local. If ``perturbation`` is 0
        too, it is RW-FTPL: each user adds Gaussian noise to its loss vector, and the learner plays
        the leader of the noisy sums, a random walk.
      neighbours: "replace" or "zero_out".
      unit: "round" or "entry".
      perturbation: the standard deviation of each coordinate that the leader needs, at least 0;
        default |Y|_2 sqrt(T) (2 pi d)^(-1/4).
      calibration: "derived" (the exact Gaussian mechanism) or "printed".

    Returns:
      A Learner with full information. An action is x, (d,).

    Privacy: (epsilon, delta)-DP, central. Released values: actions 1..T. The scale is that of one
    Gaussian mechanism over all nodes. The scale of ``calibration="printed"`` already includes the
    leader's perturbation. On the paper's instances it is at least three times the derived scale
    (:func:`printed_scale`), and the resulting smaller epsilon is declared.

    Regret: at most s sqrt(d) |X|_2 + T |Y|_2^2 |X|_2 / (s sqrt(2 pi)) in expectation against
    oblivious losses, with s the standard deviation of a prefix's noise. With the default
    perturbation this is 1.263 d^(1/4) |X|_2 |Y|_2 sqrt(T) as long as privacy needs no more noise.

    Reference: Agarwal & Singh, "The price of differential privacy for online learning", 2017,
    Algorithm 3, Theorem 3.5; Abernethy, Lee, Sinha & Tewari 2014. RW-FTPL: Jacobsen & Fawaz,
    "Prediction with expert advice under local differential privacy", 2026, as reconstructed from
    the abstract. Their adaptive batches are not included.

    Examples:
      >>> ball = domains.ball(3)
      >>> printed = learners.ftpl(1000, ball, epsilon=1.0, delta=1e-6, calibration="printed")
      >>> float(printed.privacy.paper_epsilon), round(float(printed.privacy.epsilon), 3)
      (1.0, 0.081)
    """
    losses = fitting(domain, None)
    _check.non_negative(**_check.specified(perturbation=perturbation))
    printed = is_printed(calibration)
    sums = prefix_sums(
        horizon, losses, epsilon=epsilon, delta=delta, mechanism=mechanism, noise="gaussian",
        neighbours=neighbours, unit=unit,
        printed_scale=printed_scale(horizon, losses, epsilon, delta) if printed else None,
    )  # fmt: skip
    needed = default_perturbation(horizon, losses) if perturbation is None else perturbation
    needed = jnp.asarray(0.0 if printed else needed, jnp.float32)

    def act(key, state, t, release):
        # The variance is computed in each round, since a table would grow with T.
        private = rounded_product(sums.mechanism.variance(t), jnp.square(sums.scale))
        missing = jnp.sqrt(jnp.maximum(0.0, jnp.square(needed) - private))
        perturbed = release + missing * laws.normal(key, (domain.dim,))
        return FtplState(state, t), domain.minimizer(perturbed)

    def init(key):
        sums_key, draw_key = jr.split(key)
        state, release = sums.init(sums_key)
        return act(draw_key, state, jnp.zeros((), jnp.int32), release)

    def step(state, key, loss):
        sums_key, draw_key = jr.split(key)
        inner, release = sums.step(state.sums, sums_key, loss)
        return act(draw_key, inner, state.round + 1, release)

    return Learner(init, step, full, domain, horizon, sums.privacy, clip=sums.clip)
