"""All theorems by name, and the learners that have none, each with the reason."""

from collections.abc import Iterable

from dpjax.bounds.theorems import arms, points, vectors
from dpjax.bounds.theorems.statement import Theorem
from dpjax.core import _check

# A theorem has the name of its learner. If a learner has several, a hyphen and the case follow.
THEOREMS: dict[str, Theorem] = {**arms.THEOREMS, **points.THEOREMS, **vectors.THEOREMS}

# Learners without a theorem here, with the reason.
_STOPS = "its theorems bound the stopping time, not regret"

WITHOUT: dict[str, str] = {
    "adac_gope": "only the order of its bound is known to us",
    "adac_oful": "theorems are measured over epsilon, but it takes rho; see bounds.adac_oful",
    "adac_ucb": "theorems are measured over epsilon, but it takes rho; see bounds.adac_ucb",
    "adap_klucb": "Azize & Basu 2022 do not print the constants of its bound",
    "adap_tt": _STOPS,
    "ctb_tt": _STOPS,
    "cucb": "its bound exceeds the largest possible regret at the horizons in use; see bounds.cucb",
    "dp_imed": "the theorem of Azize et al. 2025 is asymptotic",
    "dp_klucb": "the theorem of Azize et al. 2025 is asymptotic",
    "dp_ts_ucb": "only the order of the bound of Hu et al. 2025 is known to us",
    "dp_tt": _STOPS,
    "dp_ucb": "only the order of the bound of Mishra & Thakurta 2015 is known to us",
    "dp_ucb_bound": "only the order of the bound of Tossou & Dimitrakakis 2016 is known to us",
    "dp_ucb_int": "only the order of the bound of Tossou & Dimitrakakis 2016 is known to us; with "
    "the paper's constants some runs never leave a worse arm",
    "gaussian_thompson": "only the order of the bound of Agrawal & Goyal 2017 is known to us",
    "kl_ucb": "the theorem of Garivier & Cappe 2011 for c = 0, as used here, is asymptotic",
    "lazy_thompson": "only the order of the bound of Hu & Hegde 2022 is known to us",
    "lucb": _STOPS,
    "online_frank_wolfe": "its bound is on pseudo-regret; see bounds.online_frank_wolfe",
    "robust_elimination": "its bound exceeds the largest possible regret at the horizons in use; "
    "see bounds.robust_elimination",
    "sequential_halving": "its theorem bounds the probability of a wrong arm, not regret",
    "thompson": "the theorem of Kaufmann et al. 2012 is asymptotic",
    "track_and_stop": _STOPS,
    "ttucb": _STOPS,
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
        meant = [name for name, each in THEOREMS.items() if plain in _meanings(name, each)]
        if not meant:
            raise ValueError(f"theorem: {_unknown(word, plain)}")
        names |= dict.fromkeys(meant)
    return list(names)


def _meanings(name, theorem) -> set[str]:
    return {each.replace("-", "_") for each in (name, name.split("-")[0], theorem.paper)}


def _unknown(word, plain) -> str:
    reasons = WITHOUT | PAPERS_WITHOUT
    if plain in reasons:
        return f"dpjax has no theorem for {word}: {reasons[plain]}"
    known = [*THEOREMS, *dict.fromkeys(each.paper for each in THEOREMS.values())]
    learners = dict.fromkeys(name.split("-")[0] for name in THEOREMS)
    meant = _check.nearest(word, [*known, *learners, *reasons])
    return f"there is no theorem, learner or paper {word!r}{meant}; dpjax theorem lists them"
