"""All theorems by name, and the learners that have none, each with the reason."""

from collections.abc import Iterable

from dpjax.bounds.theorems import arms, points, vectors
from dpjax.bounds.theorems.statement import Theorem
from dpjax.core import _check

# A theorem has the name of its learner. If a learner has several, a hyphen and the case follow.
THEOREMS: dict[str, Theorem] = {**arms.THEOREMS, **points.THEOREMS, **vectors.THEOREMS}

_STOPS = "its theorems bound the stopping time, not regret"
_ORDER = "only the order of the bound of {} is known to us"
# Reasons why there is no theorem, and the learners.
_REASONS = {
    _STOPS: "adap_tt ctb_tt dp_tt lucb track_and_stop ttucb",
    "only the order of its bound is known to us": "adac_gope",
    "theorems are measured over epsilon, but it takes rho": "adac_oful adac_ucb",
    "its bound exceeds the largest possible regret at the horizons in use":
        "cucb robust_elimination",
    "the theorem of Azize et al. 2025 is asymptotic": "dp_imed dp_klucb",
    "Azize & Basu 2022 do not print the constants of its bound": "adap_klucb",
    _ORDER.format("Hu et al. 2025"): "dp_ts_ucb",
    _ORDER.format("Mishra & Thakurta 2015"): "dp_ucb",
    _ORDER.format("Tossou & Dimitrakakis 2016"): "dp_ucb_bound dp_ucb_int",
    _ORDER.format("Agrawal & Goyal 2017"): "gaussian_thompson",
    _ORDER.format("Hu & Hegde 2022"): "lazy_thompson",
    "the theorem of Garivier & Cappe 2011 for c = 0, as used here, is asymptotic": "kl_ucb",
    "its bound is on pseudo-regret": "online_frank_wolfe",
    "its theorem bounds the probability of a wrong arm, not regret": "sequential_halving",
    "the theorem of Kaufmann et al. 2012 is asymptotic": "thompson",
}  # fmt: skip
WITHOUT: dict[str, str] = {
    name: reason for reason, names in _REASONS.items() for name in names.split()
}

# Papers that are reproduced here but have no theorem on regret, with the reason.
PAPERS_WITHOUT: dict[str, str] = {
    "azize2023": _STOPS,
    "trust": "it is our own study, of learners with theorems in their own papers",
}


def find(name: str) -> Theorem:
    """The theorem of that name; raises a ValueError if there is none.

    Examples:
      >>> theorem = theorems.find("hedge")
      >>> theorem.paper, list(theorem.environments)[:3], theorem.sizes
      ('cesa-bianchi2006', ['deterministic', 'stochastic', 'oblivious'], {'arms': 4})
      >>> round(float(theorem.bounds["printed"](10_000, np.inf)), 1)
      83.3
    """
    if name not in THEOREMS:
        meant, known = _check.nearest(str(name), THEOREMS), ", ".join(THEOREMS)
        raise ValueError(f"theorem: there is no {name!r}{meant}; known are {known}")
    return THEOREMS[name]


def named(words: Iterable[str]) -> list[str]:
    """The names of the theorems that words refer to: theorems, learners or papers.

    A paper and a learner refer to all of their theorems. Hyphens and underscores are equivalent,
    and each theorem is listed once.

    Raises:
      ValueError: a word refers to no theorem. If it is a learner or a paper without one, the
        message states the reason.

    Examples:
      >>> theorems.named(["exp3-minibatch", "auer2002"])
      ['exp3_minibatch', 'exp3_minibatch-memory', 'exp3', 'ucb1', 'exp4']
    """
    names: dict[str, None] = {}
    for word in words:
        plain = word.replace("-", "_")
        meant = [name for name, theorem in THEOREMS.items() if plain in _meanings(name, theorem)]
        if not meant:
            raise ValueError(f"theorem: {_unknown(word, plain)}")
        names |= dict.fromkeys(meant)
    return list(names)


def _meanings(name, theorem) -> set[str]:
    return {word.replace("-", "_") for word in (name, name.split("-")[0], theorem.paper)}


def _unknown(word, plain) -> str:
    reasons = WITHOUT | PAPERS_WITHOUT
    if plain in reasons:
        return f"dpjax has no theorem for {word}: {reasons[plain]}"
    known = [*THEOREMS, *dict.fromkeys(theorem.paper for theorem in THEOREMS.values())]
    learners = dict.fromkeys(name.split("-")[0] for name in THEOREMS)
    meant = _check.nearest(word, [*known, *learners, *reasons])
    return f"there is no theorem, learner or paper {word!r}{meant}; dpjax theorem lists them"
