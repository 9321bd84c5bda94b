"""Audits of the learners that dpjax ships: what each declares beside what it was found to spend."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr
from tqdm import tqdm

from dpjax import _check, audit, domains, learners
from dpjax.analysis import plot
from dpjax.analysis.output import (
    format_table,
    output_folder,
    versions,
    write_csv,
    write_figure,
    write_json,
)
from dpjax.combinators import as_learner
from dpjax.engine.devices import cores
from dpjax.feedback import value

HORIZON = 16
# Learners that release nothing in so few rounds.
HORIZONS = {"dp_ucb_int": 2048}
# What it takes for a printed calibration, beyond its name.
PRINTED = {"scrible": {"noise": "vector"}}
PAIRS = 64
RUNS = 2**17
ARMS = 3
ACTIONS = np.array([[1.0, 0.0], [-1.0, 0.5], [-1.0, -0.5]])
DELTA = 1e-3
SEED = 2026
# A calibration that is exact in real numbers may be off by the rounding of float32.
ROUNDING = 1e-4


# Learners of points are audited on each of these.
DOMAINS = {"simplex": domains.simplex, "ball": domains.ball}


class Subject(NamedTuple):
    """A learner with the pairs that it is to be audited on."""

    learner: Any
    pairs: audit.Pair  # leading axes (count, T)


@cache
def domain_of(name):
    """Made when it is asked for: a computation at import would settle jax's devices."""
    return DOMAINS[name](ARMS)


def build(name, domain, horizon, epsilon, **keywords):
    """The learner of that name, its sizes small, with those of the keywords that it takes."""
    sizes = {
        "arms": ARMS, "actions": ACTIONS, "dim": ARMS, "delta": DELTA, "epsilon": epsilon,
        "domain": domain_of(domain) if domain else None,
    }  # fmt: skip
    factory = getattr(learners, name)
    positional, named = [], {}
    for parameter in list(inspect.signature(factory).parameters.values())[1:]:
        if parameter.name in keywords:
            named[parameter.name] = keywords[parameter.name]
        elif parameter.name == "epsilon" or parameter.default is inspect.Parameter.empty:
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = sizes[parameter.name]
            else:
                positional.append(sizes[parameter.name])
    return as_learner(factory(horizon, *positional, **named))


def domains_of(name) -> list[str]:
    """The domains on which a learner is audited; one empty name for learners of arms."""
    parameters = inspect.signature(getattr(learners, name)).parameters
    return list(DOMAINS) if "domain" in parameters else [""]


def subject(name, domain, epsilon, *, count=PAIRS, **keywords) -> Subject:
    """A learner and pairs of the losses that its declaration is about."""
    horizon = HORIZONS.get(name, HORIZON)
    learner = build(name, domain, horizon, epsilon, **keywords)
    declared = learner.privacy
    if declared.model == "joint":
        return Subject(learner, contextual_pairs(jr.key(SEED), horizon, count))
    losses = domains.box_losses(ARMS, *declared.loss_range)
    if domain:
        losses = domain_of(domain).losses
    pairs = audit.pairs(
        jr.key(SEED), horizon, losses, count,
        neighbours=declared.neighbours, unit=declared.unit,
    )  # fmt: skip
    if learner.feedback is value:
        # The range is one of values, not of vectors: these are clipped to its ends.
        middle = jnp.asarray(losses.centre, jnp.float32)[None, None]
        pairs = jax.tree.map(lambda leaf: 100.0 * (leaf - middle), pairs)
    return Subject(learner, pairs)


def contextual_pairs(key, horizon, count) -> audit.Pair:
    """Pairs of sequences of unit features (K, d) and losses -1 or 1, (K,).

    In every second pair the round's losses alone change their signs, which moves a row (features,
    loss) to an orthogonal one; in the others everything of the round changes.
    """
    keys = jr.split(key, 4)

    def draw(key):
        features = jr.normal(key, (count, horizon, ARMS, ARMS))
        features = features / jnp.linalg.norm(features, axis=-1, keepdims=True)
        return features, jr.rademacher(jr.fold_in(key, 1), (count, horizon, ARMS), jnp.float32)

    (features, losses), (others, other_losses) = draw(keys[0]), draw(keys[1])
    signs = (jnp.arange(count) % 2 == 0)[:, None, None]
    others = jnp.where(signs[..., None], features, others)
    other_losses = jnp.where(signs, -losses, other_losses)
    changed = jnp.where(jnp.arange(count) % 4 < 2, 0, jr.randint(keys[2], (count,), 0, horizon - 1))
    here = (jnp.arange(horizon)[None] == changed[:, None])[..., None]
    return audit.Pair(
        (features, losses),
        (
            jnp.where(here[..., None], others, features),
            jnp.where(here, other_losses, losses),
        ),
    )


