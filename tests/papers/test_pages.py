"""Statements and tables of the pages in docs/papers agree with the files beside them.

``tests/data/statements.txt`` has the statements. After another run, the test shows the statement
that a page should have.
"""
# fmt: off

import re
from functools import cache

import numpy as np
import pytest

from dpjax.learners.parts import gram_calibration
from dpjax.papers import ene2021 as paper
from tests import ROOT
from tests.papers.small import read_rows
from tests.test_wrong_uses import uses

PAGES = {page.parent.name: page.read_text() for page in (ROOT / "docs/papers").glob("*/index.md")}
TEXT = " ".join(" ".join(PAGES.values()).split())
FILES = {file.stem: file for file in (ROOT / "docs/papers").glob("*/*.csv")}
INF = np.inf
THREE = ("experts", "sphere", "cube")


@cache
def read(file):
    return read_rows(FILES[file])


def table(file, **at):
    """The rows with these values; tables have six digits: 0.0316228 is 10^-1.5."""
    def same(found, value):
        if isinstance(value, str) or found == value:
            return found == value
        return abs(found - value) < 1e-4 * abs(value) < INF

    return [row for row in read(file) if all(same(getattr(row, n), v) for n, v in at.items())]


def one(file, **at):
    (row,) = table(file, **at)
    return row


def between(values, digits=1, kind="f"):
    return f"{min(values):.{digits}{kind}} to {max(values):.{digits}{kind}}"


def names(file):
    return list(dict.fromkeys(row.learner for row in read(file)))


def short(value):
    return f"{value:.1e}".replace("e+0", "e")


def orders_of_tossou2017():
    """DP-EXP3-Lap is ahead at the two large levels; at small ones, little is learned on (b)-(d)."""
    for level, ahead in ((25.7244, True), (10.0, True), (1.0, False), (0.1, False)):
        for adversary in ("deterministic", "stochastic", "fully oblivious", "oblivious"):
            lap = one("tossou2017", adversary=adversary, learner="DP-EXP3-Lap", epsilon=level)
            taus = table("tossou2017", adversary=adversary, learner="EXP3_tau")
            tau = min(taus, key=lambda row, level=level: abs(np.log(row.epsilon / level)))
            assert (lap.regret < tau.regret) == ahead, (adversary, level)
            if level <= 1.0 and adversary != "deterministic":
                assert min(lap.regret, tau.regret) > 0.85 * 0.0375 * 2**18
    return ()


def over_ftrl(learner, column):
    return between([getattr(one("agarwal2017_free", instance=n, learner=learner), column)
                    / getattr(one("agarwal2017_free", instance=n, learner="FTRL"), column)
                    for n in THREE])


def fits(learner, variable):
    return [one("agarwal2017_slopes", learner=learner, variable=variable, instance=name)
            for name in THREE]


def less_by_scalar_noise():
    """By how much regret is less with noise on the number; resolved from epsilon 0.32 to 10."""
    def worst(kind, epsilon):
        """The row of the difficulty with the largest regret, T = 2^14, 48 trials."""
        rows = table("agarwal2017_bandits", instance="ball", learner=f"SCRiBLE, {kind}",
                     epsilon=epsilon, horizon=2**14, size=8, trials=48)
        return max(rows, key=lambda row: row.regret)

    texts = {}
    for k in range(-4, 4):
        scalar, *vectors = (worst(kind, 10.0 ** (k / 2)) for kind in
                            ("scalar noise", "vector noise", "vector noise, printed"))
        away, error = zip(*((row.regret - scalar.regret,
                             np.hypot(row.standard_error, scalar.standard_error))
                            for row in vectors), strict=True)
        texts[k] = f"{away[0]:.0f} ({error[0]:.0f})"
        assert (away[0] > 3.0 * error[0]) == (-1 <= k <= 2)
        assert not -1 <= k <= 2 or away[1] > 3.0 * error[1]
    return [texts[k] for k in (-4, -3, -2, 0, 2, 3)]


