"""Learners made from learners, environments from environments."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpjax import _check, domains, noise, privacy
from dpjax.action_sets import fits
from dpjax.core import Arms, Array, Batch, BatchLearner, Environment, Learner, Privacy
from dpjax.feedback import full
from dpjax.maths import exact_sums
from dpjax.maths.clipping import within


class LaplaceFeedbackState(NamedTuple):
    base: Any  # the base learner's state
    rejected: Array  # () int32
    clipped: Array  # () int32


class LaplaceFeedbackReport(NamedTuple):
    rejected: Array  # () int32, rounds whose noisy loss fell outside the accepted interval
    clipped: Array  # () int32, losses that were outside [0, 1] and were clipped before noise
    base: Any  # the base learner's report


def laplace_feedback(learner, *, epsilon, threshold, null_loss) -> Learner:
    """Any bandit learner on losses with Laplace noise: DP-Lambda-Lap.

    The observed loss l becomes l~ = l + Lap(1 / epsilon). Where l~ lies in [-b, 1 + b] the base
    is fed (l~ + b) / (2b + 1), again in [0, 1]; elsewhere the round is rejected: the base is fed
    ``null_loss`` and so draws its next action from the law that it had.

    Args:
      learner: a Learner with losses in [0, 1] that sees one number a round.
      epsilon: privacy per round; inf adds no noise.
      threshold: b >= 0. With b = ln T / epsilon a round is rejected with probability at most
        1 / T.
      null_loss: the loss that leaves the base's estimates unchanged: 1 for estimates of gains
        (exp3), 0 for estimates of losses.

    Returns:
      A Learner. Its report counts rejected rounds and clipped losses.

    Privacy: epsilon-DP, central and even local, for replacement of one round, released: actions
    1..T, as printed. Every action depends on the losses through l~ alone, and given the past l~
    is an epsilon-DP function of one round's losses whichever arm was chosen; from there on the
    two worlds run the same kernel. (The paper cites parallel composition, which is stated for a
    partition fixed in advance; this argument covers arms chosen adaptively.)

    Reference: Tossou & Dimitrakakis, "Achieving privacy in the adversarial multi-armed bandit",
    2017, section on noise.
    """
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a Learner, got {type(learner).__name__}")
    epsilon = _check.epsilon(epsilon)
    _check.non_negative(threshold=threshold)
    scale = privacy.laplace_scale(1.0, epsilon)  # one loss in [0, 1] replaced by another
    width = jnp.asarray(threshold, jnp.float32)

    def init(key):
        base, action = learner.init(key)
        zero = jnp.zeros((), jnp.int32)
        return LaplaceFeedbackState(base, zero, zero), action

    def step(state, key, loss):
        noise_key, base_key = jax.random.split(key)
        clipped = within(loss, 0.0, 1.0)
        noisy = noise.laplace(noise_key, clipped, scale)
        accepted = (noisy >= -width) & (noisy <= 1.0 + width)
        fed = jnp.where(accepted, (noisy + width) / (2.0 * width + 1.0), null_loss)
        base, action = learner.step(state.base, base_key, fed)
        rejected = state.rejected + (~accepted).astype(jnp.int32)
        count = state.clipped + (clipped != loss).astype(jnp.int32)
        return LaplaceFeedbackState(base, rejected, count), action

    declared = Privacy(
        epsilon=epsilon,
        model="local",
        accountant="Laplace mechanism on each observed loss",
    )

    def report(state):
        return LaplaceFeedbackReport(state.rejected, state.clipped, learner.report(state.base))

    return learner._replace(init=init, step=step, privacy=declared, report=report)


def rescale_losses(learner, low, high):
    """A learner over arms of losses in [0, 1], for losses in any stated range.

    It meets (loss - low) / (high - low), clipped to [0, 1]: for rewards r in [a, b] play the
    losses -r with low = -b and high = -a. Its calibration then holds for losses in [low, high], and
    whatever lies outside, as Gaussian losses do, is clipped before it carries any weight. What was
    clipped is not counted. Regret stays in the units of the environment.

    Args:
      learner: a Learner or BatchLearner over arms, private for the replacement of losses.
      low: the smallest loss, a Python float.
      high: the largest.

    Returns:
      A learner of the same kind. Its declaration is the same, with this range of losses.

    Raises:
      ValueError: the range is empty or not finite, the learner's own is not [0, 1], or its
        neighbours have losses of 0, which are no zeros any more once they are rescaled.
    """
    if not isinstance(learner, Learner | BatchLearner):
        raise TypeError(f"learner must be a learner, got {type(learner).__name__}")
    _check.between(-1e30, 1e30, low=low, high=high)
    if not low < high:
        raise ValueError(f"low must be below high, got {low:g} and {high:g}")
    if tuple(learner.privacy.loss_range) != (0.0, 1.0):
        raise ValueError(f"learner must be for losses in [0, 1], not {learner.privacy.loss_range}")
    if learner.privacy.neighbours != "replace":
        raise ValueError(
            f"learner must be for neighbours 'replace', not {learner.privacy.neighbours!r}: "
            "rescaled losses of 0 are not 0"
        )

    def feedback(loss, action):
        losses = full(loss, action)
        return learner.feedback(within((losses - low) / (high - low), 0.0, 1.0), action)

    declared = learner.privacy._replace(loss_range=(float(low), float(high)))
    return learner._replace(feedback=feedback, privacy=declared)


class PrivateReductionState(NamedTuple):
    base: Any  # the base learner's state
    point: Any  # (d,) the point in play where the noise depends on it, else ()
    clipped: Array  # () int32


class PrivateReductionReport(NamedTuple):
    clipped: Array  # () int32, losses that were out of range and were clipped before noise
    base: Any  # the base learner's report


def private_reduction(
    learner, *, epsilon, loss_range=(-1.0, 1.0), noise="scalar", norm=None, calibration="derived"
) -> Learner:
    """Any bandit learner on losses with zero-mean noise: the reduction to the non-private setting.

    The learner plays x and is fed f = <l, x> + xi, whose mean is the loss. xi is one Laplace draw
    ("scalar"), or <Z, x> for a vector Z of d Laplace draws, as printed ("vector"). The scalar is
    better: only a number is observed, so noise of the scale of that number is enough. Over arms x
    is a unit vector, and both are one draw.

    The base must tolerate losses outside ``loss_range``, and it is fed f as it is.

    Args:
      learner: a Learner that sees one number a round, linear in its action.
      epsilon: privacy per round; inf adds no noise.
      loss_range: (low, high) of the observed losses.
      noise: "scalar" or "vector"; the latter for learners that play points (d,).
      norm: |Y|_1, the largest L1 norm of a loss vector; with "vector" only.
      calibration: "derived" or "printed".

    Returns:
      A Learner. Losses out of range are clipped and counted: to ``loss_range``, and with "vector"
      also to +-|Y|_1 |x|_inf, which no loss vector of that norm exceeds.

    Privacy: pure, central and even local, for replacement of one round, released: actions 1..T.
    Every action depends on the losses through the noisy values alone, and given the past a noisy
    value is an epsilon-DP function of one round's losses. The scales are

        scalar   derived (high - low) / epsilon     printed max(|low|, |high|) / epsilon
        vector   derived 2 |Y|_1 / epsilon          printed |Y|_1 / epsilon

    The density of <Z, x> has a log-Lipschitz constant of 1 / (scale |x|_inf), while <l - l', x> is
    at most 2 |Y|_1 |x|_inf, and half of that where values have one sign. The print bounds the value
    of a loss in place of the change of one: for losses in [0, 1] that is the same, for losses in
    [-1, 1] its scale has 2 epsilon under the paper's own Definition 2.1 (replacement), which is
    what is declared, and epsilon where a round is zeroed out. With vector noise this shows far in
    the tails only, where the largest entry of x alone matters.

    Regret: that of the base on losses l + Z in expectation (Lemma 4.3), against oblivious losses.

    Reference: Agarwal & Singh, "The price of differential privacy for online learning", 2017,
    Algorithm 4, Lemmas 4.2 and 4.3.
    """
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a Learner, got {type(learner).__name__}")
    epsilon = _check.epsilon(epsilon)
    _check.one_of("scalar", "vector", noise=noise)
    _check.one_of("derived", "printed", calibration=calibration)
    low, high = _check.interval(loss_range=loss_range)
    on_vector = noise == "vector"
    if on_vector:
        if norm is None:
            raise ValueError("norm: vector noise needs the largest L1 norm of a loss vector")
        _check.positive(norm=norm)
        if len(jax.eval_shape(learner.init, jax.random.key(0))[1].shape) != 1:
            raise ValueError("noise: over arms vector noise is the scalar one; use that")
        # Values of one sign move by |Y|_1 |x|_inf at most.
        signs = jnp.where((low < 0.0) & (high > 0.0), 2.0, 1.0)
        change, derived, printed = signs * norm, 2.0 * norm, norm
    else:
        change = derived = high - low
        printed = jnp.maximum(jnp.abs(low), jnp.abs(high))
    scale = privacy.laplace_scale(derived if calibration == "derived" else printed, epsilon)
    shown, paper_epsilon = epsilon, float("nan")
    if calibration == "printed":
        shown, paper_epsilon = privacy.noise_ratio(change, scale), epsilon
    # Losses at the ends of the range are not counted as clipped for the rounding of <l, x>.
    tolerance = 1e-6 * (high - low)

    def pack(base, action, clipped):
        return PrivateReductionState(base, action if on_vector else (), clipped), action

    def init(key):
        return pack(*learner.init(key), jnp.zeros((), jnp.int32))

    def step(state, key, loss):
        noise_key, base_key = jax.random.split(key)
        clipped = within(loss, low, high)
        if on_vector:
            largest = norm * jnp.max(jnp.abs(state.point))
            clipped = jnp.clip(clipped, -largest, largest)
            noisy = _add_vector_noise(noise_key, clipped, state.point, scale)
        else:
            noisy = _add_noise(noise_key, clipped, scale)
        outside = ~(jnp.abs(clipped - loss) <= tolerance)  # NaN too
        count = state.clipped + outside.astype(jnp.int32)
        return pack(*learner.step(state.base, base_key, noisy), count)

    declared = Privacy(
        epsilon=shown,
        loss_range=(low, high),
        model="local",
        calibration=calibration,
        accountant="Laplace mechanism on each observed loss",
        paper_epsilon=paper_epsilon,
    )

    def report(state):
        return PrivateReductionReport(state.clipped, learner.report(state.base))

    return learner._replace(init=init, step=step, privacy=declared, report=report)


# Apart, since there a parameter goes by the name of the module.
def _add_noise(key, value, scale):
    return noise.laplace(key, value, scale)


def _add_vector_noise(key, value, point, scale):
    return noise.laplace_along(key, value, scale, point)


def minibatch(learner, horizon, tau) -> BatchLearner:
    """Plays each action of the base for tau rounds, and feeds the base their average loss.

    Args:
      learner: the base, a Learner that sees one number a round, with a horizon of at least
        ceil(T / tau): it plays that many batches.
      horizon: T, rounds.
      tau: rounds in a batch, 1 <= tau; may be traced.

    Returns:
      A BatchLearner. The last batch may be cut short by the horizon; it is never reported.

    Privacy: that of the base, whose losses are the averages: a replaced round replaces one of them.
    Noise that the base puts on each loss it sees is on averages here, so that a local model becomes
    the central one. Callers whose base gains from the smaller sensitivity 1 / tau of an average
    replace the declaration.

    Reference: Arora, Dekel & Tewari, "Online bandit learning against an adaptive adversary:
    from regret to policy regret", 2012, Algorithm 1.
    """
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a Learner, got {type(learner).__name__}")
    horizon = _check.size(1, horizon=horizon)
    _check.between(1.0, jnp.inf, tau=tau)
    if not isinstance(tau, jax.core.Tracer):
        batches = -(-horizon // int(min(float(tau), horizon)))
        if batches > learner.horizon:
            raise ValueError(
                f"tau: the learner must have a horizon of {batches}, the batches of {tau} rounds "
                f"in {horizon} rounds, but it has {learner.horizon}"
            )
    rounds = jnp.asarray(jnp.minimum(tau, horizon), jnp.int32)
    declared = learner.privacy
    if declared.model == "local":
        declared = declared._replace(model="central")

    def init(key):
        state, action = learner.init(key)
        return state, Batch(action, rounds)

    def step(state, key, total):
        state, action = learner.step(state, key, exact_sums.mean(total, rounds))
        return state, Batch(action, rounds)

    return BatchLearner(
        init=init,
        step=step,
        feedback=learner.feedback,
        action_set=learner.action_set,
        zero=jnp.zeros((), jnp.float32),
        horizon=horizon,
        privacy=declared,
        report=learner.report,
    )


def sample_arms(learner) -> Learner:
    """Plays an arm drawn from the probability vector that a learner on the simplex plays.

    For environments over arms. The expected regret is the same, and so is the privacy: a draw from
    what is released anyway is post-processing.

    Args:
      learner: a Learner whose action is a probability vector, (K,), with full information or
        linear in what it sees of its action: it then sees the loss of the arm that was drawn,
        whose mean is that of its point.

    Raises:
      ValueError: the learner plays no points of a simplex.
    """
    points = learner.action_set
    if (
        not isinstance(points, domains.Domain)
        or points.dim < 2
        or not fits(points, domains.simplex(points.dim))
    ):
        raise ValueError("learner must play points of a simplex, to draw an arm from")

    def feedback(loss, arm):
        unit = (jnp.arange(loss.shape[0]) == arm).astype(jnp.float32)
        return learner.feedback(loss, unit)

    def draw(key, state, point):
        return state, noise.choose(key, point)

    def init(key):
        base_key, arm_key = jax.random.split(key)
        return draw(arm_key, *learner.init(base_key))

    def step(state, key, loss):
        base_key, arm_key = jax.random.split(key)
        return draw(arm_key, *learner.step(state, base_key, loss))

    return learner._replace(init=init, step=step, feedback=feedback, action_set=Arms(points.dim))


def arms_as_points(environment, arms) -> Environment:
    """An environment over points of the simplex, played by arms: arm i is the i-th unit vector."""
    arms = _check.arms(arms)
    if not fits(domains.simplex(arms), environment.action_set):
        raise ValueError(f"environment must have a domain that holds the simplex of {arms} arms")

    def step(state, key, arm):
        point = (jnp.arange(arms) == arm).astype(jnp.float32)
        return environment.step(state, key, point)

    return environment._replace(step=step, action_set=Arms(arms), batch=None)


class SwitchesState(NamedTuple):
    environment: Any
    previous: Array  # () int32, the arm of the last round, -1 before the first


class SwitchesTally(NamedTuple):
    tally: Any  # that of the environment
    switches: Array  # () float32, 1 where the arm differs from that of the round before


def count_switches(environment) -> Environment:
    """The same environment over arms, whose tally also counts how often the arm changed.

    ``Result.tally.switches`` is the number of switches. The game itself is the same, draw for
    draw.
    """

    def init(key):
        return SwitchesState(environment.init(key), jnp.full((), -1, jnp.int32))

    def step(state, key, arm):
        inner, outcome = environment.step(state.environment, key, arm)
        switched = (state.previous >= 0) & (state.previous != arm)
        tally = SwitchesTally(outcome.tally, switched.astype(jnp.float32))
        return SwitchesState(inner, arm), outcome._replace(tally=tally)

    def regret(state, tally):
        return environment.regret(state.environment, tally.tally)

    return environment._replace(init=init, step=step, regret=regret, batch=None)


class DoublingState(NamedTuple):
    round: Array  # () int32, rounds played
    learners: tuple  # the state of each epoch's learner
    first_actions: tuple  # of each


def _largest(numbers):
    """The largest of numbers that may be traced; nan where one of them is."""
    if any(isinstance(number, jax.Array) for number in numbers):
        return jnp.max(jnp.stack([jnp.asarray(number, jnp.float32) for number in numbers]))
    return float(np.max(numbers))


def _of_any_epoch(declared) -> Privacy:
    """What holds for a change of any round, given what each epoch declares for its own rounds."""
    first = declared[0]
    for name in ("neighbours", "unit", "model", "released", "calibration"):
        given = sorted({getattr(epoch, name) for epoch in declared})
        if len(given) > 1:
            raise ValueError(f"make must declare one {name} for all horizons, got {given}")
    lows, highs = zip(*(epoch.loss_range for epoch in declared), strict=True)
    return first._replace(
        epsilon=_largest([epoch.epsilon for epoch in declared]),
        delta=_largest([epoch.delta for epoch in declared]),
        rho=_largest([epoch.rho for epoch in declared]),
        # What no epoch clips.
        loss_range=(_largest(lows), -_largest([-high for high in highs])),
        accountant="; ".join(dict.fromkeys(epoch.accountant for epoch in declared)),
        paper_epsilon=_largest([epoch.paper_epsilon for epoch in declared]),
    )


def doubling(make, horizon, *, first=64) -> Learner:
    """The doubling trick: a fresh learner for each epoch of 64, 128, 256, ... rounds.

    For a horizon that is not known: nothing depends on it but where the game is cut. Each epoch's
    learner starts without knowledge of the losses before.

    Args:
      make: horizon -> Learner; its action must have one shape and dtype for all horizons.
      horizon: T, rounds to be played; the last epoch may be longer and is then cut short.
      first: rounds of the first epoch.

    Returns:
      A Learner. Its report is the tuple of the epochs' reports.

    Raises:
      ValueError, TypeError: bad arguments, by name; epochs whose declarations do not combine.

    Privacy: the largest epsilon, delta and rho of the epochs. The loss of a round is seen by one
    epoch alone, and the others start from a state that is free of data: given what the other epochs
    released, a change of one round changes the law of one epoch's actions only (parallel
    composition, for adaptive losses too), and the round may be one of any epoch. So a delta of
    T^-2, which learners choose by their own horizon, is that of the shortest epoch. A factor log T
    in privacy, as for epochs that all read one round, is not needed.

    Regret: if that of an epoch is at most C T^a, at most C 2^a / (2^a - 1) T^a up to constants.

    Reference: Auer, Cesa-Bianchi, Freund & Schapire 1995; Ene, Nguyen & Vladu 2021, who charge
    O(log T) in privacy for it.
    """
    horizon, first = _check.size(1, horizon=horizon), _check.size(1, first=first)
    lengths = [first]
    while sum(lengths) < horizon:
        lengths.append(min(2 * lengths[-1], _check.LARGEST_SIZE))
    epochs = [make(length) for length in lengths]
    for learner, length in zip(epochs, lengths, strict=True):
        if not isinstance(learner, Learner) or learner.horizon != length:
            raise TypeError(f"make must return a Learner of horizon {length}, got {learner!r}")
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]

    def init(key):
        starts = [epoch.init(jax.random.fold_in(key, i)) for i, epoch in enumerate(epochs)]
        states, actions = zip(*starts, strict=True)
        return DoublingState(jnp.zeros((), jnp.int32), states, actions), actions[0]

    def step(state, key, loss):
        t = state.round + 1

        def within(i):
            def play():
                own, action = epochs[i].step(state.learners[i], key, loss)
                if i + 1 < len(epochs):
                    fresh = state.first_actions[i + 1]
                    ended = t == ends[i]
                    action = jax.tree.map(lambda a, b: jnp.where(ended, a, b), fresh, action)
                return (*state.learners[:i], own, *state.learners[i + 1 :]), action

            return play

        epoch = sum((t > end).astype(jnp.int32) for end in ends[:-1])
        branches = [within(i) for i in range(len(epochs))]
        learners, action = jax.lax.switch(jnp.asarray(epoch, jnp.int32), branches)
        return DoublingState(t, learners, state.first_actions), action

    return Learner(
        init=init,
        step=step,
        feedback=epochs[0].feedback,
        action_set=epochs[0].action_set,
        horizon=horizon,
        privacy=_of_any_epoch([epoch.privacy for epoch in epochs]),
        report=lambda state: tuple(
            epoch.report(own) for epoch, own in zip(epochs, state.learners, strict=True)
        ),
    )
