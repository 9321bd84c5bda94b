"""SMPyBandits: UCB1, KL-UCB, Thompson sampling, EXP3 and Tsallis-INF.

    python -m benchmarks.referees.smpybandits     # pip install 'dpjax[referees]'; two minutes

SMPyBandits 0.9.7 imports scipy.special.btdtri, which recent SciPy no longer has. It is replaced by
scipy.special.betaincinv, which is the same function.
"""

import contextlib
import io
import sys
from types import SimpleNamespace

import jax
import numpy as np
from scipy import optimize, special

from benchmarks.referees import frame
from dpjax import learners
from dpjax.learners._tsallis_inf import probabilities

MEANS = np.array([0.3, 0.5, 0.6, 0.7])  # losses; rewards are 1 minus these
HORIZON, MIXING = 1000, 0.1
NO_EXP3 = 1e-12  # with this mixing, EXP3 does not change its weights


def policies():
    """Imports the module of policies and suppresses its output."""
    if not hasattr(special, "btdtri"):
        special.btdtri = special.betaincinv
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            import SMPyBandits.Policies
        except ModuleNotFoundError as error:
            frame.needs(error.name, "SMPyBandits", "dpjax[referees]")
    return SMPyBandits.Policies


def tsallis(make):
    """Tsallis-INF that searches the multiplier only where all weights are positive."""
    policy = make(len(MEANS))
    module = sys.modules[type(policy).__module__]

    def minimum(function):
        least, rate = policy.cumulative_losses.min(), policy.eta
        bounds = least - len(MEANS) ** 0.5 / rate, least - 1.0 / rate
        return optimize.minimize_scalar(
            function, bounds=bounds, method="bounded", options={"xatol": 1e-10}
        )

    module.opt = SimpleNamespace(minimize_scalar=minimum)
    return policy


def draw_by_trusts(policy):
    """Plays the policy's probabilities from round 1, without pulling each arm once first."""
    return np.random.choice(len(MEANS), p=policy.trusts)


def games(make, trials, choose=lambda policy: policy.choice()):
    """Pseudo-regrets of a policy, one for each trial."""
    regrets = np.zeros(trials)
    for trial in range(trials):
        np.random.seed(trial)
        policy = make(len(MEANS))
        policy.startGame()
        for _ in range(HORIZON):
            arm = choose(policy)
            policy.getReward(arm, float(np.random.random() >= MEANS[arm]))
            regrets[trial] += MEANS[arm] - MEANS.min()
    return regrets


def replay(policy, rewards):
    """Plays a policy, and recomputes its estimates from its arms.

    Returns both estimates, and the number of rounds in which a probability differs by more than
    0.01 from the minimizer at the policy's own rate and estimates.
    """
    solve = jax.jit(probabilities)
    estimates, off = np.zeros(len(MEANS)), 0
    np.random.seed(0)
    policy.startGame()
    for _ in range(HORIZON):
        p = policy.trusts.copy()
        arm = draw_by_trusts(policy)
        reward = rewards(arm)
        estimates[arm] += (1.0 - reward) / p[arm]
        policy.getReward(arm, reward)
        own = policy.cumulative_losses
        wanted = solve(np.float32(own - own.min()), np.float32(policy.eta))
        off += np.abs(policy.trusts - np.asarray(wanted)).max() > 0.01
    return estimates, policy.cumulative_losses, off


def rows(trials=200):
    """A row for each comparison."""
    theirs = policies()
    solver = sys.modules["SMPyBandits.Policies.TsallisInf"].opt

    def ours(name, **arguments):
        return frame.play(getattr(learners, name)(HORIZON, 4, **arguments), MEANS, 4096)[0]

    made = [
        frame.compare("UCB1, regret", ours("ucb1"), games(theirs.UCB, trials)),
        frame.compare("KL-UCB, regret", ours("kl_ucb"), games(theirs.klUCB, trials)),
        frame.compare(
            "Thompson sampling, regret", ours("thompson"), games(theirs.Thompson, trials)
        ),
        frame.compare(
            "EXP3, gamma = 0.1, no forced first pulls, regret",
            ours("exp3", mixing=MIXING),
            games(lambda arms: theirs.Exp3(arms, gamma=MIXING), trials, draw_by_trusts),
        ),
    ]
    minimax = ours("tsallis_inf")
    made.append(
        frame.compare(
            "Tsallis-INF as it is, regret", minimax,
            games(theirs.TsallisInf, trials, draw_by_trusts), "differ",
        )
    )  # fmt: skip
    _, _, off = replay(theirs.TsallisInf(4), lambda arm: float(np.random.random() >= MEANS[arm]))
    made.append(
        frame.equal("Tsallis-INF as it is, share of rounds off by 0.01 or more", 0.0,
                    off / HORIZON, 0.0, "differ")
    )  # fmt: skip
    made.append(
        frame.compare(
            "Tsallis-INF with the right multiplier, regret", minimax,
            games(lambda arms: tsallis(theirs.TsallisInf), trials, draw_by_trusts),
        )
    )  # fmt: skip
    for title, mixing, expected in (
        ("Tsallis-INF, estimates on Beta rewards", None, "differ"),
        ("the same without EXP3's step", NO_EXP3, "agree"),
    ):
        policy = tsallis(theirs.TsallisInf)
        policy._gamma = mixing or policy._gamma
        estimates = replay(policy, lambda arm: np.random.beta(4 - 4 * MEANS[arm], 4 * MEANS[arm]))
        made.append(frame.equal(title, *estimates[:2], 1e-6, expected))
    sys.modules["SMPyBandits.Policies.TsallisInf"].opt = solver
    return made


if __name__ == "__main__":
    frame.arguments(__doc__)
    frame.finish(rows())