def bandit_slopes(learner):
    return [one("agarwal2017_bandits_slopes", learner=learner, variable=variable,
                epsilon=epsilon).slope for variable in "TN" for epsilon in (10.0, INF)]


def final(learner, epsilon, instance="C2", column="mean"):
    return getattr(one("sajed2019", learner=learner, asked=epsilon, instance=instance), column)


def klucb_over(learner):
    """The range of the ratio of means, and the ratio on C1 at 0.1, where one run moves the mean."""
    ratios = {(i, e): final("DP-KLUCB", e, i) / final(learner, e, i)
              for i in ("C1", "C2", "C3", "C4") for e in (0.1, 0.25, 0.5, 1.0, INF)}
    moved = ratios.pop(("C1", 0.1))
    return between(ratios.values(), 2), moved


def over_the_lower_bound():
    """The largest usual ratio, the number of epsilons, and the ratios of four exceptions."""
    rows = table("sajed2019", learner="DP-KLUCB")
    ratios = {(row.instance, row.asked): row.mean / row.lower_d_epsilon for row in rows}
    odd = [("C1", 0.0177828), ("C1", 0.0562341), ("C1", 0.1), ("C4", 0.0316228)]
    apart = [ratios.pop(point) for point in odd]
    assert min(apart) > max(ratios.values())
    return max(ratios.values()), len({row.asked for row in rows}) - 1, *apart


def knees(family):
    found = [row.epsilon for row in read("sajed2019_knee") if row.learner.startswith(family)]
    return " to ".join(f"{v:.2g}" if v > 9.5 else f"{v:.1f}" for v in (min(found), max(found)))


def shown(learner, epsilon=1.0):
    return table("sajed2019", learner=learner, asked=epsilon, instance="C2", horizon=125000)[0].mean


LEVELS = (*(10.0 ** np.arange(-3.0, 2.5, 0.5)), INF)


def of(learner, epsilon, column="time"):
    return np.array([getattr(one("azize2023", learner=learner, instance=f"mu{i}",
                                 epsilon=epsilon), column) for i in range(1, 7)])


def onset(learner):
    rows = table("azize2023_onset", learner=learner)
    return between([row.crossing / row.predicted for row in rows], 2)


def released():
    rows = table("azize2023", learner="AdaP-TT, released rule")
    return [row for row in rows if row.epsilon < 0.011]


def cost(learner, epsilon):
    means = [one("hanna2022", instance="K = 20, d = 5", learner=name, epsilon=e,
                 horizon=1e8).mean for name, e in ((learner, epsilon), ("exact", INF))]
    return means[0] / means[1]


def degrees_of_freedom(calibration):
    levels = gram_calibration.levels_of(50_000_000, calibration)
    return float(gram_calibration.wishart_freedom(6, levels, 1.0, 0.1, calibration))


def grown(learner, gap):
    rows = table("shariff2018_curves", learner=learner, gap=gap)
    (half,) = (row for row in rows if row.round == 535_566)
    return 100.0 * (rows[-1].mean / half.mean - 1.0)


def bandit(instance="ball", calibration="single_change", horizon=2**14, **more):
    return one("ene2021", instance=instance, noise="gaussian", horizon=horizon, epsilon=1.0,
               calibration=calibration, rate=1.0, trials=24, **more)


def calibration_and_mechanism():
    tree, buffered, plain = (
        one("ene2021_baselines", instance="ball", learner=f"PRIVATEBANDIT{kind}", epsilon=epsilon)
        for kind, epsilon in (("", 1.0), (", buffered", 1.0), ("", INF)))
    calibration = bandit(calibration="printed", dim=5).regret / bandit(dim=5).regret
    assert calibration > tree.regret / buffered.regret
    return calibration, tree.regret / buffered.regret, tree, buffered, plain


