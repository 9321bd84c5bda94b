"""Audits of local learners from a single run, in which coins choose the loss of each round."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import lax
from jax import random as jr

from dpjax.audit.pairs import Pair, check_fits, check_neighbours, differing
from dpjax.audit.replay import _run, _traced
from dpjax.audit.rules import LOG_RATIOS
from dpjax.combinators import as_learner
from dpjax.core import Array, BatchLearner, Learner, _check
from dpjax.engine.settings import in_float32
from dpjax.game.rounds import first_arguments, step_arguments
from dpjax.noise.release import Site


class OneRun(NamedTuple):
    """Lower bounds on epsilon and mu from one run."""

    epsilon: float  # the lower bound at ``delta``; 0 if nothing was found
    delta: float
    confidence: float  # of the bound, for this learner and these losses
    audited: int  # m, rounds whose losses a coin chose
    guesses: int  # r, guessed coins
    correct: int  # c, right guesses
    mu: float  # the lower bound on mu in Gaussian differential privacy, at this confidence


def one_run_p_value(
    correct: int, guesses: int, audited: int, epsilon: float, delta: float = 0.0
) -> float:
    """An upper bound on the probability of so many right guesses, under (epsilon, delta)-privacy.

    Each of m independent coins chose one of two neighbouring values, and r coins were guessed from
    the releases of one run. With q = e^epsilon / (1 + e^epsilon) and b = P[Bin(r, q) >= c], the
    p-value is

        b + 2 m delta max over 1 <= i <= c of (P[Bin(r, q) >= c - i] - b) / i.

    Steinke, Nasr & Jagielski 2023, Theorem 5.2, as their program computes it.

    Examples:
      >>> [f"{audit.one_run_p_value(right, 100, 100, 1.0):.2g}" for right in (73, 90)]
      ['0.56', '2.7e-05']
    """
    q = 1.0 / (1.0 + np.exp(-epsilon))
    tail = scipy.stats.binom.sf(correct - 1, guesses, q)
    if delta == 0.0 or correct == 0:
        return float(tail)
    steps = np.arange(1, correct + 1)
    added = scipy.stats.binom.sf(correct - steps - 1, guesses, q) - tail
    return float(min(tail + 2.0 * audited * delta * np.max(added / steps), 1.0))


def one_run_epsilon(
    correct: int, guesses: int, audited: int, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """The largest epsilon at delta that so many right guesses refute; 0 if they refute none.

    The number of guesses and the guessing rule have to be fixed before the run.

    Args:
      correct: c, at most r.
      guesses: r, at most m.
      audited: m, coins.
      delta: in [0, 1).
      confidence: in (0, 1).

    Examples:
      >>> [round(audit.one_run_epsilon(right, 100, 100), 2) for right in (50, 75, 100)]
      [0.0, 0.7, 3.49]
    """
    _check_counts(correct, guesses, audited)
    return _largest(
        lambda epsilon: (
            one_run_p_value(correct, guesses, audited, epsilon, delta) <= 1.0 - confidence
        ),
        50.0,
    )


def one_run_refutes(
    correct: int, guesses: int, audited: int, mu: float, level: float = 0.05
) -> bool:
    """Whether so many right guesses have at most probability ``level`` under mu-GDP.

    Suppose that at least c of r guesses are right with probability a, the level. Let R and W be the
    expected shares of the m coins that are guessed right and wrong, counted only if at least i
    guesses are right. At i = c they are at least a c / m and a (r - c) / m. Changing the
    coin of a right guess turns i + 1 right guesses into i right ones and a wrong one. So a step
    down to i = c - 1, ..., 0 has

        W' = max(W, Phi(Phi^-1(R) - mu)),   R' = R + i / (r - i) (W' - W).

    At the end R + W must not exceed r / m, the share of guessed coins.

    Mahloujifar, Melis & Chaudhuri, "Auditing f-differential privacy in one run", 2024, as
    reconstructed.

    Examples:
      >>> [audit.one_run_refutes(90, 100, 1000, mu) for mu in (0.5, 2.0)]
      [True, False]
    """
    right, wrong = level * correct / audited, level * (guesses - correct) / audited
    for i in range(correct - 1, -1, -1):
        least = max(wrong, scipy.special.ndtr(scipy.special.ndtri(right) - mu))
        right = min(1.0, right + i / (guesses - i) * (least - wrong))
        wrong = least
    return bool(right + wrong > guesses / audited)


def one_run_mu(correct: int, guesses: int, audited: int, *, confidence: float = 0.95) -> float:
    """The largest mu of Gaussian differential privacy that so many right guesses refute, or 0.

    The number of guesses and the guessing rule have to be fixed before the run. The bound is
    tightest if few coins are guessed. For example, with 1024 messages with Gaussian noise for
    mu = 2, the 256 surest guesses nearly always refute mu = 1, and all 1024 guesses never do.

    Args:
      correct, guesses, audited, confidence: as in :func:`one_run_epsilon`.

    Examples:
      >>> [round(audit.one_run_mu(right, 100, 1000), 2) for right in (50, 75, 100)]
      [0.0, 0.27, 1.23]
    """
    _check_counts(correct, guesses, audited)
    return _largest(
        lambda mu: one_run_refutes(correct, guesses, audited, mu, 1.0 - confidence), 20.0
    )


def _check_counts(correct, guesses, audited) -> None:
    if not 0 <= correct <= guesses <= audited:
        raise ValueError(
            f"correct must be at most guesses, and these at most audited, got {correct}, "
            f"{guesses} and {audited}"
        )


def _largest(refuted, most) -> float:
    """The largest refuted number up to ``most``, by bisection; 0 if none is refuted."""
    low, high = 0.0, most
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low if low > 1e-9 else 0.0


def _laplace(release, first, second):
    change = jnp.abs(release - second.value) - jnp.abs(release - first.value)
    return jnp.sum(change / first.scale)


def _gaussian(release, first, second):
    change = jnp.square(release - second.value) - jnp.square(release - first.value)
    return jnp.sum(change / (2.0 * jnp.square(first.scale)))


def _of_outcome(log_ratios):
    return lambda release, *both: log_ratios(*both)[release.astype(jnp.int32)]


# (release, record of the first loss, record of the second) -> log-likelihood ratio, ().
LIKELIHOODS: dict[str, Callable] = {"laplace": _laplace, "gaussian": _gaussian} | {
    kind: _of_outcome(log_ratios) for kind, log_ratios in LOG_RATIOS.items()
}


def _name(site) -> str | None:
    """The name of a release in LIKELIHOODS; None if the site is not a release."""
    if not isinstance(site, Site):
        return None
    return site.law.name if site.kind == "value" and not site.mapped else site.kind


def one_run_scores(learner: Learner | BatchLearner, pair: Pair, key: Array) -> tuple[Array, Array]:
    """Play one run in which a coin chooses each round's losses, and score each round's message.

    Args:
      learner: a local learner, as for :func:`one_run`.
      pair: two sequences of T rounds. They may differ in all rounds.
      key: PRNG key of the run and of the coins.

    Returns:
      (scores, coins), both (T - 1,). A score is the log-likelihood ratio of a round's messages
      given all earlier ones; it is positive if they favour ``pair.losses``. A coin is true if the
      round had these losses. No action depends on the last round.

    Examples:
      >>> learner = combinators.randomized_response(
      ...     learners.exp3(32, 2)._replace(privacy=dpjax.Privacy()), epsilon=5.0)
      >>> pair = audit.Pair(jnp.ones((32, 2)), jnp.zeros((32, 2)))
      >>> run = jax.jit(lambda key: audit.one_run_scores(learner, pair, key))
      >>> scores, coins = run(jax.random.key(0))
      >>> bool(((scores > 0.0) == coins).mean() > 0.7)
      True
    """
    learner = as_learner(learner)
    run_key, coin_key = jr.split(key)
    state, action = learner.init(jr.fold_in(run_key, 0))

    def arguments(t, states, losses):
        return step_arguments(learner, run_key, t, states, losses)[0]

    first = jax.tree.map(lambda leaf: leaf[0], pair.losses)
    step = _traced(learner.step, *first_arguments(learner, run_key, first))
    names = [_name(site) for site in step.sites]
    unknown = sorted({name for name in names if name} - {*LIKELIHOODS})
    if unknown:
        raise ValueError(
            f"learner: its messages are of {', '.join(unknown)}, but likelihoods are known only of "
            f"{', '.join(LIKELIHOODS)}"
        )
    rounds = jax.tree.leaves(pair.losses)[0].shape[0]
    coins = jr.bernoulli(coin_key, 0.5, (rounds - 1,))

    def one_round(carry, inputs):
        t, losses, others, coin = inputs
        both = [arguments(t, carry, each) for each in (losses, others)]
        drawn = jax.tree.map(lambda first, second: jnp.where(coin, first, second), *both)
        after, records = _run(step, drawn)
        # The round is run again with each of the two losses and the messages that were sent.
        sent = [record.release for record in records]
        first, second = (_run(step, each, sent)[1] for each in both)
        score = jnp.float32(0.0)
        for name, messages, *two in zip(names, sent, first, second, strict=True):
            if name in LIKELIHOODS:
                ratio = LIKELIHOODS[name](messages, *two)
                score += jnp.where(two[0].active & two[1].active, ratio, 0.0)
        return after, score

    inputs = jax.tree.map(lambda leaf: jnp.asarray(leaf)[:-1], tuple(pair))
    rows = (jnp.arange(1, rounds), *inputs, coins)
    _, scores = lax.scan(one_round, (state, action), rows)
    return scores, coins


def guessed(scores, coins, guesses: int) -> int:
    """The number of right guesses among those with the largest |scores|; a score of 0 is wrong.

    Scores are rounded before ranking: the last bits of a float32 release can distinguish values
    that an ideal mechanism would hide.
    """
    scores, coins = np.round(np.asarray(scores, np.float64), 4), np.asarray(coins)
    surest = np.argsort(-np.abs(scores), kind="stable")[:guesses]
    return int(((scores > 0.0) == coins)[surest][scores[surest] != 0.0].sum())


@in_float32
def one_run(
    learner: Learner | BatchLearner,
    pair: Pair,
    key: Array,
    *,
    guesses: int | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> OneRun:
    """Lower bounds on the epsilon and mu of a local learner from one run of any length.

    A coin chooses the losses of each round from the two sequences. An observer of all messages then
    guesses the coins with the surest scores. If each round has its own message, the bound of a long
    run is nearly tight. For one Laplace message a round at epsilon = 1, it is about 0.6 after 256
    rounds and 0.9 after 4096.

    Args:
      learner: a learner of the local model, with noise of :mod:`dpjax.noise` whose likelihood is
        in :data:`LIKELIHOODS`.
      pair: two sequences with the learner's horizon. They may differ in all rounds, and should
        differ by as much as the declared range allows.
      key: PRNG key.
      guesses: r, how many coins are guessed; by default half of the differing rounds.
      delta: the delta at which epsilon is bounded.
      confidence: of each of the two bounds.

    Raises:
      ValueError: the learner is not local, the likelihood of its noise is not known, the sequences
        do not fit it, or a number is out of range.

    Reference: Steinke, Nasr & Jagielski, "Privacy auditing with one (1) training run", 2023;
    Mahloujifar, Melis & Chaudhuri, "Auditing f-differential privacy in one run", 2024, for mu.

    Examples:
      >>> learner = combinators.randomized_response(
      ...     learners.exp3(32, 2)._replace(privacy=dpjax.Privacy()), epsilon=5.0)
      >>> pair = audit.Pair(jnp.ones((32, 2)), jnp.zeros((32, 2)))
      >>> found = audit.one_run(learner, pair, jax.random.key(0))
      >>> found.guesses, 1.0 < found.epsilon < 5.0
      (15, True)
    """
    _check.inside(0.0, 1.0, confidence=confidence)
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta must be in [0, 1), got {delta}")
    learner = as_learner(learner)
    if learner.privacy.model != "local":
        raise ValueError(
            f"learner must be of the local model, not {learner.privacy.model}: in other models "
            "the state depends on losses that no observer knows"
        )
    check_neighbours(pair, learner.horizon)
    check_fits(learner, pair.losses)
    places = np.flatnonzero(differing(jax.tree.map(np.asarray, pair))[:-1])
    audited = len(places)
    guesses = max(audited // 2, 1) if guesses is None else _check.size(1, guesses=guesses)
    if guesses > audited:
        raise ValueError(
            f"guesses must be at most {audited}, the rounds that differ, got {guesses}"
        )
    scores, coins = jax.device_get(jax.jit(lambda key: one_run_scores(learner, pair, key))(key))
    correct = guessed(scores[places], coins[places], guesses)
    found = one_run_epsilon(correct, guesses, audited, delta=delta, confidence=confidence)
    mu = one_run_mu(correct, guesses, audited, confidence=confidence)
    return OneRun(found, delta, confidence, audited, guesses, correct, mu)
