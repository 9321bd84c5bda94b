"""Every pair of options of every learner, and every combinator over every learner, two deep.

The table of options is read from the signatures of the factories. Given an unknown word, a factory
names the words that it accepts, so new options are tried automatically. For any two options, every
pair of values is tried, with all others at values that fit; or the pair is refused in one sentence.

    python -m tests.combinations                # how many there are, by learner; nothing is played
    python -m tests.combinations ftrl hedge     # tries those of these learners
    python -m tests.combinations --over 1       # combinators over all learners; 2: two of them
"""

import argparse
import functools
import inspect
import itertools
import re
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax import random as jr

from dpjax import audit, combinators, domains, gram, learners, mechanisms
from dpjax.audit.verdicts import judged
from dpjax.core import Number

DIM, HORIZON, PAIRS = 3, 16, 24
HORIZONS = {"dp_ucb_int": 64, "projection_free": 64}
# Options that a user may omit, and then omits.
LEFT_OUT = "left out"
ORTHANT = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
DOMAINS = (
    "simplex", "ball", "cube", "l1_ball", "capped_simplex(2)", "fantope(2, 1)",
    "simplex of box_losses", "ball of l1_losses", "cube of ball_losses", "simplex of squared_norm",
)  # fmt: skip
# Values of numbers. The first value of a required parameter is its usual one. Numbers not listed
# here are tried at NUMBERS.
NUMBERS = (0.5, 2.0)
VALUES: dict[str, tuple] = {
    "arms": (DIM, 2), "experts": (DIM,), "dim": (DIM,), "silos": (1, 3),
    "actions": ("unit vectors", "unit vectors and their sum"),
    "domain": DOMAINS, "optimizer": ("adam",), "epsilon": (1.0, 0.05, 8.0, 1e3, 1e-6),
    "rho": (0.5, 0.01), "delta": (1e-3, 1e-6),
    "failure": (0.9, 0.01), "rate": (0.5, 16.0, 1e-3), "share": (0.0, 0.1, 1.0, 1e-42),
    "shifts": (0.0, 1.0, 1e-3), "mixing": (0.5, 1.0), "restart": (0.1, 1.0), "ratio": (2.0, 1.5),
    "tau": (2.0, 5.0), "rounds": (2.0,), "draws": (1, 4), "batch": (1, 2, 5),
    "threshold": (1.0, 4.0), "exponent": (1.1, 2.0), "log_base": (2.0, 4.0), "order": (2.0, 1.5),
    "loss_range": ((0.0, 1.0), (-0.5, 3.0), "signed", "nonnegative", "nonnegative_inside"),
    "smoothing": (0.1, 0.3), "smoothness": (0.0, 1.0), "pulls": (0, 2), "growth": (1.0, 0.1),
    "feature_bound": (1.0, 3.0), "loss_bound": (1.0, 2.0), "norm": (1.0,), "k": (2, 3),
}  # fmt: skip


# Laws that no replay sees (see the guide to audits). They are built but not replayed.
UNSEEN = ("wishart",)


class Tried(NamedTuple):
    """One configuration, and the result of its replays."""

    name: str  # as a user would write it
    failed: tuple[str, ...]  # checks of a Verdict that failed
    spent: float  # the largest epsilon of a replay; 0 if nothing is declared; nan if not replayed
    declared: float


# The table of options --------------------------------------------------------------------------


def kinds(parameter) -> tuple:
    """The types in a parameter's annotation."""
    found = parameter.annotation
    split = typing.get_args(found) if typing.get_origin(found) in UNIONS else (found,)
    return split or (found,)


UNIONS = (typing.Union, types.UnionType)


def traced(parameter) -> bool:
    """Whether a parameter is a real number that may be traced, other than delta."""
    return set(typing.get_args(Number)) <= set(kinds(parameter)) and parameter.name != "delta"


def words(factory, parameter, arguments) -> tuple[str, ...]:
    """The words that a parameter accepts, as the factory names them when refusing another."""
    try:
        factory(**arguments | {parameter: "no such word"})
    except ValueError as error:
        found = re.search(rf"{parameter} must be one of (.*); got 'no such word'", str(error))
        if found:
            return tuple(found[1].split(", "))
        raise AssertionError(f"{parameter} names no words: {error}") from error
    raise AssertionError(f"{parameter} takes any word")


