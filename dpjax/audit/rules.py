"""Says what each kind of release of :mod:`dpjax.noise` costs, as the law of its noise has it."""

import math

import jax
import jax.numpy as jnp

from dpjax import noise
from dpjax.audit.records import Rule
from dpjax.maths import exact_sums
from dpjax.noise import Cost
from dpjax.noise.law import of_pure

# Laws whose privacy the host accounts for, and what a row of a release says of it: one integer, a
# vector, or the prefix sums of one stream.
HOST_LAWS = [law for law in noise.LAWS.values() if law.epsilon or law.together]
ONE, VECTOR, PREFIXES = 0, 1, 2

# A difference of at most UNITS units in the last place counts as rounding where it costs at most
# ROUNDING of epsilon.
UNITS, ROUNDING = 4.0, 1e-5


# How releases are read -------------------------------------------------------------------------


def _scale_of(value, scale):
    """The scale in the dtype of the value. On integers noise rounds away, so its scale is 0."""
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return jnp.float32(0.0)
    return jnp.asarray(scale, value.dtype)


def _value(site, key, value, scale):
    del site, key
    return value, _scale_of(value, scale), ()


def _words(site, key, value, scale):
    del site, key
    return value, jnp.asarray(scale, jnp.float32), ()


def _draws(site, key, value, scale, count):
    del site, key
    # A sum of no draws adds no noise.
    count = jnp.broadcast_to(jnp.asarray(count), value.shape[1:])
    return value, jnp.where(count > 0, jnp.asarray(scale, jnp.float32), 0.0), (count,)


def _flips(site, key, value, scale, count):
    del site, key
    return value, jnp.asarray(scale, jnp.float32), (count,)


def _along(site, key, value, scale, weights):
    del site, key
    return value, scale * jnp.max(jnp.abs(weights)), (weights,)


def _prefix(site, key, noisy, value, scale):
    del key, noisy
    return value, _scale_of(value, scale) / site.sensitivity[site.law.norm - 1], ()


def _compared(site, key, armed, threshold, value, scale):
    del site, key
    return value, jnp.asarray(scale, jnp.float32), (threshold, armed)


def _draw(site, key, probabilities):
    del site, key
    return probabilities, jnp.float32(1.0), ()


# What they cost --------------------------------------------------------------------------------


def _units(change, scale):
    """A change divided by the scale of the noise; infinite where no noise hides it."""
    units = change / jnp.abs(scale)
    # NaN if the scale or the change is NaN, and for 0 / 0.
    return jnp.where(jnp.isnan(units), jnp.inf, units)


def _shift(record, twin):
    """|x - x'| / b for each coordinate; infinite where no noise hides a change."""
    ours, theirs = record.value, twin.value
    same = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    change = jnp.abs(ours - theirs).astype(jnp.float32)
    units = _units(change, record.scale)
    largest = jnp.maximum(jnp.abs(ours), jnp.abs(theirs))
    rounded = change <= UNITS * jnp.finfo(jnp.float32).eps * largest.astype(jnp.float32)
    return jnp.where(same | (rounded & (units <= ROUNDING)), 0.0, units)


def _shift_of_words(record, twin):
    """As :func:`_shift`, for the two words (2, *shape) of an ExactSum. Nothing is rounding here."""
    whole, part = (record.value - twin.value).astype(jnp.float32)
    change = jnp.abs(whole + exact_sums.UNIT * part)
    return jnp.where(change == 0.0, 0.0, _units(change, record.scale))


def shift_of_prefix(site, record, twin):
    """By how many scales of a draw each entry of a value changes, with its sign, (size,)."""
    change = jnp.sign(record.value - twin.value) * _shift(record, twin)
    return change.reshape(-1) / site.sensitivity[site.law.norm - 1]


def shift_of_comparison(record, twin):
    """By how many scales the compared value is larger in the second run, ()."""
    return jnp.sign(twin.value - record.value) * _shift(record, twin)


def _counted_when_armed(site, record, twin) -> Cost:
    """Nothing, since the comparisons of all rounds are charged together."""
    del site, record, twin
    return Cost(jnp.float32(0.0), jnp.float32(0.0), jnp.float32(0.0))


def _shift_of_integers(record, twin):
    """As :func:`_shift`; infinite where the change is no integer, which integers do not hide."""
    change = record.value - twin.value
    return jnp.where(change == jnp.round(change), _shift(record, twin), jnp.inf)


def _of_value(site, record, twin) -> Cost:
    """Of a value with noise: what the law says of its change, or nothing if the host counts it."""
    units = (_shift_of_integers if site.law.integers else _shift)(record, twin)
    return _hidden(units) if site.law.cost is None else site.law.cost(units)


