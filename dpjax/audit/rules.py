"""The privacy loss of each kind of release of :mod:`dpjax.noise`, from the law of its noise."""

import math

import jax
import jax.numpy as jnp

from dpjax import noise, privacy
from dpjax.audit.records import Record, Rule
from dpjax.core import Array
from dpjax.maths import exact_sums
from dpjax.noise import Cost
from dpjax.noise.law import of_pure
from dpjax.noise.release import Site

# Laws that are accounted for on the host, in the order in which replays met them, and the kinds of
# their releases: one integer, a vector, or the prefix sums of one stream.
HOST_LAWS: list[noise.Law] = []
ONE, VECTOR, PREFIXES = 0, 1, 2

# A difference of at most UNITS units in the last place counts as rounding if it costs at most
# ROUNDING of epsilon.
UNITS, ROUNDING = 4.0, 1e-5
# A draw counts as equal if no log-ratio exceeds the first number, and no entry of its input changes
# by more than this part of itself. An index drawn from probabilities counts as equal if no
# log-ratio exceeds the second number, and no probability of n changes by more than n UNITS.
PART, OF_CHOICE = 1e-6, 1e-4


# How releases are read -------------------------------------------------------------------------


def _scale_of(value, scale):
    """The scale in the dtype of the value; 0 for integers, since noise on them is rounded away."""
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return jnp.float32(0.0)
    return jnp.asarray(scale, value.dtype)


def _value(site, value, scale):
    del site
    return value, _scale_of(value, scale), ()


def _words(site, value, scale, *count):
    """Read exact sums, or a count of bits. A sum of no draws adds no noise."""
    scale = jnp.asarray(scale, jnp.float32)
    if site.kind == "draws":
        count = (jnp.broadcast_to(jnp.asarray(count[0]), value.shape[1:]),)
        scale = jnp.where(count[0] > 0, scale, 0.0)
    return value, scale, count


def _along(site, value, scale, weights):
    del site
    return value, scale * jnp.max(jnp.abs(weights)), (weights,)


def _prefix(site, noisy, value, scale):
    del noisy
    return value, _scale_of(value, scale) / site.sensitivity[site.law.norm - 1], ()


def _compared(site, armed, threshold, value, scale):
    del site
    return value, jnp.asarray(scale, jnp.float32), (threshold, armed)


def _draw(site, probabilities):
    del site
    return probabilities, jnp.float32(1.0), ()


# Their costs -----------------------------------------------------------------------------------


def _change(site, record, twin):
    """|x - x'| of each entry, which entries are equal, and which differ by an integer."""
    if site.kind in ("words", "draws"):  # the two words (2, *shape) of an ExactSum
        whole, part = record.value - twin.value
        change = jnp.abs(whole.astype(jnp.float32) + exact_sums.UNIT * part.astype(jnp.float32))
        return change, change == 0.0, part == 0
    ours, theirs = record.value, twin.value
    same = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    change = jnp.abs(ours - theirs).astype(jnp.float32)
    return change, same, change == jnp.round(change)


def _shift(site, record, twin):
    """|x - x'| / b for each entry; infinite if no noise hides the change.

    Integer noise hides changes by integers. Rounding differences of float32 values count as 0.
    """
    change, same, whole = _change(site, record, twin)
    units = change / jnp.abs(record.scale)
    # NaN if the scale or the change is NaN.
    hidden = ~jnp.isnan(units)
    if site.law is not None and site.law.integers:
        # Integers times weights are not integers, and no privacy bound is known for them.
        hidden &= whole & (site.kind != "along")
    units = jnp.where(hidden, units, jnp.inf)
    if site.kind not in ("words", "draws"):
        largest = jnp.maximum(jnp.abs(record.value), jnp.abs(twin.value)).astype(jnp.float32)
        rounded = change <= UNITS * jnp.finfo(jnp.float32).eps * largest
        same |= rounded & (units <= ROUNDING)
    return jnp.where(same, 0.0, units)


def signed_shift(site: Site, record: Record, twin: Record):
    """As :func:`_shift`, with the sign of x - x'."""
    return jnp.sign(record.value - twin.value) * _shift(site, record, twin)


def shift_of_prefix(site: Site, record: Record, twin: Record):
    """The change of each entry of a value in noise scales, with its sign, (size,)."""
    return signed_shift(site, record, twin).reshape(-1) / site.sensitivity[site.law.norm - 1]


def is_counted_by_host(site: Site) -> bool:
    """Whether a release is accounted for on the host."""
    if site.kind == "words":
        return site.law.epsilon is not None
    return site.kind in ("value", "prefix") and site.law.cost is None


