"""Learners: one module for each published algorithm.

``__all__`` is the registry that tests, audits and the command line use.
"""

from dpjax.core import _check
from dpjax.learners.adac_gope import adac_gope
from dpjax.learners.adac_oful import adac_oful
from dpjax.learners.adap import adac_ucb, adap_klucb, adap_ucb
from dpjax.learners.batched_bandit import batched_bandit
from dpjax.learners.ctb_tt import ctb_tt
from dpjax.learners.cucb import cucb
from dpjax.learners.dp_exp3_lap import dp_exp3_lap
from dpjax.learners.dp_klucb import dp_imed, dp_klucb
from dpjax.learners.dp_ts_ucb import dp_ts_ucb
from dpjax.learners.dp_ucb import dp_ucb
from dpjax.learners.dp_ucb_bound import dp_ucb_bound
from dpjax.learners.dp_ucb_int import dp_ucb_int
from dpjax.learners.dueling_elimination import dueling_elimination
from dpjax.learners.exp2 import exp2
from dpjax.learners.exp3 import exp3
from dpjax.learners.exp3_minibatch import exp3_minibatch
from dpjax.learners.exp4 import exp4
from dpjax.learners.explore_then_commit import explore_then_commit
from dpjax.learners.federated_linucb import federated_linucb
from dpjax.learners.ftpl import ftpl
from dpjax.learners.ftrl import ftrl
from dpjax.learners.gaussian_thompson import gaussian_thompson
from dpjax.learners.glm_sgd import glm_sgd
from dpjax.learners.hedge import hedge
from dpjax.learners.lazy import lazy_thompson, lazy_ucb
from dpjax.learners.limited_updates import limited_updates
from dpjax.learners.linear_elimination import linear_elimination
from dpjax.learners.linucb import linucb
from dpjax.learners.lucb import lucb
from dpjax.learners.one_point_gradient import one_point_gradient
from dpjax.learners.online_frank_wolfe import online_frank_wolfe
from dpjax.learners.online_gradient import online_gradient
from dpjax.learners.private_ftal import private_ftal
from dpjax.learners.private_giga import private_giga
from dpjax.learners.private_one_point import private_one_point
from dpjax.learners.probing_experts import probing_experts
from dpjax.learners.projection_free import projection_free
from dpjax.learners.robust_elimination import robust_elimination
from dpjax.learners.scrible import scrible
from dpjax.learners.semi_bandit_ftrl import semi_bandit_ftrl
from dpjax.learners.sequential_halving import sequential_halving
from dpjax.learners.shrinking_dartboard import shrinking_dartboard
from dpjax.learners.sparse_vector_experts import sparse_vector_experts
from dpjax.learners.successive_elimination import successive_elimination
from dpjax.learners.thompson import thompson
from dpjax.learners.top_two import adap_tt, dp_tt, ttucb
from dpjax.learners.track_and_stop import track_and_stop
from dpjax.learners.tsallis_inf import tsallis_inf
from dpjax.learners.two_point_gradient import two_point_gradient
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
