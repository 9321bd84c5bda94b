"""The contract that every learner in ``learners.__all__`` keeps, with no branch for any of them.

A learner that is added as one file and its import line is tested by all of this. Factories are
called by the names of their parameters; ARGUMENTS gives a value to each name in use.
"""

import inspect
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import Privacy, core, domains, environments, learners, noise, simulate, sweep
from dpjax.batches import as_learner
from dpjax.core import Outcome

ARMS = 3
# A simplex has as many losses as arms: the same tables serve learners of arms and of points.
ARGUMENTS = {"arms": ARMS, "domain": domains.simplex(ARMS), "epsilon": 1.0, "delta": 1e-6}
HORIZON = 16
EPSILONS = np.array([1e-9, 1e-6, 0.1, 1.0, 10.0, 1e6, np.inf], np.float32)

every_learner = pytest.mark.parametrize("name", learners.__all__)


def parameters(name):
    return inspect.signature(getattr(learners, name)).parameters


def make(name, horizon=HORIZON, **changes):
    """The learner of that name; ``epsilon`` is passed on to those that take one."""
    sizes, keywords = [], {}
    for parameter in list(parameters(name).values())[1:]:
        if parameter.name in changes:
            value = changes[parameter.name]
        elif parameter.name == "epsilon" or parameter.default is inspect.Parameter.empty:
            value = ARGUMENTS[parameter.name]
        else:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            keywords[parameter.name] = value
        else:
            sizes.append(value)
    return getattr(learners, name)(horizon, *sizes, **keywords)


@cache
def table(horizon=HORIZON):
    """Real-valued losses, so that a difference of one bit would show."""
    return jr.uniform(jr.key(7), (horizon, ARMS))


def on_table(name, losses):
    """The environment that replays these losses, for the actions that the learner takes."""
    if "domain" in parameters(name):
        return environments.linear_losses(ARGUMENTS["domain"], losses)
    return environments.table(losses)


def trajectory(learner, losses, key):
    """Actions (T,) and the final state of a learner on a table, with the keys of simulate."""
    learner = as_learner(learner)
    coins = jr.split(key)[1]
    state, action = learner.init(jr.fold_in(coins, 0))

    def one_round(carry, t):
        state, action = carry
        loss = learner.feedback(losses[t - 1], action)
        return learner.step(state, jr.fold_in(coins, t), loss), action

    rounds = jnp.arange(1, len(losses) + 1)
    (state, _), actions = jax.lax.scan(one_round, (state, action), rounds)
    return actions, state