@functools.cache
def mechanism_names() -> tuple[str, ...]:
    """The factories of mechanisms, plain and with each of their options."""
    found = []
    for name in mechanisms.__all__:
        parameters = inspect.signature(getattr(mechanisms, name)).parameters
        found.append(name)
        for each in list(parameters.values())[1:]:
            if bool in kinds(each):
                found.append(f"{name}({each.name}={not each.default})")
            elif each.name in ("k", "batch"):
                found.append(f"{name}({each.name}=3)")
            elif str in kinds(each) and each.name != "noise":
                for word in words(getattr(mechanisms, name), each.name, {"horizon": 4}):
                    if word != each.default:
                        found.append(f"{name}({each.name}={word!r})")
    return tuple(found)


@functools.cache
def value_of(parameter, label) -> Any:
    """The object that a word of the table denotes."""
    if parameter == "domain":
        label, _, field = label.partition(" of ")
        name, _, more = label.partition("(")
        sizes = [int(size) for size in re.findall(r"\d+", more)]
        made = getattr(domains, name)(*sizes if name == "spectrahedron" else (DIM, *sizes))
        if field == "squared_norm":
            norm = domains.squared_norm(made.project, made.centre, made.radius)
            return made._replace(regularizer=norm)
        return made._replace(losses=getattr(domains, field)(DIM)) if field else made
    if parameter == "actions":
        return ORTHANT if "sum" in label else ORTHANT[:DIM]
    if parameter == "optimizer":
        return optax.adam(0.1)
    if parameter == "mechanism":
        name, _, options = label.partition("(")
        given = dict([options.rstrip(")").split("=")]) if options else {}
        return functools.partial(
            getattr(mechanisms, name), **{key: eval(word) for key, word in given.items()}
        )
    return label


def options_of(factory) -> dict[str, inspect.Parameter]:
    """The parameters of a learner but the horizon; options of ``gram`` are named like "gram.floor".

    So every pair of them is tried, and each one beside every other option.
    """
    found = dict(inspect.signature(factory).parameters)
    found.pop("horizon")
    for law in gram.__all__ if "gram" in found else ():
        for each in inspect.signature(getattr(gram, law)).parameters.values():
            found[f"gram.{each.name}"] = each
    return found


@functools.cache
def table(name) -> dict[str, tuple]:
    """The values of each parameter of a learner but the horizon; the first one is the usual one."""
    factory, found = getattr(learners, name), {}
    parameters = options_of(factory)
    for key, each in parameters.items():
        optional = () if each.default is each.empty else (LEFT_OUT,)
        if each.name == "mechanism":
            values = mechanism_names()
        elif each.name == "gram":
            values = tuple(law for law in gram.__all__ if law != "gaussian")  # the default
        elif each.name in VALUES:
            values = VALUES[each.name]
        elif bool in kinds(each):
            values = (not each.default,)
        elif str in kinds(each):
            values = ()  # set below, once all required parameters are known
        else:
            values = NUMBERS
        found[key] = optional + tuple(value for value in values if value != each.default)
    usual = {key: values[0] for key, values in found.items()}
    for key, each in parameters.items():
        if str in kinds(each) and each.name not in VALUES and each.name != "rate":
            of_law = key.startswith("gram.")
            asked = (gram.gaussian, {}) if of_law else (factory, arguments(name, usual))
            known = words(asked[0], each.name, asked[1])
            known = tuple(word for word in known if word != each.default)
            found[key] = (LEFT_OUT, *known)
        elif str in kinds(each) and each.name == "rate":
            found["rate"] += ("noisy", "anytime")
    return found


def arguments(name, chosen) -> dict:
    """The arguments for :func:`make`."""
    given = {
        key: value_of(key.rpartition(".")[2], value)
        for key, value in chosen.items()
        if value is not LEFT_OUT
    }
    return {"horizon": HORIZONS.get(name, HORIZON), **given}