def first_horizon_with_a_signal():
    domain = paper.INSTANCES["ball"](None)

    def signal(horizon, gradient):
        scale = paper.noise_scale(domain, horizon, "gaussian", "printed", 1.0)
        return paper.signal_to_noise(scale, horizon, "gaussian", 5, gradient)

    row = table("ene2021", instance="ball", noise="gaussian", horizon=2**18, rate=1.0,
                calibration="printed", epsilon=1.0)[0]
    gradient = row.signal_to_noise / signal(2**18, 1.0)
    return next(2.0**k for k in range(4, 62, 2) if signal(2**k, gradient) > 1.0)


def ratios(name, other="central, Gaussian", file="trust", epsilons=(0.01, 0.1, 1.0)):
    return [one(file, learner=name, epsilon=e).mean / one(file, learner=other, epsilon=e).mean
            for e in epsilons]


def onsets(game):
    found = {row.learner: row.crossing for row in table("trust_onset", game=game)}
    local = [f"{found.pop(f'local, {n}'):.2f}" for n in ("randomized response", "Laplace")]
    ends = [f"{end:.2f}" for end in (min(found.values()), max(found.values()))]
    return " to ".join(dict.fromkeys(ends)), *local


def last(learner, epsilon):
    return one("trust_slopes", learner=learner, epsilon=epsilon, trials=64.0)


STATEMENTS = uses("statements.txt")


@pytest.mark.parametrize(("code", "statement"), STATEMENTS, ids=[words for _, words in STATEMENTS])
def test_a_page_states_the_numbers_of_its_tables(code, statement):
    values = eval(code, globals())
    statement = statement.format(*(values if isinstance(values, list | tuple) else [values]))
    assert statement in TEXT, f"a page should say: {statement}"


def test_statements_without_numbers():
    for row in table("tossou2017_memory", learner="EXP3_tau"):
        assert row.mean + 4 * row.standard_error < row.bound
    both = [one("agarwal2017", learner=name, epsilon=INF)
            for name in ("shrinking dartboard", "Hedge, sampled")]  # one law, at one rate
    errors = np.hypot(*(row.standard_error for row in both))
    assert abs(both[0].regret - both[1].regret) < 2.0 * errors
    for learner in ("FTRL", "private FTAL"):
        assert [row.epsilon for row in fits(learner, "T")] == [r.epsilon for r in fits("FTRL", "T")]
    for instance in ("C1", "C2", "C3", "C4"):
        whole, tenth = (final("DP-SE", epsilon, instance) / final("AdaP-KLUCB", epsilon, instance)
                        for epsilon in (1.0, 0.1))
        assert whole > 2.0 and (tenth < 1.0) == (instance != "C4")
    asked = {row.asked for row in table("sajed2019", learner="DP-UCB-Int") if row.asked <= 3}
    assert asked == {0.03, 0.1, 0.25, 0.5, 1.0, 3.0}
    assert all(row.stopped == 1.0 for row in read("azize2023") + read("azize2023_plain"))
    for row in table("azize2023_errors", learner="AdaP-TT, released"):
        assert (row.error_low > 0.1) == (row.epsilon < 0.1)
    assert all(row.error == 0.0 for row in table("azize2023_errors", learner="AdaP-TT, printed"))
    quarter = table("azize2023_budget", instance="mu4", trials=1000, part=1 / 4)
    assert [(r.epsilon, r.halving_error) for r in quarter] == [(0.1, 0.0), (1.0, 0.0), (INF, 0.0)]
    assert all(row.other < row.elimination for row in table("hanna2022_rounds", learner="UCB1"))
    assert max(grown("Gaussian", 0.1), *(grown("Gaussian, tight", gap) for gap in (0, 0.1))) < 0.5
    assert {row.trials for row in read("trust_linear")} == {200.0}


