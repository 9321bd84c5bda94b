"""Learners: one module for each published algorithm.

``__all__`` is the registry that tests, audits and the command line use.
"""

from dpjax.core import _check
from dpjax.learners import stopping as stopping
from dpjax.learners._adac_gope import adac_gope
from dpjax.learners._adac_oful import adac_oful
from dpjax.learners._batched_bandit import batched_bandit
from dpjax.learners._ctb_tt import ctb_tt
from dpjax.learners._cucb import cucb
from dpjax.learners._dp_exp3_lap import dp_exp3_lap
from dpjax.learners._dp_klucb import dp_imed, dp_klucb
from dpjax.learners._dp_ts_ucb import dp_ts_ucb
from dpjax.learners._dp_ucb import dp_ucb
from dpjax.learners._dp_ucb_bound import dp_ucb_bound
from dpjax.learners._dp_ucb_int import dp_ucb_int
from dpjax.learners._dueling_elimination import dueling_elimination
from dpjax.learners._exp2 import exp2
from dpjax.learners._exp3 import exp3
from dpjax.learners._exp3_minibatch import exp3_minibatch
from dpjax.learners._exp4 import exp4
from dpjax.learners._explore_then_commit import explore_then_commit
from dpjax.learners._federated_linucb import federated_linucb
from dpjax.learners._ftpl import ftpl
from dpjax.learners._ftrl import ftrl
from dpjax.learners._gaussian_thompson import gaussian_thompson
from dpjax.learners._glm_sgd import glm_sgd
from dpjax.learners._hedge import hedge
from dpjax.learners._limited_updates import limited_updates
from dpjax.learners._linear_elimination import linear_elimination
from dpjax.learners._linucb import linucb
from dpjax.learners._lucb import lucb
from dpjax.learners._one_point_gradient import one_point_gradient
from dpjax.learners._online_frank_wolfe import online_frank_wolfe
from dpjax.learners._online_gradient import online_gradient
from dpjax.learners._private_ftal import private_ftal
from dpjax.learners._private_giga import private_giga
from dpjax.learners._private_one_point import private_one_point
from dpjax.learners._probing_experts import probing_experts
from dpjax.learners._projection_free import projection_free
from dpjax.learners._robust_elimination import robust_elimination
from dpjax.learners._scrible import scrible
from dpjax.learners._semi_bandit_ftrl import semi_bandit_ftrl
from dpjax.learners._sequential_halving import sequential_halving
from dpjax.learners._shrinking_dartboard import shrinking_dartboard
from dpjax.learners._sparse_vector_experts import sparse_vector_experts
from dpjax.learners._successive_elimination import successive_elimination
from dpjax.learners._thompson import thompson
from dpjax.learners._track_and_stop import track_and_stop
from dpjax.learners._tsallis_inf import tsallis_inf
from dpjax.learners._two_point_gradient import two_point_gradient
from dpjax.learners.adap import adac_ucb, adap_klucb, adap_ucb
from dpjax.learners.lazy import lazy_thompson, lazy_ucb
from dpjax.learners.top_two import adap_tt, dp_tt, ttucb
from dpjax.learners.ucb import kl_ucb, ucb1

__all__ = [
    "adac_gope",
    "adac_oful",
    "adac_ucb",
    "adap_klucb",
    "adap_tt",
    "adap_ucb",
    "batched_bandit",
    "ctb_tt",
    "cucb",
    "dp_exp3_lap",
    "dp_imed",
    "dp_klucb",
    "dp_ts_ucb",
    "dp_tt",
    "dp_ucb",
    "dp_ucb_bound",
    "dp_ucb_int",
    "dueling_elimination",
    "exp2",
    "exp3",
    "exp3_minibatch",
    "exp4",
    "explore_then_commit",
    "federated_linucb",
    "ftpl",
    "ftrl",
    "gaussian_thompson",
    "glm_sgd",
    "hedge",
    "kl_ucb",
    "lazy_thompson",
    "lazy_ucb",
    "limited_updates",
    "linear_elimination",
    "linucb",
    "lucb",
    "one_point_gradient",
    "online_frank_wolfe",
    "online_gradient",
    "private_ftal",
    "private_giga",
    "private_one_point",
    "probing_experts",
    "projection_free",
    "robust_elimination",
    "scrible",
    "semi_bandit_ftrl",
    "sequential_halving",
    "shrinking_dartboard",
    "sparse_vector_experts",
    "successive_elimination",
    "thompson",
    "track_and_stop",
    "tsallis_inf",
    "ttucb",
    "two_point_gradient",
    "ucb1",
]

_check.all_sound(globals(), __all__, tested=True)
