"""Groups of changed rounds: their pairs, their cost, and cancellation inside a release."""

import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, domains, learners, mechanisms
from dpjax.combinators import user_level

LOSSES, HORIZON, COUNT = domains.box_losses(3, 0.0, 1.0), 12, 64


def made(**options):
    pair = audit.pairs(jr.key(0), HORIZON, LOSSES, COUNT, **options)
    return np.asarray(pair.losses), np.asarray(pair.others)


@pytest.mark.parametrize("changed", [2, 3])
def test_pairs_of_groups(changed):
    """Exactly ``changed`` rounds differ, together or spread out, with equal or alternating signs.

    Every direction comes with both signs. Learners on arms ignore a shift of all entries, so the
    worst direction for them moves one entry up and another down.
    """
    ours, theirs = made(changed=changed)
    differs = (ours != theirs).any(axis=2)
    np.testing.assert_array_equal(differs.sum(axis=1), changed)
    assert not differs[:, -1].any()
    together = np.array([np.ptp(np.flatnonzero(row)) == changed - 1 for row in differs])
    assert 0.2 < together.mean() < 0.9
    change = [(a - b)[row] for a, b, row in zip(ours, theirs, differs, strict=True)]
    equal = np.array([np.allclose(rows, rows[0]) for rows in change])
    turning = np.array([np.allclose(rows[1:], -rows[:-1]) for rows in change])
    assert (equal | turning).all() and 0.3 < equal.mean() < 0.7
    # Both kinds of direction occur with both kinds of rounds.
    assert {(a, b) for a, b in zip(equal, together, strict=True)} == {
        (False, False), (False, True), (True, False), (True, True)
    }  # fmt: skip
    direction = np.arange(COUNT) // 2 % 4
    for kind in range(4):
        assert {*equal[direction == kind]} == {False, True}


def test_changes_that_cancel_inside_a_tree():
    """Four levels, rounds 1 and 2: 7 / 4 of one round with equal signs, 1 / 4 with opposite."""
    tree = mechanisms.tree(16)
    one, two = np.zeros(15), np.zeros(15)
    one[0], two[1] = 1.0, 1.0
    single, _ = audit.group_sensitivity(tree, one)
    assert single == tree.sensitivity[0] == 4.0
    assert audit.group_sensitivity(tree, one + two)[0] == pytest.approx(7.0)
    assert audit.group_sensitivity(tree, one - two)[0] == pytest.approx(1.0)
    assert audit.group_sensitivity(mechanisms.per_item(16), one - two)[0] == 2.0
    gaussian = audit.group_sensitivity(mechanisms.tree(16, noise="gaussian"), one + two)[1]
    assert gaussian == pytest.approx(13**0.5)
    with pytest.raises(ValueError, match="changes must have shape"):
        audit.group_sensitivity(tree, np.zeros(16))


@pytest.mark.usefixtures("quick_compilation")
def test_a_replay_of_a_group_counts_no_cancellation():
    """The replay of FTRL charges 2 epsilon for rounds 1 and 2, at least the value from C x."""
    learner = user_level(learners.ftrl(16, domains.ball(2), epsilon=1.0), rounds_per_user=2)
    losses = np.zeros((16, 2), np.float32)
    losses[:2, 0] = 1.0
    for sign in (1.0, -1.0):
        others = -losses
        ours = losses.copy()
        ours[1], others[1] = sign * ours[1], sign * others[1]
        replayed = audit.replay(learner, audit.Pair(ours, others), jr.key(0))
        # The changes of two rounds in one coordinate, relative to the L1 change sqrt(2) 2 allowed.
        assert float(audit.spent(replayed, 0.0)) == pytest.approx(2.0 / 2**0.5, rel=1e-3)
