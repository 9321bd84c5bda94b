"""Theorems on learners over convex sets."""

from collections.abc import Callable
from functools import partial

import numpy as np

from dpjax import bounds, domains, environments, learners, mechanisms, privacy
from dpjax.bounds.theorems.statement import Theorem, of_size, plain, unknown
from dpjax.environments import families, loss_families
from dpjax.environments.families import Family

DIM = 5
ROOT, PRIVATE_ROOT = {"horizon": 0.5}, {"horizon": 0.5, "epsilon": -1.0}
EDGES = [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]  # three paths from 0 to 3, of two or three edges


def _linear(kind, domain):
    return environments.linear_losses(domain, kind)


def _distances(domain):
    return environments.convex_losses(domain, loss_families.distance(domain))


LINEAR: dict[str, Callable] = {
    kind: partial(_linear, kind) for kind in ("iid", "drifting", "alternating")
}
CONVEX: dict[str, Callable] = {
    "iid": partial(_linear, "iid"),
    "alternating": partial(_linear, "alternating"),
    "distances": _distances,
}


def _corner():
    """x >= 0 with entries that sum to at most 1; its own losses have length at most 1."""
    return domains.polytope(np.vstack([-np.eye(DIM), np.ones(DIM)]), np.eye(DIM + 1)[DIM])


def _directions(domain, horizon) -> dict[str, Family]:
    """Oblivious linear losses on a domain, from the function that makes it."""
    return {"directions": families.directions(domain(), horizon)}


def _reacting(horizon) -> dict[str, Family]:
    """Oblivious and adaptive linear losses on the ball."""
    ball = partial(domains.ball, DIM)
    return {**_directions(ball, horizon), "reactions": families.reactions(ball())}


def _at_domain(theorem, domain, name) -> Theorem:
    """A theorem on a domain, made by a function, with a name in ``bounds.random_losses``."""

    def lower(horizon, epsilon):
        return bounds.random_losses(horizon, DIM, domain=name)

    searched = partial(_directions, domain)
    return theorem._replace(sizes={"domain": domain}, families=searched, lower=lower)


def _on_ball(learner, paper, source, exponents, kinds=LINEAR, **readings) -> Theorem:
    """A theorem on the unit ball. The readings are functions (T, N, epsilon) -> bound."""
    of_ball = of_size(learner, paper, source, exponents, kinds, {}, DIM, 2.0, **readings)
    return _at_domain(of_ball, partial(domains.ball, DIM), "ball")


def _on(name, learner, paper, source, exponents, **readings) -> Theorem:
    """A theorem on a domain, with its own losses; readings are (T, N, epsilon, domain=name)."""
    named = {reading: partial(bound, domain=name) for reading, bound in readings.items()}
    of_ball = _on_ball(learner, paper, source, exponents, **named)
    width = 1.0 if name == "simplex" else 2.0  # the largest <l, x - y>
    of_ball = of_ball._replace(largest=lambda horizon: width * horizon)
    return _at_domain(of_ball, partial(getattr(domains, name), DIM), name)


def _inverse_mu(horizon, epsilon) -> float:
    """1 / mu of (epsilon, T^-2)."""
    delta = privacy.default_delta(float(horizon))
    return float(privacy.gaussian_inverse_mu(float(epsilon), delta))


def _ftpl(horizon, domain, epsilon):
    delta = privacy.default_delta(horizon)
    return learners.ftpl(horizon, domain, epsilon=epsilon, delta=delta)


def _ftpl_bound(horizon, dim, epsilon):
    return bounds.ftpl_private(horizon, dim, _inverse_mu(horizon, epsilon))


def _ftpl_rate(horizon, dim, epsilon):
    return bounds.ftpl_rate(horizon, dim, epsilon, np.asarray(horizon, float) ** -2)


def _giga(horizon, domain, epsilon):
    delta = privacy.default_delta(horizon)
    return learners.private_giga(horizon, domain, epsilon=epsilon, delta=delta)


def _giga_bound(horizon, dim, epsilon):
    """The bound if rounding doubles the noise. The learner refuses horizons with more rounding."""
    return bounds.private_giga(horizon, dim, _inverse_mu(horizon, epsilon), drift=1.0)


def _beyond_ball(horizon):
    """The largest regret of points up to 2 sqrt(N) / T^(1/4) outside the ball."""
    return (2.0 + 2.0 * DIM**0.5 / np.asarray(horizon, float) ** 0.25) * horizon