def _hidden(units) -> Cost:
    """Nothing where the host computes the cost; infinite where no noise hides the change."""
    cost = jnp.where(jnp.isinf(jnp.sum(units)), jnp.inf, 0.0)
    return Cost(cost, cost, jnp.float32(0.0))


def _of_words(site, record, twin) -> Cost:
    """As :func:`_of_value`, for the words of exact sums. Of integers the host counts each sum."""
    units = _units_of_words(site, record, twin)
    return _hidden(units) if site.law.epsilon is not None else site.law.cost(units)


def _units_of_words(site, record, twin):
    if not site.law.integers:
        return _shift_of_words(record, twin)
    change, hidden = _change_of_integers(record, twin)
    units = jnp.where(hidden, change / record.scale, jnp.inf)
    return jnp.where(change == 0.0, 0.0, units)


def _change_of_integers(record, twin):
    """By how much a sum changes, and whether that is an integer and some noise hides it."""
    whole, part = record.value - twin.value
    change = jnp.abs(whole.astype(jnp.float32) + exact_sums.UNIT * part.astype(jnp.float32))
    return change, (part == 0) & (record.scale > 0.0)


def _of_flips(site, record, twin) -> Cost:
    """A bit that changes costs epsilon, as a Laplace sum pays for a change of 1."""
    del site
    return of_pure(jnp.sum(_shift(record, twin)))


def is_counted_by_host(site) -> bool:
    """Whether the host says what a release costs."""
    law = site.law
    if site.kind == "words":
        return law.epsilon is not None
    return site.kind in ("value", "prefix") and law.cost is None


def host_row(site, record, twin):
    """What the host needs to know of a release that it accounts for, (5,).

    ONE, VECTOR or PREFIXES; the place of the law; the scale; the L1 and L2 norms of the change.
    """
    place = HOST_LAWS.index(site.law)
    if site.kind == "words":
        change, hidden = _change_of_integers(record, twin)
        l1 = l2 = jnp.round(change)
        kind, scale = ONE, record.scale
    else:
        hidden = jnp.isfinite(jnp.sum(_shift_of_integers(record, twin)))
        change = jnp.abs(record.value - twin.value).reshape(-1).astype(jnp.float32)
        of_l1, of_l2 = site.sensitivity or (1.0, 1.0)
        l1, l2 = of_l1 * jnp.sum(change), of_l2 * jnp.sqrt(jnp.sum(jnp.square(change)))
        kind = VECTOR if site.sensitivity is None else PREFIXES
        if site.law.together is None:  # a law of one integer
            kind = ONE
        scale = record.scale * (1.0 if site.sensitivity is None else of_l2)
    row = jnp.stack([jnp.asarray(x, jnp.float32).reshape(()) for x in (kind, place, scale, l1, l2)])
    return jnp.where(hidden, row, 0.0)


def shared_rows(rows):
    """Rows (T - 1, n, 5), where those of one stream of prefix sums have become a single one.

    Several changed values of a stream share their noise: at most the norms of the changes add up.
    """
    prefixes = (rows[..., 0] == PREFIXES)[..., None]
    changed = jnp.where(prefixes, rows, 0.0)
    norms = jnp.sum(changed[..., 3:], axis=0)
    scale = jnp.min(jnp.where(prefixes, rows, jnp.inf)[..., 2], axis=0)
    row = jnp.concatenate([jnp.max(changed[..., :2], axis=0), scale[:, None], norms], axis=-1)
    row = jnp.where(row[:, :1] > 0.0, row, 0.0)
    return jnp.concatenate([jnp.where(prefixes, 0.0, rows), row[None]])


def _choice(site, record, twin) -> Cost:
    del site
    return _of_ratios(record.value / jnp.sum(record.value), twin.value / jnp.sum(twin.value))


def _categorical(site, record, twin) -> Cost:
    """Of softmax(x) and softmax(x'): for small changes u = x - x' by u - ln sum p' e^u."""
    del site
    ours, theirs = (each.value - jnp.max(each.value) for each in (record, twin))
    never = (ours == -jnp.inf) & (theirs == -jnp.inf)
    change = jnp.where(never, 0.0, ours - theirs)
    small = jnp.max(jnp.abs(change)) < 0.5
    law = jax.nn.softmax(theirs)
    near = jnp.log1p(jnp.sum(law * jnp.expm1(jnp.where(small, change, 0.0))))
    far = jax.nn.logsumexp(ours) - jax.nn.logsumexp(theirs)
    return _of_log_ratios(jnp.where(never, 0.0, change - jnp.where(small, near, far)))


