"""Play all learners that fit each setting, and write the page and its CSV file.

    python docs/which_learner.py

The learners of a setting are listed by their mean regret. The best one is chosen on one half of the
trials. Paired tests on the other half find the learners that cannot be distinguished from it.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas
from jax import random as jr

from dpjax import Environment, Learner, Privacy, Study, combinators, domains, learners, mechanisms
from dpjax.core import Arms
from dpjax.feedback import bandit, full
from dpjax.learners import factories
from dpjax.learners.entrants import DIM, Entrant, field_for
from dpjax.report import choice, estimates
from dpjax.report.output import versions, write_json
from dpjax.report.tables import format_markdown, write_csv
from dpjax.study.standard import standard

HERE = Path(__file__).parent / "which_learner"
EPSILONS = (0.1, 1.0, 10.0, np.inf)
TRIALS = 32
SHOWN = 4  # the largest number of learners that a cell names
# Without noise these are IMED, KL-UCB by batches, explore-then-commit, Hedge, follow-the-leader and
# FTRL. Like all learners that do not take an epsilon, they also play in the local model, by a
# combinator that adds this to their names.
NOISE_FREE = ("dp_imed", "dp_klucb", "explore_then_commit", "ftrl on the simplex", "hedge",
              "limited_updates")  # fmt: skip
BITS, LOSSES = " on randomized bits", " on noisy losses"
COLUMNS = ["setting", "environment", "horizon", "epsilon", "trust", "learner", "regret",
           "standard_error", "candidate", "trials"]  # fmt: skip
# Learners that identify the best arm, whatever their regret.
IDENTIFICATION = ("adap_tt", "ctb_tt", "dp_tt", "lucb", "sequential_halving", "track_and_stop",
                  "ttucb")  # fmt: skip


def uniform(feedback, horizon, arms):
    """Play arms uniformly at random, the baseline that every learner has to beat."""

    def draw(key):
        return jr.randint(key, (), 0, arms)

    return Learner(
        lambda key: ((), draw(key)), lambda state, key, seen: (state, draw(key)), feedback,
        Arms(arms), horizon, Privacy(epsilon=jnp.float32(0.0), model="local"),
    )  # fmt: skip


def on_simplex(horizon, epsilon, arms):
    """FTRL over the simplex, whose points are distributions over arms."""
    made = learners.ftrl(horizon, domains.simplex(arms), epsilon=epsilon)
    return combinators.sample_arms(made)


def on_losses(horizon, epsilon, arms, learner, **options):
    """A learner over the simplex in the local model, on losses with noise from each user."""
    made = learner(
        horizon, domains.simplex(arms), epsilon=epsilon, mechanism=mechanisms.per_item, **options
    )
    return combinators.sample_arms(made)


def on_bits(horizon, epsilon, base):
    """An entrant in the local model: without noise, on one randomized bit from each user."""
    made = base.build(horizon, np.inf)
    made = made._replace(privacy=made.privacy._replace(epsilon=np.inf))
    if made.feedback.name == "full":
        return combinators.randomized_coordinate(combinators.as_learner(made), epsilon=epsilon)
    return combinators.randomized_response(made, epsilon=epsilon)


class Setting(NamedTuple):
    """A kind of game, and the learners that play it."""

    like: Callable  # horizon -> a learner of this setting
    horizons: tuple[int, ...]
    games: tuple[str, ...]  # those standard environments of comparisons that are played
    more: dict[str, Callable]  # competitors beside those found by field_for
    slow: tuple[str, ...] = ()  # competitors that are too slow for these horizons


def bandits(arms, horizons, *games, slow=()) -> Setting:
    """Bandit feedback."""
    return Setting(lambda horizon: learners.exp3(horizon, arms), horizons, games,
                   {"uniform": partial(uniform, bandit, arms=arms)}, slow)  # fmt: skip


def experts(arms, horizons, *games) -> Setting:
    """Full information."""
    walk = partial(learners.ftpl, delta=max(horizons) ** -2.0, perturbation=0.0)
    return Setting(
        lambda horizon: learners.hedge(horizon, arms, epsilon=1.0), horizons, games,
        {"ftrl on the simplex": partial(on_simplex, arms=arms),
         "ftrl" + LOSSES: partial(on_losses, arms=arms, learner=learners.ftrl),
         "ftpl" + LOSSES: partial(on_losses, arms=arms, learner=walk),
         "uniform": partial(uniform, full, arms=arms)},
    )  # fmt: skip


SETTINGS = {
    "4 arms, bandit feedback": bandits(4, (2**9, 2**12), "narrow gap", "deterministic"),
    "10 arms, bandit feedback": bandits(
        10, (10**6,), "narrow gap", "wide gap",
        slow=("dp_ucb_bound", "kl_ucb on randomized bits", "lazy_thompson"),
    ),
    "4 arms, full information": experts(4, (2**9, 2**12), "narrow gap", "deterministic"),
    "10 arms, full information": experts(10, (10**5,), "narrow gap", "wide gap"),
    "Features, bandit feedback": Setting(
        lambda horizon: learners.linucb(horizon, DIM, epsilon=1.0, delta=1e-6), (2**8, 2**11),
        ("unit vectors", "gap 0.3"), {},
    ),
}  # fmt: skip

QUICK = "4 arms, full information"


def competitors(setting) -> tuple[dict[str, Callable], list[str]]:
    """The factories of a setting, and the names of learners that fit but do not compete."""
    longest = max(setting.horizons)
    like = setting.like(longest)
    entrants = {name: Entrant(factory, "epsilon" in signature(factory).parameters)
                for name, factory in setting.more.items()}  # fmt: skip
    out = []
    for name, entrant in field_for(like, longest).entrants.items():
        if name in IDENTIFICATION or factories.requires(name, "rho"):
            out.append(name)
        else:
            entrants[name] = entrant
    found = {name: entrant.factory for name, entrant in entrants.items()}
    if isinstance(like.action_set, Arms):
        found |= {
            name + BITS: partial(on_bits, base=entrant) for name, entrant in entrants.items()
            if name in NOISE_FREE or not (entrant.private or name == "uniform")
        }  # fmt: skip
    return {name: made for name, made in found.items() if name not in setting.slow}, out


def environments(setting) -> dict[str, Environment]:
    """The games of a setting by name."""
    actions = setting.like(max(setting.horizons)).action_set
    found = standard(actions, by_batches=False)
    return {name: found[name] for name in setting.games}


def words(setting, game) -> str:
    """The description of a game, as the end of a sentence."""
    if game in ("wide gap", "narrow gap"):
        arms = setting.like(max(setting.horizons)).action_set.count
        means = [0.3 if game == "wide gap" else 0.45, *[0.5] * (arms - 1)]
        return f"Bernoulli losses with means {', '.join(map(str, means))}; pseudo-regret"
    return {
        "deterministic": "a fixed sequence that lures learners away from the best arm; regret to "
        "that arm",
        "unit vectors": "the unit vectors as arms, losses -1 or 1 with means "
        f"{', '.join(['-0.4', *['0'] * (DIM - 1)])}; pseudo-regret",
        "gap 0.3": "10 fresh unit vectors in each round, one of them better by 0.3, losses -1 or "
        "1; pseudo-regret",
    }[game]


def play(name, setting, trials=TRIALS, progress=True) -> pandas.DataFrame:
    """The rows of a setting: one for each environment, horizon, epsilon, trust and learner."""
    games = environments(setting)
    grid = {"horizon": list(setting.horizons), "epsilon": list(EPSILONS)}
    data = Study(competitors(setting)[0], games, grid, trials, 0, 1).run(progress=progress)
    return rows(name, data["final_regret"])


def rows(name, regret) -> pandas.DataFrame:
    """The rows of a setting, from final regret by environment, horizon, epsilon and learner.

    A learner competes at an epsilon if it declares at most this epsilon, at any delta. If no one is
    trusted, its model must be the local one. At epsilon = inf all learners compete, except for
    those on randomized bits, which then equal their bases, and those on noisy losses.
    """
    means, found = estimates.mean(regret), []
    for epsilon in regret["epsilon"].values:
        here = regret.sel(epsilon=epsilon)
        private = here["privacy_epsilon"] <= epsilon * (1.0 + 1e-4)
        ends = here["learner"].str.endswith
        private &= np.isfinite(epsilon) | ~(ends(BITS) | ends(LOSSES))
        allowed = {"the server": private, "no one": private & (here["privacy_model"] == "local")}
        for trust, competes in allowed.items():
            if not competes.any() or (np.isinf(epsilon) and trust == "no one"):
                continue
            kept = here.where(competes)
            cells = means[["mean", "standard_error"]].sel(epsilon=epsilon).where(competes)
            cells["candidate"] = choice.tune(kept, "learner")["candidate"]
            cells = cells.reset_coords(drop=True).rename(mean="regret")
            order = ["environment", "horizon", "learner"]
            frame = cells.to_dataframe(dim_order=order).dropna().reset_index()
            found.append(frame.assign(
                setting=name, epsilon=epsilon, trust=trust, trials=regret.sizes["trial"]
            ))  # fmt: skip
    return pandas.concat(found)[COLUMNS]


ABOUT = """# Which learner should I take?