def _semi_bandit(name, vertices, ones, **sizes) -> Theorem:
    """A theorem on vertices with at most so many ones, whose entries have losses in [0, 1]."""

    def domain():
        return vertices()._replace(losses=domains.box_losses(DIM, 0.0, 1.0))

    def bound(horizon, dim, epsilon):
        return bounds.semi_bandit_ftrl(horizon, dim, ones, epsilon, **sizes)

    theorem = of_size(
        learners.semi_bandit_ftrl, "audibert2014",
        f"in the style of Audibert, Bubeck & Lugosi 2014, on {name}, with our constants",
        PRIVATE_ROOT, LINEAR, {"domain": domain}, DIM, ones, derived=bound,
    )  # fmt: skip
    return theorem._replace(families=partial(_directions, domain))


def _noiseless_descent(horizon, domain):
    return learners.online_gradient(horizon, domain, epsilon=np.inf, mechanism=mechanisms.exact)


def _on_every_domain() -> dict[str, Theorem]:
    """Theorems of Agarwal & Singh 2017 on each of their domains."""
    theorems = {}
    tree = partial(mechanisms.tree, identical_law=True)
    for name in ("simplex", "ball", "cube"):
        theorems[f"ftrl-{name}"] = _on(
            name, partial(learners.ftrl, mechanism=tree), "agarwal2017",
            "Agarwal & Singh 2017, Theorem 3.4, derived by strong convexity", ROOT,
            printed=bounds.ftrl_printed, derived=bounds.ftrl,
        )  # fmt: skip
        theorems[f"scrible-{name}"] = _on(
            name, learners.scrible, "agarwal2017-bandits",
            "Agarwal & Singh 2017, Theorem 4.5, with the constants of its proof", PRIVATE_ROOT,
            derived=bounds.scrible,
        )  # fmt: skip
    theorems["scrible-polytope"] = _on_ball(
        learners.scrible, "agarwal2017-bandits",
        "Agarwal & Singh 2017, Theorem 4.5, with the constants of its proof", PRIVATE_ROOT,
        derived=partial(bounds.scrible_polytope, rows=DIM + 1, bound=1.0),
    )._replace(
        sizes={"domain": _corner}, lower=unknown, families=partial(_directions, _corner), slow=True,
    )  # fmt: skip
    return theorems


THEOREMS: dict[str, Theorem] = {
    **_on_every_domain(),
    "ftpl": _on_ball(
        _ftpl, "agarwal2017", "Agarwal & Singh 2017, Theorem 3.5, derived with our constants", ROOT,
        rate=_ftpl_rate, derived=_ftpl_bound,
    ),
    "online_gradient": _on_ball(
        _noiseless_descent, "zinkevich2003", "Zinkevich 2003 by Hazan 2016, Theorem 3.1", ROOT,
        printed=lambda horizon, dim, epsilon: bounds.online_gradient(horizon),
    )._replace(families=_reacting),
    "private_ftal": _on_ball(
        learners.private_ftal, "smith2013", "Smith & Thakurta 2013 with our constants",
        {"horizon": 0.5, "epsilon": -0.5}, derived=bounds.private_ftal,
    )._replace(families=_reacting),
    "private_giga": _on_ball(
        _giga, "jain2012", "Jain, Kothari & Thakurta 2012 with our constants",
        {"horizon": 0.75, "epsilon": -0.5, "without privacy": 0.5}, derived=_giga_bound,
    ),
    "projection_free": _on_ball(
        learners.projection_free, "ene2021",
        "Ene, Nguyen & Vladu 2021, Lemma 8, derived with our constants and noise",
        {"horizon": 0.75, "epsilon": -1.0}, CONVEX,
        rate=bounds.projection_free_rate, derived=bounds.projection_free,
    )._replace(largest=_beyond_ball),
    "one_point_gradient": _on_ball(
        learners.one_point_gradient, "flaxman2005", "Flaxman et al. 2005, Theorem 2, as recalled",
        {"horizon": 0.75}, CONVEX,
        printed=plain(bounds.flaxman_printed), derived=plain(bounds.one_point_gradient),
    ),
    "private_one_point": _on_ball(
        learners.private_one_point, "smith2013",
        "in the style of Smith & Thakurta 2013, with our constants",
        {"horizon": 0.75}, CONVEX, derived=bounds.private_one_point,
    ),
    "semi_bandit_ftrl-sets": _semi_bandit(
        "2-sets", partial(domains.capped_simplex, DIM, 2), ones=2
    ),
    "semi_bandit_ftrl-paths": _semi_bandit(
        "paths", partial(domains.paths, EDGES, 0, 3), ones=3, paths=3
    ),
    "two_point_gradient": _on_ball(
        learners.two_point_gradient, "shamir2017",
        "Agarwal et al. 2010 and Shamir 2017 with our constants and noise",
        {"horizon": 0.5, "epsilon": -0.5}, CONVEX, derived=bounds.two_point_gradient,
    ),
}  # fmt: skip
