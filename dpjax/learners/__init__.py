"""Learners: one module for each published algorithm.

``__all__`` is the registry that tests, audits and the command line use.
"""

from dpjax.core import _check
from dpjax.core._exports import public
from dpjax.learners import stopping as stopping
from dpjax.learners._adac_gope import adac_gope as adac_gope
from dpjax.learners._adac_oful import adac_oful as adac_oful
from dpjax.learners._batched_bandit import batched_bandit as batched_bandit
from dpjax.learners._ctb_tt import ctb_tt as ctb_tt
from dpjax.learners._cucb import cucb as cucb
from dpjax.learners._dp_exp3_lap import dp_exp3_lap as dp_exp3_lap
from dpjax.learners._dp_ts_ucb import dp_ts_ucb as dp_ts_ucb
from dpjax.learners._dp_ucb import dp_ucb as dp_ucb
from dpjax.learners._dp_ucb_bound import dp_ucb_bound as dp_ucb_bound
from dpjax.learners._dp_ucb_int import dp_ucb_int as dp_ucb_int
from dpjax.learners._dueling_elimination import dueling_elimination as dueling_elimination
from dpjax.learners._exp2 import exp2 as exp2
from dpjax.learners._exp3 import exp3 as exp3
from dpjax.learners._exp3_minibatch import exp3_minibatch as exp3_minibatch
from dpjax.learners._exp4 import exp4 as exp4
from dpjax.learners._explore_then_commit import explore_then_commit as explore_then_commit
from dpjax.learners._federated_linucb import federated_linucb as federated_linucb
from dpjax.learners._ftpl import ftpl as ftpl
from dpjax.learners._ftrl import ftrl as ftrl
from dpjax.learners._gaussian_thompson import gaussian_thompson as gaussian_thompson
from dpjax.learners._glm_sgd import glm_sgd as glm_sgd
from dpjax.learners._hedge import hedge as hedge
from dpjax.learners._limited_updates import limited_updates as limited_updates
from dpjax.learners._linear_elimination import linear_elimination as linear_elimination
from dpjax.learners._linucb import linucb as linucb
from dpjax.learners._lucb import lucb as lucb
from dpjax.learners._one_point_gradient import one_point_gradient as one_point_gradient
from dpjax.learners._online_frank_wolfe import online_frank_wolfe as online_frank_wolfe
from dpjax.learners._online_gradient import online_gradient as online_gradient
from dpjax.learners._private_ftal import private_ftal as private_ftal
from dpjax.learners._private_giga import private_giga as private_giga
from dpjax.learners._private_one_point import private_one_point as private_one_point
from dpjax.learners._probing_experts import probing_experts as probing_experts
from dpjax.learners._projection_free import projection_free as projection_free
from dpjax.learners._robust_elimination import robust_elimination as robust_elimination
from dpjax.learners._scrible import scrible as scrible
from dpjax.learners._semi_bandit_ftrl import semi_bandit_ftrl as semi_bandit_ftrl
from dpjax.learners._sequential_halving import sequential_halving as sequential_halving
from dpjax.learners._shrinking_dartboard import shrinking_dartboard as shrinking_dartboard
from dpjax.learners._sparse_vector_experts import sparse_vector_experts as sparse_vector_experts
from dpjax.learners._successive_elimination import successive_elimination as successive_elimination
from dpjax.learners._thompson import thompson as thompson
from dpjax.learners._track_and_stop import track_and_stop as track_and_stop
from dpjax.learners._tsallis_inf import tsallis_inf as tsallis_inf
from dpjax.learners._two_point_gradient import two_point_gradient as two_point_gradient
from dpjax.learners.adap import adac_ucb as adac_ucb
from dpjax.learners.adap import adap_klucb as adap_klucb
from dpjax.learners.adap import adap_ucb as adap_ucb
from dpjax.learners.klucb import dp_imed as dp_imed
from dpjax.learners.klucb import dp_klucb as dp_klucb
from dpjax.learners.lazy import lazy_thompson as lazy_thompson
from dpjax.learners.lazy import lazy_ucb as lazy_ucb
from dpjax.learners.parts import arguments as _arguments
from dpjax.learners.top_two import adap_tt as adap_tt
from dpjax.learners.top_two import dp_tt as dp_tt
from dpjax.learners.top_two import ttucb as ttucb
from dpjax.learners.ucb import kl_ucb as kl_ucb
from dpjax.learners.ucb import ucb1 as ucb1

__all__ = public(globals())

globals().update({name: _arguments.checked(globals()[name]) for name in __all__})
_check.all_sound(globals(), __all__, tested=True)
