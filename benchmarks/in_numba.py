"""The workloads in Numba: one scalar loop per trial, in float32, without fast math."""

import math

import numpy as np
from numba import njit


@njit
def _exp3(horizon, mixing, means, trials, seed):
    np.random.seed(seed)
    arms = len(means)
    values, best = np.zeros(trials, np.float32), means.min()
    weights, exponents = np.zeros(arms, np.float32), np.zeros(arms, np.float32)
    for trial in range(trials):
        exponents[:] = 0.0
        regret = np.float32(0.0)
        for _ in range(horizon):
            total = np.float32(0.0)
            for k in range(arms):
                weights[k] = math.exp(exponents[k])
                total += weights[k]
            level, arm, p = np.float32(np.random.random()), -1, np.float32(0.0)
            while arm < arms - 1 and level >= 0.0:
                arm += 1
                p = (np.float32(1.0) - mixing) * weights[arm] / total + mixing / arms
                level -= p
            if np.random.random() >= means[arm]:
                exponents[arm] += mixing / arms / p
            largest = exponents.max()
            for k in range(arms):
                exponents[k] -= largest
            regret += means[arm] - best
        values[trial] = regret
    return values


@njit
def _laplace(scale):
    # The level is a double. In float32 it could be so close to 1/2 that its log is infinite.
    level = np.random.random() - 0.5
    size = -scale * math.log(1.0 - 2.0 * abs(level))
    return np.float32(size if level > 0.0 else -size)


@njit
def _trailing_zeros(t):
    count = 0
    while not t & 1:
        t >>= 1
        count += 1
    return count


@njit
def _add_noise(walk, t, scale, release):
    low, parent = _trailing_zeros(t), t & (t - 1)
    for i in range(walk.shape[1]):
        here = _laplace(scale)
        if parent:
            here += walk[_trailing_zeros(parent), i]
        walk[low, i] = here
        release[i] += here


@njit
def _tree(horizon, scale, dim, trials, seed):
    np.random.seed(seed)
    values, walk = np.zeros(trials), np.zeros((31, dim), np.float32)
    release = np.zeros(dim, np.float32)
    for trial in range(trials):
        loss, total, summed = (
            np.zeros(dim, np.float32), np.zeros(dim, np.float32), np.zeros(dim, np.float32),
        )  # fmt: skip
        for t in range(1, horizon + 1):
            for i in range(dim):
                total[i] += loss[i]
                release[i] = total[i]
            _add_noise(walk, t, scale, release)
            for i in range(dim):
                summed[i] += release[i]
        values[trial] = (summed * summed).mean()
    return values


@njit
def _ftrl(horizon, rate, scale, dim, bias, rows, trials, seed):
    np.random.seed(seed)
    values, walk = np.zeros(trials, np.float32), np.zeros((31, dim), np.float32)
    chance, weights = np.zeros(dim, np.float32), np.zeros(dim, np.float32)
    for trial in range(trials):
        for i in range(dim):
            chance[i] = 0.5 * math.erfc(-bias * np.random.normal() / math.sqrt(2.0))
        total, release = np.zeros(dim, np.float32), np.zeros(dim, np.float32)
        suffered = np.float32(0.0)
        for t in range(1, horizon + 1):
            least, norm, here = release.min(), np.float32(0.0), np.float32(0.0)
            for i in range(dim):
                weights[i] = math.exp(-rate * (release[i] - least))
                norm += weights[i]
            for i in range(dim):
                given = len(rows) > 0
                loss = rows[t - 1, i] if given else np.float32(np.random.random() < chance[i])
                here += weights[i] * loss
                total[i] += loss
                release[i] = total[i]
            suffered += here / norm
            _add_noise(walk, t, scale, release)
        values[trial] = suffered - total.min()
    return values


def exp3(horizon, mixing, means, trials, seed):
    """The same as in_numpy.exp3."""
    return _exp3(horizon, np.float32(mixing), np.asarray(means, np.float32), trials, seed)


def tree(horizon, scale, dim, trials, seed):
    """The same as in_numpy.tree."""
    return _tree(horizon, np.float32(scale), dim, trials, seed)


