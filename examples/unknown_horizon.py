"""The noise of prefix sums if the horizon is unknown, and of the square root if it is known."""

import numpy as np

from dpjax import mechanisms


def noise(mechanism):
    """Variances of all prefixes at equal privacy: mu = 1 and unit L2 sensitivity."""
    return mechanism.sensitivity[1] ** 2 * mechanism.variance()


def restarted(largest):
    """``square_root`` for 1, 2, 4, ... values; later prefixes keep the noise of earlier totals."""
    parts = [np.zeros(1)]
    for epoch in range(largest + 1):
        parts.append(parts[-1][-1] + noise(mechanisms.square_root(2**epoch + 1))[1:])
    return np.concatenate(parts)


def main(largest=20):
    """Prints a row for each prefix t."""
    horizon = 2**largest + 1
    found = [
        noise(mechanisms.hybrid(horizon, noise="gaussian")),
        restarted(largest),
        noise(mechanisms.unbounded(horizon)),
        noise(mechanisms.buffered(horizon, made_for=2**20)),
    ]
    for exponent in range(4, largest + 1, 4):
        t = 2**exponent
        row = [*(values[t] for values in found), noise(mechanisms.square_root(t + 1))[t]]
        print(f"| 2^{exponent} |", " | ".join(f"{value:.1f}" for value in row), "|")


if __name__ == "__main__":
    main()
