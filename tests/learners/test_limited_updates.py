"""Limited updates: the law of a batch's draw, exactly how much it reveals, and regret."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit
from dpjax.cli import audits
from dpjax.learners._limited_updates import limited_updates
from dpjax.learners.parts import selectors
from dpjax.maths import exact_sums
from tests.play import play_table


def probabilities(total, epsilon):
    return jax.nn.softmax(selectors.exponential(total, epsilon))


def permute_and_flip(total, epsilon):
    return jax.nn.softmax(selectors.permute_and_flip(total, epsilon))


@pytest.mark.parametrize("epsilon", [0.7, 20.0])
def test_games_by_hand(epsilon):
    """300 games equal a float64 loop over batches of 1, 2, 4, ... rounds, the last one cut short.

    At twice the epsilon, which is half the noise, they do not.
    """
    horizon, keys = 45, jr.split(jr.key(2), 300)
    losses = np.array(jr.uniform(jr.key(1), (horizon, 3)))
    learner = limited_updates(horizon, 3, epsilon=epsilon)
    play = jax.jit(jax.vmap(lambda key: play_table(learner, losses, key).actions[:-1]))
    played = np.asarray(play(keys))

    def by_hand(epsilon):
        drawn, total = np.zeros((300, horizon), int), np.zeros(3)
        for start in (1, 2, 4, 8, 16, 32):
            uniform = jax.vmap(lambda key, t=start - 1: jr.uniform(jr.fold_in(key, t)))(keys)
            p = np.exp(-epsilon / 2 * (total - total.min()))
            batch = slice(start - 1, 2 * start - 1)
            arms = np.searchsorted(np.cumsum(p / p.sum())[:-1], np.asarray(uniform), "right")
            drawn[:, batch] = arms[:, None]
            total = losses[batch].astype(np.float64).sum(0)
        return drawn

    np.testing.assert_array_equal(played, by_hand(epsilon))
    assert (played != by_hand(2 * epsilon)).mean() > 0.02


def test_declared_privacy():
    """epsilon itself, pure, and the rho of one exponential mechanism of width epsilon."""
    privacy = limited_updates(100, 3, epsilon=0.5).privacy
    assert privacy[:2] == (0.5, 0.0) and float(privacy.rho) == pytest.approx(0.25 / 8)


def test_batches_fill_any_horizon():
    """Lengths double up to 2^30, the limit of int32 rounds, and no further."""
    learner = limited_updates(2**31 - 1, 3, epsilon=1.0)
    state, batch = learner.init(jr.key(0))
    lengths = [int(batch.rounds)]
    for _ in range(31):
        state, batch = learner.step(state, jr.key(0), exact_sums.nothing((3,)))
        lengths.append(int(batch.rounds))
    assert lengths == [2**j for j in range(31)] + [2**30]


# Other selectors -----------------------------------------------------------------------------


def permutations_by_hand(total, epsilon):
    """Permute-and-flip: over all orders, the first arm whose coin shows heads; in float64."""
    q = np.exp(-epsilon / 2 * (np.asarray(total, np.float64) - np.min(total)))
    p = np.zeros(len(q))
    for order in itertools.permutations(range(len(q))):
        left = 1.0
        for arm in order:
            p[arm] += left * q[arm]
            left *= 1.0 - q[arm]
    return p / math.factorial(len(q))


@pytest.mark.parametrize("total", [[0.0, 0.0], [0.0, 1.5, 1.5], [3.0, 2.0, 9.0, 2.5, 2.0]])
def test_permute_and_flip_equals_all_permutations(total):
    """It is also the law of the noisy minimum with exponential noise, by 4e5 draws."""
    sums = exact_sums.of(jnp.float32(total))
    p = np.asarray(permute_and_flip(sums, jnp.float32(0.8)))
    np.testing.assert_allclose(p, permutations_by_hand(total, 0.8), rtol=1e-5)
    noisy = np.array(total) - np.random.default_rng(1).exponential(2 / 0.8, (400_000, len(total)))
    found = np.bincount(noisy.argmin(1), minlength=len(total)) / 4e5
    error = np.sqrt(p * (1 - p) / 4e5)
    assert (np.abs(found - p) < 4.5 * error).all()
    # Half the noise has another law, unless all sums are equal.
    if np.ptp(total):
        sharper = permutations_by_hand(total, 1.6)
        assert (np.abs(found - sharper) > 10 * error).any()


def largest_log_ratio(law, epsilon):
    """Over sums of three arms and all replaced rounds with losses 0 and 1."""
    steps = np.arange(0.0, 40 / epsilon, 2 / epsilon)
    before = np.stack(np.meshgrid(steps, steps, [0.0]), -1).reshape(-1, 1, 3) + 10.0
    moves = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=3)))
    sums = np.concatenate([before, before + moves], axis=1).astype(np.float32)
    # Replaced rounds two steps away are in the same table, since the first entry may change too.
    p = jax.vmap(jax.vmap(lambda s: law(exact_sums.of(s), jnp.float32(epsilon))))(sums)
    logs = np.log(np.asarray(p, np.float64))
    return np.abs(logs[:, 1:] - logs[:, :1]).max()


@pytest.mark.parametrize("law", [probabilities, permute_and_flip])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_log_ratios_of_a_draw(epsilon, law):
    """At most epsilon, and nearly that somewhere; half the noise exceeds it."""
    found = largest_log_ratio(law, epsilon)
    assert 0.8 * epsilon < found <= epsilon * (1 + 1e-4)
    assert largest_log_ratio(lambda s, e: law(s, 2 * e), epsilon) > 1.5 * epsilon


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("calibration", "spent"), [("derived", 1.0), ("printed", 2.0)])
def test_the_laplace_selector_spends_what_it_declares(calibration, spent):
    """The printed one twice what the paper states, since two sums change in opposite directions."""
    options = {"selector": "laplace", "calibration": calibration}
    learner = audits.build("limited_updates", "", 16, 1.0, **options)
    declared = learner.privacy
    assert (float(declared.epsilon), float(declared.rho)) == (spent, 0.5 * spent**2)
    assert calibration == "derived" or float(declared.paper_epsilon) == 1.0
    verdict = audits.replays(learner, audit.pairs_for(learner, 32, audits.keys()[0]))
    assert verdict.failed == () and verdict.spent.max() == pytest.approx(spent, rel=1e-5)