Look up your feedback, horizon, trust and epsilon in the tables below. Each cell names the learners
of least regret in a game. For example, take the table "{setting}".
Its cell for *{game}*, T = {horizon}, a trusted server and epsilon = 1 is: {cell}.

## How to read the tables

A cell begins with the learner of least mean regret over {trials} trials. Then it names learners
that cannot be distinguished from the best one, in the order of their means. Beside each learner are
its mean and standard error. If the standard error is large, a few trials have much more regret than
the others. A cell names at most {shown} learners and counts the others. With so few
trials, there are often many such learners.

- *Test*: the best learner is chosen on one half of the trials. On the other half, a one-sided test
  at level 95 % compares each learner with it, by paired differences. A learner is left out if it is
  found to be worse. In a trial all learners face the same losses, except for learners that play
  i.i.d. losses by whole batches.
- *Trusted* is the party that sees the losses. If it is the server, all trust models compete. If it
  is no one, only learners in the local model compete.
- *On randomized bits* are learners without noise, in the local model: each user sends one bit, by
  `combinators.randomized_response` or, with full information, `randomized_coordinate`. Without
  noise `dp_imed` is IMED, `dp_klucb` is KL-UCB by batches, and `limited_updates` is
  follow-the-leader. They do not compete in the last column. On fixed losses their regret at
  epsilon = 10 may be below that of their base, because bits are random.
