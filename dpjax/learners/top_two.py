"""AdaP-TT, DP-TT and TTUCB: top-two sampling to identify the best arm, from private means."""

from typing import Literal

import jax.numpy as jnp

from dpjax.core import BatchLearner, Number, Privacy
from dpjax.learners.parts import stopping_rules
from dpjax.learners.parts.arm_sums import check_failure
from dpjax.learners.parts.identification import KEPT, check_grid, laplace_bounds
from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.learners.parts.top_two import gaussian_cost, top_two, transport_cost
from dpjax.noise import LawName, name_of


def adap_tt(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    delta: Number | None = None,
    noise: LawName = "laplace",
    failure: Number = 0.01,
    rule: Literal["hoeffding", "chernoff", "printed", "released"] | None = None,
    forget: bool = True,
    ratio: float = 2.0,
) -> BatchLearner:
    """AdaP-TT: top-two sampling on private means, by gaps over standard deviations.

    The losses of each arm are grouped into phases, and the sum of a complete phase is released with
    noise. Half of the rounds play the leader, the arm with the smallest

        mean_a - sqrt(ln t / (2 n_a)) - ln t / (epsilon n_a),

    and the other half its challenger, the arm b with the smallest (mean_b - mean_leader + 1 / (1
    + sqrt(t))) / sqrt(1 / N_leader + 1 / N_b). Here n counts the losses in a mean, and N all pulls.
    With the rule "chernoff" the noise law's radius
    (:class:`dpjax.learners.parts.sum_noise.SumNoise`) replaces the two terms after mean_a. After
    the rule stops, the learner plays the recommended arm.

    The stopping rules are

    - ``"hoeffding"``, the default for Laplace noise: our rule, which recommends a wrong arm with
      probability at most ``failure`` (:func:`dpjax.learners.parts.stopping_rules.hoeffding`);
    - ``"chernoff"``, the default for all other noise: the same bound for every noise law, from the
      law's radius (:func:`dpjax.learners.parts.stopping_rules.chernoff`). Use it to compare noise
      laws;
    - ``"printed"``: the paper's threshold, as reconstructed, for Laplace noise;
    - ``"released"``: the threshold in the authors' code, for Laplace noise. Its error exceeds
      ``failure`` if epsilon is small: 0.17 instead of 0.1 on the mean losses (0.3, 0.5, 0.7) at
      epsilon = 0.01.

    Args:
      horizon: T, the largest stopping time. A run that has not stopped by then is censored.
      arms: K, at least 2.
      epsilon: privacy parameter; inf adds no noise.
      delta, noise: as in :func:`dpjax.learners.successive_elimination`; ``delta`` is the privacy
        parameter. "binomial" noise gives identification in the shuffle model.
      failure: the papers' delta in (0, 1), the allowed probability of a wrong recommendation.
      rule: the stopping rule, one of the above.
      forget: whether a mean uses only its latest phase; otherwise it uses all complete phases.
      ratio: r above 1, by which a phase multiplies the pulls of its arm.

    Returns:
      A BatchLearner with bandit feedback. Its report is an IdentificationReport: stopped,
      stopping_time and recommendation. If two arms are equally good and best, the learner never
      stops, except by error.

    Privacy: epsilon-DP for replacement of one round. Released values: actions 1..T, the stopping
    time and the recommendation. Each loss is in one released sum, and the rest follows from these
    sums. For noise other than Laplace see ``privacy``.

    Regret: that of the played rounds up to the stopping time, then the gap of the recommended arm
    in each round.

    Stopping time: with Hoeffding's rule and r = 2, at most about 4 T ln(1 / failure) as failure
    goes to 0, where T is the characteristic time (:func:`dpjax.bounds.characteristic_time`) for the
    shares of pulls that the learner plays. If nothing is forgotten, the factor is r instead of 4.

    Reference: Azize, Jourdan, Al Marjani & Basu, "On the complexity of differentially private
    best-arm identification with fixed confidence", 2023, after the authors' public code.

    Examples:
      >>> learner = learners.adap_tt(1000, 4, epsilon=1.0)
      >>> state, batch = jax.eval_shape(learner.init, jax.random.key(0))
      >>> jax.eval_shape(learner.report, state)._fields
      ('stopped', 'stopping_time', 'recommendation')
    """
    grid = check_grid(ratio, forget)
    failure = check_failure(failure)
    noise = name_of(noise)
    law = sum_noise(noise, epsilon, delta)
    if rule is None:
        rule = "hoeffding" if noise == "laplace" else "chernoff"
    if rule != "chernoff" and noise != "laplace":
        raise ValueError(f"rule: {rule} requires laplace noise, got {noise}")
    if rule == "chernoff":
        stop = stopping_rules.chernoff(arms, law, failure, grid)

        def bounds(means, samples, log_t):
            return means - law.radius(samples, log_t)

    else:
        of_laplace = {
            "hoeffding": stopping_rules.hoeffding,
            "printed": stopping_rules.printed,
            "released": stopping_rules.released,
        }
        stop = of_laplace[rule](arms, epsilon, failure, grid)
        bounds = laplace_bounds(epsilon)
    learner = top_two(horizon, arms, grid, bounds, gaussian_cost, stop, law.privacy, law.release)
    return learner._replace(clip=law.clip)


