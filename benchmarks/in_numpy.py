"""The workloads in NumPy, vectorized over trials.

Functions of their sizes and numbers, how many trials and a seed, that return what each came to.
"""

import numpy as np


def exp3(horizon, mixing, means, trials, seed):
    """EXP3 against Bernoulli losses; pseudo-regret."""
    generator = np.random.default_rng(seed)
    means = np.asarray(means, np.float32)
    arms, every = len(means), np.arange(trials)
    exponents = np.zeros((arms, trials), np.float32)
    regret = np.zeros(trials, np.float32)
    for _ in range(horizon):
        p = np.exp(exponents)
        p *= (1.0 - mixing) / p.sum(axis=0)
        p += mixing / arms
        levels = generator.random((2, trials), np.float32)
        arm = (levels[0] >= p.cumsum(axis=0)[:-1]).sum(axis=0)
        mean = means[arm]
        gain = levels[1] >= mean
        exponents[arm, every] += mixing / arms * gain / p[arm, every]
        exponents -= exponents.max(axis=0)
        regret += mean - means.min()
    return regret


class Tree:
    """Noise of prefix sums, (dim, trials)."""

    def __init__(self, horizon, shape, draw):
        self.walk = np.zeros((horizon.bit_length(), *shape), np.float32)
        self.draw = draw

    def noise(self, t):
        """Of the prefix t, t = 1, 2, ... in this order."""
        fresh, parent = self.draw(), t & (t - 1)
        if parent:
            fresh += self.walk[(parent & -parent).bit_length() - 1]
        self.walk[(t & -t).bit_length() - 1] = fresh
        return fresh


def laplace(generator, shape):
    """In float32, by inversion; the generator has only doubles. Never at the very ends."""
    level = generator.random(shape, np.float32)
    level -= 0.5
    level += 2.0**-25
    return np.copysign(np.log1p(-2.0 * np.abs(level)), level)


def tree(horizon, scale, dim, trials, seed):
    """Prefix sums of zeros; mean square of the sum of all releases."""
    generator = np.random.default_rng(seed)
    shape = dim, trials
    counter = Tree(horizon, shape, lambda: scale * laplace(generator, shape))
    loss, total, summed = (np.zeros(shape, np.float32) for _ in range(3))
    for t in range(1, horizon + 1):
        total += loss
        summed += total + counter.noise(t)
    return np.square(summed).mean(axis=0)


def ftrl(horizon, rate, scale, dim, bias, rows, trials, seed):
    """Entropic FTRL on the tree; regret. Losses as ``rows``, or drawn as linear_losses does."""
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
