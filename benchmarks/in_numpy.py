"""The workloads in NumPy, vectorized over trials.

Each function takes its sizes and parameters, the number of trials and a seed. It returns one value
per trial.
"""

import numpy as np
from scipy import special
from scipy.linalg import lapack


def exp3(horizon, mixing, means, trials, seed):
    """The pseudo-regret of EXP3 against Bernoulli losses."""
    return _exp3(horizon, mixing, means, trials, seed, drawn=False)


def exp3_drawn(horizon, mixing, means, trials, seed):
    """The regret of EXP3 against the best arm of the drawn losses."""
    return _exp3(horizon, mixing, means, trials, seed, drawn=True)


def _exp3(horizon, mixing, means, trials, seed, drawn):
    generator = np.random.default_rng(seed)
    means = np.asarray(means, np.float32)
    arms, every = len(means), np.arange(trials)
    exponents = np.zeros((arms, trials), np.float32)
    regret = np.zeros((arms, trials) if drawn else trials, np.float32)
    for _ in range(horizon):
        p = np.exp(exponents)
        p *= (1.0 - mixing) / p.sum(axis=0)
        p += mixing / arms
        levels = generator.random((1 + arms if drawn else 2, trials), np.float32)
        arm = (levels[0] >= p.cumsum(axis=0)[:-1]).sum(axis=0)
        if drawn:
            losses = levels[1:] < means[:, None]
            gain = ~losses[arm, every]
            regret += 1.0 * losses[arm, every] - losses
        else:
            gain = levels[1] >= means[arm]
            regret += means[arm] - means.min()
        exponents[arm, every] += mixing / arms * gain / p[arm, every]
        exponents -= exponents.max(axis=0)
    return regret.max(axis=0) if drawn else regret


class Tree:
    """The noise of prefix sums on a binary tree, (dim, trials)."""

    def __init__(self, horizon, shape, draw):
        self.walk = np.zeros((horizon.bit_length(), *shape), np.float32)
        self.draw = draw

    def noise(self, t):
        """The noise of prefix t; it must be called with t = 1, 2, ... in this order."""
        fresh, parent = self.draw(), t & (t - 1)
        if parent:
            fresh += self.walk[(parent & -parent).bit_length() - 1]
        self.walk[(t & -t).bit_length() - 1] = fresh
        return fresh


def laplace(generator, shape):
    """Finite Laplace draws in float32, by inversion, since NumPy draws only doubles."""
    level = generator.random(shape, np.float32)
    level -= 0.5
    level += 2.0**-25
    return np.copysign(np.log1p(-2.0 * np.abs(level)), level)


def tree(horizon, scale, dim, trials, seed):
    """The mean square of the sum of all releases, for prefix sums of zeros."""
    generator = np.random.default_rng(seed)
    shape = dim, trials
    counter = Tree(horizon, shape, lambda: scale * laplace(generator, shape))
    loss, total, summed = (np.zeros(shape, np.float32) for _ in range(3))
    for t in range(1, horizon + 1):
        total += loss
        summed += total + counter.noise(t)
    return np.square(summed).mean(axis=0)


def ftrl(horizon, rate, scale, dim, bias, rows, trials, seed):
    """The regret of entropic FTRL with a tree, on ``rows`` or on losses like linear_losses."""
    generator = np.random.default_rng(seed)
    shape = dim, trials
    counter = Tree(horizon, shape, lambda: scale * laplace(generator, shape))
    direction = bias * generator.standard_normal(shape, np.float32)
    total, release = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    suffered = np.zeros(trials, np.float32)
    for t in range(1, horizon + 1):
        weights = np.exp(-rate * (release - release.min(axis=0)))
        weights /= weights.sum(axis=0)
        if rows is None:
            loss = (direction + generator.standard_normal(shape, np.float32) > 0).astype(np.float32)
        else:
            loss = rows[t - 1][:, None]
        suffered += (weights * loss).sum(axis=0)
        total += loss
        release = total + counter.noise(t)
    return suffered - total.min(axis=0)


