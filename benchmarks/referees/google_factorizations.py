"""Google's jax-privacy: sensitivities and errors of prefix-sum mechanisms.

    python -m benchmarks.referees.google_factorizations     # pip install 'dpjax[mf]'; seconds

Each mechanism releases B (C x + z). If C is square, its rows are sorted by the round in which they
end. Then their library computes the L2 sensitivity and the errors of all prefixes from C alone. If
C is not square, it computes the errors from D^-1 B, where D is the matrix of prefix sums. It has
separate formulas for square roots and buffered Toeplitz matrices.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.referees import frame
from dpjax import mechanisms
from dpjax.core._versions import enable_x64

HORIZON = 257  # 256 prefixes that are not empty
LONG = 10_001
MADE = {
    "tree": {},
    "honaker": {},
    "smooth": {},
    "kary": {},
    "hybrid": {},
    "stationary": {},
    "per_item": {},
    "square_root": {},
    "square_root, normalized": {"normalized": True},
    "buffered": {},
    "buffered, normalized": {"normalized": True},
}


def rows():
    """A row for each comparison."""
    try:
        from jax_privacy.matrix_factorization import (
            buffered_toeplitz,
            dense,
            sensitivity,
            toeplitz,
        )
    except ModuleNotFoundError as error:
        frame.needs(error.name, "jax-privacy", "dpjax[mf]")

    made = []
    # Their code needs float64 and implicit promotion of types and ranks.
    standard = jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow")
    with enable_x64(True), standard[0], standard[1]:
        for title, options in MADE.items():
            factory = getattr(mechanisms, title.partition(",")[0])
            mechanism = factory(HORIZON, noise="gaussian", **options)
            decoder, encoder = mechanism.matrices()
            ours = np.asarray(mechanism.variance(), np.float64)
            if encoder.shape[0] == encoder.shape[1]:
                ends = np.max(np.arange(1, HORIZON) * (encoder != 0.0), axis=1)
                encoder = jnp.asarray(encoder[np.argsort(ends)])
                theirs = sensitivity.single_participation_sensitivity(encoder)
                made.append(
                    frame.equal(f"{title}: sensitivity", mechanism.sensitivity[1], theirs, 1e-13)
                )
                errors = dense.per_query_error(strategy_matrix=encoder)
            else:
                noising = np.diff(decoder, axis=0, prepend=0.0)[1:]
                noising[0] = decoder[1]
                errors = dense.per_query_error(noising_matrix=jnp.asarray(noising))
            made.append(frame.equal(f"{title}: errors", ours[1:], errors, 1e-12))
        column = toeplitz.optimal_max_error_strategy_coefs(LONG - 1)
        mechanism = mechanisms.square_root(LONG)
        theirs = [
            toeplitz.sensitivity_squared(column) ** 0.5,
            toeplitz.per_query_error(strategy_coef=column)[-1],
        ]
        ours = mechanism.sensitivity[1], mechanism.variance()[-1]
        made.append(
            frame.equal(f"square_root, T = {LONG}: sensitivity, last error", ours, theirs, 1e-10)
        )
        best = buffered_toeplitz.optimize(n=1024, min_buffers=4, max_buffers=4, error="max")
        mechanism = mechanisms.buffered(1025)
        ours = mechanism.sensitivity[1] ** 2 * mechanism.variance().max()
        made.append(
            frame.equal("buffered, T = 1025: largest error, theirs optimised anew", ours,
                        buffered_toeplitz.max_loss(best, 1024), 1e-6)
        )  # fmt: skip
        stored = buffered_toeplitz.BufferedToeplitz.build(*mechanism_parameters(1024))
        made.append(
            frame.equal("buffered, T = 1025: largest error, stored parameters in both", ours,
                        buffered_toeplitz.max_loss(stored, 1024), 1e-10)
        )  # fmt: skip
    return made


def mechanism_parameters(prefixes):
    """The decays and scales that dpjax stores for this number of prefixes."""
    from dpjax.mechanisms.buffered_parameters import BUFFERED

    return tuple(np.asarray(values, np.float64) for values in BUFFERED[prefixes])


if __name__ == "__main__":
    frame.arguments(__doc__)
    frame.finish(rows())
