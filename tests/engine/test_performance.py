"""The cost of a sweep in counts of operations, programs and bytes, which do not depend on load."""

import re
from collections import Counter
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import clear_caches, domains, environments, learners, sweep
from dpjax.core._versions import jaxprs_in_params
from dpjax.engine.devices import cores
from dpjax.game.rounds import one_round, start
from dpjax.mechanisms import prefix

ARMS, EXPERTS, HORIZON, SEEDS = 4, 10, 64, 32
MEANS = (0.45, 0.5, 0.5, 0.5)
LOSSES = np.random.default_rng(0).integers(0, 2, size=(1024, EXPERTS)).astype(np.float32)


def exp3_over(horizon):
    def game(mixing):
        learner = learners.exp3(horizon, ARMS, mixing=mixing)
        return learner, environments.bernoulli(MEANS, regret="pseudo")

    return game


def ftrl_over(horizon):
    def game(epsilon):
        domain = domains.simplex(EXPERTS)
        learner = learners.ftrl(horizon, domain, epsilon=epsilon)
        return learner, environments.linear_losses(domain, LOSSES)

    return game


GAMES = {"exp3": exp3_over(HORIZON), "ftrl": ftrl_over(HORIZON)}


@contextmanager
def compiled_programs():
    """Collects programs compiled ahead of time within the block, even those compiled before."""
    clear_caches()
    compile_, found = jax.stages.Lowered.compile, []

    def record(lowered, *arguments, **options):
        found.append(compile_(lowered, *arguments, **options))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.stages.Lowered, "compile", record)
        yield found


def program_of(game, points=1, seeds=SEEDS):
    """The one program that a sweep compiles for a block of exactly these points and seeds."""
    with compiled_programs() as found:
        sweep(
            game, np.full(points, 0.1), cores() * seeds, jr.key(0), checkpoints=1,
            chunk=points * seeds, progress=False,
        )  # fmt: skip
    (program,) = found
    return program


@pytest.fixture(scope="module")
def programs():
    return {name: program_of(game) for name, game in GAMES.items()}


def operations(program) -> Counter:
    """Counts of each HLO operation in the program, including those inside fusions."""
    return Counter(re.findall(r" ([a-z][a-z0-9\-]*)\(", program.as_text()))


def random_blocks(function, *arguments) -> int:
    """Threefry blocks that a function needs: one per 32-bit word, one per derived key."""

    def count(jaxpr):
        total = 0
        for equation in jaxpr.eqns:
            name, parameters = equation.primitive.name, equation.params
            if name == "random_bits":
                total += int(np.prod(parameters["shape"])) * -(-parameters["bit_width"] // 32)
            elif name == "random_fold_in":
                total += 1
            elif name == "random_split":
                total += int(np.prod(parameters["shape"]))
            else:
                total += sum(map(count, jaxprs_in_params(parameters)))
        return total

    return count(jax.make_jaxpr(function)(*arguments).jaxpr)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        # Two keys, the loss of the played arm (a word of its own key, for any number of arms), and
        # one number to choose the next arm.
        ("exp3", 2 + 1 + 1),
        # Two keys and N noise draws, two per block; the losses are given.
        ("ftrl", 2 + EXPERTS // 2),
    ],
)
def test_random_numbers_of_a_round(name, most):
    """As played by simulate: one key per round for nature, and one for the learner."""
    game = GAMES[name](0.1)
    keys, states = start(*game, jr.key(0))
    found = random_blocks(lambda *now: one_round(*game, *now)[0], keys, jnp.int32(1), states)
    assert 2 < found <= most


@pytest.mark.parametrize(
    ("name", "a_round"),
    [
        ("exp3", ARMS),  # one exp per exponent; the weights themselves would need one overall
        ("ftrl", 2 * EXPERTS),  # a log per noise draw, an exp per entry
    ],
)
def test_logarithms_and_exponentials_of_a_round(programs, name, a_round):
    # A loop body is counted once, and so is the code before the first round: the empty prefix has
    # no noise, and the compiler knows the exp of equal exponents.
    total = programs[name].cost_analysis()["transcendentals"]
    assert total <= SEEDS * a_round


@pytest.mark.parametrize("name", GAMES)
def test_no_gather_and_no_scatter_and_nothing_leaves_the_device(programs, name):
    found = set(operations(programs[name]))
    assert "while" in found
    assert not {"gather", "scatter", "sort", "infeed", "outfeed", "send", "recv"} & found
    assert "callback" not in programs[name].as_text()


def test_a_round_of_the_tree_writes_one_row(programs):
    """For all trials at once, in place: rounds neither select over the levels nor copy the walk."""
    rows = prefix.rows((HORIZON - 1).bit_length())
    walk = re.escape(f"f32[{rows},{EXPERTS},{SEEDS}]")
    made = re.findall(rf" = {walk}\S* ([a-z\-]+)\(", programs["ftrl"].as_text())
    assert "dynamic-update-slice" in made
    assert not {"copy", "select"} & set(made)


def test_draws_are_not_repeated(programs, monkeypatch):
    """XLA repeats fused code. Draws are inside conditions, which XLA does not fuse."""
    monkeypatch.setattr("dpjax.engine.batch_last.always_true", lambda arrays: None)
    for name, over in (("exp3", exp3_over), ("ftrl", ftrl_over)):
        joined = operations(program_of(over(HORIZON)))
        assert operations(programs[name])["xor"] < 0.7 * joined["xor"]


def test_memory_and_operations_do_not_grow_with_the_horizon(programs):
    # 1024 rounds, as many as the losses given. The program is a loop for any number of rounds.
    for name, over in (("exp3", exp3_over), ("ftrl", ftrl_over)):
        short, long = programs[name], program_of(over(16 * HORIZON))
        few, many = (p.memory_analysis().temp_size_in_bytes for p in (short, long))
        # Four more tree levels of N numbers per trial, and the same again for a copy of the carry
        # that the compiler may keep.
        assert many - few <= 2 * 4 * SEEDS * EXPERTS * 4
        few, many = (p.cost_analysis()["flops"] for p in (short, long))
        assert many <= 1.5 * few


def test_points_share_what_is_drawn_and_cost_is_linear_in_trials(programs):
    # Eight points need far less than eight times as much: nature and coins are drawn once per seed.
    one, eight, double = (
        program.cost_analysis()["flops"]
        for program in (
            programs["exp3"], program_of(GAMES["exp3"], points=8),
            program_of(GAMES["exp3"], seeds=2 * SEEDS),
        )
    )  # fmt: skip
    assert 1.0 < eight / one < 4.0
    assert double / one == pytest.approx(2.0, rel=0.05)
