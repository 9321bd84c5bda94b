"""One-point gradient descent and its private form: updates, sensitivity, bounds, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, learners
from dpjax.learners.parts.one_point import directions, flaxman_radius
from tests.learners.replay import play

HORIZON, RANGE = 24, (-1.0, 2.0)
DOMAINS = {"ball": domains.ball(2), "simplex": domains.simplex(3)}
every_domain = pytest.mark.parametrize("name", DOMAINS)


def transcribed(domain, losses, key, horizon, private):
    """Both updates in NumPy, without noise; u_t from the learners' keys."""
    space = directions(domain)
    zeta = float(flaxman_radius(horizon, domain, 1.5, 1.0))
    nu = domain.radius / (1.5 * horizon**0.5)
    shrink = 1 - zeta / domain.inradius

    def project(x):
        halfway = domain.centre + (x - domain.centre) / shrink
        nearest = np.asarray(domain.project(jnp.asarray(halfway, jnp.float32)), np.float64)
        return domain.centre + shrink * (nearest - domain.centre)

    y = lazy = np.array(domain.centre)
    plays = []
    for t in range(horizon):
        own = jr.fold_in(key, t)
        u = np.asarray(space.lift(space.draw(jr.split(own)[0] if private else own)), np.float64)
        plays.append(y + zeta * u)
        move = nu * (np.clip(losses[t] @ plays[-1], *RANGE) - 0.5) * u
        lazy = lazy - move
        y = project(lazy if private else y - move)
    return np.array(plays)


def of_length_one(domain):
    return domain._replace(losses=domains.ball_losses(domain.dim))


@pytest.mark.parametrize("private", [False, True])
@every_domain
def test_the_updates(name, private):
    domain, key = DOMAINS[name], jr.key(3)
    given = 3.0 * jr.normal(jr.key(0), (HORIZON, domain.dim))
    name, level = ("private_one_point", np.inf) if private else ("one_point_gradient", None)
    given_level = {"epsilon": level} if private else {}
    learner = getattr(learners, name)(
        HORIZON, of_length_one(domain), loss_range=RANGE, **given_level
    )
    plays, _, _ = jax.jit(lambda: play(learner, given, key))()
    expected = transcribed(domain, np.asarray(given, np.float64), key, HORIZON, private)
    np.testing.assert_allclose(plays, expected, atol=1e-4)
    assert jax.vmap(domain.contains)(plays).all()
    assert np.ptp(np.asarray(plays), axis=0).max() > 0.3
