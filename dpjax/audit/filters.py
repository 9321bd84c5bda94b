"""Particle filters for the likelihood ratio of a learner's actions.

Let P and P' be the laws of the actions a on the two sequences of a pair, and let x be all releases
within a run. With the same x and the same other draws, both sequences lead to the same actions. So

    P'(a) = E_P[r(x) 1{a}],   r(x) = the product of f'(x_j) / f(x_j) over releases j,

where f and f' are the densities of a release given those before it. The weight r has a heavy tail.
So a filter draws from the mixture M = (P + P') / 2, under which the weights are bounded:

    P(a) = E_M[2 / (1 + r) 1{a}],   P'(a) = E_M[2 r / (1 + r) 1{a}].

A particle is a run that played a so far. It holds ln r and the states of two worlds, which saw one
sequence each and the same releases. In each round one of the worlds draws the noise. This world is
chosen at random, with its probability given the releases so far. ``docs/audit/revealed.md`` has the
proofs.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax import random as jr
from jax.extend.core import ClosedJaxpr, Jaxpr

from dpjax.audit import visits
from dpjax.audit.densities import OUTCOMES, log_density, outcomes, refusal
from dpjax.audit.reports import reported
from dpjax.combinators import as_learner
from dpjax.core import Array, PyTree
from dpjax.core._versions import jaxprs_in_params
from dpjax.feedback import seen_inside
from dpjax.game.rounds import first_arguments, step_arguments
from dpjax.noise.release import Site, release_p

# The draws of a round are enumerated if they have at most this many joint outcomes.
MOST_LANES = 64
# The largest relative error at which a prefix sum of the twin counts as equal.
ROUNDING = 1e-4
# Steps of Newton's method that restore the mean of r / (1 + r).
NEWTON = 3
# The least mean of r / (1 + r)^2 at which the mean is restored; 1 / 4 is the largest possible.
UNDECIDED = 0.1
REFUSED = "learner: the privacy loss of its actions cannot be computed:"


class Unknown(ValueError):
    """The density of some release is not known."""


class Draw(NamedTuple):
    """A site in one run."""

    active: Array  # () bool, whether its branch was taken
    log: Array  # () the log-density of the release, or the log-probability of the outcome
    release: PyTree
    noisy: PyTree  # for prefix sums the released sum; else ()


class DrawProgram(NamedTuple):
    """A traced function of a learner, and its enumerated draws."""

    closed: ClosedJaxpr
    structure: PyTree  # the tree structure of its result
    sites: list
    sizes: dict  # the number of outcomes of each enumerated site
    early: bool  # whether no noise depends on an enumerated outcome
    shifted: dict  # for each site of prefix sums, the site of the new noise in them

    @property
    def lanes(self) -> list:
        """All joint outcomes of the enumerated sites."""
        return list(itertools.product(*map(range, self.sizes.values())))


class Filtered(NamedTuple):
    """The result of a filter for one history."""

    log_ratio: Array  # () ln P'(a) / P(a), 0 if no particle played a
    log_chances: tuple[Array, Array]  # () ln P(a) and ln P'(a)
    moved: Array  # () bool, whether the noise of all prefix sums could be moved
    known: Array  # () bool, whether the history determines all enumerated outcomes


class Played(NamedTuple):
    """A run on one of the sequences."""

    history: PyTree  # as audit.play returns it
    lanes: Array  # (rounds + 1,) the outcomes drawn at enumerated sites
    key: Array
    second: Array  # () bool, whether it was on the second sequence


class Lanes(NamedTuple):
    """A step of a particle with each outcome of the enumerated draws, (lanes,) or ()."""

    lead: Array  # ln of the probability of the outcome and the action in the world that drew
    twin: Array  # the same in the other world
    noise: Array  # ln of the density ratio, twin over own, of all other draws of the round
    moved: Array  # bool, whether the noise of prefix sums could be moved
    worlds: PyTree  # the states of the world that drew and of its twin
    idle: Array  # bool, whether no enumerated draw was made


def traced(function: Callable, *arguments) -> DrawProgram:
    """Trace a function. Raises Unknown if the density of one of its releases is not known."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    sites, counts = visits.sites(closed), {}
    for site in sites:
        if isinstance(site, Site) and (reason := refusal(site)):
            raise Unknown(f"{REFUSED} {reason}")

    def visit(index, site, function, inputs):
        if isinstance(site, Site) and site.kind in OUTCOMES and not site.mapped:
            counts[index] = len(outcomes(site, inputs))
        return function(*inputs), ()

    leaves = jax.tree.leaves(jax.eval_shape(lambda *xs: xs, *arguments))
    jax.eval_shape(lambda xs: visits.run(closed, xs, visit)[0], leaves)
    sizes: dict = {}
    for index, count in sorted(counts.items()):
        if math.prod(sizes.values()) * count <= MOST_LANES:
            sizes[index] = count
    noisy = [i for i, site in enumerate(sites) if isinstance(site, Site) and i not in sizes]
    shifted: dict = {}
    drawn: dict = {}  # the latest separate draw of each law
    for i, site in enumerate(sites):
        if isinstance(site, Site) and site.kind == "value":
            drawn[site.law] = i
        elif isinstance(site, Site) and site.kind == "prefix":
            if site.law not in drawn or site.mapped:
                raise Unknown(f"{REFUSED} its prefix sums draw no noise of their own")
            shifted[i] = drawn[site.law]
    early = max(noisy, default=-1) < min(sizes, default=len(sites))
    return DrawProgram(closed, jax.tree.structure(shape), sites, sizes, early, shifted)


