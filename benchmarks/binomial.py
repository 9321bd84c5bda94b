"""Test laws.binomial and jax.random.binomial for exactness; in float32 the latter is not exact.

    python benchmarks/binomial.py [--quick]

Prints the p-values of a chi-square test over 50 quantile bins, with 4 million draws per row.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr
from scipy import stats

from dpjax.maths import laws

DRAWS = 4_000_000
COUNTS = [2**10, 2**14, 2**16, 2**17, 2**18, 2**20, 2**24, 2**30]
PROBABILITIES = [0.001, 0.3]


def p_value(draws, count, probability):
    """Returns the p-value of binned draws against Binomial(count, probability)."""
    law = stats.binom(count, float(np.float32(probability)))
    edges = np.unique(law.ppf(np.linspace(0.0, 1.0, 51)[1:-1]))
    cells = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]])) * len(draws)
    return stats.chisquare(np.bincount(np.searchsorted(edges, draws), minlength=len(cells)), cells)[
        1
    ]


def main():
    """Prints one line per count and probability."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="draw a thousandth as many numbers")
    draws = DRAWS // 1000 if parser.parse_args().quick else DRAWS
    ours = jax.jit(jax.vmap(laws.binomial, (0, None, None)))
    keys = jr.split(jr.key(1), draws)
    print(f"{'count':>8} {'p':>6} {'jax':>9} {'laws.binomial':>15}")
    for count in COUNTS:
        for probability in PROBABILITIES:
            one = jr.binomial(jr.key(7), float(count), jnp.float32(probability), (draws,))
            values = [
                p_value(np.asarray(x), count, probability)
                for x in (one, ours(keys, count, probability))
            ]
            print(f"{count:8d} {probability:6g} {values[0]:9.2g} {values[1]:15.2g}")


if __name__ == "__main__":
    main()
