"""Reference implementations of each workload: calls of NumPy, Numba and C for the same game."""

import math
from functools import partial
from importlib.util import find_spec

import in_numpy
import jax
import jax.numpy as jnp
import numpy as np
import workloads
from measure import Implementation, c_library, call_c

from dpjax import audit, domains, privacy
from dpjax.core import generators
from dpjax.learners._dp_ucb_int import derived_interval
from dpjax.learners._exp3 import default_mixing
from dpjax.learners._ftrl import default_rate
from dpjax.learners._linear_elimination import exact_radii
from dpjax.learners._projection_free import smoothing_radius
from dpjax.learners._projection_free import step_size as projection_free_rate
from dpjax.learners._scrible import step_size as scrible_rate
from dpjax.learners.parts import gram_calibration
from dpjax.maths import designs

if find_spec("numba"):
    import in_numba
else:
    in_numba = None

LANES = (8, 16)
BLOCK = 128  # a C loop may play up to this many additional trials


def python_pair(name, trials, *arguments):
    """NumPy with ``trials``, and Numba with fewer, since its time per trial is constant."""
    pair = [Implementation("NumPy", trials, partial(getattr(in_numpy, name), *arguments, trials))]
    if hasattr(in_numba, name):
        few = max(trials // 8, 1)
        pair.append(Implementation("Numba", few, partial(getattr(in_numba, name), *arguments, few)))
    return pair


def in_c(name, trials, function, *arguments):
    """A C loop that takes the horizon, the trials, the other arguments and a seed."""

    def play(seed):
        value = np.zeros(trials + BLOCK)
        call_c(function, arguments[0], trials, *arguments[1:], np.uint64(seed), value)
        return value[:trials]

    return Implementation(name, trials, play)


def in_lanes(name, trials, *arguments):
    """One loop of lanes.c per number of lanes."""
    return [
        in_c(f"C, {lanes} lanes", trials, getattr(c_library("lanes", f"LANES={lanes}"), name),
             *arguments)
        for lanes in LANES
    ]  # fmt: skip


def w1(horizon, trials, name="exp3"):
    """EXP3 with its default mixing."""
    mixing, means = float(default_mixing(horizon, 4)), np.float32(workloads.W1_MEANS)
    return [
        *python_pair(name, trials, horizon, mixing, means),
        *in_lanes(name, 8 * trials, horizon, mixing, means),
    ]


def points_of_w1(horizon, trials):
    """Plays each point separately; a trial's value is the mean over points with a common seed."""
    means = np.float32(workloads.W1_MEANS)
    mixings = [float(mixing) for mixing in workloads.MIXINGS]
    each = [
        [
            *python_pair("exp3", trials, horizon, mixing, means),
            *in_lanes("exp3", 4 * trials, horizon, mixing, means),
        ]
        for mixing in mixings
    ]

    def together(*ones):
        def play(seed):
            return np.mean([one.play(seed) for one in ones], axis=0)

        return Implementation(ones[0].name, sum(one.trials for one in ones), play)

    return [together(*ones) for ones in zip(*each, strict=True)]


def w4(horizon, trials):
    """The tree alone, over losses of 0."""
    dim = workloads.EXPERTS
    return [
        *python_pair("tree", trials, horizon, 1.0, dim),
        *in_lanes("tree", 4 * trials, horizon, 1.0, np.zeros(dim, np.float32)),
    ]


def w5(horizon, trials, rows=None):
    """FTRL with epsilon = 1, on drawn losses or on ``rows``."""
    dim, domain = workloads.EXPERTS, domains.simplex(workloads.EXPERTS)
    rate = default_rate(horizon, domain.regularizer, domain.losses)
    scale = (horizon - 1).bit_length() * domain.losses.diameters[0]
    return [
        *python_pair("ftrl", trials, horizon, rate, scale, dim, workloads.BIAS, rows),
        *in_lanes("ftrl", 2 * trials, horizon, rate, scale, workloads.BIAS, rows),
    ]


# The position of a name is its number in stochastic.c.
IN_C = (
    "ucb1", "kl_ucb", "thompson", "lazy_ucb", "lazy_thompson", "dp_ucb", "dp_ucb_bound",
    "dp_ucb_int", "successive_elimination",
)  # fmt: skip


def stochastic_in_c(name, horizon, trials):
    """The loop of stochastic.c, with a sixteenth of the trials."""
    # The interval f of dp_ucb_int at epsilon = 1 and delta = T^-2.
    means = np.float32(workloads.ARMS_MEANS)
    interval = int(derived_interval(horizon, len(means), 1.0, float(horizon) ** -2.0, 1.1))
    return in_c(
        "C, one by one", max(trials // 16, 1), c_library("stochastic").play, horizon,
        IN_C.index(name), len(means), 1.0, interval, means,
    )  # fmt: skip


def w2_rounds(horizon, trials):
    """DP-SE with one loss per round."""
    few, means = max(trials // 8, 1), workloads.ARMS_MEANS
    found = [stochastic_in_c("successive_elimination", horizon, 4 * trials)]
    if in_numba:
        play = partial(in_numba.successive_elimination, horizon, 1.0, means, few)
        found.insert(0, Implementation("Numba", few, play))
    return found


def w2_batches(horizon, trials):
    """DP-SE with one binomial draw per batch."""
    play = partial(in_numpy.successive_elimination, horizon, 1.0, workloads.ARMS_MEANS, trials)
    return [Implementation("NumPy", trials, play)]


def w2_bound(horizon, trials):
    """DP-UCB-Bound with epsilon = 1."""
    return [
        *python_pair("dp_ucb_bound", trials, horizon, 1.0, workloads.ARMS_MEANS),
        stochastic_in_c("dp_ucb_bound", horizon, 4 * trials),
    ]


def w3(horizon, trials, private):
    """LinUCB without noise, or with Gaussian noise for epsilon = 1 and delta = 0.1."""
    dim, arms, gap = workloads.CONTEXT
    scale, offset, smallest, log_failure, bias = 0.0, 1.0, 1.0, float(np.log(horizon)), 1.0
    if private:
        levels = (horizon - 1).bit_length()
        scale = float(privacy.gaussian_scale(2.0 * levels**0.5, 1.0, 0.1))
        made = gram_calibration.gaussian_regularizer(
            scale * levels**0.5, dim, 0.5 / horizon**2, norm_bound="tight"
        )
        offset, smallest = float(made.offset), float(made.smallest)
        log_failure = float(np.log(2.0 * horizon))
        bias = float(np.sqrt(made.largest) + made.tilt)
    confidence = scale, offset, smallest, log_failure, bias
    few = max(trials // 2, 1)
    play = partial(in_numpy.linucb, horizon, workloads.CONTEXT, *confidence, few)
    return [
        Implementation("NumPy", few, play),
        in_c("C, one by one", few, c_library("linear").play, horizon, arms, gap, *confidence),
    ]


def w3_lapack(dim, horizon, trials):
    """The normal draws, the factorization and the triangular solve of a round, without a game."""
    few = max(trials // 8, 1)
    return [Implementation("LAPACK", few, partial(in_numpy.factors, horizon, dim, few))]


def scrible(horizon, trials):
    """SCRiBLE on the cube with epsilon = 1."""
    domain = domains.cube(workloads.POINTS_DIM)
    low, high = domain.barrier.values(domain.losses)
    scale, bound = high - low, (high - low) / 2
    rate = float(scrible_rate(horizon, domain.barrier, bound, 2.0 * scale**2))
    play = partial(in_numpy.scrible, horizon, rate, scale, domain.dim, workloads.BIAS, trials)
    return [Implementation("NumPy", trials, play)]


def projection_free(horizon, trials):
    """PRIVATEBANDIT on the ball with epsilon = 1 and delta = 0.01."""
    dim, batch = workloads.POINTS_DIM, math.isqrt(horizon)
    batches = -(-horizon // batch)
    zeta = smoothing_radius(horizon, 2.0, dim)
    bound = 2.0 + zeta
    rate = float(projection_free_rate(batches, batch, 2.0, dim, zeta, bound, 1.0))
    levels = max(batches - 2, 0).bit_length()
    scale = privacy.gaussian_scale(levels**0.5 * 2.0 * bound * dim / zeta, 1.0, 0.01)
    play = partial(
        in_numpy.projection_free, horizon, dim, batch, zeta, rate, bound, float(scale),
        workloads.BIAS, trials,
    )  # fmt: skip
    return [Implementation("NumPy", trials, play)]


def elimination(horizon, trials):
    """Linear elimination with epsilon = 1 and dpjax's designs and radii."""
    points = designs.span_coordinates(workloads.ACTIONS)

    @jax.jit
    def design(active):
        return designs.g_optimal(jnp.asarray(points, jnp.float32), active)

    @jax.jit
    def radii(products, pulls, log_term):
        return exact_radii(products, pulls, log_term, 1.0)

    def play(seed):
        return in_numpy.linear_elimination(
            horizon,
            1.0,
            points,
            workloads.means_of_actions(),
            lambda mask: np.asarray(design(mask)),
            lambda *given: np.asarray(radii(*map(np.float32, given))),
            trials,
            seed,
        )

    return [Implementation("NumPy", trials, play)]


def audit_in_numpy(runs, seed):
    """The same as audit.epsilon: some runs choose the event, and the others are counted."""
    horizon, dim = workloads.AUDIT
    domain = domains.simplex(dim)
    rate = default_rate(horizon, domain.regularizer, domain.losses)
    scale = (horizon - 1).bit_length() * domain.losses.diameters[0] / workloads.AUDIT_EPSILON
    block = 2**12
    sides = [
        np.concatenate(
            [
                in_numpy.ftrl_on(losses, rate, scale, block, [seed, side, i])
                for i in range(-(-runs // block))
            ]
        )[:runs]
        for side, losses in enumerate(workloads.AUDIT_PAIR)
    ]
    choosing, counted = zip(*(np.split(side, [audit.SELECTION]) for side in sides), strict=True)
    levels = np.quantile(np.concatenate(choosing), np.linspace(0.0, 1.0, 512))

    def bounds(sides, level):
        """The bounds from four events: below or above a level, each likelier on either side."""
        below = [np.searchsorted(np.sort(values), level) for values in sides]
        above = [len(values) - count for values, count in zip(sides, below, strict=True)]
        counts = np.array([below, above, below[::-1], above[::-1]])
        hits, misses = (counts * (len(counted[0]) / len(sides[0]))).swapaxes(0, 1)
        return hits, audit.bound_from_counts(hits, misses, len(counted[0]))

    hits, found = bounds(choosing, levels)
    found = np.where(hits >= 50, found, -1.0)
    event, level = np.unravel_index(found.argmax(), found.shape)
    return bounds(counted, levels[level])[1][event]


REFERENCES = {
    "W1": w1,
    "W1-drawn": lambda horizon, trials: w1(horizon, trials, "exp3_drawn"),
    "W1-8": points_of_w1,
    "W2-rounds": w2_rounds,
    "W2-batches": w2_batches,
    "W2-bound": w2_bound,
    "W3": lambda horizon, trials: w3(horizon, trials, False),
    "W3-tree": lambda horizon, trials: w3(horizon, trials, True),
    **{f"W3-{dim}": partial(w3_lapack, dim) for dim in workloads.LARGER},
    "W4": w4,
    "W5": w5,
    "W5-given": lambda horizon, trials: w5(horizon, trials, workloads.expert_losses(horizon)),
    "scrible": scrible,
    "projection-free": projection_free,
    "elimination": elimination,
}


def implementations(name, horizon, trials):
    """The implementations of a workload: dpjax first, then its references."""
    if name == "audit":
        runs = max(trials // 2, audit.SELECTION + 2**14)
        return [
            Implementation("dpjax", 2 * runs, partial(workloads.audited, runs)),
            Implementation("NumPy", 2 * runs, partial(audit_in_numpy, runs)),
        ]
    cells = trials * len(workloads.workload_of(name).points)
    ours = Implementation("dpjax", cells, partial(workloads.play, name, horizon, trials))
    if name in IN_C:
        return [ours, stochastic_in_c(name, horizon, trials)]
    lighter = partial(workloads.play, name, horizon, trials, generator=generators.threefry13)
    if name in ("W1", "W1-drawn", "W1-8", "W4", "W5-given"):
        return [
            ours,
            Implementation("dpjax, threefry13", cells, lighter),
            *REFERENCES[name](horizon, trials),
        ]
    return [ours, *REFERENCES.get(name, lambda *_: [])(horizon, trials)]