CHECKS = tuple(audit.CHECKS)


class Verdict(NamedTuple):
    """What replays of a learner on all pairs show."""

    spent: np.ndarray  # (pairs,) epsilon at the declared delta
    touched: int  # largest number of releases that a change went into
    failed: tuple[str, ...]  # checks that failed on some pair


def replays(learner, pairs) -> Verdict:
    """Replays a learner on every pair."""
    keys = jr.split(jr.key(SEED), len(jax.tree.leaves(pairs.losses)[0]))
    run = jax.jit(jax.vmap(lambda pair, key: audit.replay(learner, pair, key)))
    result = jax.tree.map(np.asarray, run(pairs, keys))
    declared = learner.privacy
    # Compiled, it does not warn: what failed is in the verdict.
    spent = jax.jit(audit.spent, static_argnums=1)(result, float(declared.delta))
    spent = np.asarray(spent, np.float64)
    failed = [check for check in CHECKS if not getattr(result, check).all()]
    if np.isfinite(float(declared.epsilon)):
        # What is nan was not found to be within anything.
        if not spent.max() <= float(declared.epsilon) * (1.0 + ROUNDING):
            failed.append("epsilon")
        rho = float(declared.rho)
        if not (np.isnan(rho) or result.rho.max() <= rho * (1.0 + ROUNDING)):
            failed.append("rho")
        if not result.touched.any():
            failed.append("no release")
    return Verdict(spent, int(result.touched.max()), tuple(failed))


def audit_one(name, domain, epsilon, *, runs=RUNS, count=PAIRS) -> tuple[dict, list[dict]]:
    """A row of the table for one learner, and one for each of its mutants.

    Of the printed calibration ``paper`` is what the paper states, ``printed`` what is declared.
    """
    learner, pairs = subject(name, domain, epsilon, count=count)
    declared = learner.privacy
    row = {
        "learner": name,
        "domain": domain,
        "declared": float(declared.epsilon),
        "delta": float(declared.delta),
        "model": declared.model,
        "neighbours": declared.neighbours,
        "replay": None,
        "checks": "",
        "touched": None,
        "lower": None,
        "runs": None,
        "paper": None,
        "printed": None,
        "printed_replay": None,
        "mutants": "",
    }
    if not np.isfinite(row["declared"]):
        return row | {"checks": "nothing declared"}, []
    verdict = replays(learner, pairs)
    row |= {
        "replay": float(verdict.spent.max()),
        "checks": ", ".join(verdict.failed) or "pass",
        "touched": verdict.touched,
    }
    # A long game is replayed, but not attacked: 10^5 runs of it take minutes.
    if name not in HORIZONS:
        most = audit.most_visible(learner, pairs, jr.key(SEED + 1))
        pair = jax.tree.map(lambda leaf: leaf[most], pairs)
        bound = audit.epsilon(
            learner, pair, jr.key(SEED), runs=runs, delta=row["delta"], progress=False
        )
        row |= {"lower": bound.epsilon, "runs": runs}
    if "calibration" in inspect.signature(getattr(learners, name)).parameters:
        printed, printed_pairs = subject(
            name, domain, epsilon, count=count, calibration="printed", **PRINTED.get(name, {})
        )
        found = replays(printed, printed_pairs)
        row |= {
            "checks": ", ".join((*verdict.failed, *(f"printed: {f}" for f in found.failed)))
            or "pass",
            "paper": float(printed.privacy.paper_epsilon),
            "printed": float(printed.privacy.epsilon),
            "printed_replay": float(found.spent.max()),
        }
    rows = []
    losses = jax.tree.map(lambda leaf: leaf[0], pairs.losses)
    for mistake, mutant in audit.mutants(learner, losses).items():
        found = replays(mutant, pairs)
        rows.append(
            {
                "learner": name,
                "domain": domain,
                "mutant": mistake,
                "replay": float(found.spent.max()),
                "caught": ", ".join(found.failed),
            }
        )
    row["mutants"] = f"{sum(bool(r['caught']) for r in rows)} of {len(rows)} caught"
    return row, rows