def make(name, **given) -> Any:
    """A learner from the values of its options; those of ``gram`` form a record."""
    law = {key[5:]: value for key, value in given.items() if key.startswith("gram.")}
    plain = {key: value for key, value in given.items() if not key.startswith("gram.")}
    if law or "gram" in given:
        plain["gram"] = getattr(gram, given.get("gram", "gaussian"))(**law)
    return getattr(learners, name)(**plain)


def written(name, chosen) -> str:
    """A configuration as a user would write it."""
    given = ", ".join(f"{key}={value!r}" for key, value in chosen.items() if value is not LEFT_OUT)
    return f"{name}({given})"


# Which combinations ----------------------------------------------------------------------------


class Refused(Exception):
    """A combination is refused, in one sentence."""


def built(make: Callable) -> Any:
    """Returns the result of ``make``, or raises Refused if it refuses in one sentence."""
    try:
        return make()
    except (ValueError, TypeError) as error:
        sentence = str(error)
        if "\n" in sentence or not 15 <= len(sentence) <= 400:
            raise AssertionError(f"a refusal must be one sentence, not {sentence!r}") from error
        raise Refused(sentence) from error


class Covered(NamedTuple):
    """Configurations that cover each pair of values of two options, unless it is refused."""

    configurations: list[dict]
    pairs: int  # number of pairs
    refused: dict[tuple, str]  # pairs without a configuration, and their last refusal


def pairs_of(chosen) -> set[tuple]:
    """The pairs of values in a configuration."""
    return set(itertools.combinations(sorted(chosen.items(), key=lambda item: item[0]), 2))


@functools.cache
def covered(name, tries=12) -> Covered:
    """Configurations of a learner that cover every pair of values, found greedily."""
    values, rng = table(name), np.random.default_rng(0)
    usual = {key: each[0] for key, each in values.items()}
    entries = {key: [(key, value) for value in each] for key, each in values.items()}
    names = itertools.combinations(sorted(values), 2)
    pairs = {
        pair for one, other in names for pair in itertools.product(entries[one], entries[other])
    }
    every = sorted(pairs, key=repr) or [(entry,) for key in values for entry in entries[key]]
    left, found, refused = set(every), [], {}
    for pair in every:
        if pair not in left:
            continue
        candidates = []
        for _ in range(tries):
            drawn = {key: each[rng.integers(len(each))] for key, each in values.items()}
            candidates.append(drawn | dict(pair))
        candidates.sort(key=lambda chosen: -len(pairs_of(chosen) & left))
        # Few options fit together, so more and more of the others take their usual values.
        half = [
            {key: usual[key] if rng.random() < 0.5 else value for key, value in each.items()}
            | dict(pair)
            for each in candidates
        ]
        others = [extra for key in values if key not in dict(pair) for extra in entries[key]]
        alone = [usual | dict(pair) | dict([extra]) for extra in others]
        for chosen in [*candidates, *half, usual | dict(pair), *alone]:
            try:
                built(lambda chosen=chosen: make(name, **arguments(name, chosen)))
            except Refused as refusal:
                refused[pair] = str(refusal)
                continue
            refused.pop(pair, None)
            found.append(chosen)
            left -= pairs_of(chosen) | {pair}
            break
    refused = {pair: why for pair, why in refused.items() if pair in left}
    return Covered(found, len(every), refused)


# Their cost ------------------------------------------------------------------------------------


MADE: dict = {}


def pairs_like(learner, domain) -> audit.Pair:
    """The pairs of a learner over a domain of that name, shared by equal declarations."""
    says, actions = learner.privacy, learner.action_set
    size = getattr(actions, "count", getattr(actions, "dim", None))
    alike = (
        domain, type(actions), size, getattr(actions, "arms", None), learner.horizon,
        learner.feedback, says.neighbours, says.unit,
        tuple(map(float, says.loss_range)), says.rounds_per_user, says.spacing, says.reported,
    )  # fmt: skip
    if alike not in MADE:
        MADE[alike] = audit.pairs_for(learner, PAIRS, jr.key(0))
    return MADE[alike]


