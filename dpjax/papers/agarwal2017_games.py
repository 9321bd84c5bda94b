"""Agarwal & Singh 2017: the instances and learners of the experiment, and the cost of privacy."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray

from dpjax import bounds, domains, environments, learners, mechanisms
from dpjax.combinators import arms_as_points
from dpjax.core import Feedback
from dpjax.learners._hedge import plain_rate
from dpjax.papers import _shared as shared
from dpjax.papers.sweeps import play
from dpjax.privacy import default_delta
from dpjax.study import Study

# In float32, as they are played.
EPSILONS = (*(10.0 ** np.arange(-1.0, 3.01, 0.25)).astype(np.float32).tolist(), np.inf)
BIAS = 0.2
SEED = 2017


class Instance(NamedTuple):
    """A decision set with its losses, paired as in the paper."""

    domain: str  # name in dpjax.bounds
    make: Callable  # dim -> Domain, the same object for learners and environments


def _instance(name, domain, losses) -> Instance:
    return Instance(name, cache(lambda dim: domain(dim)._replace(losses=losses(dim))))


INSTANCES = {
    "experts": _instance("simplex", domains.simplex, domains.box_losses),
    "sphere": _instance("ball", domains.ball, domains.ball_losses),
    "cube": _instance("cube", domains.cube, domains.l1_losses),
}


def _learner(factory, with_delta=False, **options) -> Callable:
    def make(horizon, dim, instance, epsilon):
        delta = {"delta": default_delta(horizon)} if with_delta else {}
        return factory(horizon, instance.make(dim), epsilon=epsilon, **delta, **options)

    return make


IDENTICAL_LAW = partial(mechanisms.tree, identical_law=True)
LEARNERS: dict[str, Callable] = {
    "FTRL": _learner(learners.ftrl),
    "FTRL, identical law": _learner(learners.ftrl, mechanism=IDENTICAL_LAW),
    "FTRL, identical law, printed": _learner(
        learners.ftrl, mechanism=IDENTICAL_LAW, calibration="printed"
    ),
    "FTPL, Gaussian": _learner(learners.ftpl, with_delta=True),
    "FTRL, Gaussian, buffered": _learner(
        learners.ftrl, with_delta=True, noise="gaussian", mechanism=mechanisms.buffered
    ),
    "private FTAL": _learner(learners.private_ftal),
    "noisy output gradient, Gaussian": _learner(learners.private_giga, with_delta=True),
}


def _arm_learner(factory, options=lambda horizon, dim: {}) -> Callable:
    """Shift losses from [-1, 1] into [0, 1], the range of the learner's calibration."""

    def make(horizon, dim, epsilon):
        arguments = options(horizon, dim) | {"epsilon": epsilon, "delta": default_delta(horizon)}
        moved = Feedback("moved", lambda loss, action: (loss + 1.0) / 2.0)
        return factory(horizon, dim, **arguments)._replace(feedback=moved)

    return make


# These play arms, so only the instance of experts has them. The dartboard has the rate that gives
# it Hedge's distribution: (1 - eta)^L = exp(-eta' L).
ARM_LEARNERS: dict[str, Callable] = {
    "Hedge, sampled": _arm_learner(learners.hedge),
    "shrinking dartboard": _arm_learner(
        learners.shrinking_dartboard, lambda t, n: {"rate": -jnp.expm1(-plain_rate(t, n))}
    ),
}


def losses(instance: Instance, dim: int):
    """I.i.d. losses of an instance."""
    return environments.linear_losses(instance.make(dim), "iid", bias=BIAS)


def play_on_all(makers: Mapping[str, Any], instances: Mapping[str, Any], horizons: Sequence[int],
                dims: Sequence[int], epsilons: Sequence[float], trials: int,
                arm_learners: Mapping[str, Any] | None = None) -> xarray.Dataset:  # fmt: skip
    """Play learners on instances, and learners of arms on the experts.

    Returns:
      The data, with the cost of privacy in each trial, ``cost``, and two values to compare it with:
      ``centre``, the mean regret of always playing the centre against the same losses, and
      ``bound``, the theorem's bound for FTRL with the tree and ``identical_law``.
    """
    sizes = {"horizon": horizons, "dim": dims, "epsilon": epsilons}

    def study(makers, instances, environment=losses):
        return Study(makers, {"iid": environment}, {"instance": instances, **sizes}, trials, SEED,
                     checkpoints=1)  # fmt: skip

    def losses_of_arms(instance, dim):
        return arms_as_points(losses(instance, dim), dim)

    played = study(makers, instances)
    if arm_learners is not None:
        played += study(arm_learners, {"experts": INSTANCES["experts"]}, losses_of_arms)
    data = play(played).squeeze("environment")
    regret = data.final_regret.astype(np.float64)
    axes = {name: data[name].values.tolist() for name in ("instance", "horizon", "dim", "epsilon")}

    def bound(instance, horizon, dim, epsilon):
        return bounds.ftrl(horizon, dim, epsilon, domain=INSTANCES[instance].domain)

    def lost(instance, horizon, dim):
        domain = INSTANCES[instance].make(dim)
        at = {"instance": instance, "horizon": horizon, "dim": dim}
        total = data.tally_loss.isel(learner=0, epsilon=0).sel(at)
        minimizers = jax.jit(jax.vmap(domain.minimizer))
        sums = total.values[:, :dim].astype(np.float64)
        best = np.asarray(minimizers(sums.astype(np.float32)), np.float64)
        return np.mean(sums @ domain.centre - (sums * best).sum(-1))

    data["bound"] = shared.labelled(bound, **axes)
    del axes["epsilon"]
    cost = regret - regret.sel(epsilon=np.inf, drop=True)
    return data.assign(final_regret=regret, cost=cost, centre=shared.labelled(lost, **axes))
