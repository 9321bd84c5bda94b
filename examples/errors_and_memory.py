"""Exact errors and memory of all mechanisms for Gaussian noise, beside a lower bound."""

from functools import partial

import jax
import numpy as np
import scipy

from dpjax import mechanisms

ROWS = {
    "tree": mechanisms.tree,
    "honaker": mechanisms.honaker,
    "smooth": mechanisms.smooth,
    "hybrid": mechanisms.hybrid,
    "kary": mechanisms.kary,
    "square_root": mechanisms.square_root,
    "square_root(normalized=True)": partial(mechanisms.square_root, normalized=True),
    "buffered": mechanisms.buffered,
    "buffered(normalized=True)": partial(mechanisms.buffered, normalized=True),
    "buffered(made_for=2**20)": partial(mechanisms.buffered, made_for=2**20),
    "stationary": mechanisms.stationary,
    "unbounded": mechanisms.unbounded,
    "per_item": mechanisms.per_item,
}
DENSE = 2**12  # prefixes up to which binned matrices are computed
SLOW = {"square_root(normalized=True)": 2**16}  # its variance needs T^2 operations


def lower_bound(count):
    """The sum of the singular values of the matrix of prefix sums, divided by their number n.

    For A = B C it is at most |B|_F |C|_F / n, and so at most the root mean square error, which is
    |B|_F / sqrt(n) times the largest column norm of C.
    """
    odd = 2 * np.arange(count) + 1
    return np.mean(0.5 / np.sin(odd * np.pi / (4 * count + 2)))


def least_error(count, steps=100):
    """The least root mean square error of any factorization: a fixed point, from below.

    |A V|_* / sqrt(n) is a lower bound for every diagonal V with |V|_F = 1, and the best is sharp.
    """
    sums, squares = np.tri(count), np.full(count, 1.0 / count)
    for _ in range(steps):
        _, values, right = np.linalg.svd(sums * np.sqrt(squares))
        squares = values @ right**2 / values.sum()
    return values.sum() / np.sqrt(count)


def errors(decoder, norm):
    """Root mean square and largest error of a matrix B, and the largest column norm of C."""
    variance = np.sum(decoder**2, axis=1)
    return norm * np.sqrt(variance.mean()), norm * np.sqrt(variance.max())


def bins(count, most=8):
    """For t = 1 .. count, the first columns of the bins of row t, an exponential histogram.

    At most ``most`` bins have each length 1, 2, 4, ...; then the two oldest are merged.
    """
    starts, levels = [], []
    for t in range(count):
        starts, levels, level = [*starts, t], [*levels, 0], 0
        while levels.count(level) > most:
            oldest = levels.index(level)
            levels[oldest : oldest + 2], level = [level + 1], level + 1
            del starts[oldest + 1]
        yield np.array(starts)


def binned(decoder):
    """Errors and number of bins if each entry of a triangular B is the mean of its bin.

    A stream keeps the sum of the draws of each bin. C = B^-1 A, so that B C is A exactly.
    """
    rows, kept = np.zeros_like(decoder), 0
    for t, starts in enumerate(bins(len(decoder))):
        lengths = np.diff(starts, append=t + 1)
        means = np.add.reduceat(decoder[t, : t + 1], starts) / lengths
        rows[t, : t + 1], kept = np.repeat(means, lengths), max(kept, len(starts))
    encoder = scipy.linalg.solve_triangular(rows, np.tri(len(rows)), lower=True)
    return *errors(rows, np.linalg.norm(encoder, axis=0).max()), kept


def binned_square_root(count):
    return binned(mechanisms.square_root(count + 1).matrices()[0][1:])


def binned_stationary(count):
    """Rows of the Cholesky factor of the covariance of the prefixes 1 .. n, which is triangular."""
    decoder, _ = mechanisms.stationary(count + 1).matrices()
    covariance = scipy.linalg.toeplitz(decoder[1:] @ decoder[1])
    return binned(np.linalg.cholesky(covariance))


def declared(make, count):
    """Errors of a mechanism at mu = 1 and unit L2 sensitivity, and the numbers that it keeps."""
    mechanism = make(count + 1, noise="gaussian")
    variance = mechanism.sensitivity[1] ** 2 * mechanism.variance()[1:]
    state, _ = jax.eval_shape(mechanism.stream((), scale=1.0).init, jax.random.key(0))
    kept = sum(leaf.size for leaf in jax.tree.leaves(state) if leaf.dtype == np.float32)
    # The exact sum and its rounding error are not noise.
    return np.sqrt(variance.mean()), np.sqrt(variance.max()), kept - 2


def table(counts):
    """{row: (root mean square error, largest error, numbers kept) of each count, or None}."""
    found = {"lower bound": [(lower_bound(count),) * 2 for count in counts]}
    for name, make in ROWS.items():
        found[name] = [declared(make, n) if n <= SLOW.get(name, n) else None for n in counts]
    for name, make in (("square_root, binned", binned_square_root),
                       ("stationary, binned", binned_stationary)):  # fmt: skip
        found[name] = [make(n) if n <= DENSE else None for n in counts]
    return found


def main(counts=(2**8, 2**12, 2**16, 2**20)):
    """Prints a row per mechanism: mean and largest errors, and memory at the last count <= 2^12."""
    last = max(index for index, count in enumerate(counts) if count <= DENSE)
    for name, cells in table(counts).items():
        shown = [f"{cell[0]:.2f} / {cell[1]:.2f}" if cell else "" for cell in cells]
        print("|", " | ".join([f"`{name}`", *shown, str(*cells[last][2:])]), "|")
    small = min(counts)
    print(f"least root mean square error for {small} prefixes: {least_error(small):.4f}")


if __name__ == "__main__":
    main()