def _of_noise(site, record, twin) -> Cost:
    """The cost by the law of the noise. A cost on the host is 0 here, or inf if unhidden."""
    units = _shift(site, record, twin)
    if site.law is None:  # A changed bit costs the same as a change of 1 under Laplace noise.
        return of_pure(jnp.sum(units))
    if not is_counted_by_host(site) and site.law.cost is not None:
        return site.law.cost(units)
    cost = jnp.where(jnp.any(jnp.isinf(units)), jnp.inf, 0.0)
    return Cost(cost, cost, jnp.float32(0.0))


def place_of(law: noise.Law) -> int:
    """The place of a law among HOST_LAWS, to which it is added if necessary."""
    if law not in HOST_LAWS:
        HOST_LAWS.append(law)
    return HOST_LAWS.index(law)


def host_row(site: Site, record: Record, twin: Record):
    """The row (5,) of a release that is accounted for on the host.

    ONE, VECTOR or PREFIXES; the index of the law; the scale; the L1 and L2 norms of the change.
    """
    change, _, _ = _change(site, record, twin)
    of_l1, of_l2 = site.sensitivity or (1.0, 1.0)
    l1, l2 = of_l1 * jnp.sum(change), of_l2 * jnp.sqrt(jnp.sum(jnp.square(change)))
    kind = VECTOR if site.sensitivity is None else PREFIXES
    if site.kind == "words" or site.law.together is None:  # a law of one integer
        kind = ONE
    numbers = (kind, place_of(site.law), record.scale * of_l2, l1, l2)
    row = jnp.stack([jnp.asarray(number, jnp.float32).reshape(()) for number in numbers])
    return jnp.where(jnp.all(jnp.isfinite(_shift(site, record, twin))), row, 0.0)


def shared_rows(rows: Array):
    """Rows (T - 1, n, 5), with those of one stream of prefix sums merged into one.

    Several changed values of a stream share noise. The sum of their norms is an upper bound.
    """
    prefixes = (rows[..., 0] == PREFIXES)[..., None]
    changed = jnp.where(prefixes, rows, 0.0)
    norms = jnp.sum(changed[..., 3:], axis=0)
    scale = jnp.min(jnp.where(prefixes, rows, jnp.inf)[..., 2], axis=0)
    row = jnp.concatenate([jnp.max(changed[..., :2], axis=0), scale[:, None], norms], axis=-1)
    row = jnp.where(row[:, :1] > 0.0, row, 0.0)
    return jnp.concatenate([jnp.where(prefixes, 0.0, rows), row[None]])


def _choice(record, twin):
    return _log_ratios(*(run.value / jnp.sum(run.value) for run in (record, twin)))


def _categorical(record, twin):
    """Log-ratios of softmax(x) and softmax(x'); for small u = x - x' as u - ln sum p' e^u."""
    ours, theirs = (run.value - jnp.max(run.value) for run in (record, twin))
    never = (ours == -jnp.inf) & (theirs == -jnp.inf)
    change = jnp.where(never, 0.0, ours - theirs)
    small = jnp.max(jnp.abs(change)) < 0.5
    law = jax.nn.softmax(theirs)
    near = jnp.log1p(jnp.sum(law * jnp.expm1(jnp.where(small, change, 0.0))))
    far = jax.nn.logsumexp(ours) - jax.nn.logsumexp(theirs)
    return jnp.where(never, 0.0, change - jnp.where(small, near, far))


def _toss(record, twin):
    """Log-ratios of False and True, from parts of the probability whose change is precise."""
    if record.value.ndim == 0:
        both = (jnp.clip(jnp.stack([1.0 - p, p]), 0.0, 1.0) for p in (record.value, twin.value))
        return _log_ratios(*both)
    ours, theirs = (jnp.clip(jnp.sum(run.value), 0.0, 1.0) for run in (record, twin))
    change = jnp.sum(record.value - twin.value)
    ratios = jnp.stack([jnp.log1p(-change / (1.0 - theirs)), jnp.log1p(change / theirs)])
    certain = jnp.stack([(ours == 1.0) & (theirs == 1.0), (ours == 0.0) & (theirs == 0.0)])
    return jnp.where(certain, 0.0, ratios)


def _log_ratios(ours, theirs):
    ratios = jnp.log(ours) - jnp.log(theirs)
    return jnp.where((ours == 0.0) & (theirs == 0.0), 0.0, ratios)


# The log-ratio of each outcome's probabilities in both runs, from their records.
LOG_RATIOS = {"choice": _choice, "categorical": _categorical, "coin": _toss}