def assert_close(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def assert_same_bits(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@every_learner
def test_signature_is_sizes_then_keywords(name):
    """name(horizon, arms | domain | dim, *, epsilon, ...)."""
    first, second, *rest = parameters(name).values()
    assert first.name == "horizon"
    assert second.name in {"arms", "domain", "dim", "actions"}
    positional = {
        parameter.name for parameter in rest if parameter.kind is not parameter.KEYWORD_ONLY
    }
    assert positional <= {"optimizer"}


@every_learner
def test_docstring_names_privacy_regret_and_reference(name):
    text = inspect.getdoc(getattr(learners, name))
    for part in ("Args:", "Returns:", "Privacy:", "Regret:", "Reference:"):
        assert part in text, f"{name}: the docstring has no {part}"
    assert text.splitlines()[0].endswith("."), "the first line stands alone in dpjax list"


@every_learner
def test_privacy_is_declared(name):
    """The declaration is complete, and never above the epsilon that was asked for."""
    for epsilon in (0.1, 1.0, 10.0):
        privacy = make(name, horizon=4096, epsilon=epsilon).privacy
        assert isinstance(privacy, Privacy)
        assert float(privacy.epsilon) >= 0.0
        assert 0.0 <= float(privacy.delta) < 1.0
        assert privacy.neighbours in {"replace", "zero_out"}
        assert privacy.unit in {"round", "entry"}
        assert privacy.model in {"central", "local", "joint"}
        assert privacy.released and privacy.accountant and privacy.calibration == "derived"
        if "epsilon" in parameters(name):
            assert float(privacy.epsilon) <= epsilon * (1 + 1e-6)


@every_learner
def test_init_and_step_agree_in_tree_shape_and_dtype(name):
    learner = as_learner(make(name))
    first = jax.eval_shape(learner.init, jr.key(0))
    state, action = first
    loss = jax.eval_shape(learner.feedback, table()[0], action)
    second = jax.eval_shape(learner.step, state, jr.key(0), loss)
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)


@every_learner
def test_eager_jit_vmap_and_scan_agree_to_rounding(name):
    losses, key = table(), jr.key(3)
    scanned = trajectory(make(name), losses, key)
    assert_close(jax.jit(lambda: trajectory(make(name), losses, key))(), scanned)
    keys = jnp.stack([jr.key(5), key])
    batched = jax.vmap(lambda key: trajectory(make(name), losses, key))(keys)
    assert_close(jax.tree.map(lambda leaf: leaf[1], batched), scanned)
    # One operation at a time, the first rounds only: that is slow.
    learner = as_learner(make(name))
    coins = jr.split(key)[1]
    state, action = learner.init(jr.fold_in(coins, 0))
    for t in range(1, 5):
        assert_close(action, scanned[0][t - 1])
        loss = learner.feedback(losses[t - 1], action)
        state, action = learner.step(state, jr.fold_in(coins, t), loss)


@every_learner
def test_one_trace_and_one_compilation_for_a_whole_grid(name):
    """New epsilons, another key and a second call compile nothing."""
    traced, compiled = [], []

    def game(epsilon):
        traced.append(isinstance(epsilon, jax.core.Tracer))
        return make(name, epsilon=epsilon), on_table(name, table())

    def listen(event, *_, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        sweep(game, EPSILONS, 8, jr.key(0), progress=False)
        assert sum(traced) == 1
        assert compiled
        compiled.clear()
        sweep(game, 2.0 * EPSILONS, 8, jr.key(1), progress=False)
        assert sum(traced) == 1
        assert not compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


@every_learner
def test_sweep_is_bit_identical_in_any_chunk_and_with_more_seeds(name):
    def game(epsilon):
        return make(name, epsilon=epsilon), on_table(name, table())

    whole = sweep(game, EPSILONS, 13, jr.key(1), checkpoints=4, progress=False)
    for seeds, chunk in [(13, 1), (13, 5), (13, 31), (6, None)]:
        part = sweep(game, EPSILONS, seeds, jr.key(1), checkpoints=4, chunk=chunk, progress=False)
        assert_same_bits(part[1:], jax.tree.map(lambda leaf, s=seeds: leaf[:, :s], whole[1:]))
    fewer = sweep(game, EPSILONS[2:5], 13, jr.key(1), checkpoints=4, progress=False)
    assert_same_bits(fewer[1:], jax.tree.map(lambda leaf: leaf[2:5], whole[1:]))


@every_learner
def test_a_cell_of_a_sweep_is_simulate_under_the_folded_key(name):
    def game(epsilon):
        return make(name, epsilon=epsilon), on_table(name, table())

    swept = sweep(game, EPSILONS, 3, jr.key(2), checkpoints=4, progress=False)
    for p, s in [(2, 0), (3, 2)]:
        cell = simulate(*game(EPSILONS[p]), jr.fold_in(jr.key(2), s), checkpoints=4)
        assert_close(cell[1:], jax.tree.map(lambda leaf, p=p, s=s: leaf[p, s], swept[1:]))


@every_learner
def test_no_privacy_noise_at_infinite_epsilon(name, monkeypatch):
    """Wildly wrong noise changes nothing at epsilon = inf, and does at epsilon = 1."""
    losses, key = table(), jr.key(4)

    def play(epsilon):
        return trajectory(make(name, epsilon=epsilon), losses, key)

    plain, private = play(jnp.inf), play(1.0)
    called = []

    def wild(key, value, scale):
        called.append(scale)
        return value + scale * (1.0 + jr.uniform(key, jnp.shape(value)))

    monkeypatch.setattr(noise, "laplace", wild)
    monkeypatch.setattr(noise, "gaussian", wild)
    assert_same_bits(play(jnp.inf), plain)
    other = play(1.0)
    if called:
        pairs = zip(jax.tree.leaves(other), jax.tree.leaves(private), strict=True)
        assert any((np.asarray(a) != np.asarray(b)).any() for a, b in pairs)


@every_learner
@pytest.mark.parametrize("horizon", [1, 2, 3, 15, 16, 17])
def test_finite_at_extreme_epsilons_and_awkward_horizons(name, horizon):
    environment = on_table(name, table(horizon))

    def final(epsilon):
        return simulate(make(name, horizon, epsilon=epsilon), environment, jr.key(0))

    result = jax.jit(jax.vmap(final))(EPSILONS)
    for leaf in jax.tree.leaves(result):
        assert np.isfinite(leaf).all()
    assert np.abs(result.regret).max() <= horizon


@every_learner
def test_actions_are_arms_or_points_of_the_domain(name):
    actions, _ = trajectory(make(name), table(), jr.key(0))
    if "domain" in parameters(name):
        project = ARGUMENTS["domain"].project
        assert actions.dtype == jnp.float32
        np.testing.assert_allclose(jax.vmap(project)(actions), actions, atol=1e-6)
    else:
        assert actions.dtype == jnp.int32
        assert set(np.asarray(actions).tolist()) <= set(range(ARMS))


@every_learner
def test_a_bandit_learner_does_not_see_unplayed_losses(name):
    """Its actions are the same when every loss that it does not play is another one."""
    losses = table()
    if jnp.shape(make(name).feedback(losses[0], jnp.int32(0))) != ():
        pytest.skip("has more than bandit feedback")

    def recording(others):
        """Losses of the table; unplayed arms have ``others`` of them. Tallies the arms."""

        def step(t, key, arm):
            del key
            played = jnp.arange(ARMS) == arm
            loss = jnp.where(played, losses[t], others(losses[t]))
            return t + 1, Outcome(loss, jnp.where(jnp.arange(HORIZON) == t, arm, 0))

        zero = jnp.zeros((), jnp.int32)
        return core.Environment(lambda key: zero, step, lambda state, tally: jnp.float32(0))

    def arms(others):
        return simulate(make(name), recording(others), jr.key(6)).tally

    np.testing.assert_array_equal(arms(lambda loss: loss), arms(lambda loss: 1.0 - loss))


@every_learner
def test_learns_an_easy_instance(name):
    """Mean regret over 64 trials is below half of uniform play's, by 4 standard errors."""
    means, horizon = [0.1, 0.9, 0.9], 2**14
    losses = (jr.uniform(jr.key(8), (horizon, ARMS)) < jnp.array(means)[None]).astype(jnp.float32)

    def game(epsilon):
        learner = make(name, horizon, epsilon=epsilon)
        if "domain" in parameters(name):
            return learner, on_table(name, losses)
        return learner, environments.bernoulli(means)

    final = sweep(game, np.array([10.0]), 64, jr.key(0), checkpoints=1, progress=False).regret
    uniform = horizon * (np.mean(means) - min(means))
    assert final.mean() + 4 * final.std() / 8 < 0.5 * uniform


@every_learner
def test_report_is_of_finite_scalars(name):
    _, state = trajectory(make(name), table(), jr.key(0))
    for leaf in jax.tree.leaves(as_learner(make(name)).report(state)):
        assert leaf.shape == () and np.isfinite(leaf)


BAD = {
    "horizon": [0, -1, 1.5],
    "domain": [3, None, domains.simplex],
    "arms": [1, 0, 2.5],
    "epsilon": [0.0, -1.0, float("nan")],
    "delta": [0.0, 1.0, float("nan")],
}


@every_learner
def test_bad_arguments_are_refused_by_name(name):
    for argument, values in BAD.items():
        if argument not in parameters(name):
            continue
        for value in values:
            with pytest.raises((ValueError, TypeError), match=rf"\b{argument}\b"):
                make(name, **{argument: value})
