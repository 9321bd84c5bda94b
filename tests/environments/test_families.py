"""Families: their members satisfy the contract of environments, and have the stated losses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, environments, families
from dpjax.feedback import full
from tests.play import play_actions

ARMS, ROUNDS = 3, 24
BALL = domains.ball(2)
OVER_ARMS = {
    "drawn": families.gaps(ARMS),
    "constant": families.gaps(ARMS, losses="constant"),
    "means": families.means(ARMS),
    "changes": families.changes(ROUNDS, ARMS, segments=3),
    "periodic": families.periodic(ROUNDS, ARMS),
    "thresholds": families.thresholds(ARMS),
}
OVER_POINTS = {
    "directions": families.directions(BALL, ROUNDS),
    "reactions": families.reactions(BALL),
}
ACTIONS = np.random.default_rng(1).integers(0, ARMS, (6, ROUNDS)).astype(np.int32)


def members(family, count=5):
    """Parameters across the box, beginning with its two corners, as float32 arrays."""
    generator = np.random.default_rng(0)
    shares = [0.0, 1.0, *generator.random(count - 2)]
    return [
        {
            name: np.float32(low + (generator.random(np.shape(low)) if 0 < share < 1 else share)
                             * (np.asarray(high) - low))
            for name, (low, high) in family.box.items()
        }
        for share in shares
    ]  # fmt: skip


@pytest.mark.parametrize("name", OVER_ARMS)
def test_regret_over_arms_is_against_the_best_fixed_arm(name):
    """In NumPy, on the recorded losses, which lie in [0, 1] and ignore the current arm."""
    family = OVER_ARMS[name]

    @jax.jit
    def game(parameters, actions):
        environment = family.make(**parameters)
        return play_actions(environment, actions, jr.key(3), jnp.arange(ARMS))

    for parameters in members(family):
        for actions in ACTIONS:
            outcomes, probes, regret = jax.tree.map(np.asarray, game(parameters, actions))
            losses = outcomes.loss
            assert losses.min() >= 0.0 and losses.max() <= 1.0
            expected = np.broadcast_to(losses[:, None], probes.shape)
            np.testing.assert_allclose(probes, expected, atol=2**-23)
            suffered = losses[np.arange(ROUNDS), actions].sum()
            np.testing.assert_allclose(regret[-1], suffered - losses.sum(axis=0).min(), atol=4e-5)


@pytest.mark.parametrize("name", OVER_POINTS)
def test_regret_over_points_is_against_the_best_fixed_point(name):
    """On a ball: the sum of <l, x> plus the norm of the summed losses, which lie on the sphere."""
    family = OVER_POINTS[name]
    points = np.random.default_rng(2).normal(size=(ROUNDS, 2)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)

    @jax.jit
    def game(parameters):
        return play_actions(family.make(**parameters), points, jr.key(3))

    for parameters in members(family):
        outcomes, _, regret = jax.tree.map(np.asarray, game(parameters))
        losses = outcomes.loss
        np.testing.assert_allclose(np.linalg.norm(losses, axis=1), 1.0, atol=1e-5)
        expected = (losses * points).sum() + np.linalg.norm(losses.sum(axis=0))
        np.testing.assert_allclose(regret[-1], expected, atol=1e-4)


def losses_of(family, actions, **parameters):
    """The losses (T, ...) of a member."""
    made = family.make(**{name: jnp.float32(value) for name, value in parameters.items()})
    return np.asarray(play_actions(made, actions, jr.key(0))[0].loss)


@pytest.mark.parametrize("name", OVER_ARMS | OVER_POINTS)
def test_each_parameter_is_read_as_an_array_of_its_shape(name):
    family = (OVER_ARMS | OVER_POINTS)[name]
    own = members(family)[-1]
    for parameter, value in own.items():
        words, missing = (np.full(value.shape, entry) for entry in ("a", np.nan))
        for wrong in (words, missing, np.zeros((9, 9))):
            with pytest.raises(ValueError, match=f"^{parameter}(:| is| must have shape)"):
                family.make(**own | {parameter: wrong})


def test_gaps_are_as_wide_as_they_say():
    constant = losses_of(families.gaps(2, losses="constant"), ACTIONS[0], gap=0.25)
    np.testing.assert_array_equal(constant, [[0.75, 1.0]] * ROUNDS)
    environment = families.gaps(2, regret="pseudo").make(gap=jnp.float32(0.25))
    _, outcome = environment.step((), jr.key(0), jnp.int32(1))
    np.testing.assert_allclose([outcome.tally, *outcome.loss.means], [0.25, 0.375, 0.625])


def test_changes_are_those_of_a_piecewise_environment_with_the_same_ends():
    """Traced ends are rounded down, and may be unsorted."""
    means = np.float32([[0.2, 0.8, 0.5], [0.9, 0.1, 0.5], [0.5, 0.5, 0.1]])
    expected = environments.piecewise(means, [5, 12, ROUNDS], regret="realised")
    family = OVER_ARMS["changes"]
    for ends in ([5.0, 12.0], [12.9, 5.9]):
        made = jax.jit(lambda e: play_actions(family.make(means, e), ACTIONS[1], jr.key(4)))
        found = made(jnp.float32(ends))
        wanted = play_actions(expected, ACTIONS[1], jr.key(4))
        np.testing.assert_array_equal(found[0].loss, wanted[0].loss)
        np.testing.assert_array_equal(found[2], wanted[2])
    other = play_actions(family.make(means, jnp.float32([5.0, 20.0])), ACTIONS[1], jr.key(4))
    assert (np.asarray(other[0].loss) != np.asarray(wanted[0].loss)).any()


def test_periodic_losses_by_hand():
    found = losses_of(
        families.periodic(ROUNDS, 2), ACTIONS[0], octaves=[2.0, 1.0], phase=[0.0, 0.5],
        duty=[0.25, 0.5], levels=[[1.0, 0.75], [0.0, 0.25]],
    )  # fmt: skip
    first, second = [1.0, 0.0, 0.0, 0.0], [0.25, 0.75]
    np.testing.assert_array_equal(found[:, 0], first * 6)
    np.testing.assert_array_equal(found[:, 1], second * 12)


def test_thresholds_react_to_what_was_played():
    """With a memory of two rounds, an arm costs more if it was played in one of the last two."""
    family = families.thresholds(2)
    same = {"threshold": [0.2, 0.2], "above": [1.0, 0.75], "below": [0.0, 0.25], "octaves": 1.0}
    found = losses_of(family, jnp.int32([0, 0, 1, 1, 1, 1]), **same)
    np.testing.assert_array_equal(found[:, 0], [1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(found[:, 1], [0.75, 0.75, 0.25, 0.75, 0.75, 0.75])


def test_reactions_depend_on_the_last_point():
    """Losses point up after a point on the right, and down otherwise."""
    points = jnp.float32([[1.0, 0.0], [-1.0, 0.0], [0.6, 0.8]])
    found = losses_of(families.reactions(BALL), points, watched=[1.0, 0.0], threshold=0.5,
                      above=[0.0, 1.0], below=[0.0, -1.0])  # fmt: skip
    np.testing.assert_array_equal(found, [[0.0, -1.0], [0.0, 1.0], [0.0, -1.0]])


def test_directions_change_once_and_then_alternate():
    points = jnp.zeros((6, 2))
    found = losses_of(OVER_POINTS["directions"], points, first=[0.0, 1.0], second=[1.0, 0.0],
                      change=2.0, octaves=1.0, duty=0.5, noise=0.0)  # fmt: skip
    signs = [1.0, -1.0, 1.0, -1.0]
    np.testing.assert_array_equal(found[:2], [[0.0, 1.0]] * 2)
    np.testing.assert_array_equal(found[2:], [[sign, 0.0] for sign in signs])


@pytest.mark.parametrize("dim", [4, 12])
def test_contexts_have_a_direction_a_gap_and_scales(dim):
    """Means lie in [-0.75 + gap, -0.75 + gap + 1.4 scale] except for the best arm, as requested.

    Coordinates with a scale of 0.01 are small compared to the others.
    """
    parameter, scales = np.eye(dim, dtype=np.float32)[1] * 0.5, np.full(dim, 0.01, np.float32)
    scales[:2] = 0.5, 1.0
    given = {"gap": np.float32(0.1), "parameter": parameter, "scales": scales}
    environment = families.contexts(dim, 64).make(**given)
    again = jax.jit(lambda key, given: families.contexts(dim, 64).make(**given).init(key))
    state = environment.init(jr.key(0))
    np.testing.assert_array_equal(again(jr.key(1), given).parameter, state.parameter)
    _, outcome = environment.step(state, jr.key(2), lambda features: jnp.int32(5))
    features = np.asarray(outcome.loss[0])
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, atol=1e-5)
    means = np.sort(features[:, 1])  # theta is the second axis
    np.testing.assert_allclose([means[0], outcome.tally], [-0.75, features[5, 1] + 0.75], atol=1e-5)
    assert means[1] >= -0.65 - 1e-5 and 0.3 < means[-1] - means[1] <= 0.7
    lengths = np.sort(np.square(features).mean(axis=0))
    assert lengths[:-2].max() < 0.02 and lengths[-2] > 0.1


def test_drawn_losses_are_seen_in_full_where_regret_is_pseudo():
    environment = families.means(2, regret="pseudo").make(means=jnp.float32([0.0, 1.0]))
    _, outcome = environment.step((), jr.key(0), jnp.int32(0))
    np.testing.assert_array_equal(full(outcome.loss, jnp.int32(0)), [0.0, 1.0])


def test_logistic_losses_have_a_parameter_of_each_length():
    """The box ends at ``longest``. Gaps grow with the length, and are 0 nearly without one."""
    family = families.logistic(2, 2, longest=3.0)
    low, high = family.box["scale"]
    assert (low, high) == (pytest.approx(3e-3), 3.0)

    def gaps(scale, key):
        environment = family.make(scale=scale)
        state = environment.init(key)
        tallies = [environment.step(state, key, lambda x, a=a: a)[1].tally for a in (0, 1)]
        return jnp.max(jnp.stack(tallies))

    scales = jnp.array([low, 1.0, 3.0], jnp.float32)
    found = jax.vmap(jax.vmap(gaps, (None, 0)), (0, None))(scales, jr.split(jr.key(0), 64))
    means = np.asarray(found).mean(axis=1)
    assert means[0] < 1e-3 and means[1] < 0.7 * means[2]
