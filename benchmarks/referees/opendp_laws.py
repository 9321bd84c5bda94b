"""OpenDP: the privacy of noise according to its maps, and the draws of both libraries.

    python -m benchmarks.referees.opendp_laws     # pip install 'dpjax[referees]'; seconds

OpenDP draws its noise exactly, from a generator that cannot be seeded. So its means vary from run
to run within their standard errors, and about one run in several thousand fails by chance.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.referees import frame
from dpjax import noise, privacy

DRAWS = 50_000
SCALE = 3.0


def moments(setting, ours, theirs):
    """Rows on the absolute values, the squares and the share of small values of two samples."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    return [
        frame.compare(f"{setting}: mean of squares", ours**2, theirs**2),
        frame.compare(
            f"{setting}: share within 1 of 0", np.abs(ours) <= 1.0, np.abs(theirs) <= 1.0
        ),
    ]


def rows():
    """A row for each comparison."""
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError as error:
        frame.needs(error.name, "OpenDP", "dpjax[referees]")
    dp.enable_features("contrib", "honest-but-curious")
    integers = dp.vector_domain(dp.atom_domain(T=int))
    reals = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    laplace = dp.m.make_laplace(reals, dp.l1_distance(T=float), scale=SCALE)
    geometric = dp.m.make_laplace(integers, dp.l1_distance(T=int), scale=SCALE)
    gaussian = dp.m.make_gaussian(integers, dp.l2_distance(T=float), scale=SCALE)
    profile = dp.c.make_zCDP_to_approxDP(gaussian).map(1.0)
    kept = 1.0 / (1.0 + np.exp(-1.0))
    answer = dp.m.make_randomized_response_bool(kept, False)
    exact = [noise.discrete_gaussian.delta(SCALE, e) for e in (0.5, 1.0)]
    made = [
        frame.equal(
            "Laplace noise, epsilon", privacy.noise_ratio(1.0, SCALE), laplace.map(1.0), 1e-6
        ),
        frame.equal(
            "discrete Laplace noise, scale for epsilon",
            float(noise.discrete_laplace.single(geometric.map(1), None).scale), SCALE, 1e-6,
        ),
        frame.equal(
            "Gaussian noise, rho", privacy.gaussian_rho(1.0 / SCALE), gaussian.map(1.0), 1e-6
        ),
        frame.equal(
            "Laplace noise, rho", privacy.pure_rho(1.0 / SCALE),
            dp.c.make_pureDP_to_zCDP(geometric).map(1), 1e-6,
        ),
        frame.equal("randomized response kept with e / (1 + e), epsilon", 1.0, answer.map(1), 1e-9),
        frame.equal(
            "rho = 1 / 18, epsilon at 1e-6", privacy.zcdp_epsilon(1.0 / 18.0, 1e-6),
            profile.epsilon(1e-6), 1e-5,
        ),
        frame.equal(
            "discrete Gaussian noise, delta at 0.5 and 1", exact,
            [profile.delta(e) for e in (0.5, 1.0)], 1e-3, "differ",
        ),
    ]  # fmt: skip

    keys = jax.random.split(jax.random.key(0), 4)
    zeros, whole = jnp.zeros(DRAWS), jnp.zeros(DRAWS, jnp.int32)
    zero, none = [0.0] * DRAWS, [0] * DRAWS
    made += moments("Laplace noise", noise.laplace(keys[0], zeros, SCALE), laplace(zero))
    made += moments(
        "discrete Laplace noise", noise.discrete_laplace(keys[1], whole, SCALE), geometric(none)
    )
    made += moments(
        "discrete Gaussian noise", noise.discrete_gaussian(keys[2], whole, SCALE), gaussian(none)
    )
    made.append(
        frame.compare(
            "randomized response of 0, share of ones",
            jax.vmap(noise.randomized_response, (0, None, None, None))(
                jax.random.split(keys[3], DRAWS), 0, 1.0, 1
            ),
            [answer(False) for _ in range(DRAWS)],
        )
    )
    return made


if __name__ == "__main__":
    frame.arguments(__doc__)
    frame.finish(rows())
