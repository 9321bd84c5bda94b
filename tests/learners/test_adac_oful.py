"""AdaC-OFUL: the algorithm against NumPy, the width of its noise, its privacy and its bound."""

from functools import partial

import jax.numpy as jnp
import numpy as np

from dpjax import noise
from dpjax.learners import adac_oful
from tests.learners.test_linucb import table, trajectory

HORIZON, DIM, RHO = 300, 3, 0.5


def in_numpy(features, losses, drawn):
    """The same game in float64, with a given draw of scale 1 for each release.

    Returns:
      (arms, leads, batches): leads are the margins of the chosen arm in each round.
    """
    alpha, ridge, growth, scale = 0.01, 0.7, 0.5, 2.0 / np.sqrt(2.0 * RHO)
    volume = DIM * np.log1p(HORIZON / (DIM * ridge))
    most = volume / (0.999 * np.log1p(growth))
    length = scale * (np.sqrt(DIM) + np.sqrt(2.0 * np.log(2.0 * most / alpha)))
    gram, moment, released = ridge * np.eye(DIM), np.zeros(DIM), np.zeros(DIM)
    last, batches, arms, leads = DIM * np.log(ridge), 0, [], []
    inverse, beta, theta = np.linalg.inv(gram), 0.0, np.zeros(DIM)
    for x, loss in zip(features.astype(np.float64), losses.astype(np.float64), strict=True):
        if not batches:
            beta = np.sqrt(2.0 * np.log(2.0 / alpha)) + np.sqrt(ridge)
        index = x @ theta - beta * np.sqrt(np.einsum("ki,ij,kj->k", x, inverse, x))
        arm = int(np.argmin(index))
        arms.append(arm)
        leads.append(np.diff(np.sort(index))[0])
        gram, moment = gram + np.outer(x[arm], x[arm]), moment + loss[arm] * x[arm]
        determinant = np.linalg.slogdet(gram)[1]
        if determinant - last > 0.999 * np.log1p(growth):
            batches, last = batches + 1, determinant
            released, moment = released + moment + scale * drawn, np.zeros(DIM)
            inverse = np.linalg.inv(gram)
            largest = min(np.abs(inverse).sum(axis=1).max(), 1.0 / ridge)
            beta = np.sqrt(2.0 * np.log(2.0 / alpha) + determinant - DIM * np.log(ridge))
            beta += np.sqrt(ridge) + length * np.sqrt(batches * largest)
            theta = inverse @ released
    return np.array(arms), np.array(leads), batches


def test_with_given_noise_it_plays_as_in_numpy(monkeypatch):
    drawn = np.array([0.4, -0.7, 1.1])
    monkeypatch.setattr(
        noise, "gaussian", lambda key, value, scale: value + scale * jnp.float32(drawn)
    )
    features, losses = table(HORIZON, 6, DIM, seed=3)
    arms, leads, batches = in_numpy(features, losses, drawn)
    assert leads.min() > 2e-5
    make = partial(adac_oful, HORIZON, DIM, rho=RHO, ridge=0.7, growth=0.5, failure=0.01)
    played, _, report, _ = trajectory(make, features, losses)
    np.testing.assert_array_equal(played, arms)
    assert 10 < batches < 40 and report.batches == batches
