"""FTPL: the law of its perturbation, the noise that privacy adds, and the printed scale."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import get_sigma_gaussian
from jax import random as jr
from scipy import stats

from dpjax import audit, domains, learners, mechanisms
from dpjax.learners._ftpl import default_perturbation, printed_scale
from tests.audit.test_declarations import spends_what_it_declares
from tests.play import play_table

HORIZON, DIM = 64, 3
# A domain whose linear minimizer returns its input.
WINDOW = domains.ball(DIM)._replace(minimizer=lambda g: g)


@cache
def program(**options):
    """(epsilon, keys (n,)) -> (n, T, d), for every epsilon."""

    def one(epsilon, key):
        learner = learners.ftpl(HORIZON, WINDOW, epsilon=epsilon, delta=1e-6, **options)
        return play_table(learner, jnp.zeros((HORIZON - 1, DIM)), key).actions

    return jax.jit(jax.vmap(one, (None, 0)))


def perturbations(epsilon, seeds=4000, **options):
    """L~_t - L_t on losses 0, as seen by the minimizer: (seeds, T, d)."""
    return np.asarray(program(**options)(jnp.float32(epsilon), jr.split(jr.key(1), seeds)))


@pytest.mark.parametrize("epsilon", [0.5, 30.0, np.inf])
def test_each_prefix_is_perturbed_by_the_larger_of_what_privacy_and_a_leader_need(epsilon):
    """KS of 4000 draws at several t including the first; half of it is rejected."""
    seen = perturbations(epsilon)
    needed = default_perturbation(HORIZON, WINDOW.losses)
    assert needed == pytest.approx(8 / (2 * np.pi * 3) ** 0.25)
    private = 0.0
    if np.isfinite(epsilon):
        private = get_sigma_gaussian(epsilon, 1e-6) * 2.0 * 6  # Delta_2 sqrt(D), D nodes a prefix
    expected = max(needed, private)
    assert (private > needed) == (epsilon == 0.5)
    for t in (0, 1, 7, 32, 63):
        assert stats.kstest(seen[:, t, 0] / expected, "norm").pvalue > 1e-3
        assert stats.kstest(seen[:, t, 1] / (expected / 2), "norm").pvalue < 1e-9


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_printed_scale_is_private_and_at_least_three_times_ours(epsilon):
    """On the paper's instances at T = 128 and 2^14, for the noise that privacy requires."""
    for horizon in (128, 2**14):
        nodes, delta = np.log2(horizon), 1e-6
        for losses in (domains.box_losses(10), domains.ball_losses(10), domains.l1_losses(10)):
            printed = float(printed_scale(horizon, losses, epsilon, delta))
            first = losses.norms[1] * np.sqrt(horizon / (10**0.5 * nodes))
            second = 10**0.5 / epsilon * nodes * np.log(nodes / delta)
            assert printed == pytest.approx(max(first, second), rel=1e-5)
            ours = get_sigma_gaussian(epsilon, delta) * losses.diameters[1] * nodes**0.5
            assert printed > 3 * ours
    scale = float(printed_scale(HORIZON, WINDOW.losses, epsilon, 1e-6)) * 6**0.5
    assert perturbations(epsilon, 1000, calibration="printed").std() == pytest.approx(
        scale, rel=0.05
    )


def test_on_noisy_losses_the_perturbation_is_a_random_walk():
    """RW-FTPL: 4000 walks with independent steps, which have the noise of one message."""
    walks = perturbations(1.0, mechanism=mechanisms.per_item, perturbation=0.0)
    assert (walks[:, 0] == 0.0).all()
    steps = np.diff(walks, axis=1).reshape(4000, -1)
    scale = get_sigma_gaussian(1.0, 1e-6) * WINDOW.losses.diameters[1]
    assert np.abs(steps.var(0) / scale**2 - 1.0).max() < 5.0 * np.sqrt(2.0 / 4000)
    related = np.corrcoef(steps.T) - np.eye(steps.shape[1])
    assert np.abs(related).max() < 5.5 / np.sqrt(4000)


@pytest.mark.usefixtures("quick_compilation")
def test_the_random_walk_spends_what_it_declares():
    """In the local model; replays find a violation with half the noise."""
    learner = learners.ftpl(
        16, domains.simplex(3), epsilon=1.0, delta=1e-3, mechanism=mechanisms.per_item,
        perturbation=0.0,
    )  # fmt: skip
    assert (learner.privacy.model, learner.privacy.released) == ("local", "messages 1..T")
    spends_what_it_declares(
        learner, audit.pairs_for(learner, 32, jr.key(1)), pytest.approx(1.0, rel=1e-3)
    )
