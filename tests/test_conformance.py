"""The contract that every learner in ``learners.__all__`` satisfies, without special cases.

A learner added as one file and its import line is tested by all of this. Factories are called by
the names of their parameters; ARGUMENTS gives a value to each name in use.

Compilation takes nearly all of the time. So most tests use one sweep, ``grid``, which also reports
the actions and the final state.
"""

import inspect
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache, partial
from importlib.metadata import version
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

import dpjax
from dpjax import combinators, domains, environments, gram, learners, mechanisms, noise
from dpjax.combinators import as_learner
from dpjax.core import Environment, Number, Outcome, Pairs, Policies, Privacy, Result
from dpjax.domains import Domain
from dpjax.feedback import seen_inside
from dpjax.learners import factories
from tests.combinations import kinds

ARMS = 3
# A simplex has as many losses as arms: the same tables serve learners of arms and of points.
# The losses of an easy instance, 0.1 or 0.9, are linear in these actions, around 1/2.
ARGUMENTS = {
    "arms": ARMS,
    "actions": np.array([[1.0, 0.0], [-1.0, 0.5], [-1.0, -0.5]]),
    "domain": domains.simplex(ARMS),
    "dim": ARMS,
    "experts": ARMS,
    "epsilon": 1.0,
    "delta": 1e-6,
}
HORIZON = 17  # neither a power of 2 nor a multiple of the checkpoints
EPSILONS = np.array([1e-9, 1e-6, 0.1, 1.0, 10.0, 1e6, np.inf], np.float32)

# One of each kind: prefix sums, bandits, batches, points, policies.
KINDS = ["ftrl", "exp3", "successive_elimination", "projection_free", "linucb"]
# tests/conftest.py gives all tests of one learner (the last word of their names) to one worker.
every_learner = pytest.mark.parametrize("name", learners.__all__)


def parameters(name):
    return inspect.signature(getattr(learners, name)).parameters


def make(name, horizon=HORIZON, **changes):
    """The learner of that name, with those changes that its factory takes."""
    return factories.build(name, horizon, ARGUMENTS, **changes)


@cache
def table(horizon=HORIZON):
    """Real-valued losses, so that a difference of one bit is found."""
    return jr.uniform(jr.key(7), (horizon, ARMS))


@cache
def plays(name, kind):
    """Whether the learner's actions are of that kind: Arms, Pairs, Policies or points of a set."""
    with jax.ensure_compile_time_eval():  # may be called while a game is traced
        return isinstance(make(name).action_set, kind)


def of_actions(name, losses):
    """Losses (T, ARMS) as those of the learner's actions: a pair has those of its duels."""
    if not plays(name, Pairs):
        return losses
    return (0.5 + 0.5 * (losses[:, :, None] - losses[:, None, :])).reshape(len(losses), -1)


def on_table(name, losses):
    """The environment that replays these losses, for the learner's actions."""
    if plays(name, Pairs):
        environment = environments.table(of_actions(name, losses))
        return environment._replace(action_set=make(name).action_set)
    if plays(name, Domain):
        return environments.linear_losses(ARGUMENTS["domain"], losses)
    if plays(name, Policies) and make(name).action_set.arms:
        return environments.advice(losses, np.eye(ARMS))
    if plays(name, Policies):
        return environments.contextual_table(features(len(losses)), losses)
    return environments.table(losses)


def features(horizon):
    """Features (T, K, d) of a contextual table whose arms are unit vectors, so it is a bandit."""
    return np.broadcast_to(np.eye(ARMS, dtype=np.float32), (horizon, ARMS, ARMS))


def revealed(name, loss):
    """The feedback that a round with these losses could reveal."""
    return (jnp.eye(ARMS), loss) if plays(name, Policies) else loss


def played(action, loss):
    """The arm or point of an action: a policy plays the arm of the round's features."""
    return action(loss[0]) if callable(action) else action


def recorded(learner, environment):
    """The same game, with actions added to the tally and the final state to the report."""
    learner = as_learner(learner)

    def step(state, key, action):
        inner, t = state
        inner, outcome = environment.step(inner, key, action)
        now = jnp.arange(learner.horizon) == t
        chosen = played(action, outcome.loss)
        actions = jnp.where(jnp.expand_dims(now, range(1, 1 + chosen.ndim)), chosen[None], 0)
        return (inner, t + 1), outcome._replace(tally=(outcome.tally, actions))

    return learner._replace(report=lambda state: (learner.report(state), state)), Environment(
        init=lambda key: (environment.init(key), jnp.zeros((), jnp.int32)),
        step=step,
        regret=lambda state, tally: environment.regret(state[0], tally[0]),
        action_set=environment.action_set,
        horizon=environment.horizon,
    )