def tried(name, chosen) -> Iterator[Tried]:
    """Replays a configuration with its real numbers traced, and with each at its other values.

    The other values are those that the factory accepts for the same number. They share the program.
    """
    values, parameters = table(name), options_of(getattr(learners, name))
    given = arguments(name, chosen)
    if set(UNSEEN) & {value for value in given.values() if isinstance(value, str)}:
        yield Tried(written(name, chosen), (), np.nan, np.nan)
        return
    numbers = {
        key: value
        for key, value in given.items()
        if key in parameters and traced(parameters[key]) and isinstance(value, float | int)
    }
    fixed = {key: value for key, value in given.items() if key not in numbers}

    @jax.jit
    def run(numbers, pairs, keys):
        learner = make(name, **fixed, **numbers)
        replayed = jax.vmap(lambda pair, key: audit.replay(learner, pair, key))(pairs, keys)
        privacy = learner.privacy
        return replayed, (privacy.epsilon, privacy.delta, privacy.rho)

    others = [
        numbers | {key: value}
        for key in numbers
        for value in values[key]
        if isinstance(value, float | int) and value != numbers[key]
    ]
    keys = jr.split(jr.key(1), PAIRS)
    for row in [numbers, *others]:
        try:
            learner = built(lambda row=row: make(name, **fixed, **row))
        except Refused:
            continue
        label = written(name, chosen | row)
        if np.isinf(float(learner.privacy.epsilon)):
            yield Tried(label, (), 0.0, np.inf)
            continue
        pairs = pairs_like(learner, chosen.get("domain"))
        try:
            found, declared = jax.tree.map(np.asarray, run(row, pairs, keys))
        except Exception as error:  # if plain numbers work, traced ones must
            yield Tried(label, (f"{type(error).__name__}: {error}".splitlines()[0],), 0.0, np.nan)
            break
        own = np.asarray([float(number) for number in learner.privacy[:3]])
        verdict = judged(found, learner.privacy)
        failed = verdict.failed
        if not np.allclose(np.asarray(declared, float), own, rtol=1e-5, equal_nan=True):
            failed = (*failed, f"declared {declared} if traced, else {own}")
        yield Tried(label, failed, float(verdict.spent.max()), float(learner.privacy.epsilon))


# Combinators -----------------------------------------------------------------------------------


def around(combinator, **options) -> Callable:
    """Maps a function from the horizon to a learner to such a function of the combinator."""
    return lambda make: lambda T: combinator(make(T), **options)


def user_level_on_trees(learner, **options) -> Any:
    """With the tree mechanism, and the noise of the learner's own sums."""
    sums = learner.privacy.sums
    law = "laplace" if sums is None else sums.noise
    tree = mechanisms.tree(learner.horizon, noise=law)
    return combinators.user_level(learner, rounds_per_user=2, mechanism=tree, **options)