def _of_draw(site, record, twin) -> Cost:
    """The cost of a draw, from the log-ratio of each outcome."""
    ratios = LOG_RATIOS[site.kind](record, twin)
    ratios = jnp.where(jnp.isnan(ratios), jnp.inf, ratios)
    ours, theirs = record.value, twin.value
    size, most = PART * jnp.maximum(jnp.abs(ours), jnp.abs(theirs)), PART
    if site.kind == "choice":
        size, most = UNITS * jnp.finfo(jnp.float32).eps * ours.size, OF_CHOICE
    same = jnp.all((ours == theirs) | (jnp.abs(ours - theirs) <= size))
    ratios = jnp.where(same & (jnp.max(jnp.abs(ratios)) <= most), 0.0, ratios)
    pure, span = jnp.max(jnp.abs(ratios)), jnp.max(ratios) - jnp.min(ratios)
    # The span bounds rho by bounded range (Cesar & Rogers 2021). It is NaN if both ratios are inf.
    span = jnp.where(jnp.isnan(span), jnp.inf, span)
    return Cost(pure, jnp.minimum(span * span / 8.0, pure * pure / 2.0), jnp.float32(0.0))


def coin_saving(site: Site, record: Record, twin: Record):
    """A coin's Renyi divergences, the larger of both directions, minus rho alpha.

    Returns:
      (128,) at most 0 up to rounding, at the orders of :func:`dpjax.privacy.renyi_divergences`.
    """
    ratios, rho = _toss(record, twin), _of_draw(site, record, twin).rho

    def law(run):
        chance = jnp.clip(jnp.sum(run.value), 0.0, 1.0)
        return jnp.stack([1.0 - chance, chance])

    divergences = jnp.maximum(
        privacy.renyi_divergences(law(record), ratios),
        privacy.renyi_divergences(law(twin), -ratios),
    )
    free = (rho == 0.0) | ~jnp.isfinite(rho)
    return jnp.where(free, 0.0, divergences - privacy.zcdp_divergences(rho))


def _least(site, record, twin) -> Cost:
    """The cost of the index of the smallest noisy value: the range of the changes over the scale.

    A common shift of all values changes nothing. Given the noise of the others, an index has the
    least value if its own noise is below some level. That level moves by at most the range.
    """
    moved = signed_shift(site, record, twin)
    span = jnp.max(moved) - jnp.min(moved)
    return of_pure(jnp.where(jnp.isnan(span), jnp.inf, span))


def _when_armed(site, record, twin) -> Cost:
    """Zero, since the comparisons of all rounds are charged together."""
    del site, record, twin
    return Cost(jnp.float32(0.0), jnp.float32(0.0), jnp.float32(0.0))


# Alternative releases --------------------------------------------------------------------------


def _far(record):
    """Releases far below and far above this one.

    Entries are moved by different distances, since code may depend only on their differences.
    """
    release = record.release
    size = jnp.abs(release).astype(jnp.float32)
    places = jnp.arange(1, release.size + 1, dtype=jnp.float32).reshape(release.shape)
    distance = (1e3 * places * (1.0 + size)).astype(release.dtype)
    return [release - distance, release + distance]


def _far_or_bare(record):
    """Releases far away on both sides, and the value without noise.

    The latter is for code that ignores unlikely releases.
    """
    release = record.release
    bare = jnp.broadcast_to(record.value, release.shape).astype(release.dtype)
    return [*_far(record), bare]


def _far_or_bare_words(record):
    """As :func:`_far_or_bare`, for the two words of a sum, within the range of int32.

    For several sums, alternating signs are tried too, for code that compares the sums.
    """
    release = record.release
    shape = release.shape[1:]
    alternating = 1 - 2 * (jnp.arange(math.prod(shape)) % 2).reshape(shape)
    signs = [1, alternating] if math.prod(shape) > 1 else [1]
    far = [release.at[0].set(side * 2**30 * sign) for sign in signs for side in (-1, 1)]
    return [*far, record.value]


def _next(record):
    """The outcomes next to the drawn one."""
    release = record.release
    return [release + 1, jnp.where(release == 0, release + 1, release - 1)]


def _other_outcomes(record):
    """Up to seven other outcomes of a drawn index."""
    release = record.release
    count = record.value.shape[-1]
    return [(release + step) % count for step in range(1, min(count, 8))]


def _opposite(record):
    return [~record.release]


RULES = {
    "value": Rule(2, _value, _of_noise, _far_or_bare),
    "words": Rule(2, _words, _of_noise, _far_or_bare_words),
    "draws": Rule(2, _words, _of_noise, _far_or_bare_words),
    "along": Rule(2, _along, _of_noise, _far_or_bare),
    "prefix": Rule(3, _prefix, _of_noise, _far),
    "flips": Rule(2, _words, _of_noise, _next),
    "choice": Rule(None, _draw, _of_draw, _other_outcomes),
    "categorical": Rule(None, _draw, _of_draw, _other_outcomes),
    "least": Rule(2, _value, _least, _other_outcomes),
    "comparison": Rule(4, _compared, _when_armed, _opposite),
    "coin": Rule(None, _draw, _of_draw, _opposite),
}
