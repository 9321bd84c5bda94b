"""Replays: recompute a run on neighbouring losses, with the released values held fixed."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr
from jax.extend.core import ClosedJaxpr

from dpjax import privacy
from dpjax.audit import comparisons, streams, visits
from dpjax.audit._pairs import Pair, check_fits, check_neighbours
from dpjax.audit.keys import bare, distinct, drawn, ever_bare, is_prefix
from dpjax.audit.records import draw, of_members, record
from dpjax.audit.reports import reported
from dpjax.audit.rules import (
    ROUNDING,
    RULES,
    UNITS,
    coin_saving,
    host_row,
    is_counted_by_host,
    shared_rows,
    shift_of_prefix,
    signed_shift,
)
from dpjax.combinators import as_learner
from dpjax.core import Array, BatchLearner, Learner, Mechanism, PyTree
from dpjax.domains import Domain
from dpjax.engine.settings import in_float32
from dpjax.game.rounds import first_arguments, step_arguments
from dpjax.noise.release import Site

# Members of a release under jax.vmap are exchanged one by one if there are at most this many.
_MOST_MEMBERS = 32


class Replay(NamedTuple):
    """The privacy loss of a replayed run. All checks, from ``noise_seen`` on, must be true."""

    pure: Array  # () privacy loss of Laplace noise, draws and coins, by basic composition
    rho: Array  # () privacy loss of all these releases and of Gaussian noise, in zCDP
    gaussian: Array  # () the part of rho that comes from Gaussian noise
    saving: Array  # (128,) at most 0: correction to rho alpha from the Renyi divergences of coins,
    # at the orders of dpjax.privacy.renyi_divergences
    # (n, 5) releases that are accounted for on the host and not counted in pure and rho
    # (dpjax.audit.rules.host_row): the kind of value, the law, the scale, and the L1 and L2 norms
    # of the hidden change.
    integer: Array
    reached: Array  # (rounds, n) bool, the releases that the change of the losses reaches
    noise_seen: Array  # () bool: there is a release, or nothing depends on the losses
    same_actions: Array  # () bool: actions depend on the losses only through releases
    same_scales: Array  # () bool: noise scales depend on the losses only through releases
    same_keys: Array  # () bool: keys depend on the losses only through releases
    fresh_keys: Array  # () bool: a release's key draws nothing else, and differs in another run

    @property
    def touched(self) -> Array:
        """How many releases the change of the losses reaches, () int.

        Examples:
          >>> learner = audit.releases(mechanisms.tree(4), (), scale=1.0)
          >>> pair = audit.Pair(jnp.array([1.0, 1.0, 0.0, 0.0]), jnp.zeros(4))
          >>> private = learner.privacy._replace(rounds_per_user=2)
          >>> replayed = audit.replay(learner._replace(privacy=private), pair, jax.random.key(0))
          >>> int(replayed.touched)
          2
        """
        return self.reached.sum((-2, -1))


@in_float32
def replay(
    learner: Learner | BatchLearner, pair: Pair, key: Array, *, mechanism: Mechanism | None = None
) -> Replay:
    """Run a learner on both sequences of a pair and add up the privacy loss of their difference.

    The second run uses the keys and the released values of the first. So the runs differ only in
    the losses. If noise was added to x in one run and to x' in the other, the cost of the release
    is

    - |x - x'|_1 / b for Laplace noise;
    - (|x - x'|_2 / sigma)^2 / 2 in zCDP for Gaussian noise;
    - for a draw, the largest log-ratio of an outcome's probabilities; for a coin, its Renyi
      divergences;
    - for all comparisons with one noisy threshold together, the cost of a shift of both noise draws
      (:mod:`dpjax.audit.comparisons`);
    - for integer noise, the cost that its law gives for a change by an integer or by a vector of
      integers (other changes are not hidden);
    - for a mechanism, the change of the value times the norm of its encoder's columns, divided by
      the scale. Changes of several values share noise; the sum of their norms is an upper bound.

    A release costs nothing if the learner does not use it. This is tested with other releases in
    its place (far below, far above, and the value without noise): none may change the state, the
    action, or the inputs of a used release. A value of a mechanism enters all later prefix sums,
    and costs nothing only if the learner uses none of them.

    The actions of all rounds must be the same in both runs. So must the fields of the report that
    the learner declares as released (``Privacy.reported``). The hidden state and the rest of the
    report may differ. The losses of the last round are used only if the learner releases a part of
    its report.

    The sums bound the privacy loss of the releases at these losses and this key. They show nothing
    about other pairs. A difference within four units in the last place of a float32 counts as
    rounding. If it is hidden by noise, it counts as rounding only if it costs less than 1e-5; in an
    ExactSum it never does. A draw costs nothing if its inputs change by less than a millionth of
    themselves and its log-ratios are below 1e-6. Probabilities of n outcomes may each change by
    4 n units of 2^-23, if the log-ratios are below 1e-4. A replay sees only noise from
    :mod:`dpjax.noise`. Other noise makes the actions differ.

    Args:
      learner: a Learner or BatchLearner. Its arguments may be traced.
      pair: a Pair of losses as the learner's ``feedback`` takes them, with the learner's horizon.
      key: PRNG key of the run.
      mechanism: the mechanism with which the learner releases prefix sums, if there is only one.
        Changes of several values are then charged exactly, by its matrix C, not by a bound.

    Returns:
      A Replay, which :func:`dpjax.audit.spent` converts into an epsilon. ``replay`` may be mapped
      over pairs, keys and the learner's parameters, and compiled.

    Raises:
      ValueError: the sequences differ in shape, in no round, or in more than the learner's
        ``rounds_per_user``; are not finite (if they are not traced); or do not fit the learner. A
        release is in a loop whose number of rounds is not fixed or exceeds 256.

    Examples:
      >>> learner = audit.releases(mechanisms.tree(2), (), scale=1.0)
      >>> pair = audit.Pair(jnp.array([1.0, 0.0]), jnp.zeros(2))
      >>> replayed = jax.jit(lambda key: audit.replay(learner, pair, key))(jax.random.key(0))
      >>> float(replayed.pure)  # a change by 1 over the scale
      1.0
    """
    learner = as_learner(learner)
    rounds = check_neighbours(pair, learner.privacy.rounds_per_user)
    check_fits(learner, pair.losses)
    # A second run uses another key, to check that keys change. No round has the number 2^32 - 1.
    keys = jnp.stack([key, jr.fold_in(key, np.uint32(2**32 - 1))])
    reach = learner.action_set.diameter if isinstance(learner.action_set, Domain) else 0.0
    begin = _traced(learner.init, key)
    starts, first_records = jax.vmap(lambda key: _run(begin, (jr.fold_in(key, 0),)))(keys)
    state, action = _row(starts, 0)

    def arguments(key, t, states, losses):
        return step_arguments(learner, key, t, states, losses)[0]

    step = _traced(learner.step, *first_arguments(learner, key, _row(pair.losses, 0)))

    def one_round(carry, inputs):
        (states, actions), (twin, twin_action) = carry
        t, losses, others = inputs
        worlds = jax.vmap(lambda key, *run: arguments(key, t, run, losses))(keys, states, actions)
        after, both = jax.vmap(lambda *world: _run(step, world))(*worlds)
        records, world = _row(both, 0), _row(worlds, 0)
        twin_world = arguments(keys[0], t, (twin, twin_action), others)

        # The lanes are the second run with one release exchanged, for each release in turn, then
        # the second run as it is, then the first run. They are one batch, so that all are computed
        # alike to the last bit.
        releases, spans, lanes = _variants(step.sites, records)

        def lane(index, forced):
            chosen = jax.tree.map(
                lambda ours, theirs: jnp.where(index == lanes - 1, ours, theirs), world, twin_world
            )
            return _run(step, chosen, forced)

        results, lane_records = jax.vmap(lane)(jnp.arange(lanes), releases)
        usual, twin_records = _row((results, lane_records), -2)
        differs = jnp.stack([_differs(leaf) for leaf in _leaves(results)]).any(axis=0)
        used = _used(step.sites, spans, differs, lane_records)
        costs = _costs(step.sites, records, twin_records, used)
        actual = _row(results, -1)
        # Small entries of a point or a policy may be differences of large terms.
        same = _close(actual[1], usual[1], lambda sizes: jnp.maximum(_largest(sizes), reach))
        after = jax.tree.map(lambda ours, both: jnp.stack([ours, both[1]]), actual, after)
        return (after, usual), (
            costs,
            (same, ~differs[-1]),
            drawn(step.sites, both),
            bare(step.sites, both),
        )

    # No action depends on the last losses, but the report does.
    last = rounds if learner.privacy.reported else rounds - 1
    inputs = jax.tree.map(lambda leaf: leaf[:last], (pair.losses, pair.others))
    (ends, (twin_end, _)), (costs, (same, idle), (rows, stale), unhidden) = lax.scan(
        one_round, (starts, (state, action)), (jnp.arange(1, last + 1), *inputs)
    )
    same_report = _close(*(reported(learner, end) for end in (_row(ends[0], 0), twin_end)))
    prefix = np.array([is_prefix(site) for site in _releases(step.sites)], bool)
    costs = _of_used(prefix, costs)
    seen = bool(_releases(begin.sites) or prefix.size)
    begin_rows, begin_stale = drawn(begin.sites, first_records)
    rows = jnp.concatenate([begin_rows, rows.reshape(-1, 4)])
    stale = jnp.any(stale) | begin_stale | ever_bare(unhidden)
    armed = jnp.zeros(2)
    for numbers, words in costs.compared:
        *totals, thresholds = comparisons.costs(numbers, words)
        armed += jnp.stack(totals)
        rows = jnp.concatenate([rows, thresholds])
    missed = (
        streams.shared(costs.costs[:, prefix, :3])
        if mechanism is None
        else streams.encoded(costs.costs[:, prefix, :3], costs.shifts, mechanism)
    )
    total = jnp.sum(costs.costs, axis=(0, 1))
    rho, gaussian, pure = total[:3] + missed
    return Replay(
        pure=pure + armed[0],
        rho=rho + armed[1],
        gaussian=gaussian,
        saving=total[3:],
        integer=shared_rows(costs.integer).reshape(-1, 5),
        reached=costs.reached,
        noise_seen=jnp.bool(seen) | jnp.all(idle),
        same_actions=jnp.all(same) & same_report,
        same_scales=jnp.all(costs.same_scales),
        same_keys=jnp.all(costs.same_keys),
        fresh_keys=distinct(rows) & ~stale,
    )


# One round of one run --------------------------------------------------------------------------


class _Traced(NamedTuple):
    program: ClosedJaxpr  # a ClosedJaxpr
    structure: PyTree  # the tree structure of its result
    sites: list  # its releases, and the names of other primitives that use keys


def _traced(function, *arguments) -> _Traced:
    program, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    return _Traced(program, jax.tree.structure(shape), visits.sites(program))


def _run(traced, arguments, forced=None):
    """(result of the function, records of its sites), with the releases ``forced`` if given."""

    def visit(index, site, function, inputs):
        outputs = function(*inputs)
        if not isinstance(site, Site):
            return outputs, draw(inputs[0])
        entry = record(RULES[site.kind], site, inputs, outputs[0])
        return outputs if forced is None else [forced[index]], entry

    leaves = jax.tree.leaves(arguments)
    outputs, records = visits.run(traced.program, leaves, visit)
    return jax.tree.unflatten(traced.structure, outputs), records


def _releases(sites) -> list:
    return [site for site in sites if isinstance(site, Site)]


def _row(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _variants(sites, records):
    """The releases of a batch of runs, one lane for each.

    Returns:
      (releases, spans, lanes). ``releases`` are the releases of each site, with a leading axis of
      lanes, and ``spans`` the slice of lanes in which each site's release is exchanged. ``lanes``
      is the number of lanes. The last two lanes exchange nothing.
    """
    others = [
        _others(site, entry) if isinstance(site, Site) else []
        for site, entry in zip(sites, records, strict=True)
    ]
    lanes = sum(map(len, others)) + 2
    releases, spans, first = [], [], 0
    for entry, mine in zip(records, others, strict=True):
        span = slice(first, first + len(mine))
        rows = [mine[lane - first] if span.start <= lane < span.stop else entry.release
                for lane in range(lanes)]  # fmt: skip
        releases.append(jnp.stack(rows) if mine else None)
        spans.append(span)
        first = span.stop
    return releases, spans, lanes


def _others(site, record) -> list:
    """Other releases to try instead of one: all its members at once, and each by itself.

    A release with too many members has none, and always counts as used.
    """
    together = of_members(RULES[site.kind].others, site, record)
    if not site.mapped:
        return together
    release, axes = record.release, len(site.mapped)
    members = release.shape[:axes]
    count = int(np.prod(members))
    if count > _MOST_MEMBERS:
        return []
    places = np.arange(count).reshape(*members, *[1] * (release.ndim - axes))
    return together + [
        jnp.where(places == i, other, release) for i in range(count) for other in together
    ]


def _used(sites, spans, differs, records) -> list:
    """Whether each release changes the state, the action, or the inputs of a later used release.

    ``differs`` (lanes,) says in which lanes the state or the action differs. A release without
    alternatives to try counts as used.
    """
    used: list = []
    for site, span, entry in reversed([*zip(sites, spans, records, strict=True)]):
        untried = isinstance(site, Site) and span.start == span.stop
        used.insert(0, differs[span].any() | untried)
        for leaf in _leaves((entry.value, entry.scale, entry.law)):
            differs = differs | (used[0] & _differs(leaf))
    return used


# The differences between both runs --------------------------------------------------------------


class _Costs(NamedTuple):
    """The costs of the n releases of one round, as if all were used, and which of them are used."""

    costs: Array  # (n, 131) rho, gaussian, pure, and the saving of a coin's divergences
    reached: Array  # (n,) bool, whether the values differ
    used: Array  # (n,) bool
    integer: Any  # for each release its rows (m, 5); m is 0 unless it is accounted for on the host
    same_scales: Array
    same_keys: Array
    shifts: tuple  # for each release of prefix sums an array: the change of each of its values, in
    # noise scales
    compared: tuple  # (numbers, key) of each comparison with a noisy threshold


def _costs(sites, records, twins, used) -> _Costs:
    """The costs of one round."""
    costs, reached, matters, rows = [], [], [], []
    nothing = privacy.zcdp_divergences(0.0)
    same_scales = same_keys = jnp.bool(True)
    shifts, compared = [], []
    for site, entry, twin, needed in zip(sites, records, twins, used, strict=True):
        if not isinstance(site, Site):
            continue

        def of_both(function, entry=entry, twin=twin, site=site):
            return of_members(partial(function, site), site, entry, twin)

        both = entry.active & twin.active
        counts = needed & both
        spent = (jnp.sum(part) for part in of_both(RULES[site.kind].cost))
        pure, rho, gaussian = (jnp.where(both, part, 0.0) for part in spent)
        saved = nothing
        if site.kind == "coin":
            saved = jnp.where(both, of_both(coin_saving).reshape(-1, nothing.size).sum(axis=0), 0.0)
        costs.append(jnp.concatenate([jnp.stack([rho, gaussian, pure]), saved]))
        charged = rho > 0.0
        rows.append(jnp.zeros((0, 5)))
        if is_counted_by_host(site):
            rows[-1] = jnp.where(both, of_both(host_row), 0.0).reshape(-1, 5)
            charged |= jnp.any(rows[-1][:, 3] > 0.0)
        if is_prefix(site):
            shifts.append(jnp.where(both, of_both(shift_of_prefix), 0.0).reshape(-1))
        if site.kind == "comparison":
            units = -signed_shift(site, entry, twin)
            compared.append(comparisons.row(entry, units, counts))
            charged = units != 0.0
        reached.append(charged & both)
        matters.append(needed & (entry.active | twin.active))
        same_scales &= _same_law(site, entry, twin) | ~counts
        # If only one run takes a branch, the use of keys differs too.
        same_keys &= jnp.all(entry.key == twin.key) & (entry.active == twin.active)
    return _Costs(
        jnp.stack(costs) if costs else jnp.zeros((0, 3 + nothing.size)),
        jnp.stack(reached) if costs else jnp.zeros(0, bool),
        jnp.stack(matters) if costs else jnp.zeros(0, bool),
        tuple(rows),
        same_scales,
        same_keys,
        tuple(shifts),
        tuple(compared),
    )


def _of_used(prefix, costs) -> _Costs:
    """The costs of all rounds (rounds, n, ...), with 0 for unused releases.

    A value of a mechanism enters the releases of all later rounds. Its cost is kept if any of them
    is used.

    Args:
      prefix: (n,) bool, which releases of a round are prefix sums.
      costs: _Costs with a leading axis of rounds.
    """
    later = lax.cummax(costs.used.astype(jnp.int32), reverse=True) > 0
    used = jnp.where(prefix[None], later, costs.used)
    shifts = zip(costs.shifts, used.T[prefix], strict=True)
    rows = [jnp.where(of_site[:, None, None], row, 0.0)
            for row, of_site in zip(costs.integer, used.T, strict=True)]  # fmt: skip
    return costs._replace(
        costs=jnp.where(used[..., None], costs.costs, 0.0),
        reached=costs.reached & used,
        used=used,
        integer=jnp.concatenate([*rows, jnp.zeros((len(used), 0, 5))], axis=1),
        shifts=tuple(jnp.where(of_site[:, None], shift, 0.0) for shift, of_site in shifts),
    )


def _differs(variants):
    """Which of the variants (V, ...) of an array differ from the second to last, (V,) bool."""
    unequal = variants != variants[-2:-1]
    return unequal.reshape(len(variants), -1).any(axis=1)


def _same_law(site, entry, twin):
    """Whether the noise of a release has the same law in both runs.

    Both runs compute the weights of noise along a point. Their rounding is not that of one number.
    """
    both = (entry.scale, entry.law), (twin.scale, twin.law)
    if site.kind != "along":
        return _close(*both)
    parts = ROUNDING / (UNITS * np.finfo(np.float32).eps)
    return _close(*both, lambda sizes: parts * _largest(sizes))


def _close(tree, other, unit=lambda size: size):
    """Whether two pytrees are equal, up to UNITS units in the last place of ``unit(sizes)``.

    Both runs compute actions in the same way, but may round them differently.
    """
    pairs = zip(_leaves(tree), _leaves(other), strict=True)
    return jnp.all(jnp.array([jnp.all(_near(a, b, unit)) for a, b in pairs]))


def _near(a, b, unit):
    if jnp.issubdtype(a.dtype, jnp.inexact):
        rounding = UNITS * jnp.finfo(a.dtype).eps * unit(jnp.maximum(jnp.abs(a), jnp.abs(b)))
        return (a == b) | (jnp.isnan(a) & jnp.isnan(b)) | (jnp.abs(a - b) <= rounding)
    return a == b


def _largest(sizes):
    return jnp.max(jnp.where(jnp.isfinite(sizes), sizes, 0.0), initial=0.0)


def _leaves(tree):
    for leaf in jax.tree.leaves(tree):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jr.key_data(leaf)
        yield leaf
