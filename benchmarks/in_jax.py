"""Workloads in plain JAX: one trial as a scan over rounds, under ``vmap`` and ``jit``.

Each function takes its sizes and parameters, and returns a function of a key: the result of one
trial. They use nothing of dpjax. A round draws all of its numbers at once.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr
from scipy import special


def exp3(horizon, mixing, means):
    """The pseudo-regret of EXP3 against Bernoulli losses."""
    means = jnp.asarray(means, jnp.float32)
    arms = len(means)

    def trial(key):
        def one_round(carry, t):
            exponents, regret = carry
            level, chance = jr.uniform(jr.fold_in(key, t), (2,))
            p = (1.0 - mixing) * jax.nn.softmax(exponents) + mixing / arms
            arm = jnp.minimum(jnp.sum(level >= jnp.cumsum(p)), arms - 1)
            gain = chance >= means[arm]
            exponents = exponents.at[arm].add(mixing / arms * gain / p[arm])
            return (exponents - exponents.max(), regret + means[arm] - means.min()), None

        begin = jnp.zeros(arms), jnp.float32(0.0)
        return lax.scan(one_round, begin, jnp.arange(horizon))[0][1]

    return trial


def _tree_noise(walk, t, fresh):
    """The noise of prefix t on a binary tree, and its nodes (levels, dim) after this round."""
    parent = t & (t - 1)

    def level(node):
        return lax.population_count((node & -node) - 1)

    noise = fresh + jnp.where(parent > 0, walk[level(jnp.maximum(parent, 1))], 0.0)
    return noise, walk.at[level(t)].set(noise)


def ftrl(horizon, rate, scale, dim, bias):
    """The regret of entropic FTRL with Laplace noise from a tree, on drawn losses 0 and 1."""

    def trial(key):
        direction = bias * jr.normal(jr.fold_in(key, 0), (dim,))

        def one_round(carry, t):
            total, release, walk, suffered = carry
            loss_key, noise_key = jr.split(jr.fold_in(key, t))
            loss = (direction + jr.normal(loss_key, (dim,)) > 0).astype(jnp.float32)
            suffered += jax.nn.softmax(-rate * release) @ loss
            total += loss
            noise, walk = _tree_noise(walk, t, scale * jr.laplace(noise_key, (dim,)))
            return (total, total + noise, walk, suffered), None

        zero = jnp.zeros(dim)
        begin = zero, zero, jnp.zeros((horizon.bit_length(), dim)), jnp.float32(0.0)
        total, _, _, suffered = lax.scan(one_round, begin, jnp.arange(1, horizon + 1))[0]
        return suffered - total.min()

    return trial


def linucb(horizon, dim, arms, gap):
    """The pseudo-regret of LinUCB without noise, on fresh arms around e_1, best at -3/4."""
    # Coordinates along e_1 are drawn by inverting the distribution function of the sphere.
    shape = 0.5 * (dim - 1)
    ends = special.betainc(shape, shape, 0.5 * (1.0 + np.array([-0.75, 0.75 - gap])))
    quantiles = 2.0 * special.betaincinv(shape, shape, np.linspace(*ends, 4097)) - 1.0
    places, quantiles = np.linspace(0.0, 1.0, 4097), jnp.asarray(quantiles, jnp.float32)
    log_failure = float(np.log(horizon))

    def trial(key):
        def one_round(carry, t):
            matrix, vector, regret = carry
            normal_key, uniform_key, best_key = jr.split(jr.fold_in(key, t), 3)
            levels = jr.uniform(uniform_key, (arms + 1,))
            best = jr.randint(best_key, (), 0, arms)
            along = jnp.interp(levels[1:], places, quantiles).at[best].set(0.75)
            across = jr.normal(normal_key, (arms, dim - 1))
            length = jnp.sqrt((1.0 - along**2) / jnp.sum(across**2, axis=1))
            x = jnp.concatenate([along[:, None], length[:, None] * across], axis=1)
            root = jnp.linalg.cholesky(matrix)
            estimate = jax.scipy.linalg.cho_solve((root, True), vector)
            solved = jax.scipy.linalg.solve_triangular(root, x.T, lower=True)
            growth = 2.0 * jnp.sum(jnp.log(jnp.diagonal(root)))
            beta = jnp.sqrt(2.0 * log_failure + growth) + 1.0
            chosen = x[jnp.argmin(x @ estimate - beta * jnp.sqrt(jnp.sum(solved**2, axis=0)))]
            loss = jnp.where(levels[0] < 0.5 * (1.0 - chosen[0]), 1.0, -1.0)
            carry = matrix + jnp.outer(chosen, chosen), vector + loss * chosen
            return (*carry, regret + 0.75 - chosen[0]), None

        begin = jnp.eye(dim), jnp.zeros(dim), jnp.float32(0.0)
        return lax.scan(one_round, begin, jnp.arange(horizon))[0][2]

    return trial


def successive_elimination(horizon, epsilon, means):
    """The pseudo-regret of DP-SE, whose arms are played in turn within an epoch."""
    means = jnp.asarray(means, jnp.float32)
    arms = len(means)

    def trial(key):
        order = jr.uniform(jr.fold_in(key, horizon), (arms,))

        def one_round(carry, t):
            active, epoch, pulls, sums, regret = carry
            chance_key, noise_key = jr.split(jr.fold_in(key, t))
            arm = jnp.argmin(jnp.where(active, pulls + order, jnp.inf))
            loss = jr.uniform(chance_key) < means[arm]
            pulls, sums = pulls.at[arm].add(1.0), sums.at[arm].add(loss)
            count, width = active.sum(), 0.5**epoch
            scale = count * epoch**2 * float(horizon)
            first, second = jnp.log(8.0 * scale), jnp.log(4.0 * scale)
            length = jnp.maximum(32.0 * first / width**2, 8.0 * second / epsilon / width) + 1.0
            over = (count > 1) & jnp.all(~active | (pulls >= jnp.ceil(length)))
            means_seen = (sums + jr.laplace(noise_key, (arms,)) / epsilon) / jnp.ceil(length)
            radius = jnp.sqrt(first / 2.0 / length) + second / length / epsilon
            least = jnp.min(jnp.where(active, means_seen, jnp.inf))
            active &= ~over | (means_seen - least <= 2.0 * radius)
            zero = jnp.zeros(arms)
            pulls, sums = jnp.where(over, zero, pulls), jnp.where(over, zero, sums)
            return (active, epoch + over, pulls, sums, regret + means[arm] - means.min()), None

        zero = jnp.zeros(arms)
        begin = jnp.ones(arms, bool), jnp.int32(1), zero, zero, jnp.float32(0.0)
        return lax.scan(one_round, begin, jnp.arange(horizon))[0][4]

    return trial
