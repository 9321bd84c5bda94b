"""Learners made from learners and environments made from environments, for users to adapt them."""

from dpjax.combinators.batches import EveryRoundState, as_learner, every_round, minibatch
from dpjax.combinators.delays import InterleaveState, interleave
from dpjax.combinators.environments import (
    PlaysTally,
    SwitchesState,
    SwitchesTally,
    TrackingState,
    arms_as_points,
    count_plays,
    count_switches,
    tracking,
)
from dpjax.combinators.epochs import DoublingState, doubling
from dpjax.combinators.learners import on_gradients, rescale_losses, sample_arms
from dpjax.combinators.local import (
    RandomizedSumsState,
    randomized_coordinate,
    randomized_response,
)
from dpjax.combinators.reduction import (
    LaplaceFeedbackReport,
    LaplaceFeedbackState,
    PrivateReductionState,
    laplace_feedback,
    private_reduction,
)
from dpjax.combinators.users import user_level
from dpjax.core import _check

__all__ = [
    "DoublingState",
    "EveryRoundState",
    "InterleaveState",
    "LaplaceFeedbackReport",
    "LaplaceFeedbackState",
    "PlaysTally",
    "PrivateReductionState",
    "RandomizedSumsState",
    "SwitchesState",
    "SwitchesTally",
    "TrackingState",
    "arms_as_points",
    "as_learner",
    "count_plays",
    "count_switches",
    "doubling",
    "every_round",
    "interleave",
    "laplace_feedback",
    "minibatch",
    "on_gradients",
    "private_reduction",
    "randomized_coordinate",
    "randomized_response",
    "rescale_losses",
    "sample_arms",
    "tracking",
    "user_level",
]

_check.all_sound(globals(), __all__)
