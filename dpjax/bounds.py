"""The papers' bounds on regret as curves, to draw beside what was measured.

NumPy on the host, in float64 whatever comes in. Arguments broadcast; regret is in units of one
round's loss.
"""

import numpy as np


def _float64(*values):
    return [np.asarray(value, np.float64) for value in values]


def exp3(horizon, arms):
    """2 sqrt(e - 1) sqrt(T K ln K): Auer et al. 2002, Corollary 3.2."""
    horizon, arms = _float64(horizon, arms)
    return 2.0 * np.sqrt((np.e - 1.0) * horizon * arms * np.log(arms))


def dp_exp3_lap(horizon, arms, epsilon):
    """(2b + 1) 2 sqrt((e - 1) T K ln K) + 2 T K e^(-b epsilon) + sqrt(32 T) / epsilon.

    b = ln T / epsilon, so the middle term is 2K. The theorem of Tossou & Dimitrakakis 2017 with
    the full length 2b + 1 of the interval that is scaled to [0, 1].
    """
    horizon, arms, epsilon = _float64(horizon, arms, epsilon)
    width = 2.0 * np.log(horizon) / epsilon + 1.0
    return width * exp3(horizon, arms) + 2.0 * arms + np.sqrt(32.0 * horizon) / epsilon


def dp_exp3_lap_printed(horizon, arms, epsilon):
    """(4 ln T / epsilon) sqrt((e - 1) T K ln K) + 2K + sqrt(32 T) / epsilon.

    The corollary of Tossou & Dimitrakakis 2017, as reconstructed: 2b stands for 2b + 1, which
    understates the regret where epsilon is large.
    """
    horizon, arms, epsilon = _float64(horizon, arms, epsilon)
    width = 2.0 * np.log(horizon) / epsilon
    return width * exp3(horizon, arms) + 2.0 * arms + np.sqrt(32.0 * horizon) / epsilon


def exp3_minibatch(horizon, arms, tau, memory):
    """sqrt(7 T tau K ln K) + T m / tau + tau, against memory m < tau; nan where m >= tau.

    Policy regret. Arora, Dekel & Tewari 2012 for EXP3; theorem of Tossou & Dimitrakakis 2017, as
    reconstructed.
    """
    horizon, arms, tau, memory = _float64(horizon, arms, tau, memory)
    value = np.sqrt(7.0 * horizon * tau * arms * np.log(arms)) + horizon * memory / tau + tau
    return np.where(np.less(memory, tau), value, np.nan)


def switching_cost_lower(horizon, arms):
    """K^(1/3) T^(2/3) / (50 log2 T): Dekel, Ding, Koren & Peres 2014, any learner."""
    horizon, arms = _float64(horizon, arms)
    return np.cbrt(arms) * np.cbrt(horizon) ** 2 / (50.0 * np.log2(horizon))
