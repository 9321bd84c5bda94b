"""Errors of prefix-sum mechanisms at equal privacy, and whether they depend on the horizon."""

from functools import partial

import numpy as np

from dpjax import mechanisms

ROWS = {name: getattr(mechanisms, name) for name in mechanisms.__all__ if name != "exact"} | {
    "square_root(normalized=True)": partial(mechanisms.square_root, normalized=True),
    "square_root(bands=16)": partial(mechanisms.square_root, bands=16),
    "buffered(normalized=True)": partial(mechanisms.buffered, normalized=True),
    "buffered(made_for=2**20)": partial(mechanisms.buffered, made_for=2**20),
}


def main(horizon=2**10):
    """Prints a row per mechanism: "yes" if noise and sensitivity do not depend on the horizon."""
    for name, make in ROWS.items():
        same, errors = True, []
        for law, draw in (("laplace", 2.0), ("gaussian", 1.0)):
            try:
                built, longer = make(horizon, noise=law), make(2 * horizon, noise=law)
            except ValueError:  # unbounded has no Laplace noise
                errors.append("none")
                continue
            used = law == "gaussian"
            variances = built.variance(), longer.variance()[:horizon]
            same &= np.allclose(built.sensitivity[used], longer.sensitivity[used])
            same &= np.allclose(*variances)
            error = built.sensitivity[used] * np.sqrt(draw * variances[0][1:].mean())
            errors.append(f"{float(f'{error:.3g}'):g}")
        print("|", " | ".join([f"`{name}`", "yes" if same else "no", *errors]), "|")


if __name__ == "__main__":
    main()