def run(program: DrawProgram, arguments: Sequence, chosen=None, releases=None) -> tuple[Any, list]:
    """The result of a DrawProgram, and the Draw of each site.

    Args:
      program: a DrawProgram.
      arguments: the arguments of the function.
      chosen: the outcome of each enumerated site, by its number; None to draw them.
      releases: releases of all sites, used instead of drawn ones.
    """

    def visit(index, site, function, inputs):
        if not isinstance(site, Site):
            return function(*inputs), ()
        if releases is not None:
            released = releases[index]
        elif chosen is not None and index in chosen:
            kind = jnp.bool_ if site.kind in ("coin", "comparison") else jnp.int32
            released = chosen[index].astype(kind)
        else:
            released = function(*inputs)[0]
        noisy = inputs[1] if site.kind == "prefix" else ()
        density = log_density(site, inputs, released)
        return [released], Draw(jnp.bool(True), density, released, noisy)

    outputs, draws = visits.run(program.closed, jax.tree.leaves(arguments), visit)
    return jax.tree.unflatten(program.structure, outputs), draws


def _twin(program, arguments, draws):
    """The twin's run with the same releases: (result, draws, whether this is possible).

    The twin's prefix sums y = A x + B z are made equal by changing its noise z. In each round only
    the new noise is moved, by the whole change of the values so far.
    """
    releases = [draw.release if draw else () for draw in draws]
    moved = jnp.bool(True)
    for mark, site in program.shifted.items():

        def sums(noise, mark=mark, site=site):
            trial = [*releases[:site], noise, *releases[site + 1 :]]
            return run(program, arguments, releases=trial)[1][mark].noisy

        ours, ones = draws[mark].noisy, jnp.ones_like(releases[site])
        there, slope = jax.jvp(sums, (releases[site],), (ones,))
        step = jnp.where(slope == 0.0, 0.0, (ours - there) / jnp.where(slope == 0.0, 1.0, slope))
        releases[site] = releases[site] + step
        off = jnp.abs(ours - there - slope * step) > ROUNDING * (1.0 + jnp.abs(ours))
        moved &= ~(jnp.any(off) & draws[mark].active)
    outputs, twins = run(program, arguments, releases=releases)
    return outputs, twins, moved