@contextmanager
def compilations():
    """A list that grows with each compilation within the block."""
    seen = []

    def listen(event, *_, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        # jax 0.7 cannot remove a listener.
        getattr(jax.monitoring, "unregister_event_duration_listener", id)(listen)


class Grid(NamedTuple):
    """A sweep over all EPSILONS and SEEDS on the table, with its traces and compilations."""

    game: Callable
    traced: list  # for each call of the game, whether it was traced
    compiled: list  # one entry per compilation
    result: Result  # that of the plain game
    actions: np.ndarray  # (epsilons, seeds, T, ...)
    state: Any


SEEDS = 13


def play(game, epsilons=EPSILONS, seeds=SEEDS, key=1, chunk=None):
    """(Result, actions, states) of a recorded game."""
    swept = dpjax.sweep(
        game, epsilons, seeds, jr.key(key), checkpoints=4, chunk=chunk, progress=False
    )
    return unpack(swept)


def unpack(result):
    (tally, actions), (report, state) = result.tally, result.report
    return result._replace(tally=tally, report=report), actions, state


class Notes(list):
    """A list that a game may extend: its growth does not count as a change of the game's data."""

    def __reduce_ex__(self, protocol):
        return "Notes"


@cache
def grid(name):
    traced = Notes()

    def game(epsilon):
        traced.append(isinstance(epsilon, jax.core.Tracer))
        return recorded(make(name, epsilon=epsilon), on_table(name, table()))

    with compilations() as compiled:
        played = play(game)
    return Grid(game, [*traced], compiled, *played)


def cell(tree, *index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def values(result):
    """All of a Result except the rounds, which have no axes of points and seeds."""
    return result[1:]


assert_same_bits = partial(jax.tree.map, np.testing.assert_array_equal)
assert_close = partial(jax.tree.map, partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6))


@every_learner
def test_signature_is_sizes_then_keywords(name):
    """name(horizon, arms | domain | dim, *, epsilon, ...)."""
    first, second, *rest = parameters(name).values()
    assert first.name == "horizon"
    assert second.name in {"arms", "domain", "dim", "actions"}
    positional = {
        parameter.name for parameter in rest if parameter.kind is not parameter.KEYWORD_ONLY
    }
    assert positional <= {"optimizer", "experts"}


@every_learner
def test_docstring_names_privacy_regret_and_reference(name):
    text = inspect.getdoc(getattr(learners, name))
    for part in ("Args:", "Returns:", "Privacy:", "Regret:", "Reference:"):
        assert part in text, f"{name}: the docstring has no {part}"
    assert text.splitlines()[0].endswith("."), "the first line stands alone in dpjax list"


@every_learner
def test_privacy_is_declared(name):
    """The declaration is complete, and never above the requested epsilon."""
    for epsilon in (0.1, 1.0, 10.0):
        privacy = make(name, horizon=4096, epsilon=epsilon).privacy
        assert isinstance(privacy, Privacy)
        assert float(privacy.epsilon) >= 0.0
        assert 0.0 <= float(privacy.delta) < 1.0
        assert privacy.neighbours in {"replace", "zero_out"}
        assert privacy.unit in {"round", "entry"}
        assert privacy.model in {"central", "local", "joint", "silo"}
        assert privacy.released and privacy.accountant and privacy.calibration == "derived"
        if "epsilon" in parameters(name):
            assert float(privacy.epsilon) <= epsilon * (1 + 1e-6)
        if "rho" in parameters(name):
            assert float(privacy.rho) <= 0.5 * epsilon**2 * (1 + 1e-6)


@every_learner
def test_init_and_step_agree_in_tree_shape_and_dtype(name):
    learner = as_learner(make(name))
    first = jax.eval_shape(learner.init, jr.key(0))
    state, action = first
    loss = jax.eval_shape(learner.feedback, revealed(name, of_actions(name, table())[0]), action)
    second = jax.eval_shape(learner.step, state, jr.key(0), loss)
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_one_operation_at_a_time_agrees_with_a_sweep_to_rounding(name):
    """Plain calls without compiling, which is slow, so only for the first rounds."""
    point, seed = 3, 2
    actions = grid(name).actions[point, seed]
    learner = as_learner(make(name, epsilon=EPSILONS[point]))
    coins = jr.split(jr.fold_in(jr.key(1), seed))[1]
    with jax.disable_jit():
        state, action = learner.init(jr.fold_in(coins, 0))
        for t in range(1, 5):
            loss = revealed(name, of_actions(name, table())[t - 1])
            assert_close(played(action, loss), actions[t - 1])
            seen, _ = seen_inside(learner, loss, action)
            state, action = learner.step(state, jr.fold_in(coins, t), seen)


@every_learner
def test_one_trace_and_one_compilation_for_a_whole_grid(name):
    """New epsilons, another key and a second call compile nothing."""
    first = grid(name)
    assert sum(first.traced) == 1
    assert first.compiled
    with compilations() as compiled:
        play(first.game, 2.0 * EPSILONS, key=0)
    assert not compiled


@pytest.mark.slow
@every_learner
@pytest.mark.parametrize(
    ("points", "seeds", "chunk"), [(slice(2, None), 6, 17), (slice(None), SEEDS, 1)]
)
def test_sweep_is_bit_identical_in_any_chunk_and_with_more_seeds(name, points, seeds, chunk):
    """One by one, and fewer points and seeds in blocks of another shape.

    A cell's results agree bit for bit; its state, which is not a result, up to rounding.
    """
    whole = grid(name)
    result, actions, state = play(whole.game, EPSILONS[points], seeds, chunk=chunk)
    index = points, slice(seeds)
    assert_same_bits(values(result), cell(values(whole.result), *index))
    assert_same_bits(actions, whole.actions[index])
    assert_close(state, cell(whole.state, *index))


@pytest.mark.slow
@every_learner
def test_a_cell_of_a_sweep_is_simulate_under_the_folded_key(name):
    """jit without vmap agrees up to rounding, including the final state."""
    whole = grid(name)

    @jax.jit
    def one(epsilon, key):
        return unpack(dpjax.simulate(*whole.game(epsilon), key, checkpoints=4))

    for p, s in [(2, 0), (3, 2), (6, 12)]:
        result, *rest = one(EPSILONS[p], jr.fold_in(jr.key(1), s))
        assert_close(values(result), cell(values(whole.result), p, s))
        assert_close(rest, cell([whole.actions, whole.state], p, s))


@every_learner
def test_no_privacy_noise_at_infinite_epsilon(name, monkeypatch):
    """Very wrong noise changes nothing at epsilon = inf, but does at epsilon = 10."""
    if not {"epsilon", "rho"} & parameters(name).keys():
        pytest.skip("has no epsilon: what it draws is the learner itself")
    called = []

    def wild(law, key, value, scale):
        del law
        called.append(scale)
        return value + scale * (1.0 + jr.uniform(key, jnp.shape(value)))

    whole = grid(name)
    monkeypatch.setattr(noise.Law, "__call__", wild)
    # The same shape as the grid, but not its function, whose program is kept.
    result, *rest = play(lambda epsilon: whole.game(epsilon))
    changed = jax.tree.leaves([values(result), rest])
    usual = jax.tree.leaves([values(whole.result), [whole.actions, whole.state]])
    private, plain = EPSILONS == 10.0, np.isinf(EPSILONS)
    assert_same_bits(cell(changed, plain), cell(usual, plain))
    if called:
        pairs = zip(cell(changed, private), cell(usual, private), strict=True)
        assert any((a != b).any() for a, b in pairs)


# Rounding of a projection from far away: 8.8e-6 for private_ftal with jaxlib 0.10.0.
ROUNDED = 2e-5 if version("jaxlib") == "0.10.0" else 3e-6


def reach(result):
    """How far outside the domain a learner may play, if it reports this."""
    return float(np.max(getattr(result.report, "reach", 0.0)))


def check_finite(result, horizon):
    for leaf in jax.tree.leaves(result):
        assert np.isfinite(leaf).all()
    # Losses <l, x> with l in [0, 1]^3 are in [0, 1] on the simplex.
    assert np.abs(result.regret).max() <= horizon * (1.0 + ARMS**0.5 * reach(result))


@every_learner
def test_finite_at_extreme_epsilons(name):
    """A report has one number for each trial."""
    check_finite(grid(name).result, HORIZON)
    for leaf in jax.tree.leaves(grid(name).result.report):
        assert leaf.shape == (len(EPSILONS), SEEDS)


@every_learner
@pytest.mark.parametrize("horizon", [1, 2])
def test_finite_at_extreme_epsilons_and_awkward_horizons(name, horizon):
    environment = on_table(name, table(horizon))

    def final(epsilon):
        return dpjax.simulate(make(name, horizon, epsilon=epsilon), environment, jr.key(0))

    check_finite(jax.jit(jax.vmap(final))(EPSILONS), horizon)


@every_learner
def test_actions_are_arms_or_points_of_the_domain(name):
    actions = grid(name).actions
    if plays(name, Domain):
        assert actions.dtype == jnp.float32
        points = actions.reshape(-1, ARMS)
        projected = jax.vmap(ARGUMENTS["domain"].project)(points)
        outside = np.linalg.norm(projected - points, axis=1).max()
        assert outside <= reach(grid(name).result) + ROUNDED
    else:
        assert actions.dtype == jnp.int32
        count = ARMS if plays(name, Policies) else make(name).action_set.count
        assert set(actions.ravel().tolist()) <= set(range(count))


@every_learner
def test_a_bandit_learner_does_not_see_unplayed_losses(name):
    """Actions and state do not change if every loss that it does not play changes."""
    losses, learner = of_actions(name, table()), as_learner(make(name))
    first = learner.init(jr.key(0))[1]
    first_loss = revealed(name, losses[0])
    if jnp.shape(jax.tree.leaves(learner.feedback(first_loss, first))[-1]) != ():
        pytest.skip("has more than bandit feedback")
    first = played(first, first_loss)

    def elsewhere(action):
        """A change of losses in [0, 1] that stays there and keeps the loss of the action."""
        if action.ndim == 0:
            return lambda loss: jnp.where(jnp.arange(len(loss)) == action, loss, 1.0 - loss)
        # A linear loss may change in any direction orthogonal to the played points.
        points = jnp.atleast_2d(action)
        basis, _ = jnp.linalg.qr(points.T)
        turned = jnp.roll(points[0], 1)
        return lambda loss: loss + (turned - basis @ (basis.T @ turned))

    def spoiled(other):
        """The table; if ``other``, with different losses for everything not played."""

        def step(t, key, action):
            del key
            chosen = played(action, revealed(name, losses[t]))
            loss = jnp.where(other, elsewhere(chosen)(losses[t]), losses[t])
            return t + 1, Outcome(revealed(name, loss), ())

        zero = jnp.zeros((), jnp.int32)
        return Environment(
            lambda key: zero, step, lambda state, tally: jnp.float32(0), learner.action_set
        )

    @jax.jit
    @jax.vmap
    def game(other):
        return dpjax.simulate(*recorded(make(name), spoiled(other)), jr.key(6), checkpoints=1)[1:]

    both = game(jnp.array([False, True]))
    # An arm's loss is the same number; <l, x> of two losses agrees only up to rounding.
    tolerance = 0.0 if first.ndim == 0 else 1e-4
    for x, y in zip(jax.tree.leaves(cell(both, 0)), jax.tree.leaves(cell(both, 1)), strict=True):
        np.testing.assert_allclose(x, y, atol=tolerance, rtol=tolerance)


# Its epochs' constants allow for heavy tails, and the first epoch ends near round 15 000.
LONGER = {"robust_elimination": 2**16}
# It explores until the last rounds, whatever it observes, and then recommends an arm.
RECOMMENDS = {"sequential_halving"}


@every_learner
def test_learns_an_easy_instance(name):
    """Mean regret over 32 trials is below half of uniform play's, by 4 standard errors.

    Learners that take the range of losses receive it, since their rates depend on it. For a learner
    that only recommends, the regret is that of playing the recommended arm for as many rounds.
    """
    means, horizon, trials = [0.1, 0.9, 0.9], LONGER.get(name, 2**14), 32
    losses = (jr.uniform(jr.key(8), (horizon, ARMS)) < jnp.array(means)[None]).astype(jnp.float32)

    def game(epsilon):
        learner = make(name, horizon, epsilon=epsilon, loss_range=(0.0, 1.0))
        if plays(name, Pairs):
            return learner, environments.dueling(means, regret="utility")
        if "arms" in parameters(name) and not plays(name, Policies):
            return learner, environments.bernoulli(means)
        return learner, on_table(name, losses)

    played = dpjax.sweep(game, np.array([10.0]), trials, jr.key(0), checkpoints=1, progress=False)
    final = played.regret
    if name in RECOMMENDS:
        final = horizon * (np.take(means, played.report.recommendation) - min(means))
    uniform = horizon * (np.mean(means) - min(means))
    assert final.mean() + 4 * final.std() / trials**0.5 < 0.5 * uniform


def test_factories_have_at_most_eight_keywords():
    """Apart from the sizes of a linear problem, which all learners on features have."""
    sizes = {"feature_bound", "loss_bound", "parameter_bound", "deviation"}
    counts = {}
    for room in (combinators, domains, environments, gram, learners, mechanisms):
        for name in room.__all__:
            if inspect.isfunction(value := getattr(room, name)):
                keywords = {word for word, parameter in inspect.signature(value).parameters.items()
                            if parameter.kind is parameter.KEYWORD_ONLY}  # fmt: skip
                counts[name] = len(keywords - sizes)
    assert {name: count for name, count in counts.items() if count > 8} == {}


BAD = {
    "horizon": [0, -1, 1.5],
    "domain": [3, None, domains.simplex],
    "arms": [1, 0, 2.5],
    "actions": [3, np.ones((1, 2)), np.ones(3), np.zeros((3, 2)), [[1.0, np.nan], [0.0, 1.0]]],
    "dim": [0, -1, 2.5],
    "experts": [1, 0, 2.5],
    "epsilon": [0.0, -1.0, float("nan")],
    "rho": [0.0, -1.0, float("nan")],
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


def floats(name):
    """The names of the parameters that are one number, which may be traced."""
    number = set(get_args(Number))
    return [key for key, parameter in parameters(name).items() if number <= {*kinds(parameter)}]


def given_number(name, argument, value):
    """The learner with one number, and with the option that this number requires."""
    defaults = {each: parameter.default for each, parameter in parameters(name).items()}
    options = {}
    if argument == "delta" and defaults.get("noise") == "laplace":
        options = {"noise": "gaussian"}
    if argument in ("delta", "batch") and defaults.get("model") == "local" and "batch" in defaults:
        options = {"model": "joint"}
    if argument == "tau" and defaults["epsilon"] is None:
        options = {"epsilon": None}
    return make(name, **{argument: value}, **options)


def usual_number(name, argument):
    """A value that the factory accepts, or None if unknown."""
    found = ARGUMENTS.get(argument, parameters(name)[argument].default)
    return None if found is inspect.Parameter.empty else found


@every_learner
def test_a_number_outside_of_its_domain_is_refused_or_if_traced_noted(name):
    """-1 and NaN, for every number of a factory, in one sentence if it is not traced."""
    arguments = floats(name)
    usual = {argument: usual_number(name, argument) for argument in arguments}

    @jax.jit
    def sound(values):
        return {each: given_number(name, each, value).sound for each, value in values.items()}

    for value in (-1.0, float("nan")):
        for argument in arguments:
            with pytest.raises(ValueError, match=rf"^{argument} must be [^.]*( [^ ]*)*$"):
                given_number(name, argument, value)
        assert not any(sound(dict.fromkeys(arguments, value)).values())
    known = {each: value for each, value in usual.items() if value is not None}
    # The others get a number only so that no other program is compiled.
    held = sound({each: 1.0 if value is None else value for each, value in usual.items()})
    assert all(held[each] for each in known)


@every_learner
def test_regret_is_nan_for_a_traced_number_outside_of_its_domain(name):
    """And finite for others, with the bits of a game whose numbers are not traced."""
    arguments = floats(name)
    if not arguments:
        pytest.skip("takes no number")
    environment = on_table(name, table())
    argument = "epsilon" if "epsilon" in arguments else arguments[0]

    @jax.jit
    @jax.vmap
    def regret(value):
        learner = make(name, **{argument: value})
        declared = jnp.asarray(learner.privacy.epsilon)
        return dpjax.simulate(learner, environment, jr.key(0), checkpoints=2).regret, declared

    usual = usual_number(name, argument)
    usual = 0.1 if usual is None else usual
    found, declared = regret(jnp.array([usual, -1.0, jnp.nan]))
    assert np.isfinite(found[0]).all() and np.isnan(found[1:]).all()
    if not np.isinf(make(name).privacy.epsilon):
        assert np.isfinite(declared[0]) and np.isnan(declared[1:]).all()