WRAPS: dict[str, Callable] = {
    "every_round": around(combinators.every_round),
    "minibatch": lambda make: lambda T: combinators.minibatch(make(-(-T // 2)), T, 2),
    "doubling": lambda make: lambda T: combinators.doubling(make, T, first=4),
    "interleave": lambda make: lambda T: combinators.interleave(make, T, 1),
    "laplace_feedback": around(
        combinators.laplace_feedback, epsilon=1.0, threshold=4.0, null_loss=0.5
    ),
    "on_gradients": around(combinators.on_gradients),
    "private_reduction": around(combinators.private_reduction, epsilon=1.0),
    "private_reduction(noise='vector')": around(
        combinators.private_reduction, epsilon=1.0, noise="vector"
    ),
    "randomized_coordinate": around(combinators.randomized_coordinate, epsilon=1.0),
    "randomized_response": around(combinators.randomized_response, epsilon=1.0),
    "rescale_losses": lambda make: lambda T: combinators.rescale_losses(make(T), -1.0, 3.0),
    "sample_arms": around(combinators.sample_arms),
    "user_level": around(combinators.user_level, rounds_per_user=2),
    "user_level(rounds_per_release=1)": around(
        combinators.user_level, rounds_per_user=2, rounds_per_release=1
    ),
    "user_level(mechanism)": around(user_level_on_trees),
    "user_level(mechanism, spacing=2)": around(user_level_on_trees, spacing=2),
}


def bases(name) -> Iterator[dict]:
    """The usual configuration of a learner, and one for each word and flag that it accepts."""
    values, parameters = table(name), options_of(getattr(learners, name))
    usual = {key: each[0] for key, each in values.items()}
    yield usual
    for key, each in values.items():
        if {str, bool} & set(kinds(parameters[key])) and key != "loss_range":
            for value in each[1:]:
                # Most words need a delta, or none.
                for delta in values.get("delta", (LEFT_OUT,))[:2]:
                    chosen = usual | {key: value} | ({"delta": delta} if "delta" in values else {})
                    with suppress(Refused):
                        built(lambda chosen=chosen: make(name, **arguments(name, chosen)))
                        yield chosen
                        break


def wrapped(name, chosen, wraps, horizon=HORIZON):
    """A learner inside combinators, the last of which is outermost; or raises Refused."""
    given = arguments(name, chosen)

    def of_horizon(horizon):
        return make(name, **given | {"horizon": horizon})

    for wrap in wraps:
        of_horizon = WRAPS[wrap](of_horizon)
    return built(lambda: of_horizon(horizon))


def tried_within(name, chosen, wraps, horizon=HORIZON) -> Tried:
    """Replays a learner inside combinators; or raises Refused."""
    learner = wrapped(name, chosen, wraps, horizon)
    label = " of ".join([*reversed(wraps), written(name, chosen)])
    if set(UNSEEN) & set(map(str, chosen.values())):
        return Tried(label, (), np.nan, np.nan)
    declared = float(learner.privacy.epsilon)
    if np.isinf(declared):
        return Tried(label, (), 0.0, declared)
    pairs, summing = pairs_like(learner, chosen.get("domain")), None
    if learner.privacy.spacing is not None:  # Without the mechanism a replay counts a whole group.
        sums = learner.privacy.sums
        summing = mechanisms.tree(sums.horizon, noise=sums.noise)
    verdict = audit.verdict(learner, pairs, jr.key(1), mechanism=summing)
    return Tried(label, verdict.failed, float(verdict.spent.max()), declared)


def violations(found) -> list[Tried]:
    """Those that spent more than they declare, or failed another check.

    If no release is reached in so short a game, that is no violation.
    """
    return [each for each in found if set(each.failed) - {"no release"}]


def report(found) -> None:
    """Prints violations."""
    for one in violations(found):
        print("VIOLATION", one, flush=True)


SUMMARY = (
    "{} configurations for {} pairs of values, of which {} are refused; {} replayed, {} not, since "
    "no replay sees their law"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("learners", nargs="*", help="by default all, which are only counted")
    parser.add_argument("--over", type=int, help="how many combinators around each learner")
    given = parser.parse_args()
    jax.config.update("jax_disable_most_optimizations", True)
    names = given.learners or learners.__all__
    if given.over:
        counts = dict.fromkeys(("tried", "refused", "nothing declared"), 0)
        for name in names:
            within = bases(name) if given.over == 1 else itertools.islice(bases(name), 1)
            for chosen, *wraps in itertools.product(within, *[WRAPS] * given.over):
                try:
                    one = tried_within(name, chosen, wraps)
                except Refused:
                    counts["refused"] += 1
                    continue
                counts["nothing declared" if np.isinf(one.declared) else "tried"] += 1
                report([one])
            print(name, counts, flush=True)
            jax.clear_caches()
        return
    total = np.zeros(5, int)
    for name in names:
        found = covered(name)
        row = [len(found.configurations), found.pairs, len(found.refused), 0, 0]
        for chosen in found.configurations if given.learners else ():
            for one in tried(name, chosen):
                row[3 + np.isnan(one.spent)] += 1
                report([one])
        jax.clear_caches()
        total += row
        print(f"{name}: {SUMMARY.format(*row)}", flush=True)
    print(f"all: {SUMMARY.format(*total)}")


if __name__ == "__main__":
    main()