def lines(page):
    """The cells of each line of the tables of a page."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGES[page].splitlines()
            if line.startswith("| ")]


def cells(found, mean=".4g", error=".2g", of=("mean", "standard_error")):
    """A mean and its error in each row."""
    return [f"{getattr(row, of[0]):{mean}} ± {getattr(row, of[1]):{error}}".replace("e+0", "e")
            for row in found]


def test_cells_of_the_tables_are_those_of_the_files():
    for name in names("trust"):
        rows = [one("trust", learner=name, epsilon=epsilon, trials=1000.0)
                for epsilon in (0.01, 0.1, 1.0)]
        means = [f"{row.mean:.4g} ± {row.standard_error:.2g}" for row in rows]
        assert [name, *means, *(f"{row.factor:.3g}" for row in rows)] in lines("trust")
    known = {f"{row.regret:.0f} -{row.gini_below:.0f} +{row.gini_above:.0f}"
             for row in read("tossou2017")}
    shown = re.findall(r"\d+ -\d+ \+\d+", PAGES["tossou2017"])
    assert len(shown) == 50 and {*shown} == known

    bandits = [line for line in lines("agarwal2017-bandits") if line[1] in ("arms", "ball")]
    for learner, instance, model, *shown in bandits:
        for cell, epsilon in zip(shown, (0.1, 1.0, 10.0, INF), strict=True):
            found = table("agarwal2017_bandits", learner=learner, instance=instance, model=model,
                          epsilon=epsilon, horizon=2**14, size=8, trials=48)
            worst = sorted(found, key=lambda row: row.regret)[-1:]
            assert [cell] == (cells(worst, ".0f", ".0f", ("regret", "standard_error")) or [""])
    stochastic = [line for line in lines("sajed2019") if len(line) == 6 and " ± " in line[2]]
    for learner, epsilon, *shown in stochastic:
        found = [table("sajed2019", learner=learner, asked=float(epsilon), instance=i)[0]
                 for i in ("C1", "C2", "C3", "C4")]
        assert shown == cells(found, ".0f", ".0f")
    assert (len(bandits), len(stochastic)) == (9, 18)

    free = {line[0]: line[2:8] for line in lines("agarwal2017")}
    for name in names("agarwal2017_free"):
        wanted = []
        for instance in THREE:
            for row in table("agarwal2017_free", learner=name, instance=instance) or [None]:
                text = row and f"{row.epsilon:.3g} ({row.low:.3g} to {row.high:.3g})"
                wanted += ["beyond 1000" if "inf (" in text else text,
                           f"{row.without_privacy:.3g}"] if row else ["", ""]
        assert free[name] == wanted

    elimination = {line[0]: line[1:6] for line in lines("hanna2022") if "±" in line[1]}
    for name in ("exact", "Chernoff", "printed", "local, exact", "DP-SE"):
        assert elimination[name] == cells(table("hanna2022", instance="K = 20, d = 5",
                                                learner=name, horizon=1e8)[-5:])

    known = {f"{row.regret / row.centre:.3f} ({row.standard_error / row.centre:.3f})"
             for row in read("ene2021") if (row.rate, row.trials) == (1.0, 24.0)
             and row.epsilon in (1.0, INF)}
    shown = re.findall(r"\| (\d\.\d{3} \(\d\.\d{3}\))(?= \|)", PAGES["ene2021"])
    assert len(shown) == 4 * 7 + 2 * 3 and {*shown} <= known

    known = [f"{row.mean:.3g} +- {row.standard_error:.2g}" for row in read("shariff2018")]
    assert sorted(re.findall(r"[\d.e+]+ \+- [\d.e+]+", PAGES["shariff2018"])) == sorted(known)


def test_stopping_times_of_the_table():
    """Means and standard errors, which are half of Student's interval over 1.9623."""
    shown = {(line[0], line[1]): line[2:] for line in lines("azize2023") if len(line) > 2}
    private = [(name, f"{e:g}", table("azize2023", learner=name, epsilon=e))
               for name in names("azize2023") for e in (0.01, 1.0)]
    plain = [(f"{name}, not private", "inf", table("azize2023_plain", learner=name))
             for name in names("azize2023_plain")]
    for name, epsilon, found in private + plain:
        for row in found:
            row.error_of_time = (row.time_high - row.time_low) / 2 / 1.9623
        assert shown[name, epsilon] == cells(found, of=("time", "error_of_time"))
        assert shown["lower bound", epsilon] == [f"{row.lower_bound:.4g}".replace("e+0", "e")
                                                 for row in found]
