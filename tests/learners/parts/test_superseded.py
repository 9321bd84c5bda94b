"""Keywords carried by the domain or by ``gram`` are accepted until version 0.2, with a warning."""

import jax
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, gram, learners

BALL = domains.ball(2)
NORM = domains.squared_norm(BALL.project, BALL.centre, 2.0)
FIELDS = {"losses": domains.l1_losses(2), "regularizer": NORM}
LONGER = {"losses": domains.ball_losses(2, 3.0)}
# The learner, its superseded keywords, their replacement and how the warning spells it.
OLD = [
    ("ftrl", FIELDS, BALL._replace(**FIELDS), "domain._replace(losses=..., regularizer=...)"),
    ("private_one_point", {"lipschitz": 3.0}, BALL._replace(**LONGER),
     "domain._replace(losses=...)"),
    ("linucb", {"noise": "wishart", "floor": 9.0}, gram.wishart(floor=9.0),
     "gram=gram.wishart(floor=...)"),
    ("linucb", {"protected": "losses"}, gram.losses_only(), "gram=gram.losses_only()"),
    ("linucb", {"shifted": False, "failure": 0.3}, gram.gaussian(shifted=False, failure=0.3),
     "gram=gram.gaussian(shifted=..., failure=...)"),
]  # fmt: skip


def started(learner):
    """The first state and action, without the functions in them."""
    return [leaf for leaf in jax.tree.leaves(learner.init(jr.key(0))) if not callable(leaf)]


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("name", "old", "new", "spelling"), OLD, ids=[case[3] for case in OLD])
def test_the_old_keywords_mean_the_new_ones(name, old, new, spelling):
    factory = getattr(learners, name)
    contextual = name == "linucb"
    given = {"epsilon": 1.0} | ({"delta": 0.1} if contextual else {})
    with pytest.warns(DeprecationWarning) as seen:
        before = factory(16, 2 if contextual else BALL, **given, **old)
    (warning,) = seen
    assert warning.filename == __file__
    assert str(warning.message) == (
        f"{name}: {', '.join(old)} will be removed in version 0.2; write {spelling}"
    )
    after = factory(16, 2, gram=new, **given) if contextual else factory(16, new, **given)
    assert str(before.privacy) == str(after.privacy)
    jax.tree.map(np.testing.assert_array_equal, started(before), started(after))