def successive_elimination(horizon, epsilon, means, trials, seed):
    """The pseudo-regret of DP-SE by batches, whose loss sums are binomial draws.

    If the horizon cuts an epoch short, its arms share the rounds equally, as fractions if needed.
    """
    generator = np.random.default_rng(seed)
    means = np.asarray(means)[:, None]
    gaps = means - means.min()
    active = np.ones((len(means), trials), bool)
    left, regret = np.full(trials, float(horizon)), np.zeros(trials)
    epoch = 0
    while left.any():
        epoch += 1
        count, gap = active.sum(axis=0), 2.0**-epoch
        scale = count * epoch**2 * float(horizon)
        length = np.maximum(32 * np.log(8 * scale) / gap**2, 8 * np.log(4 * scale) / epsilon / gap)
        length += 1.0
        rounds = np.ceil(length)
        cut = (count == 1) | (rounds > left // count)
        regret += (active * gaps).sum(axis=0) * np.where(cut, left / count, rounds)
        left = np.where(cut, 0.0, left - count * rounds)
        whole = np.where(cut, 0, rounds).astype(np.int64)
        noise = generator.laplace(scale=1.0 / epsilon, size=active.shape)
        estimates = (generator.binomial(whole[None], means) + noise) / rounds
        radius = np.sqrt(np.log(8 * scale) / 2 / length) + np.log(4 * scale) / length / epsilon
        best = np.where(active, estimates, np.inf).min(axis=0)
        active &= cut | (estimates - best <= 2 * radius)
    return regret


def _trailing_zeros(t):
    """The number of trailing zero bits of positive integers."""
    return np.bitwise_count((t & -t) - 1)


def dp_ucb_bound(horizon, epsilon, means, trials, seed):
    """The pseudo-regret of DP-UCB-Bound."""
    generator = np.random.default_rng(seed)
    means = np.asarray(means, np.float32)
    arms, every = len(means), np.arange(trials)
    pulls = np.zeros((arms, trials), np.int64)
    sums, noisy, totals = (np.zeros((arms, trials), np.float32) for _ in range(3))
    walk = np.zeros((arms, horizon.bit_length(), trials), np.float32)
    regret = np.zeros(trials, np.float32)
    for t in range(1, horizon + 1):
        if t <= arms:
            arm = np.full(trials, t - 1)
        else:
            log_t, real = np.float32(np.log(t)), pulls.astype(np.float32)
            between = np.where(pulls & (pulls - 1), np.log(real) + 1, np.float32(1))
            bonus = np.float32(8**0.5 / epsilon) * (np.float32(np.log(4)) + 4 * log_t) * between
            arm = ((noisy - bonus) / real - np.sqrt(2 * log_t / real)).argmin(axis=0)
        mean = means[arm]
        regret += mean - means.min()
        sums[arm, every] += generator.random(trials, np.float32) < mean
        pulls[arm, every] += 1
        n = pulls[arm, every]
        epoch = np.frexp(n)[1] - 1
        local = n - (1 << epoch)
        parent = local & (local - 1)
        above = np.where(
            parent > 0,
            walk[arm, _trailing_zeros(np.maximum(parent, 1)), every],
            totals[arm, every],
        )
        scale = np.where(local, 2 * epoch, 2).astype(np.float32) / np.float32(epsilon)
        here = above + scale * laplace(generator, trials)
        level = _trailing_zeros(np.maximum(local, 1))
        walk[arm, level, every] = np.where(local, here, walk[arm, level, every])
        totals[arm, every] = np.where(local, totals[arm, every], here)
        noisy[arm, every] = sums[arm, every] + here
    return regret


def linucb(horizon, context, scale, offset, smallest, log_failure, bias, trials, seed):
    """The pseudo-regret of LinUCB on fresh arms around e_1. Scale 0 draws no noise."""
    dim, arms, gap = context
    generator = np.random.default_rng(seed)
    size, every = dim + 1, np.arange(trials)
    weights = np.where(np.eye(size, dtype=bool), np.sqrt(2), 1.0).astype(np.float32)[..., None]

    def draw():
        lower = np.tril(generator.standard_normal((trials, size, size), np.float32))
        return scale * weights * (lower + np.tril(lower, -1).swapaxes(1, 2)).transpose(1, 2, 0)

    counter = Tree(horizon, (size, size, trials), draw)
    # Coordinates along e_1 are those of a uniform point on the sphere, conditioned on an interval.
    # They are drawn by inverting the CDF.
    shape = 0.5 * (dim - 1)
    ends = special.betainc(shape, shape, 0.5 * (1.0 + np.array([-0.75, 0.75 - gap])))
    levels = np.linspace(*ends, 4097)
    quantiles = 2.0 * special.betaincinv(shape, shape, levels) - 1.0
    gram = np.zeros((size, size, trials), np.float32)
    regret = np.zeros(trials)
    for t in range(horizon):
        noisy = (gram + counter.noise(t) if t and scale else gram).transpose(2, 0, 1)
        matrix = noisy[:, :dim, :dim] + np.float32(offset) * np.eye(dim, dtype=np.float32)
        inverse = np.linalg.inv(matrix)
        estimate = (inverse @ noisy[:, :dim, dim:])[..., 0]
        growth = np.linalg.slogdet(matrix)[1] - dim * np.log(smallest)
        beta = np.sqrt(np.maximum(2.0 * log_failure + growth, 0.0)) + bias

        x = generator.standard_normal((trials, arms, dim), np.float32)
        along = np.interp(
            ends[0] + (ends[1] - ends[0]) * generator.random((trials, arms)), levels, quantiles
        )
        along[every, generator.integers(arms, size=trials)] = 0.75
        x[..., 0] = 0.0
        x *= (np.sqrt(1.0 - along**2) / np.sqrt(np.square(x).sum(axis=2)))[..., None]
        x[..., 0] = along
        widths = np.sqrt((x @ inverse * x).sum(axis=2))
        bounds = (x @ estimate[..., None])[..., 0] - beta[:, None] * widths
        chosen = x[every, bounds.argmin(axis=1)]
        loss = np.where(generator.random(trials) < 0.5 * (1.0 - chosen[:, 0]), 1.0, -1.0)
        regret += 0.75 - chosen[:, 0]
        row = np.concatenate([chosen, loss[:, None]], axis=1).T.astype(np.float32)
        gram += row[:, None] * row[None]
    return regret


def factors(horizon, dim, trials, seed):
    """Draws d normal features for d arms, factors V and solves for all arms in every round.

    Any LinUCB with fresh arms does this work. The function plays no game and returns NaN.
    """
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((2 * dim, dim), np.float32)
    matrix = np.asfortranarray(rows.T @ rows)
    for _ in range(horizon * trials):
        features = generator.standard_normal((dim, dim), np.float32)
        root, _ = lapack.spotrf(matrix, lower=1)
        lapack.strtrs(root, features.T, lower=1)
        lapack.strtrs(root, features[0], lower=1)
    return np.full(trials, np.nan)


def _unit(x):
    return x / np.maximum(np.sqrt(np.square(x).sum(axis=0)), 1e-15)


def scrible(horizon, rate, scale, dim, bias, trials, seed):
    """The regret of SCRiBLE on the cube against losses +-e_i."""
    generator = np.random.default_rng(seed)
    shape = dim, trials
    direction, every = bias * generator.standard_normal(shape, np.float32), np.arange(trials)
    sums, total = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    suffered = np.zeros(trials, np.float32)
    for _ in range(horizon):
        s = rate * sums
        c = np.sqrt(1.0 + s * s)
        axes = 1.0 / np.sqrt(c * (1.0 + c))
        u = _unit(generator.standard_normal(shape, np.float32))
        point = axes * u - s / (1.0 + c)
        toward = direction + generator.standard_normal(shape, np.float32)
        entry = np.abs(toward).argmax(axis=0)
        sign = np.where(toward[entry, every] >= 0, np.float32(1), np.float32(-1))
        loss = sign * point[entry, every]
        total[entry, every] += sign
        suffered += loss
        sums += dim * (loss + scale * laplace(generator, trials)) * u / axes
    return suffered + np.abs(total).sum(axis=0)


def projection_free(horizon, dim, batch, zeta, rate, bound, scale, bias, trials, seed):
    """The regret of PRIVATEBANDIT on the unit ball against unit vectors as losses."""
    generator = np.random.default_rng(seed)
    shape, batches = (dim, trials), -(-horizon // batch)
    counter = Tree(batches, shape, lambda: scale * generator.standard_normal(shape, np.float32))
    direction = bias * generator.standard_normal(shape, np.float32)
    base, solver, linear, sums, estimate, total = (
        np.zeros(shape, np.float32) for _ in range(6)
    )  # fmt: skip
    suffered = np.zeros(trials, np.float32)
    for t in range(1, horizon + 1):
        u = _unit(generator.standard_normal(shape, np.float32))
        loss = _unit(direction + generator.standard_normal(shape, np.float32))
        value = (loss * (base + zeta * u)).sum(axis=0)
        suffered += value
        total += loss
        estimate += dim / zeta * np.clip(value, -bound, bound) * u
        gradient = solver + linear
        toward = -_unit(gradient) - solver
        gap, length = -(gradient * toward).sum(axis=0), np.square(toward).sum(axis=0)
        solver = solver + np.clip(gap / np.maximum(length, 1e-30), 0.0, 1.0) * toward
        if t % batch == 0:
            base = solver
            if t <= batch * (batches - 2):
                sums += estimate
                linear = rate * (sums + counter.noise(t // batch))
                estimate[:] = 0.0
    return suffered + np.sqrt(np.square(total).sum(axis=0))


def linear_elimination(horizon, epsilon, actions, means, design, radii, trials, seed):
    """The pseudo-regret of linear elimination by batches.

    ``design`` maps a mask of arms to weights and is called once per mask. ``radii`` has the
    signature of exact_radii.
    """
    generator = np.random.default_rng(seed)
    arms, gaps = len(actions), means - means.min()
    active, estimates = np.ones((trials, arms), bool), np.zeros((trials, arms))
    left, regret = np.full(trials, float(horizon)), np.zeros(trials)
    growth, phase, designs = 1.0 + np.log(2.0) / np.log(horizon), 0, {}
    while left.any():
        phase += 1
        patterns, which = np.unique(active, axis=0, return_inverse=True)
        for index, pattern in enumerate(patterns):
            if pattern.tobytes() not in designs:
                designs[pattern.tobytes()] = design(pattern)
            pulls = np.ceil(designs[pattern.tobytes()] * np.exp(phase * growth))
            mine = (which.ravel() == index) & (left > 0)
            last = mine & ((pattern.sum() == 1) | (pulls.sum() > left))
            rank = np.where(pattern, estimates[last] + 1e-9 * generator.random(arms), np.inf)
            regret[last] += left[last] * gaps[rank.argmin(axis=1)]
            left[last] = 0.0
            rows = np.flatnonzero(mine & ~last)
            if not len(rows):
                continue
            regret[rows] += (pulls * gaps).sum()
            left[rows] -= pulls.sum()
            core = pulls > 0
            whole = np.broadcast_to(pulls.astype(np.int64), (len(rows), arms))
            sums = generator.binomial(whole, means) - 0.5 * pulls
            sums += np.where(core, generator.laplace(scale=1 / epsilon, size=sums.shape), 0.0)
            inverse = np.linalg.pinv((actions.T * pulls) @ actions)
            estimates[rows] = sums @ actions @ inverse @ actions.T
            log_term = np.log(4.0 * pattern.sum() * horizon**2.0)
            gamma = radii(actions @ inverse @ actions.T, pulls, log_term)
            upper = np.where(pattern, estimates[rows] + gamma, np.inf)
            active[rows] &= estimates[rows] - gamma <= upper.min(axis=1, keepdims=True)
    return regret


def ftrl_on(losses, rate, scale, runs, seed):
    """The sum of the first entries of entropic FTRL's actions, on the tree and losses (T, dim)."""
    generator = np.random.default_rng(seed)
    shape = losses.shape[1], runs
    counter = Tree(len(losses), shape, lambda: scale * laplace(generator, shape))
    total, release = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    value = np.zeros(runs, np.float32)
    for t, loss in enumerate(losses, 1):
        weights = np.exp(-rate * (release - release.min(axis=0)))
        value += weights[0] / weights.sum(axis=0)
        total += loss[:, None]
        release = total + counter.noise(t)
    return value
