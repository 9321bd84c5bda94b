"""Failed replays are named by their cause, within a time limit and over several paths."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import Learner, Privacy, audit, feedback, noise
from dpjax.audit._revealed import Filters
from dpjax.audit.audited import examined, finding, status, subject
from dpjax.audit.limits import OutOfTime, in_threads, limited, watched
from dpjax.cli import audits
from dpjax.cli.commands import main
from dpjax.core import Arms

ARMS = 3


def leader(draw, horizon, clip=None) -> Learner:
    """It plays ``draw(key, sums, scale, round)``, which may release one index in each round."""
    scale = 2.0 * (horizon - 1)

    def init(key):
        del key
        return (jnp.zeros(ARMS), jnp.int32(0)), jnp.int32(0)

    def step(state, key, loss):
        sums, t = state[0] + loss, state[1] + 1
        return (sums, t), draw(key, sums, scale, t).astype(jnp.int32)

    return Learner(init, step, feedback.full, Arms(ARMS), horizon, Privacy(epsilon=1.0), clip=clip)


def least(key, sums, scale, t):
    return noise.least(key, sums, scale)


def of_members(key, sums, scale, t):
    each = jax.vmap(lambda key, value: noise.laplace(key, value, scale))
    return jnp.argmin(each(jr.split(key, ARMS), sums))


def values_used(key, sums, scale, t):
    noisy = noise.laplace(key, sums, scale)
    return jnp.where(noisy[2] > 2.0 * noisy[0], 2, jnp.argmin(noisy))


def of_numpy(key, sums, scale, t):
    drawn = jax.pure_callback(
        lambda seed: np.random.default_rng(int(seed)).laplace(size=ARMS).astype(np.float32),
        jax.ShapeDtypeStruct((ARMS,), np.float32), jr.key_data(key)[-1], vmap_method="sequential",
    )  # fmt: skip
    return jnp.argmin(sums + scale * drawn)


def in_a_branch(key, sums, scale, t):
    noisy = partial(noise.least, key, sums, 4.0 * scale)
    return lax.cond(t % 2 == 0, noisy, lambda: jnp.argmin(sums).astype(jnp.int32))


def on_a_loss(key, sums, scale, t):
    return lax.cond(sums[0] > 0.5, lambda: noise.least(key, sums, scale), lambda: jnp.int32(1))


NO_NOISE = "depend on the losses other than through releases: on some path no noise is added"
# Each has (key, sums, scale, round) -> arm, the failed checks, the exit status, and parts of the
# reasons (None: not compared).
CAUSES = {
    "least": (least, "pass", 0, []),
    "halved": (lambda key, sums, scale, t: noise.least(key, sums, scale / 2.0),
               "epsilon", 1, ["(2 times as much): the noise is too small"]),
    "smallest": (lambda key, sums, scale, t: jnp.argmin(noise.laplace(key, sums, scale)),
                 "more released", 3, ["With noise.least(key, value, scale) instead"]),
    "largest": (lambda key, sums, scale, t: jnp.argmax(noise.laplace(key, -sums, scale)),
                "more released", 3, None),
    "of members": (of_members, "more released", 3, None),
    "smallest, halved": (
        lambda key, sums, scale, t: jnp.argmin(noise.laplace(key, sums, scale / 2.0)),
        "epsilon", 1, None),
    "values used": (values_used, "epsilon", 1, None),
    "of JAX": (lambda key, sums, scale, t: jnp.argmin(sums + scale * jr.laplace(key, sums.shape)),
               "not replayed", 3, ["the learner cannot be replayed."]),
    "of NumPy": (of_numpy, "not replayed", 3, None),
    "added later": (
        lambda key, sums, scale, t: jnp.argmin(sums + noise.laplace(key, jnp.zeros(ARMS), scale)),
        "not replayed", 3, None),
    "without": (lambda key, sums, scale, t: jnp.argmin(sums), "noise_seen, same_actions", 1, None),
    "in a branch": (in_a_branch, "same_actions", 1, [NO_NOISE]),
    "on a loss": (on_a_loss, "same_actions, same_keys", 1, [
        NO_NOISE, "a key, or whether it is used, depends on the losses"]),
    "without losses": (lambda key, sums, scale, t: noise.least(key, jnp.zeros(ARMS), scale),
                       "no release", 3, ["the change reached no release"]),
    # At a horizon of 4; at 8 it fails.
    "stops": (lambda key, sums, scale, t: jnp.where(
        t < 4, noise.least(key, sums, scale), jnp.argmin(sums)), "pass", 0, None),
}  # fmt: skip


def checked(name, horizon=4, clip=None, with_mutants=False, **options) -> tuple:
    """The row of an audit, and those of its mutants."""
    options |= {"count": 10, "with_mutants": with_mutants}
    made = partial(leader, CAUSES[name][0], clip=clip)
    return examined(made, [horizon], audits.keys(), {}, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUSES)
def test_a_failed_replay_is_named_by_its_cause(name):
    """By the command, and by a verdict with the same status and reasons."""
    draw, checks, exit_status, words = CAUSES[name]
    row, mutants = checked(name, with_mutants=words is not None)
    assert row["checks"] == checks and status(checks) == exit_status
    if words is None:
        return
    learner, pairs = subject(leader(draw, 4), 10, audits.keys()[0])
    found = audit.verdict(learner, pairs, audits.keys()[1])
    said = finding({**row, "epsilon": None, "flagged": exit_status == 1})
    assert found.status == exit_status and len(found.reasons) == len(words)
    for reason, part in zip(found.reasons, words, strict=True):
        assert part in reason and reason in said
    assert audit.explain(found) == list(found.reasons)
    assert bool(mutants) == (name in ("least", "halved", "smallest", "in a branch", "on a loss"))


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_an_attack_finds_a_learner_without_noise():
    """The likelihood ratios of its actions are infinite."""
    learner = leader(CAUSES["without"][0], 4)
    pairs = audit.pairs_for(learner, 10, jr.key(0))
    first, second = (
        jax.vmap(lambda losses: audit.play(learner, losses, jr.key(0)))(side) for side in pairs
    )
    filters = Filters(learner, jax.tree.map(lambda leaf: leaf[0], pairs), 2)
    place = filters.most_revealing(pairs, jr.key(2), 8)
    assert (first != second).any(axis=1)[place]
    pair = jax.tree.map(lambda leaf: leaf[place], pairs)
    found = audit.likelihood_attack(learner, pair, jr.key(1), runs=1000, particles=1)
    assert (found.hits, found.misses) in ((1000, 0), (0, 1000))


@pytest.mark.slow
def test_losses_out_of_range_long_horizons_and_time_limits_are_among_the_checks():
    """An attack beyond its time limit leaves the audit undecided."""
    wild = feedback.unclipped
    assert checked("least", clip=wild)[0]["checks"] == "epsilon, clip"
    assert checked("halved", clip=wild)[0]["checks"] == "epsilon"
    assert [checked("stops", n)[0]["checks"] for n in (4, 8)] == ["pass", "same_actions"]
    row, _ = checked("least", runs=2**17, minutes=1e-6)
    assert (row["checks"], row["attack"]) == ("attack stopped", None)


def test_blocks_stop_at_the_time_limit_and_report():
    said: list = []
    with watched(said.append), limited(0.5), pytest.raises(OutOfTime):
        list(in_threads(time.sleep, [0.02] * 1000))
    assert said[0] == "attack, 0 of 1000 blocks of this step" and len(said) < 1000
    assert list(in_threads(abs, [-1, 2])) == [1, 2]


@pytest.mark.slow
def test_several_paths_reach_a_loss_that_one_path_misses():
    def init(key):
        return (), noise.choose(key, jnp.ones(2) / 2.0)

    def step(state, key, loss):
        return state, noise.coin(key, 0.25 + 0.5 * loss).astype(jnp.int32)

    learner = Learner(init, step, feedback.bandit, Arms(2), 2, Privacy(epsilon=float(np.log(3.0))))
    losses = jnp.array([[[1.0, 0.0], [0.0, 0.0]]] * 4)
    pairs = audit.Pair(losses, jnp.zeros((4, 2, 2)))
    found = [audit.verdict(learner, pairs, jr.key(1), paths=paths) for paths in (1, 8)]
    assert [each.paths for each in found] == [1, 8]
    assert found[0].spent.min() == 0.0
    np.testing.assert_allclose(found[1].spent, np.log(3.0), rtol=1e-5)


def test_the_command_passes_its_options_and_returns_the_status(tmp_path, capsys, monkeypatch):
    given: dict = {}

    def run(names, out, **options):
        given.update(options)
        return "", 3, "mine: the audit cannot decide."

    out = ["--out", str(tmp_path)]
    monkeypatch.setattr("dpjax.cli.audits.run", run)
    words = ["--horizon", "64", "--minutes", "3", "--changed", "2"]
    assert main(["audit", "hedge", *words, *out]) == 3
    assert (given["horizon"], given["minutes"], given["changed"]) == (64, 3.0, 2)
    assert capsys.readouterr().err == "dpjax: mine: the audit cannot decide.\n"
