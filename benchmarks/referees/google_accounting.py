"""Google's dp-accounting: noise calibrations, and the delta of integer noise and of shuffling.

    python -m benchmarks.referees.google_accounting     # pip install 'dpjax[test]'; seconds

Formulas must agree up to rounding. Their privacy loss distributions are rounded up to multiples of
1e-4, and must agree up to a relative 2e-3.
"""

import numpy as np
from scipy import stats

from benchmarks.referees import frame
from dpjax import mechanisms, noise, privacy
from dpjax.core._versions import enable_x64

PAIRS = [(epsilon, delta) for epsilon in (0.1, 1.0, 10.0) for delta in (1e-3, 1e-6, 1e-9)]
SCALES = (1.0, 2.5, 8.0)
EPSILON = 0.1
USERS, LOCAL = 200, 2.0


def table_of(law):
    """Integers and their log-probabilities under a SciPy distribution."""
    values = np.arange(int(law.ppf(1e-14)) - 1, int(law.isf(1e-14)) + 2)
    return dict(zip(values.tolist(), law.logpmf(values).tolist(), strict=True))


def responses(losses, ones):
    """The deltas of a shuffled batch in which ``ones`` of the other users have a one."""
    flip = 1.0 / (1.0 + np.exp(LOCAL))
    kept = stats.binom.pmf(np.arange(ones + 1), ones, 1.0 - flip)
    others = np.convolve(kept, stats.binom.pmf(np.arange(USERS - ones), USERS - 1 - ones, flip))
    others = np.concatenate([[0.0], others, [0.0]])
    laws = [(1.0 - p) * others[1:] + p * others[:-1] for p in (1.0 - flip, flip)]
    logs = [dict(enumerate(np.log(np.maximum(p, 1e-300)).tolist())) for p in laws]
    both = [losses.from_two_probability_mass_functions(*pair) for pair in (logs, logs[::-1])]
    return [max(law.get_delta_for_epsilon(e) for law in both) for e in (0.1, 0.3)]


def rows():
    """A row for each comparison."""
    try:
        import dp_accounting
        from dp_accounting.pld import privacy_loss_distribution as losses
    except ModuleNotFoundError as error:
        frame.needs(error.name, "dp-accounting", "dpjax[test]")

    def shifted(law, by):
        """The delta between an integer law and its shift, the larger of both directions."""
        table = table_of(law)
        moved = {value + by: log for value, log in table.items()}
        return losses.from_two_probability_mass_functions(moved, table).get_delta_for_epsilon(
            EPSILON
        )

    with enable_x64(True):
        scales = [float(privacy.gaussian_scale(np.float64(1.0), e, d)) for e, d in PAIRS]
        epsilons = [float(privacy.gaussian_epsilon(np.float64(1.0) / s, 1e-5)) for s in scales]
        tree = mechanisms.tree(1024, noise="gaussian").sensitivity[1]
        in_tree = float(privacy.gaussian_epsilon(np.float64(tree / 20.0), 1e-6))
    wanted = [dp_accounting.get_sigma_gaussian(e, d) for e, d in PAIRS]
    composed = losses.from_gaussian_mechanism(20.0).self_compose(10).get_epsilon_for_delta(1e-6)
    ours = [privacy.shuffle_delta(LOCAL, e, USERS) for e in (0.1, 0.3)]
    theirs = np.max([responses(losses, ones) for ones in range(USERS // 2)], axis=0)
    return [
        frame.equal("Gaussian noise at 9 pairs of epsilon and delta", scales, wanted, 1e-9),
        frame.equal(
            "the epsilon of this noise at delta 1e-5", epsilons,
            [dp_accounting.get_epsilon_gaussian(s, 1e-5) for s in wanted], 1e-9,
        ),
        frame.equal("a Gaussian tree of 10 levels: epsilon at 1e-6", in_tree, composed, 2e-3),
        frame.equal(
            "discrete Laplace noise, 3 scales: delta at 0.1",
            [noise.discrete_laplace.delta(s, EPSILON, 2) for s in SCALES],
            [
                losses.from_discrete_laplace_mechanism(1.0 / s, sensitivity=2)
                .get_delta_for_epsilon(EPSILON) for s in SCALES
            ],
            2e-3,
        ),
        frame.equal(
            "discrete Gaussian noise, the same",
            [noise.discrete_gaussian.delta(s, EPSILON, 2) for s in SCALES],
            [
                losses.from_discrete_gaussian_mechanism(s, sensitivity=2)
                .get_delta_for_epsilon(EPSILON) for s in SCALES
            ],
            2e-3,
        ),
        frame.equal(
            "Skellam noise of variances 1, 6.25, 64, the same",
            [noise.skellam.delta(s, EPSILON, 2) for s in SCALES],
            [shifted(stats.skellam(s * s / 2.0, s * s / 2.0), 2) for s in SCALES],
            2e-3,
        ),
        frame.equal(
            "binomial noise of 8, 50 and 300 coins, the same",
            [noise.binomial.delta(n, EPSILON, 2) for n in (8, 50, 300)],
            [shifted(stats.binom(n, 0.5), 2) for n in (8, 50, 300)],
            2e-3,
        ),
        frame.equal("200 shuffled answers of epsilon 2: delta at 0.1 and 0.3", ours, theirs, 2e-3),
    ]  # fmt: skip


if __name__ == "__main__":
    frame.arguments(__doc__)
    frame.finish(rows())