- *On noisy losses* each user adds noise to all of its losses, by `mechanisms.per_item`. In the
  local model `ftrl` on the simplex has Laplace noise. `ftpl` has Gaussian noise and no other
  perturbation, so it plays the leader. They do not compete in the last column either.
- *Epsilon* is the privacy parameter of one round. A learner competes if it declares at most this
  epsilon, at any delta. If a learner has no default delta, delta is T^-2, with T the longest
  horizon of its table. [Learners](../learners.md) lists all declarations.
- `uniform` plays arms at random. If it is named, no learner was shown to be better than chance.
- The fixed sequence of *deterministic* is not the worst case. A learner for stochastic losses may
  have the least regret on it, but no bound against adversaries.
  [Theorems](../theorems/README.md) lists the known bounds.

Each learner has the default constants of its factory. At other gaps, horizons and numbers of arms,
other learners may be best. This program plays `thompson on randomized bits` in the first table's
game *narrow gap* at T = 4096:

```python
from dpjax import Study, combinators, environments, learners


def thompson_on_bits(horizon, arms, epsilon):
    return combinators.randomized_response(learners.thompson(horizon, arms), epsilon=epsilon)


coins = environments.bernoulli([0.45, 0.5, 0.5, 0.5], regret="pseudo")
grid = {{"horizon": 4096, "arms": 4, "epsilon": [0.1, 1.0, 10.0]}}
study = Study(thompson_on_bits, {{"coins": coins}}, grid, trials=32)
print(study.run().dpjax.table()[["epsilon", "mean", "privacy_model"]])
```