class Filter:
    """Filters of one learner, traced once.

    Args:
      learner: a Learner or BatchLearner.
      loss: of one round, a pytree of arrays or of their shapes.
    """

    def __init__(self, learner, loss):
        self.learner = learner = as_learner(learner)
        key = jr.key(0, impl="threefry2x32")
        self.begin = traced(learner.init, key)
        self.step = traced(
            learner.step, *jax.eval_shape(partial(first_arguments, learner), key, loss)
        )
        # Only the report depends on the last losses.
        self.shown = bool(learner.privacy.reported)
        names = hidden(self.step.closed.jaxpr) | hidden(self.begin.closed.jaxpr)
        sites = [site for site in self.begin.sites + self.step.sites if isinstance(site, Site)]
        count = len(self.begin.sizes) + len(self.step.sizes)
        self.bare = len(sites) == count and "random_bits" not in names

    def _inputs(self, losses):
        steps = self.learner.horizon - (not self.shown)
        return jnp.arange(1, steps + 1), jax.tree.map(lambda leaf: leaf[:steps], losses)

    def _seen(self, loss, action):
        return seen_inside(self.learner, loss, action)[0]

    def play(self, pair, key, second=False) -> Played:
        """A run on one sequence of a pair, with the outcomes of its draws."""
        losses = jax.tree.map(partial(jnp.where, second), pair.others, pair.losses)
        (state, action), first = run(self.begin, (jr.fold_in(key, 0),))

        def one_round(carry, inputs):
            t, loss = inputs
            arguments, _ = step_arguments(self.learner, key, t, carry, loss)
            after, draws = run(self.step, arguments)
            return after, (carry[1], _place(self.step, draws))

        (end, last), (actions, lanes) = lax.scan(one_round, (state, action), self._inputs(losses))
        if self.shown:
            history = actions, reported(self.learner, end)
        else:
            history = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), actions, last)
        lanes = jnp.append(_place(self.begin, first), lanes)
        return Played(history, lanes, key, jnp.asarray(second))

    def __call__(self, pair, history, key, particles, played=None) -> Filtered:
        """Filter a history, as :func:`dpjax.audit.play` returns it.

        Args:
          pair: P is the law on ``pair.losses``, P' the law on ``pair.others``.
          history: the history of one run.
          key: PRNG key.
          particles: how many.
          played: optionally, a run with this history, on a sequence chosen by a fair coin. The
            run then is the first particle and is never resampled (conditional SMC). Variance
            reductions that cause a bias are switched off.
        """
        n, learner = particles, self.learner
        actions, shown = history if self.shown else (history, [])
        kept = (jnp.arange(n) == 0) & (played is not None)

        def keys_of(t):
            fresh, lane_keys, sides, others = jr.split(jr.fold_in(key, t), (4, n))
            if played is not None:
                played_key = jr.fold_in(played.key, t)
                fresh = jax.vmap(lambda k, first: jnp.where(first, played_key, k))(fresh, kept)
            return fresh, lane_keys, jax.vmap(jr.uniform)(sides), others[0]

        def at(t):
            return jax.tree.map(lambda leaf: leaf[jnp.minimum(t, learner.horizon - 1)], actions)

        def chosen(t, lanes, log_odds, lane_keys):
            """The drawn outcomes of all particles, as _chosen returns them."""
            lane = jnp.int32(0) if played is None else played.lanes[t]
            return jax.vmap(partial(_chosen, lane=lane))(lanes, log_odds, lane_keys, kept)

        def one_round(carry, inputs):
            particles, total, moved, known = carry
            t, loss, other = inputs
            fresh, lane_keys, uniforms, resample_key = keys_of(t)
            (log_weights, log_ratios, worlds), gain = _resampled(
                particles, resample_key, kept, played is None
            )
            second = uniforms < jax.nn.sigmoid(log_ratios)
            if played is not None:
                second = jnp.where(kept, played.second, second)
            before, free = at(t - 1), t >= learner.horizon
            seen = self._seen(loss, before), self._seen(other, before)

            def particle(worlds, fresh_key, second):
                (state, ours), (other, theirs) = _swapped(second, *zip(worlds, seen, strict=True))
                lead, twin = (state, fresh_key, ours), (other, fresh_key, theirs)
                return _lanes(self.step, lead, twin, at(t), free)

            lanes = jax.vmap(particle)(worlds, fresh, second)
            signs = jnp.where(second, -1.0, 1.0)
            after = log_ratios[:, None] + signs[:, None] * lanes.noise
            if played is None and self.step.early and n > 1:
                after -= _drift(log_weights, log_ratios, after[:, 0])
            # These are the odds of the twin over the world that drew.
            weights, log_odds, worlds, movable, alone = chosen(
                t, lanes, signs[:, None] * after, lane_keys
            )
            worlds = jax.vmap(_swapped)(second, *worlds)
            log_weights, log_ratios = log_weights + weights, signs * log_odds
            moved &= jnp.all(movable | (log_weights == -jnp.inf) | jnp.isinf(log_ratios))
            particles = log_weights, log_ratios, worlds
            return (particles, total + gain, moved, known & jnp.all(alone)), None

        fresh, lane_keys, *_ = keys_of(0)
        lanes = jax.vmap(lambda key: _lanes(self.begin, (key,), (key,), at(0)))(fresh)
        weights, ratios, worlds, _, alone = chosen(0, lanes, lanes.noise, lane_keys)
        carry = (weights, ratios, worlds), jnp.zeros(()), jnp.bool(True), jnp.all(alone)
        rows = *self._inputs(pair.losses), self._inputs(pair.others)[1]
        ((weights, ratios, worlds), total, moved, known), _ = lax.scan(one_round, carry, rows)
        # P and P' are twice the means of both parts of the weight under M.
        total += math.log(2.0 / n)
        logs = [weights + jax.nn.log_sigmoid(side) for side in (-ratios, ratios)]
        if self.shown:
            for i, world in enumerate(worlds):
                same = jax.vmap(lambda state: _equal(reported(learner, state), shown))(world)
                logs[i] = jnp.where(same, logs[i], -jnp.inf)
        p, q = (total + jax.nn.logsumexp(log) for log in logs)
        ratio = jnp.where((p > -jnp.inf) | (q > -jnp.inf), q - p, 0.0)
        return Filtered(ratio, (p, q), moved, known)


