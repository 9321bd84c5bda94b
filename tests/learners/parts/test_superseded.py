"""Keywords now carried by the domain are accepted until version 0.2, with a warning."""

import jax
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, learners

BALL = domains.ball(2)
NORM = domains.squared_norm(BALL.project, BALL.centre, 2.0)
OLD = [
    ("ftrl", {"losses": domains.l1_losses(2), "regularizer": NORM},
     {"losses": domains.l1_losses(2), "regularizer": NORM}),
    ("private_one_point", {"lipschitz": 3.0}, {"losses": domains.ball_losses(2, 3.0)}),
]  # fmt: skip


@pytest.mark.parametrize("name, old, fields", OLD, ids=[case[0] for case in OLD])
def test_the_old_keyword_is_the_field_of_the_domain(name, old, fields):
    factory = getattr(learners, name)
    with pytest.warns(DeprecationWarning) as seen:
        before = factory(16, BALL, epsilon=1.0, **old)
    (warning,) = seen
    assert warning.filename == __file__
    spelling = ", ".join(f"{field}=..." for field in fields)
    assert str(warning.message) == (
        f"{name}: {', '.join(old)} will be removed in version 0.2; "
        f"write domain._replace({spelling})"
    )
    after = factory(16, BALL._replace(**fields), epsilon=1.0)
    assert str(before.privacy) == str(after.privacy)
    states = [learner.init(jr.key(0))[0] for learner in (before, after)]
    jax.tree.map(np.testing.assert_array_equal, *states)
