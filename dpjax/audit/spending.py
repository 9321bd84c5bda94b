"""The epsilon that a replay has spent, and the checks that failed."""

import warnings

import jax.numpy as jnp
import numpy as np

from dpjax import privacy
from dpjax.audit._replay import Replay
from dpjax.audit.counts import check_delta
from dpjax.audit.reasons import CHECKS, Verdict
from dpjax.audit.rules import HOST_LAWS, ONE
from dpjax.core import Array, _check
from dpjax.noise.integers import LARGEST_DEVIATION, WIDER


def spent(replayed: Replay, delta: float) -> Array:
    """The epsilon at delta that a Replay has spent.

    It is infinite if a check fails, since the sums are then incomplete. :func:`explain` gives the
    reason, and so does a warning if the Replay is not traced.

    Releases of integers whose noise never gives pure privacy are accounted for on the host. Delta
    is shared equally among these groups, and their epsilons are added: each release of one integer;
    all vectors with noise of the same law; all other releases. So a single release of an integer is
    exact, up to deviation 10 000; above it, its epsilon is that of Gaussian noise whose deviation
    is smaller by a factor of 1.001. For vectors, the law composes all releases together
    (:class:`dpjax.noise.Law`).

    The last bit of ``rho`` changes the result by about 1e-7 delta, which is much if epsilon is far
    below delta. :func:`dpjax.audit.verdict` allows for this.

    Args:
      replayed: a Replay, traced or NumPy, of any shape. It must not be traced if its releases are
        accounted for on the host.
      delta: the declared delta, in [0, 1); 0 for pure differential privacy.

    Examples:
      >>> learner = audit.releases(mechanisms.tree(2), (), scale=2.0)
      >>> pair = audit.Pair(jnp.array([1.0, 0.0]), jnp.zeros(2))
      >>> replayed = jax.jit(lambda key: audit.replay(learner, pair, key))(jax.random.key(0))
      >>> float(audit.spent(replayed, 0.0))  # a change by 1 over the scale
      0.5
    """
    _check.built(Replay, "the result of audit.replay", replayed=replayed)
    check_delta(delta)
    if not _check.is_traced(replayed):
        for sentence in explain(replayed):
            warnings.warn(f"spent is infinite: {sentence}", stacklevel=2)
    total = (
        _spent_by_integers(replayed, delta)
        if replayed.integer.shape[-2]
        else _spent(replayed, delta)
    )
    passed = jnp.stack([jnp.asarray(getattr(replayed, check)) for check in CHECKS]).all(axis=0)
    return jnp.where(passed & ~jnp.isnan(total), total, jnp.inf)


def explain(replayed: Replay | Verdict) -> list[str]:
    """One sentence for each failed check, and one if no noise hides a change.

    Args:
      replayed: a Replay of any shape, not traced; or a Verdict, whose reasons are returned.

    Examples:
      >>> learner = audit.releases(mechanisms.tree(2), (), scale=1.0)
      >>> pair = audit.Pair(jnp.array([1.0, 0.0]), jnp.zeros(2))
      >>> replayed = jax.jit(lambda key: audit.replay(learner, pair, key))(jax.random.key(0))
      >>> audit.explain(replayed)  # every check passes
      []
      >>> audit.explain(replayed._replace(same_keys=np.False_))
      ['a key, or whether it is used, depends on the losses']
    """
    example = "the results of audit.replay and audit.verdict"
    _check.built(Replay | Verdict, example, replayed=replayed)
    if isinstance(replayed, Verdict):
        return list(replayed.reasons)
    reasons = []
    for check, sentence in CHECKS.items():
        passed = np.asarray(getattr(replayed, check))
        if not passed.all():
            where = f" (in {(~passed).sum()} of {passed.size} replays)" if passed.ndim else ""
            reasons.append(sentence + where)
    if np.isinf(replayed.rho).any():
        reasons.append("no noise hides a change: the noise scale is 0 or NaN, or an outcome has "
                     "probability 0 on one of the sequences")  # fmt: skip
    return reasons


def _spent(replayed, delta):
    """The epsilon at delta of all releases counted by ``pure`` and ``rho``, the least of three.

    They are: pure privacy composed with the exact curve of the Gaussian noise; zCDP; and Renyi
    divergences.
    """
    noise_alone = privacy.gaussian_epsilon(jnp.sqrt(2.0 * replayed.gaussian), delta)
    total = replayed.pure + noise_alone
    if delta > 0.0:
        divergences = privacy.zcdp_divergences(replayed.rho) + replayed.saving
        for bound in (
            privacy.zcdp_epsilon(replayed.rho, delta),
            privacy.renyi_epsilon(divergences, delta),
        ):
            total = jnp.minimum(total, bound)
    return total


def _of_integer(law, scale, delta, change) -> float:
    """The epsilon at delta of one integer; by Gaussian noise if too wide for exact sums."""
    deviation = float(law.variance(scale)) ** 0.5
    if deviation > LARGEST_DEVIATION:
        return float(privacy.gaussian_epsilon(WIDER * change / deviation, delta))
    return law.epsilon(scale, delta, change)


def _spent_by_integers(replayed, delta):
    """As :func:`_spent`, including releases that are accounted for on the host."""
    if _check.is_traced(replayed):
        raise TypeError(
            "replayed: this integer noise is accounted for on the host, outside of jax.jit"
        )
    rows = np.asarray(replayed.integer)
    shape = rows.shape[:-2]
    total = np.zeros(shape)
    for place in np.ndindex(shape):
        touched = rows[place][rows[place][:, 3] > 0.0]
        single, vectors = touched[touched[:, 0] == ONE], touched[touched[:, 0] != ONE]
        others = float(replayed.pure[place]) > 0.0 or float(replayed.rho[place]) > 0.0
        laws = np.unique(vectors[:, 1])
        share = delta / max(len(single) + len(laws) + others, 1)
        rest = _spent(type(replayed)(*(leaf[place] for leaf in replayed)), share) if others else 0.0
        total[place] = float(rest) + sum(
            _of_integer(HOST_LAWS[int(law)], scale, share, int(change))
            for _, law, scale, change, _ in single
        )
        for law in laws:
            *_, scale, l1, l2 = vectors[vectors[:, 1] == law].T
            of_all = HOST_LAWS[int(law)].together
            total[place] += float(of_all((l1, l2), scale, share)) if share > 0.0 else np.inf
    return jnp.asarray(total, jnp.float32)
