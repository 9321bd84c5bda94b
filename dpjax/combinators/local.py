"""Learners in the local model, which see one randomized bit in each round."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import noise
from dpjax.combinators._shared import check_learner
from dpjax.core import Arms, Array, Batch, BatchLearner, Learner, Number, Privacy, PyTree, _check
from dpjax.domains.action_sets import example_loss
from dpjax.feedback import clip_seen, to_bit
from dpjax.maths.exact_sums import ExactSum


class RandomizedSumsState(NamedTuple):
    """The state of :func:`randomized_response` by batches."""

    base: PyTree  # the base learner's state
    rounds: Array  # () int32, of the current batch


def randomized_response(
    learner: Learner | BatchLearner, *, epsilon: Number
) -> Learner | BatchLearner:
    """Run any bandit learner in the local model, on a randomized bit instead of each loss.

    The user of a round sends a bit, which is 1 with probability p + (1 - 2p) loss for
    p = 1 / (1 + e^epsilon). This is a coin whose bias is the loss, flipped with probability p. The
    base learner sees the bits and need not know that they are randomized. Each arm's mean mu
    becomes p + (1 - 2p) mu. So the order of the arms is unchanged, and all gaps shrink by the
    factor 1 - 2p = (e^epsilon - 1) / (e^epsilon + 1). Learners of adversarial losses do not need
    the unbiased estimates (bit - p) / (1 - 2p) either: the same factor scales the differences of
    all their estimates.

    Args:
      learner: a Learner or BatchLearner over arms with losses in [0, 1], bandit feedback and no
        declared privacy, such as ``kl_ucb`` or ``tsallis_inf``. If a base's declared privacy comes
        only from its own draws, drop it first: ``exp3(T, K)._replace(privacy=Privacy())``.
      epsilon: privacy of each message; inf flips nothing.

    Returns:
      A learner of the same kind. A BatchLearner sees only sums of bits. Its losses should be 0 or
      1; others are rounded to the nearer of the two. For losses between 0 and 1, use
      ``every_round(learner)`` as the base.

    Raises:
      ValueError: the base declares privacy of its own, does not play arms, does not see exactly one
        number a round, or is for losses in another range.

    Privacy: epsilon-DP in the local model for each loss separately. Released values: the randomized
    losses, and with them actions 1..T. For any base, nothing composes over rounds.

    Regret: (e^epsilon + 1) / (e^epsilon - 1) times that of the base on losses p + (1 - 2p) l. So
    the regret of ``kl_ucb`` is asymptotically sum Delta_a ln T / kl(q(mu_a), q(mu*)), with
    q(mu) = p + (1 - 2p) mu. No learner in the local model has less on Bernoulli losses: every local
    randomizer of one bit is randomized response, followed by a function of its result (Kairouz,
    Oh & Viswanath 2016). Near means of 1/2 this is
    ((e^epsilon + 1) / (e^epsilon - 1))^2 times as much as without privacy: 4.68 at epsilon = 1.

    Reference: Warner 1965; Ren, Zhou, Liu & Shroff, "Multi-armed bandits with local differential
    privacy", 2020, whose convert-to-Bernoulli mechanism this is (as recalled).

    Examples:
      >>> learner = combinators.randomized_response(learners.kl_ucb(1000, 4), epsilon=1.0)
      >>> learner.privacy.model, learner.privacy.epsilon, learner.privacy.released
      ('local', 1.0, 'randomized losses 1..T')
    """
    check_learner(learner)
    epsilon = _check.epsilon(epsilon)
    _check_base(learner, "randomized_response")
    if not isinstance(learner.action_set, Arms) or learner.feedback.kind != "bandit":
        raise ValueError("learner must play arms and see one number a round, as by feedback.bandit")
    by_rounds = isinstance(learner, Learner)
    private = _of_messages(learner, _coin(epsilon)) if by_rounds else _of_sums(learner, epsilon)
    return private._replace(privacy=_declared(epsilon))


def randomized_coordinate(learner: Learner, *, epsilon: Number) -> Learner:
    """Run a full-information learner in the local model, on a bit about one loss a round.

    In each round one of the K losses is drawn, uniformly and in public. The user sends a bit that
    is 1 with probability p + (1 - 2p) loss for p = 1 / (1 + e^epsilon), as in
    :func:`randomized_response`. The base learner sees this bit instead of the loss, and 1/2 for all
    other losses. Differences between its mean observations are (1 - 2p) / K times those between the
    losses. Noise on all losses at once would have to grow with K, and its square with K^2.

    Args:
      learner: a Learner that sees all K losses, each in [0, 1], and declares no privacy, such as
        ``hedge(T, K, epsilon=inf, rate=eta)._replace(privacy=Privacy())``. (The declaration of
        Hedge comes from its own draws.) A good eta is sqrt(8 K ln K / T).
      epsilon: privacy of each message; inf flips nothing.

    Returns:
      A Learner.

    Raises:
      ValueError: the base declares privacy of its own, does not see a vector of losses, or is for
        losses in another range.

    Privacy: epsilon-DP in the local model for each user separately. Released values: the randomized
    losses, and with them actions 1..T.

    Regret: K (e^epsilon + 1) / (e^epsilon - 1) times that of the base on its observations, in
    expectation (oblivious losses). For plain Hedge the latter is at most
    ln K / eta + eta e^(eta / 2) T / (8 K). So with the eta above the regret is about
    sqrt(T K ln K / 2) (e^epsilon + 1) / (e^epsilon - 1). The regret of bandits without privacy also
    grows as sqrt(T K): in the local model, full information hardly helps.

    Reference: our derivation; the bit is that of Warner 1965.

    Examples:
      >>> base = learners.hedge(1000, 4, epsilon=float("inf"))._replace(privacy=dpjax.Privacy())
      >>> learner = combinators.randomized_coordinate(base, epsilon=1.0)
      >>> learner.privacy.model, learner.privacy.released
      ('local', 'randomized losses 1..T')
    """
    check_learner(learner, Learner)
    epsilon = _check.epsilon(epsilon)
    _check_base(learner, "randomized_coordinate")
    if learner.feedback.kind != "full":
        raise ValueError("learner must see a vector of losses each round, as by feedback.full")
    (count,) = example_loss(learner.action_set).shape
    toss = _coin(epsilon)

    def message(key, losses):
        place_key, coin_key = jr.split(key)
        place = jr.randint(place_key, (), 0, count)
        bit = toss(coin_key, losses[place])
        return jnp.full(count, 0.5, jnp.float32).at[place].set(bit)

    return _of_messages(learner, message)._replace(privacy=_declared(epsilon))


def _declared(epsilon) -> Privacy:
    return Privacy(
        epsilon=epsilon,
        model="local",
        released="randomized losses 1..T",
        accountant="randomized response, each loss",
    )


def _coin(epsilon):
    """The function (key, loss in [0, 1]) -> the randomized bit, () float32."""
    # p is rounded up to a multiple of 2^-23, for which 1 - p is exact in float32 too. The coin then
    # has exactly this law, and the ratio of its probabilities is at most e^epsilon.
    flip = 2.0**-23 * jnp.ceil(2.0**23 * jax.nn.sigmoid(-jnp.asarray(epsilon, jnp.float32)))

    def toss(key, loss):
        return noise.coin(key, flip + (1.0 - 2.0 * flip) * loss).astype(jnp.float32)

    return toss


def _check_base(learner, name) -> None:
    """Require a base that declares no privacy and is for losses in [0, 1].

    While a game is traced, many learners declare a traced infinity.
    """
    declared = learner.privacy
    if _check.is_traced(declared.epsilon):
        _check._note(jnp.isinf(declared.epsilon))
    elif np.isfinite(declared.epsilon):
        raise ValueError(
            "learner must declare no privacy of its own, since its losses are randomized here; "
            "if it adds no noise, learner._replace(privacy=Privacy()) drops the declaration"
        )
    if tuple(declared.loss_range) != (0.0, 1.0):
        raise ValueError(
            f"learner must be for losses in [0, 1], not {declared.loss_range}: rescale the losses "
            f"of the learner that {name} returns"
        )


def _of_messages(learner, message) -> Learner:
    """The learner on message(key, losses in [0, 1]) instead of its feedback."""

    def step(state, key, loss):
        message_key, base_key = jr.split(key)
        seen, _ = clip_seen(learner, message(message_key, loss))
        return learner.step(state, base_key, seen)

    return learner._replace(step=step, clip=None)


def _of_sums(learner, epsilon) -> BatchLearner:
    scale = 1.0 / jnp.asarray(epsilon, jnp.float32)

    def pack(base, batch):
        return RandomizedSumsState(base, batch.rounds), batch

    def init(key) -> tuple[RandomizedSumsState, Batch]:
        return pack(*learner.init(key))

    def step(state, key, total):
        bits_key, base_key = jr.split(key)
        ones = noise.randomized_response(bits_key, total.whole, scale, state.rounds)
        return pack(*learner.step(state.base, base_key, ExactSum(ones, jnp.zeros_like(ones))))

    return learner._replace(
        init=init, step=step, clip=to_bit, report=lambda state: learner.report(state.base)
    )
