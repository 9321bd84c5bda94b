"""Many experts, few arms: EXP4 on noisy losses, a bandit over the experts, or a few probes?"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import Study, bounds, environments, learners
from dpjax.combinators import as_learner
from dpjax.core import Policies
from dpjax.feedback import contextual
from dpjax.learners.parts.advised import Mixture, follow


def experts_as_arms(horizon, arms, experts, epsilon):
    """A batched bandit whose arms are the experts: it follows the chosen expert for a round."""
    bandit = as_learner(learners.batched_bandit(horizon, experts, epsilon=epsilon))

    def act(key, played):
        state, expert = played
        one = jnp.where(jnp.arange(experts) == expert, 1.0, 0.0)
        mixture = Mixture(one, jnp.zeros(()), jr.uniform(key))
        return state, jax.tree_util.Partial(follow, mixture)

    def init(key):
        return act(jr.fold_in(key, 1), bandit.init(key))

    def step(state, key, seen):
        return act(jr.fold_in(key, 1), bandit.step(state, key, seen[1]))

    actions = Policies(experts, arms)
    return bandit._replace(init=init, step=step, feedback=contextual, action_set=actions)


def one_good(arms, experts):
    """Bernoulli losses of mean 1/2. The last expert favours an arm of least loss (weight 0.9)."""
    return environments.advice(np.full(arms, 0.5), experts, informative=0.9 * np.eye(experts)[-1])


def main(horizon=2**14, trials=16, sizes=(4, 16, 64, 256), epsilons=(0.03, 0.1, 0.3, 1.0)):
    """Regret, its standard error and the three bounds, for each number of experts and epsilon."""
    factories = {
        "EXP4": learners.exp4, "experts as arms": experts_as_arms,
        "probes": learners.probing_experts,
    }  # fmt: skip
    grid = {"epsilon": epsilons, "experts": list(sizes), "arms": 4, "horizon": horizon}
    data = Study(factories, {"one good expert": one_good}, grid, trials).run(progress=False)
    final = data["regret"].isel(round=-1).reset_coords(drop=True).squeeze()
    found = final.mean("trial"), final.std("trial", ddof=1) / np.sqrt(trials)
    table, errors = (x.to_series().unstack("learner") for x in found)
    table = table.join(errors.add_suffix(", s.e."))
    epsilon, experts = (table.index.get_level_values(x).values for x in ("epsilon", "experts"))
    table["bound of EXP4"] = bounds.exp4(horizon, 4, experts, epsilon)
    table["bound of arms"] = bounds.batched_bandit(horizon, experts, epsilon)
    probes = data.sel(learner="probes").isel(trial=0, drop=True).squeeze()
    setting = (probes[f"report_{name}"] for name in ("rate", "restart", "batch", "mixing"))
    setting = (x.reset_coords(drop=True).to_series().loc[table.index].values for x in setting)
    table["bound of probes"] = bounds.probing_experts(horizon, 4, experts, *setting)
    return data, table


if __name__ == "__main__":
    data, table = main()
    print(table.round(0).astype(int).to_string())
    drawn = data.dpjax.figure(x="experts", color="learner", panel="epsilon")
    drawn.savefig("expert_advice.png")