def _least(site, record, twin) -> Cost:
    """Of the smallest of noisy values: the range of their changes over the scale.

    A common shift of all values changes nothing. Given the noise of the others, an index is the
    least where its own noise is below some level. That level moves by the range at most.
    """
    del site
    moved = jnp.sign(record.value - twin.value) * _shift(record, twin)
    span = jnp.max(moved) - jnp.min(moved)
    return of_pure(jnp.where(jnp.isnan(span), jnp.inf, span))


def _toss(site, record, twin) -> Cost:
    """Of a coin by the parts of its probability, a change of which keeps its digits."""
    del site
    if record.value.ndim == 0:
        both = (jnp.clip(jnp.stack([p, 1.0 - p]), 0.0, 1.0) for p in (record.value, twin.value))
        return _of_ratios(*both)
    ours, theirs = (jnp.clip(jnp.sum(each.value), 0.0, 1.0) for each in (record, twin))
    change = jnp.sum(record.value - twin.value)
    ratios = jnp.stack([jnp.log1p(change / theirs), jnp.log1p(-change / (1.0 - theirs))])
    certain = jnp.stack([(ours == 0.0) & (theirs == 0.0), (ours == 1.0) & (theirs == 1.0)])
    return _of_log_ratios(jnp.where(certain, 0.0, ratios))


def _of_ratios(ours, theirs) -> Cost:
    """The cost of a draw, from the probabilities of its outcomes in both runs."""
    ratios = jnp.log(ours) - jnp.log(theirs)
    return _of_log_ratios(jnp.where((ours == 0.0) & (theirs == 0.0), 0.0, ratios))


def _of_log_ratios(ratios) -> Cost:
    """The cost of a draw, from the log-ratio of each outcome."""
    ratios = jnp.where(jnp.isnan(ratios), jnp.inf, ratios)
    ratios = jnp.where(jnp.abs(ratios) < 1e-6, 0.0, ratios)
    pure, span = jnp.max(jnp.abs(ratios)), jnp.max(ratios) - jnp.min(ratios)
    # The span bounds rho by bounded range (Cesar & Rogers 2021). It is NaN for two ratios of inf.
    span = jnp.where(jnp.isnan(span), jnp.inf, span)
    return Cost(pure, jnp.minimum(span * span / 8.0, pure * pure / 2.0), jnp.float32(0.0))


# What else could have come out -----------------------------------------------------------------


def _far(record):
    """Releases far below and far above this one.

    Entries are moved by different distances, since code may look at their differences alone.
    """
    release = record.release
    size = jnp.abs(release).astype(jnp.float32)
    places = jnp.arange(1, release.size + 1, dtype=jnp.float32).reshape(release.shape)
    distance = (1e3 * places * (1.0 + size)).astype(release.dtype)
    return [release - distance, release + distance]


def _far_or_bare(record):
    """Releases far away on both sides, and the value without noise.

    The latter reaches code that ignores unlikely releases.
    """
    release = record.release
    bare = jnp.broadcast_to(record.value, release.shape).astype(release.dtype)
    return [*_far(record), bare]


def _far_or_bare_words(record):
    """As :func:`_far_or_bare`, for the two words of a sum, within the range of int32.

    Of several sums every other one is also far on the other side, which code that compares them
    does not ignore.
    """
    release = record.release
    shape = release.shape[1:]
    alternating = 1 - 2 * (jnp.arange(math.prod(shape)) % 2).reshape(shape)
    signs = [1, alternating] if math.prod(shape) > 1 else [1]
    far = [release.at[0].set(side * 2**30 * sign) for sign in signs for side in (-1, 1)]
    return [*far, record.value]


def _next(record):
    """The outcomes next to the one that was drawn."""
    release = record.release
    return [release + 1, jnp.where(release == 0, release + 1, release - 1)]


def _other_outcomes(record):
    """Up to seven other outcomes of a draw of an index, which are all of them for eight."""
    release = record.release
    count = record.value.shape[-1]
    return [(release + step) % count for step in range(1, min(count, 8))]


def _opposite(record):
    return [~record.release]


RULES = {
    "value": Rule(2, _value, _of_value, _far_or_bare),
    "words": Rule(2, _words, _of_words, _far_or_bare_words),
    "draws": Rule(2, _draws, _of_words, _far_or_bare_words),
    "along": Rule(2, _along, _of_value, _far_or_bare),
    "prefix": Rule(3, _prefix, _of_value, _far),
    "flips": Rule(2, _flips, _of_flips, _next),
    "choice": Rule(None, _draw, _choice, _other_outcomes),
    "categorical": Rule(None, _draw, _categorical, _other_outcomes),
    "least": Rule(2, _value, _least, _other_outcomes),
    "comparison": Rule(4, _compared, _counted_when_armed, _opposite),
    "coin": Rule(None, _draw, _toss, _opposite),
}