def _swapped(swap, first, second):
    """Two pytrees, in the other order if ``swap``."""
    return tuple(
        jax.tree.map(partial(jnp.where, swap), *both) for both in ((second, first), (first, second))
    )


def _lanes(program, lead, twin, action, free=False) -> Lanes:
    """A step with each outcome of its enumerated draws. If ``free``, any action matches."""
    table = jnp.asarray(program.lanes, jnp.int32).reshape(len(program.lanes), len(program.sizes))

    def of(row):
        outcome = dict(zip(program.sizes, row, strict=True))
        (state, played), draws = run(program, lead, outcome)
        (other, played_twin), twins, moved = _twin(program, twin, draws)
        # A draw in a branch that is not taken counts as uniform, so its lanes add up to one.
        logs = [
            sum((jnp.where(some[i].active, some[i].log, -math.log(size))
                 for i, size in program.sizes.items()), jnp.zeros(()))
            for some in (draws, twins)
        ]  # fmt: skip
        active, also = (jnp.array([some[i].active for i in program.sizes], bool)
                        for some in (draws, twins))  # fmt: skip
        possible = (free | _equal(played_twin, action)) & jnp.all(active == also)
        return Lanes(
            jnp.where(free | _equal(played, action), logs[0], -jnp.inf),
            jnp.where(possible, logs[1], -jnp.inf),
            _log_ratio(program, draws, twins), moved, (state, other), ~jnp.any(active),
        )  # fmt: skip

    return jax.vmap(of)(table)