[`dpjax compare`](../guides/studies.md#comparisons) and
[`dpjax run`](../guides/losses.md) measure regret in your own setting.

These learners did not compete, since they identify the best arm (see the
[guide](../guides/identification.md)) or have the parameter rho instead of epsilon: {out}.{slow}

This command played {count} learners in {seconds:.0f} seconds of CPU time. It wrote this page and
[regret.csv](regret.csv), with the mean regret and standard error of every learner:

```
{command}
```
"""


def page(folder) -> str:
    """The page of a folder, from its CSV file and parameters.json."""
    found = pandas.read_csv(folder / "regret.csv", keep_default_na=False)
    about = json.loads((folder / "parameters.json").read_text(encoding="utf-8"))
    out = ", ".join(f"`{name}`" for name in about["out"])
    slow = "".join(
        f"\n\nThe table \"{setting}\" omits {', '.join(f'`{name}`' for name in names)}. "
        "By `Study.cost()`, each of them takes 40 to 57 seconds for one game there.\n"
        "With full information, ten arms are played for 10^5 rounds only: with 10^6 rounds `hedge` "
        "takes 26 seconds for one game."
        for setting, names in about["slow"].items() if names
    )  # fmt: skip
    setting, game = found["setting"].iloc[0], found["environment"].iloc[0]
    first = found[(found["setting"] == setting) & (found["environment"] == game)]
    horizon = first["horizon"].max()
    cell = _cell(first[first["horizon"] == horizon], 1.0, "the server")
    parts = [ABOUT.format(
        setting=setting, game=game, horizon=horizon, cell=cell,
        command="python docs/which_learner.py", trials=about["trials"], shown=SHOWN,
        seconds=about["cpu_seconds"], out=out, slow=slow,
        count=found["learner"].nunique(),
    )]  # fmt: skip
    header = ["game", "T", "trusted", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS[:-1]),
              "without privacy"]  # fmt: skip
    for setting, own in found.groupby("setting", sort=False):
        lines = []
        for (game, horizon), here in own.groupby(["environment", "horizon"], sort=False):
            for trust in ("the server", "no one"):
                cells = [_cell(here, epsilon, trust) for epsilon in EPSILONS]
                if any(cells):
                    lines.append((game, str(horizon), trust, *cells))
        games = "\n".join(
            f"- *{name}*: {words}." for name, words in about["games"][setting].items()
        )
        parts += [f"## {setting}\n", games + "\n", "Made by `python docs/which_learner.py`.\n",
                  format_markdown(header, lines)]  # fmt: skip
    parts.append("Next: [all learners](../learners.md), and [studies](../guides/studies.md).\n")
    return "\n".join(parts)


def _cell(rows, epsilon, trust) -> str:
    """The best learner of a cell and those that cannot be distinguished from it, with regret."""
    own = rows[(rows["epsilon"] == epsilon) & (rows["trust"] == trust)]
    own = own[own["candidate"]].sort_values("regret")
    if own.empty:
        return ""
    rows = own.to_dict("records")
    named = [f"`{row['learner']}` {row['regret']:.3g} ± {row['standard_error']:.2g}"
             for row in rows[:SHOWN]]  # fmt: skip
    more = len(rows) - len(named)
    return "; ".join([", ".join(named), *([f"{more} more"] if more else [])])


def main(out=HERE, trials=TRIALS, quick=False, progress=True):
    """Write regret.csv, parameters.json and index.md into a folder.

    Args:
      out: the folder.
      trials: the number of trials of each cell, at least 4.
      quick: whether to play short games of one setting only.
      progress: whether to show progress bars.
    """
    begin, settings, folder = time.process_time(), SETTINGS, Path(out)
    if quick:
        settings = {QUICK: SETTINGS[QUICK]._replace(horizons=(32, 64))}
    folder.mkdir(parents=True, exist_ok=True)
    found = pandas.concat([play(name, each, trials, progress) for name, each in settings.items()])
    write_csv(folder / "regret.csv", found.to_dict("records"))
    games = {name: {game: words(each, game) for game in each.games}
             for name, each in settings.items()}  # fmt: skip
    out = sorted({left for each in settings.values() for left in competitors(each)[1]})
    write_json(folder / "parameters.json", {
        "trials": trials, "games": games, "out": out, "key": "jax.random.key(0)",
        "slow": {name: each.slow for name, each in settings.items()},
        "cpu_seconds": round(time.process_time() - begin), "versions": versions(),
    })  # fmt: skip
    (folder / "index.md").write_text(page(folder), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE, metavar="FOLDER")
    parser.add_argument("--trials", type=int, default=TRIALS, metavar="N")
    parser.add_argument("--quick", action="store_true", help="short games of one setting")
    main(**vars(parser.parse_args()))
