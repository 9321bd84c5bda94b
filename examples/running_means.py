"""Exact errors of running means, for users with several rounds, by the mechanism of the sums."""

from functools import partial

import numpy as np
import scipy

from dpjax import mechanisms, noise, privacy
from dpjax.mechanisms import toeplitz


def harmonic(horizon, bands=None):
    """The factorization for means: C is the Toeplitz matrix of 1, 1/2, 1/3, ...

    It is the factorization of Kalinin, Najar, Roth & Lampert 2026, as reconstructed from public
    code. With ``bands`` only the first diagonals of C^-1 are kept, as in ``square_root``.
    """
    first = np.eye(1, horizon - 1)[0]
    inverse = scipy.linalg.solve_toeplitz((1.0 / np.arange(1.0, horizon), first), first)
    inverse[bands or horizon :] = 0.0
    column = scipy.linalg.solve_toeplitz((inverse, first), first)
    return toeplitz.from_columns(
        horizon, noise.gaussian, None, encoder=lambda: column, decoder=lambda: np.cumsum(inverse),
        sensitivity=(column.sum(), np.linalg.norm(column)),
    )  # fmt: skip


def batches(horizon):
    """Sums of batches of 1, 1, 2, 4, ... rounds. The mean is that of the latest complete batch.

    ``variance`` is t^2 times that of the mean. The mean also has fewer values.
    """
    ends = 2 ** np.arange((horizon - 1).bit_length())
    lengths, t = np.diff(ends, prepend=0), np.arange(1, horizon)
    latest = np.searchsorted(ends, t, side="right") - 1
    encoder = (np.searchsorted(ends, t) == np.arange(len(ends))[:, None]).astype(float)
    decoder = t[:, None] * (latest[:, None] == np.arange(len(ends))) / lengths
    decoder = np.concatenate([np.zeros((1, len(ends))), decoder])
    return mechanisms.per_item(horizon, noise="gaussian")._replace(
        matrices=lambda: (decoder, encoder), variance=lambda: np.sum(decoder**2, axis=1)
    )


def gaussian(name, **options):
    return partial(getattr(mechanisms, name), noise="gaussian", **options)


ROWS = {
    "tree": gaussian("tree"),
    "square_root": gaussian("square_root"),
    "buffered(normalized=True)": gaussian("buffered", normalized=True),
    "hybrid": gaussian("hybrid"),
    "unbounded": gaussian("unbounded"),
    "unbounded(made_for=16)": gaussian("unbounded", made_for=16),
    "buffered(made_for=64)": gaussian("buffered", made_for=64),
    "square_root(bands=8)": gaussian("square_root", bands=8),
    "square_root(bands=32)": gaussian("square_root", bands=32),
    "harmonic": harmonic,
    "harmonic(bands=16)": partial(harmonic, bands=16),
    "per_item": gaussian("per_item"),
    "batches": batches,
}


def least_error(matrix, steps=30):
    """The least root mean square error of any factorization of a matrix if a user has one round.

    |M V|_* / sqrt(n) is a lower bound for every diagonal V with |V|_F = 1. A fixed-point iteration
    increases it.
    """
    squares = np.full(len(matrix), 1.0 / len(matrix))
    for _ in range(steps):
        _, values, right = np.linalg.svd(matrix * np.sqrt(squares))
        squares = values @ right**2 / values.sum()
    return values.sum() / np.sqrt(len(matrix))


def errors(mechanism, rounds=1, spacing=None):
    """Root mean squares, over t, of the noise of sum t, of mean t, and of sqrt(t) times mean t."""
    norm, variance = mechanism.sensitivity[1], mechanism.variance()[1:]
    if rounds > 1:
        norm = privacy.user_sensitivity(mechanism, rounds, spacing=spacing).l2
    t = np.arange(1.0, mechanism.horizon)
    return norm * np.sqrt(np.mean(variance / np.array([t**0, t**2, t]), axis=1))


def main(count=2**10):
    """Prints a row for each mechanism, at mu = 1 and unit L2 changes of a value."""
    users = ((1, None), (4, None), (16, None), (16, count // 16))
    table = {name: [errors(make(count + 1), *user) for user in users]
             for name, make in ROWS.items()}  # fmt: skip
    # Of a user's rounds in one batch all but one are left out.
    table["batches, capped"] = [
        np.sqrt(min(rounds, count.bit_length())) * table["batches"][0] for rounds, _ in users
    ]
    for name, cells in table.items():
        shown = [f"{cell[0]:.1f} / {cell[1]:.3f} / {cell[2]:.2f}" for cell in cells]
        print("|", " | ".join([f"`{name}`", *shown]), "|")
    t = np.arange(1, count + 1)[:, None]
    least = [least_error(np.tri(count) / weight) for weight in (t, np.sqrt(t))]
    print(f"least errors of means for one round of a user: {least[0]:.3f} / {least[1]:.2f}")


if __name__ == "__main__":
    main()