def ftrl(horizon, rate, scale, dim, bias, rows, trials, seed):
    """The same as in_numpy.ftrl."""
    rows = np.zeros((0, dim), np.float32) if rows is None else rows
    return _ftrl(
        horizon, np.float32(rate), np.float32(scale), dim, np.float32(bias), rows, trials, seed
    )


@njit
def _successive_elimination(horizon, epsilon, means, trials, seed):
    np.random.seed(seed)
    arms, best = len(means), means.min()
    values = np.zeros(trials)
    active, sums = np.zeros(arms, np.int64), np.zeros(arms)
    for trial in range(trials):
        count, t, epoch, regret = arms, 0, 0, 0.0
        for k in range(arms):
            active[k] = k
        while t < horizon:
            if count == 1:
                regret += (horizon - t) * (means[active[0]] - best)
                break
            epoch += 1
            gap, scale = 2.0**-epoch, count * float(epoch) ** 2 * horizon
            first, second = math.log(8.0 * scale), math.log(4.0 * scale)
            length = max(32.0 * first / gap**2, 8.0 * second / (epsilon * gap)) + 1.0
            rounds = math.ceil(length)
            sums[:] = 0.0
            for _ in range(min(rounds, horizon)):
                for j in range(count):
                    if t == horizon:
                        break
                    arm = active[j]
                    sums[arm] += np.random.random() < means[arm]
                    regret += means[arm] - best
                    t += 1
            if t == horizon:
                break
            least = np.inf
            for j in range(count):
                arm = active[j]
                sums[arm] = (sums[arm] + _laplace(1.0 / epsilon)) / rounds
                least = min(least, sums[arm])
            width = 2.0 * (math.sqrt(first / (2.0 * length)) + second / (length * epsilon))
            left = 0
            for j in range(count):
                if sums[active[j]] - least <= width:
                    active[left] = active[j]
                    left += 1
            count = left
        values[trial] = regret
    return values


@njit
def _dp_ucb_bound(horizon, epsilon, means, trials, seed):
    np.random.seed(seed)
    arms, best = len(means), means.min()
    values = np.zeros(trials, np.float32)
    pulls, walk = np.zeros(arms, np.int64), np.zeros((arms, 31), np.float32)
    sums, noisy, totals = (
        np.zeros(arms, np.float32), np.zeros(arms, np.float32), np.zeros(arms, np.float32),
    )  # fmt: skip
    for trial in range(trials):
        pulls[:] = 0
        sums[:], noisy[:], totals[:] = 0.0, 0.0, 0.0
        regret = np.float32(0.0)
        for t in range(1, horizon + 1):
            arm, lowest, log_t = t - 1, np.inf, np.float32(math.log(t))
            if t > arms:
                for k in range(arms):
                    n = np.float32(pulls[k])
                    bonus = math.sqrt(8.0) / epsilon * (math.log(4.0) + 4.0 * log_t)
                    if pulls[k] & (pulls[k] - 1):
                        bonus *= math.log(n) + np.float32(1.0)
                    index = (noisy[k] - bonus) / n - math.sqrt(np.float32(2.0) * log_t / n)
                    if index < lowest:
                        arm, lowest = k, index
            regret += means[arm] - best
            sums[arm] += np.random.random() < means[arm]
            pulls[arm] += 1
            epoch = 0
            while pulls[arm] >> (epoch + 1):
                epoch += 1
            local = pulls[arm] - (1 << epoch)
            here = totals[arm]
            if local:
                parent = local & (local - 1)
                if parent:
                    here = walk[arm, _trailing_zeros(parent)]
                here += _laplace(2.0 * epoch / epsilon)
                walk[arm, _trailing_zeros(local)] = here
            else:
                here += _laplace(2.0 / epsilon)
                totals[arm] = here
            noisy[arm] = sums[arm] + here
        values[trial] = regret
    return values


def successive_elimination(horizon, epsilon, means, trials, seed):
    """The pseudo-regret of DP-SE, played round by round."""
    return _successive_elimination(horizon, epsilon, np.asarray(means), trials, seed)


def dp_ucb_bound(horizon, epsilon, means, trials, seed):
    """The same as in_numpy.dp_ucb_bound."""
    return _dp_ucb_bound(horizon, epsilon, np.asarray(means, np.float32), trials, seed)