def dp_tt(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    failure: Number = 0.01,
    forget: bool = True,
    ratio: float = 2.0,
) -> BatchLearner:
    """DP-TT: top-two sampling by transport costs that trade a divergence against epsilon.

    It compares arms differently from :func:`adap_tt`. The challenger is the arm b with the smallest
    W_b + ln N_b, and the rule stops when the cost W_b of every other arm exceeds a threshold. The
    cost of two mean losses x <= y after n and m pulls is

        W = min over u in [x, y] of n d_epsilon(x, u) + m d_epsilon(y, u)

    (:func:`dpjax.maths.transport.transport_cost`). If the noise is large, W is epsilon times a
    distance; if the noise is small, W is a Kullback-Leibler divergence.

    Args:
      horizon, arms, epsilon, failure, forget, ratio: as in :func:`adap_tt`. If nothing is
        forgotten, an arm may have at most 48 phases, which requires a ratio above about 1.6.

    Returns:
      A BatchLearner like that of :func:`adap_tt`.

    Raises:
      ValueError: the horizon allows more than 48 phases, and all of them are kept.

    Privacy: epsilon-DP as for :func:`adap_tt`.

    Regret: that of the played rounds up to the stopping time, then the gap of the recommended arm
    in each round.

    Stopping time: at most about 4 T ln(1 / failure) as failure goes to 0, as for :func:`adap_tt`. A
    wrong arm is recommended with probability at most ``failure``.

    Reference: Jourdan & Azize, "Optimal best arm identification under differential privacy", 2025,
    from its abstract. The thresholds and the phases are ours. AdaP-TT* of Azize et al. 2024 has the
    same costs up to constants.

    Examples:
      >>> declared = learners.dp_tt(1000, 4, epsilon=1.0).privacy
      >>> declared.model, float(declared.epsilon), declared.accountant
      ('central', 1.0, 'parallel composition of Laplace mechanisms')
    """
    grid = check_grid(ratio, forget, kept_to=horizon)
    failure = check_failure(failure)
    stop = stopping_rules.private_cost_of_transport(arms, epsilon, failure, grid)
    law, cost = sum_noise("laplace", epsilon, None), transport_cost(epsilon)
    bounds = laplace_bounds(epsilon)
    return top_two(horizon, arms, grid, bounds, cost, stop, law.privacy, law.release)


def ttucb(horizon: int, arms: int, *, failure: Number = 0.01) -> BatchLearner:
    """TTUCB: AdaP-TT without privacy, on means of all losses.

    It is :func:`adap_tt` with phases that end when the pulls of an arm have grown by a tenth, and
    Hoeffding's rule.

    Args:
      horizon, arms, failure: as in :func:`adap_tt`.

    Returns:
      A BatchLearner like that of :func:`adap_tt`.

    Privacy: none.

    Regret: that of the played rounds up to the stopping time, then the gap of the recommended arm
    in each round.

    Stopping time: at most about 1.1 T ln(1 / failure) as failure goes to 0, with T as for
    :func:`adap_tt`.

    Reference: Jourdan & Degenne, "Non-asymptotic analysis of a UCB-based top two algorithm", 2023,
    played in batches; the stopping rule is ours.

    Examples:
      >>> learner = learners.ttucb(1000, 4, failure=0.05)
      >>> learner.privacy.accountant, learner.horizon  # the largest stopping time
      ('none', 1000)
    """
    failure = check_failure(failure)
    stop = stopping_rules.hoeffding(arms, jnp.inf, failure, KEPT)
    bounds = laplace_bounds(jnp.inf)
    return top_two(horizon, arms, KEPT, bounds, gaussian_cost, stop, Privacy())
