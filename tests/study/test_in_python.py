"""Learners that are classes of Python: the same nature, paired, and wrong classes in a sentence."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpjax
from dpjax import Learner, Privacy, Study, environments, feedback, learners
from dpjax.core import Arms, _check


class Shifts:
    """Stays at its arm unless this loses more than 1/2. It has no randomness of its own."""

    def __init__(self, arms):
        self.arms, self.arm = arms, 0

    def select(self):
        return self.arm

    def update(self, arm, loss):
        assert arm == self.arm
        self.arm = (arm + (loss > 0.5)) % self.arms


def shifts(horizon, arms):
    """The same in JAX."""

    def step(state, key, loss):
        state = (state + (loss > 0.5).astype(jnp.int32)) % arms
        return state, state

    zero = jnp.zeros((), jnp.int32)
    return Learner(lambda key: (zero, zero), step, feedback.bandit, Arms(arms), horizon, Privacy())


GAMES = {
    "realised": environments.bernoulli([0.4, 0.5, 0.6]),
    "pseudo": environments.bernoulli([0.4, 0.5, 0.6], regret="pseudo"),
    "adversary": environments.deterministic,
    "reacts": environments.switching_cost,
}
TWINS = {"jax": shifts, "python": dpjax.from_python(Shifts)}


def both(games, horizon, **options):
    made = Study(TWINS, games, {"horizon": horizon, "arms": 3}, **{"trials": 3, **options})
    data = made.run(progress=False)
    return data.sel(learner="jax"), data.sel(learner="python")


@pytest.mark.parametrize("game", GAMES)
def test_a_class_meets_the_same_nature_bit_for_bit(game):
    """So differences between the two are exactly 0 in each trial and at each checkpoint."""
    mine, other = both({game: GAMES[game]}, 64)
    np.testing.assert_array_equal(mine["regret"], other["regret"])
    for name in mine.data_vars:
        np.testing.assert_array_equal(mine[name], other[name])
    if game in ("realised", "pseudo"):
        assert len(np.unique(other["regret"][0, :, -1])) > 1  # Trials differ,
        again = both({game: GAMES[game]}, 64, key=1)[1]
        assert (again["regret"] != other["regret"]).any()  # and keys do.


def test_long_games_are_summed_as_others_are():
    mine, other = both({"reacts": GAMES["reacts"]}, 2500, checkpoints=[700, 2500], trials=2)
    np.testing.assert_array_equal(mine["regret"], other["regret"])
    assert other["round"].values.tolist() == [700, 2500]


class Guesses:
    """Draws arms by its seed; remembers what it was given."""

    given: list

    def __init__(self, arms, epsilon, seed, depth=1):
        self.draws, self.arms = np.random.default_rng(seed), arms
        self.given.append((float(epsilon), seed, depth))

    def select(self):
        return self.draws.integers(self.arms)

    def update(self, arm, loss):
        pass


def guesses():
    """A class with a list of its own."""
    return type("Guesses", (Guesses,), {"given": []})


def test_a_class_gets_the_axes_that_it_takes_and_declares_its_epsilon():
    made = guesses()
    study = Study(
        {"mine": dpjax.from_python(made, delta=1e-6, model="local"), "EXP3": learners.exp3},
        {"coins": GAMES["realised"]},
        {"horizon": 8, "arms": 3, "epsilon": [0.5, np.inf], "depth": [1, 2]}, trials=2,
    )  # fmt: skip
    data = study.run(progress=False)
    cell = data.sel(learner="mine", epsilon=0.5, depth=2)
    assert float(cell["privacy_epsilon"]) == 0.5 and float(cell["privacy_delta"]) == 1e-6
    assert cell["privacy_model"].item() == "local"
    played = {each for each in made.given if each[1] is not None}
    assert {(epsilon, depth) for epsilon, _, depth in played} == {
        (0.5, 1), (0.5, 2), (np.inf, 1), (np.inf, 2),
    }  # fmt: skip
    seeds = {seed for _, seed, _ in played}
    assert len(seeds) == 2 and max(seeds) < 2**32  # one for each trial, the same in all cells
    rows = data.dpjax.table()
    assert len(rows[rows["learner"] == "EXP3"]) == 1 and len(rows) == 5


@pytest.mark.parametrize("fixed", [True, False])
def test_equal_trials_are_warned_of(fixed, recwarn):
    """Some libraries always draw the same numbers, unless they are given a seed."""

    class Explores:
        def __init__(self, arms, seed):
            self.random, self.arms = np.random.default_rng(0 if fixed else seed), arms

        def select(self):
            return self.random.integers(self.arms)

        def update(self, arm, loss):
            pass

    Study({"mine": dpjax.from_python(Explores)}, {"fixed": environments.deterministic},
          {"horizon": 64, "arms": 3}, trials=3).run(progress=False)  # fmt: skip
    sentence = "all 3 trials of Explores have the same regret"
    assert any(sentence in str(warning.message) for warning in recwarn) is fixed


def test_a_seed_repeats_a_run():
    made = Study({"mine": dpjax.from_python(guesses())}, {"coins": GAMES["realised"]},
                 {"horizon": 32, "arms": 3, "epsilon": 1.0}, trials=4)  # fmt: skip
    first, second = (made.run(progress=False)["regret"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first[..., -1])) > 1


class Stays(NamedTuple):
    """Plays arm 0 and keeps its losses."""

    losses: list

    def select(self):
        return 0

    def update(self, arm, loss):
        self.losses.append(loss)


def test_losses_are_clipped_to_the_declared_range_and_counted():
    seen = []
    wide = environments.gaussian([3.0, 3.0], deviation=0.1)
    factory = dpjax.from_python(lambda: Stays(seen))
    factory.__name__ = "stays"
    with pytest.warns(
        RuntimeWarning, match="point 0: .* clipped, at least 16 times in 16 rounds .* from_python"
    ):
        data = Study(factory, {"wide": wide}, {"horizon": 16, "arms": 2}, 2).run(progress=False)
    assert seen == [1.0] * 32 and (data["clipped"] == 16).all()
    seen.clear()
    factory = dpjax.from_python(lambda: Stays(seen), loss_range=(-30.0, 30.0))
    Study({"stays": factory}, {"wide": wide}, {"horizon": 16, "arms": 2}, 2).run(progress=False)
    assert max(seen) > 1.0 and len(set(seen)) > 16


def study_of(make, **options):
    grid = {"horizon": 4, "arms": 2}
    return Study({"mine": dpjax.from_python(make, **options)},
                 {"coins": environments.bernoulli([0.4, 0.5])}, grid, 2)  # fmt: skip


@pytest.mark.parametrize("arm", [np.array(1), jnp.array(1), np.int8(1)])
def test_an_arm_may_be_an_integer_of_any_package(arm):
    assert _check.selected(arm, 2, "mine", 1) == 1


def test_what_needs_a_compiled_learner_says_so(tmp_path):
    made = study_of(Shifts)
    with pytest.raises(ValueError, match="^store: mine is a Python class, and a store keeps"):
        made.run(tmp_path / "store", progress=False)
    assert not (tmp_path / "store").exists()
    sentence = (
        "Shifts is a Python class and cannot be traced; Study.run plays it without a store, "
        "and audit.black_box audits it"
    )
    built, coins = TWINS["python"](4, 2), environments.bernoulli([0.4, 0.5])
    for refused in (
        lambda: dpjax.simulate(built, coins, jax.random.key(0)),
        lambda: dpjax.sweep(lambda x: (built, coins), np.zeros(1), 2, jax.random.key(0)),
        made.cost,
    ):
        with pytest.raises(TypeError) as error:
            refused()
        assert sentence in str(error.value)


def test_studies_with_classes_add():
    grid = {"horizon": 16, "arms": 3}
    added = Study(learners.exp3, {"coins": GAMES["realised"]}, grid, 2) + Study(
        {"mine": TWINS["python"]}, {"coins": GAMES["realised"]}, grid, 2
    )
    data = added.run(progress=False)
    assert data["learner"].values.tolist() == ["exp3", "mine"]
    assert not data["final_regret"].isnull().any()