def figure(rows):
    """Declared epsilon against what replay and attack found, one point a learner."""
    drawn, (panel,) = plot.panels(1, 1, size=(9.0, 6.0))
    shown = [row for row in rows if row["replay"] is not None]
    places = np.arange(len(shown))
    for key, label, marker in (
        ("declared", "declared", "_"),
        ("replay", "spent on the worst pair replayed", "o"),
        ("lower", "lower bound of the attack, 95 %", "^"),
    ):
        values = [np.nan if row[key] is None else row[key] for row in shown]
        panel.plot(places, values, marker, label=label, markersize=7)
    panel.set_xticks(
        places,
        [f"{row['learner']} {row['domain']}" for row in shown],
        rotation=75,
        ha="right",
        fontsize=8,
    )
    panel.set_yscale("symlog", linthresh=1.0)
    panel.legend(fontsize=8, frameon=False)
    plot.label_axes(panel, "", xlabel="", ylabel="$\\epsilon$ at the declared $\\delta$")
    drawn.supxlabel(
        "No violation found above the circles on the pairs that were run; nothing is shown "
        "beyond them.", fontsize=8,
    )  # fmt: skip
    return drawn


def run(
    names=None, out="results/audit", *, epsilon=1.0, runs=RUNS, count=PAIRS, progress=True
) -> str:
    """Audits learners at one epsilon and writes tables and a figure into the folder ``out``.

    Files: audit.csv (a row a learner), audit_mutants.csv (a row a mutant and learner), audit.png,
    audit.pdf, parameters.json.

    Args:
      names: of learners; all by default.
      out: folder, created if missing.
      epsilon: that is asked for.
      runs: counted runs of each sequence, for the empirical bound.
      count: pairs that are replayed.
      progress: whether to show a bar.

    Returns:
      The printed table.

    Raises:
      ValueError: there is no such learner, or a number is out of range.
      OSError: the folder cannot be written to.
    """
    names = list(learners.__all__ if names is None else names)
    for name in names:
        if name not in learners.__all__:
            meant = _check.nearest(name, learners.__all__)
            raise ValueError(f"learner: there is no {name!r}{meant}; see dpjax list")
    if len(set(names)) < len(names):
        raise ValueError(f"learner: one stands twice in {', '.join(names)}")
    if epsilon == np.inf:
        raise ValueError("epsilon must be finite, since of inf there is nothing to audit")
    _check.epsilon(epsilon)
    runs = _check.size(1, runs=runs)
    with output_folder(out) as folder:
        cases = [(name, domain) for name in names for domain in domains_of(name)]
        # Nearly all of the time is compilation, which threads share among the cores.
        with ThreadPoolExecutor(cores()) as pool:
            found = pool.map(
                lambda case: audit_one(case[0], case[1], epsilon, runs=runs, count=count), cases
            )
            bar = tqdm(found, total=len(cases), unit="learner", disable=not progress)
            rows, of_mutants = zip(*bar, strict=True)
        mutants = [row for rows_of_one in of_mutants for row in rows_of_one]
        write_csv(folder / "audit.csv", rows)
        if mutants:
            write_csv(folder / "audit_mutants.csv", mutants)
        write_json(
            folder / "parameters.json",
            {
                "epsilon": epsilon, "horizon": HORIZON, "horizons": HORIZONS, "arms": ARMS,
                "delta": DELTA, "pairs": count, "runs": runs, "confidence": 0.95,
                "training runs": audit.TRAINING, "selection runs": audit.SELECTION,
                "key": f"jax.random.key({SEED})",
                "versions": versions(),
                "backend": jax.default_backend(),
            },
        )  # fmt: skip
    if not mutants:  # nor those of an earlier audit, beside a table that is not theirs
        (Path(out) / "audit_mutants.csv").unlink(missing_ok=True)
    write_figure(out, "audit", figure, rows)
    return format_table(rows)