def _chosen(lanes, log_odds, key, kept, lane):
    """Draw the outcome of one particle's enumerated draws, conditioned on the action.

    Args:
      lanes: a Lanes.
      log_odds: (lanes,) ln of the density ratio, twin over own, before the outcome.
      key: PRNG key of the draw.
      kept: whether the outcome is fixed to ``lane``.
      lane: the index of an outcome.

    Returns:
      (log, ratio, worlds, moved, alone). ``log`` is ln of the probability of the action, a mean
      over both worlds. ``ratio`` is ln of the density ratio after the outcome. ``worlds`` are the
      states of both worlds. ``moved`` says whether noise could be moved, and ``alone`` whether no
      other outcome leads to the same action.
    """
    logs = jnp.logaddexp(
        lanes.lead + jax.nn.log_sigmoid(-log_odds), lanes.twin + jax.nn.log_sigmoid(log_odds)
    )
    place = jnp.where(kept, lane, jr.categorical(key, logs))
    ratios = log_odds + lanes.twin - lanes.lead
    ratio = jnp.where(jnp.isnan(ratios), 0.0, ratios)[place]  # of a particle without weight
    worlds, moved, idle = jax.tree.map(
        lambda leaf: leaf[place], (lanes.worlds, lanes.moved, lanes.idle)
    )
    return jax.nn.logsumexp(logs), ratio, worlds, moved, idle | (jnp.sum(logs > -jnp.inf) <= 1)


def _drift(log_weights, before, after):
    """A number to subtract from all ln r, so that noise does not change the mean of r / (1 + r).

    Under M this mean is constant. Among particles it fluctuates, which causes most of the variance
    of an estimate.
    """
    shares = jax.nn.softmax(log_weights)
    mean, shift = jnp.sum(shares * jax.nn.sigmoid(before)), jnp.zeros(())
    slopes = []
    for _ in range(NEWTON):
        parts = jax.nn.sigmoid(after - shift)
        slopes.append(jnp.sum(shares * parts * (1.0 - parts)))
        shift += (jnp.sum(shares * parts) - mean) / slopes[-1]
    # If few particles are undecided between the worlds, the shift would be too large for the rest.
    return jnp.where(jnp.min(jnp.stack(slopes)) > UNDECIDED, shift, 0.0)


def _place(program, draws):
    """The index of the drawn outcomes among the lanes of a DrawProgram, () int32."""
    place = jnp.int32(0)
    for i, size in program.sizes.items():
        place = place * size + jnp.asarray(draws[i].release, jnp.int32)
    return place


def _log_ratio(program, draws, twins):
    """ln of the density ratio, twin over own, of all draws that are not enumerated."""
    total = jnp.zeros(())
    for i, (lead, twin) in enumerate(zip(draws, twins, strict=True)):
        if lead == () or i in program.sizes:
            continue
        ratio = jnp.where(twin.log == lead.log, 0.0, twin.log - lead.log)
        # A release in only one of the runs distinguishes them.
        ratio = jnp.where(lead.active, ratio, 0.0)
        total += jnp.where(lead.active == twin.active, ratio, -jnp.inf)
    return total


def _resampled(particles, key, kept, stratified):
    """(particles, gain): resampled if few have most of the weight, and ln of the mean weight."""
    log_weights, count = particles[0], len(kept)
    norm = jax.nn.logsumexp(log_weights)
    shares = jnp.exp(log_weights - norm)
    few = jnp.sum(shares * shares) * count > 2.0
    u = jr.uniform(key, (count,))
    if stratified:  # with a kept run, draws are independent
        u = (jnp.arange(count, dtype=jnp.float32) + u) / count
    sums = jnp.cumsum(shares)
    drawn = jnp.clip(jnp.searchsorted(sums, u * sums[-1], side="right"), 0, count - 1)
    places = jnp.where(few & ~kept, drawn, jnp.arange(count))
    log_weights, *rest = jax.tree.map(lambda leaf: leaf[places], particles)
    log_weights = jnp.where(few, jnp.zeros(count), log_weights)
    return (log_weights, *rest), jnp.where(few, norm - math.log(count), 0.0)


def _equal(tree, other):
    """Whether two pytrees are equal."""
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True)
    return jnp.all(jnp.stack([jnp.all(x == y) for x, y in pairs]))


def hidden(jaxpr: Jaxpr) -> set:
    """The names of primitives and calls in a program, outside of its releases."""
    names = set()
    for eqn in jaxpr.eqns:
        if eqn.primitive is not release_p:
            names |= {eqn.primitive.name, eqn.params.get("name")}
            for inner in jaxprs_in_params(eqn.params):
                names |= hidden(inner)
    return names
