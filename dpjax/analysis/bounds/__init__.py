"""The papers' bounds on regret as curves, to draw beside what was measured.

They compute with NumPy on the host, in float64 whatever the arguments are. Arguments broadcast.
Regret is in units of one round's loss.
"""

from dpjax.analysis.bounds.adversarial import (
    batched_bandit,
    before_bandits,
    before_ftrl,
    dp_exp3_lap,
    dp_exp3_lap_printed,
    exp2,
    exp2_rate,
    exp3,
    exp3_minibatch,
    ftpl,
    ftrl,
    hedge,
    limited_updates,
    scrible,
    shrinking_dartboard,
    switching_cost_lower,
    tsallis_inf,
)
from dpjax.analysis.bounds.linear import (
    azize_basu_linear,
    linear_elimination,
    linear_elimination_printed,
    linucb,
    linucb_planned,
)
from dpjax.analysis.bounds.stochastic import (
    adap_ucb,
    azize_basu,
    azize_basu_minimax,
    d_epsilon,
    d_epsilon_divergence,
    kl,
    lai_robbins,
    shariff_sheffet,
    successive_elimination,
    ucb1,
)

__all__ = [
    "adap_ucb",
    "azize_basu",
    "azize_basu_linear",
    "azize_basu_minimax",
    "batched_bandit",
    "before_bandits",
    "before_ftrl",
    "d_epsilon",
    "d_epsilon_divergence",
    "dp_exp3_lap",
    "dp_exp3_lap_printed",
    "exp2",
    "exp2_rate",
    "exp3",
    "exp3_minibatch",
    "ftpl",
    "ftrl",
    "hedge",
    "kl",
    "lai_robbins",
    "limited_updates",
    "linear_elimination",
    "linear_elimination_printed",
    "linucb",
    "linucb_planned",
    "scrible",
    "shariff_sheffet",
    "shrinking_dartboard",
    "successive_elimination",
    "switching_cost_lower",
    "tsallis_inf",
    "ucb1",
]
