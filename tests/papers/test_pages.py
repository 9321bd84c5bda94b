"""Statements and tables of the pages in docs/papers agree with the files beside them.

Each sentence is written from the tables: after another run, the test shows the sentence that a page
should have.
"""
# fmt: off

import csv
import re
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from dpjax.learners.parts import gram_calibration
from dpjax.papers import ene2021 as paper
from tests import ROOT

PAGES = {page.parent.name: page.read_text() for page in (ROOT / "docs/papers").glob("*/index.md")}
TEXT = " ".join(" ".join(PAGES.values()).split())
FILES = {file.stem: file for file in (ROOT / "docs/papers").glob("*/*.csv")}
INF = np.inf
THREE = ("experts", "sphere", "cube")


def number(text):
    try:
        return float(text)
    except ValueError:
        return text


@cache
def read(file):
    """All rows of a table, numbers as floats."""
    with open(FILES[file], newline="") as lines:
        return [SimpleNamespace(**{name: number(text) for name, text in row.items()})
                for row in csv.DictReader(lines)]


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


def tossou2017():
    yield ("DP-EXP3-Lap has less regret on (a)-(d) at 25.7 and 10, and EXP3_tau at 1 and 0.1. At "
           "these two levels, neither has learned much on (b)-(d).")
    for level, ahead in ((25.7244, True), (10.0, True), (1.0, False), (0.1, False)):
        for adversary in ("deterministic", "stochastic", "fully oblivious", "oblivious"):
            lap = one("tossou2017", adversary=adversary, learner="DP-EXP3-Lap", epsilon=level)
            taus = table("tossou2017", adversary=adversary, learner="EXP3_tau")
            tau = min(taus, key=lambda row, level=level: abs(np.log(row.epsilon / level)))
            assert (lap.regret < tau.regret) == ahead, (adversary, level)
            if level <= 1.0 and adversary != "deterministic":
                assert min(lap.regret, tau.regret) > 0.85 * 0.0375 * 2**18
    row = one("tossou2017", adversary="stochastic", learner="EXP3_tau", level="paper")
    yield (f"epsilon = {row.epsilon:.1f} at delta = T^-2. The paper's theorem, as reconstructed, "
           f"gives {row.printed_epsilon:.0f}.")
    yield f"tau = 19, 25.7 ({row.printed_epsilon:.0f} as reconstructed)"
    means = [f"{one('tossou2017_memory', learner=name, memory=m).mean:.1e}".replace("e+0", "e")
             for name, m in (("EXP3", 4), ("EXP3_tau", 4), ("EXP3_tau", 16))]
    yield ("mean policy regret {}. EXP3_tau with tau = 19 has {} at m = 4 and {} at m = "
           "16.".format(*means))
    for row in table("tossou2017_memory", learner="EXP3_tau"):
        assert row.mean + 4 * row.standard_error < row.bound
    row = one("tossou2017", adversary="deterministic", learner="DP-EXP3-Lap", level="paper")
    yield (f"bounds regret by {row.printed_bound:.0f} at epsilon = {row.epsilon:.0f}. We measured "
           f"{row.mean:.0f} (standard error {row.standard_error:.0f}) against (a).")
    yield f"With 2b + 1 the bound is {row.bound:.0f}, and it held."


def agarwal2017():
    at = {(row.instance, row.learner): row for row in read("agarwal2017_free")}

    def ratios(learner, column):
        return between([getattr(at[n, learner], column) / getattr(at[n, "FTRL"], column)
                        for n in THREE])

    yield ("FTPL is free from about the same epsilon, with "
           f"{ratios('FTPL, Gaussian', 'without_privacy')} times the regret.")
    yield f"costs a factor of {ratios('FTRL, identical law', 'epsilon')} in epsilon."
    both = ("shrinking dartboard", "Hedge, sampled")
    plain = [one("agarwal2017", learner=name, epsilon=INF) for name in both]
    numbers = [*(row.regret for row in plain), *(row.standard_error for row in plain)]
    assert abs(numbers[0] - numbers[1]) < 2.0 * np.hypot(*numbers[2:])  # one law, at one rate
    yield "({:.0f} and {:.0f}, standard errors {:.0f} and {:.0f})".format(*numbers)
    free = [at["experts", name].epsilon for name in both]
    yield "The dartboard is free from {:.1f} on, and Hedge from {:.0f} on.".format(*free)

    def fits(learner, variable):
        return [one("agarwal2017_slopes", learner=learner, variable=variable, instance=name)
                for name in THREE]

    ours, theirs, sizes = fits("FTRL", "T"), fits("private FTAL", "T"), fits("FTRL", "N")
    assert [row.epsilon for row in ours] == [row.epsilon for row in theirs]
    yield ("The fitted exponents for FTRL are {0} on experts, {1} on the sphere and {2} on the "
           "cube. For private FTAL, which the paper improves on, they are {3.slope:.2f}, "
           "{4.slope:.2f} and {5.slope:.2f}. Both are fitted at the same epsilon, {3.epsilon:.3g}, "
           "{4.epsilon:.3g} and {5.epsilon:.3g},".format(
               *(f"{row.slope:.2f} ({row.low:.2f} to {row.high:.2f})" for row in ours), *theirs)
           ).replace("-0.00 (", "0.00 (")
    steep = between([row.slope for row in fits("FTRL", "1/epsilon")])
    yield (f"(FTRL: {steep} in 1/epsilon; " + "{0.slope:.1f}, {1.slope:.1f} and {2.slope:.1f} in "
           "N, at epsilon = {0.epsilon:.3g}, {1.epsilon:.3g} and {2.epsilon:.3g})".format(*sizes))


def agarwal2017_bandits():
    def worst(kind, epsilon):
        """The row of the difficulty with the largest regret, T = 2^14, 48 trials."""
        rows = table("agarwal2017_bandits", instance="ball", learner=f"SCRiBLE, {kind}",
                     epsilon=epsilon, horizon=2**14, size=8, trials=48)
        return max(rows, key=lambda row: row.regret)

    texts = {}
    for k in range(-4, 4):  # resolved, by 3 standard errors, from 0.32 to 10
        scalar, *vectors = (worst(kind, 10.0 ** (k / 2)) for kind in
                            ("scalar noise", "vector noise", "vector noise, printed"))
        away, error = zip(*((row.regret - scalar.regret,
                             np.hypot(row.standard_error, scalar.standard_error))
                            for row in vectors), strict=True)
        texts[k] = f"{away[0]:.0f} ({error[0]:.0f})"
        assert (away[0] > 3.0 * error[0]) == (-1 <= k <= 2)
        assert not -1 <= k <= 2 or away[1] > 3.0 * error[1]
    yield ("From epsilon = 0.32 to 10, noise on the observed number (scalar) costs SCRiBLE less "
           "than the paper's noise on the loss vector.")
    yield (f"by {texts[-4]} at 0.01, {texts[-3]} at 0.032, {texts[-2]} at 0.1, {texts[0]} at 1, "
           f"{texts[2]} at 10 and {texts[3]} at 31.6.")

    def slopes(learner):
        return [one("agarwal2017_bandits_slopes", learner=learner, variable=variable,
                    epsilon=epsilon).slope for variable in "TN" for epsilon in (10.0, INF)]

    yield ("The fitted exponents at epsilon = 10 and without privacy are, for DP-EXP2, {:.2f} and "
           "{:.2f} in T (1/2 in the paper's Table 2) and {:.2f} and {:.2f} in N "
           "(1/2).".format(*slopes("DP-EXP2")))
    yield ("For SCRiBLE with scalar noise they are {:.2f} and {:.2f} in T (1/2) and {:.2f} and "
           "{:.2f} in N (3/2).".format(*slopes("SCRiBLE, scalar noise")))
    yield ("({0.regret:.1f} without privacy, {1.regret:.0f} at epsilon = 1, standard errors "
           "{0.standard_error:.0f} and {1.standard_error:.0f};".format(
               *(one("agarwal2017_bandits_adversaries", losses="adaptive",
                     learner="SCRiBLE, scalar noise", epsilon=epsilon) for epsilon in (INF, 1.0))))


def final(learner, epsilon, instance="C2", column="mean"):
    return getattr(one("sajed2019", learner=learner, asked=epsilon, instance=instance), column)


def sajed2019():
    points = [(i, e) for i in ("C1", "C2", "C3", "C4") for e in (0.1, 0.25, 0.5, 1.0, INF)]
    equal, own = ({(i, e): final("DP-KLUCB", e, i) / final(other, e, i) for i, e in points}
                  for other in ("AdaP-KLUCB, constant 1", "AdaP-KLUCB"))
    odd = "C1", 0.1  # where one run moves the mean
    medians = [final(n, 0.1, "C1", "q50") for n in ("DP-KLUCB", "AdaP-KLUCB, constant 1")]
    yield (f"The exception is {equal.pop(odd):.2f} on C1 at 0.1, because one run of the thousand "
           f"has regret 2.5e6 (ratio of medians: {medians[0] / medians[1]:.2f}).")
    yield (f"With 1 in both, DP-KLUCB, which keeps all losses, has {between(equal.values(), 2)} of "
           "the mean regret of AdaP-KLUCB at epsilon = 0.1, 0.25, 0.5, 1 and inf on the four "
           "instances.")
    # One run r among n changes the mean by r / n, and the standard error equally.
    assert f"{1000 * final('DP-KLUCB', 0.1, 'C1', 'standard_error'):.1e}" == "2.5e+06"
    moved = own.pop(odd)
    yield (f"Compared with AdaP-KLUCB at 3.1, the ratio of means is {between(own.values(), 2)} "
           f"({moved:.2f} on C1 at 0.1)")
    rows = table("sajed2019", learner="DP-KLUCB")
    ratios = {(r.instance, r.asked): r.mean / r.lower_d_epsilon for r in rows}
    odd = [("C1", 0.0177828), ("C1", 0.0562341), ("C1", 0.1), ("C4", 0.0316228)]
    apart = [ratios.pop(point) for point in odd]
    assert min(apart) > max(ratios.values())
    yield (f"at most {max(ratios.values()):.2f} times the lower bound with d_epsilon, the "
           f"divergence of its index. This holds without privacy and at each of "
           f"{len({row.asked for row in rows}) - 1} epsilons from 0.001 to 100, except for C1 at "
           "0.0178, 0.0562 and 0.1 ({:.2f}, {:.2f} and {:.2f}) and C4 at 0.0316 "
           "({:.2f}).".format(*apart))
    most = max(row.q50 / row.lower_d_epsilon for row in rows)
    yield f"The median is at most {most:.2f} times the bound everywhere."
    for instance in ("C1", "C2", "C3", "C4"):
        one_, tenth = (final("DP-SE", epsilon, instance) / final("AdaP-KLUCB", epsilon, instance)
                       for epsilon in (1.0, 0.1))
        assert one_ > 2.0 and (tenth < 1.0) == (instance != "C4")
    at = {row.learner: row.mean for row in table("sajed2019_horizon", epsilon=1.0, horizon=1e7)}
    yield "For this T we find {:.1f} times less, and {:.1f} with constant 1".format(
        *(at["DP-SE"] / at[name] for name in ("AdaP-KLUCB", "AdaP-KLUCB, constant 1")))

    def span(family):
        knees = [row.epsilon for row in read("sajed2019_knee") if row.learner.startswith(family)]
        return " to ".join(f"{v:.2g}" if v > 9.5 else f"{v:.1f}" for v in (min(knees), max(knees)))

    yield (f"depends on the instance: {span('DP-SE')} for DP-SE, {span('AdaP')} for the AdaP "
           f"family, {span('DP-KLUCB')} for DP-KLUCB")

    def shown(learner, epsilon=1.0):
        found = table("sajed2019", learner=learner, asked=epsilon, instance="C2", horizon=125000)
        return f"{found[0].mean:.0f}"

    yield (f"DP-UCB {shown('DP-UCB')} (standard error "
           f"{final('DP-UCB', 1.0, column='standard_error'):.0f}), Lazy-UCB {shown('Lazy-UCB')}, "
           f"DP-UCB-Bound {shown('DP-UCB-Bound')}, Lazy-DP-TS {shown('Lazy-DP-TS')}; without "
           f"privacy UCB1 {shown('UCB1', INF)}, KL-UCB {shown('KL-UCB', INF)}, Thompson "
           f"{shown('Thompson', INF)}. If DP-UCB splits its epsilon over the arms, as "
           "reconstructed from public implementations, its regret is "
           f"{shown('DP-UCB, split')} and it declares only "
           f"{final('DP-UCB, split', 1.0, column='epsilon'):g}.")
    yield ("The printed interval, as reconstructed, declares "
           f"{final('DP-UCB-Int, printed', 1.0, column='epsilon'):.1f} if 1 is requested.")
    rows = [row for row in table("sajed2019", learner="DP-UCB-Int") if row.asked <= 3]
    assert {row.asked for row in rows} == {0.03, 0.1, 0.25, 0.5, 1.0, 3.0}
    less = np.ceil(100 * (1 - min(row.epsilon / row.asked for row in rows)))
    yield ("For requested epsilons from 0.03 to 3, the derived interval declares up to "
           f"{less:.0f} % less.")
    ratios = [row.ratio for row in read("sajed2019_stopping")]
    yield f"the rule stopped after {between(ratios, 2)} times as many rounds."
    two, ten = (between([row.ratio for row in table("sajed2019_pairwise", arms=arms)], 0)
                for arms in (2, 10))
    yield (f"it pulls a suboptimal arm {two} times as often as DP-SE with 2 arms and {ten} times "
           "with 10")


def azize2023():
    epsilons = (*(10.0 ** np.arange(-3.0, 2.5, 0.5)), INF)

    def of(learner, epsilon, column="time"):
        return np.array([getattr(one("azize2023", learner=learner, instance=f"mu{i}",
                                     epsilon=epsilon), column) for i in range(1, 7)])

    assert all(row.stopped == 1.0 for row in read("azize2023") + read("azize2023_plain"))
    steep = {name: between(of(name, 1e-3) / of(name, 1e-2)) for name in ("DP-TT", "DP-SE")}
    flat = max(np.ptp(np.log([of(name, epsilon) for epsilon in epsilons[7:-1]]), axis=0).max()
               for name in names("azize2023"))
    yield (f"At epsilon = 0.001, DP-TT takes {steep['DP-TT']} times as long as at 0.01, and DP-SE "
           f"{steep['DP-SE']} times. From 3.16 to 100, no learner's mean changes by more than "
           f"{np.ceil(100 * np.expm1(flat)):.0f} %.")
    onsets = {name: table("azize2023_onset", learner=name) for name in names("azize2023")}
    ratios = {name: between([row.crossing / row.predicted for row in rows], 2)
              for name, rows in onsets.items()}
    yield (f"This epsilon is {between([row.crossing for row in onsets['DP-TT']], 3)}, depending on "
           f"the instance. It is {ratios['DP-TT']} times the epsilon at which the lower bounds for "
           "private and for all learners meet.")
    yield (f"This factor is {ratios['AdaP-TT, Hoeffding']} for AdaP-TT with Hoeffding's rule, "
           f"{ratios['DP-SE']} for DP-SE and {ratios['AdaP-TT, released rule']} for AdaP-TT with "
           "the released rule.")
    over = np.array([of("DP-TT", epsilon, "ratio") for epsilon in epsilons]).ravel()
    yield f"DP-TT takes {between(over)} times the lower bound,"
    small, whole = (between(of("DP-TT", e) / of("DP-SE", e), 2) for e in (1e-3, 1.0))
    yield f"{small} times as long as DP-SE at epsilon = 0.001, and {whole} times at 1."
    kept = of("DP-TT, keeping", INF)
    yield ("Without privacy, DP-TT that keeps all losses takes "
           f"{between(kept / of('DP-TT', INF), 2)} times as long as DP-TT that forgets. But at "
           f"epsilon = 100 it still takes {between(of('DP-TT, keeping', 100.0) / kept, 2)} times "
           "as long as without privacy,")
    at = {row.epsilon: row for row in table("azize2023_errors", learner="AdaP-TT, released")}
    yield ("share of errors is {0.error:.3f} (95 %: {0.error_low:.3f} to {0.error_high:.3f}) at "
           "epsilon = 0.01 and {1.error:.3f} ({1.error_low:.3f} to {1.error_high:.3f}) at "
           "0.001.".format(at[0.01], at[0.001]))
    assert all((row.error_low > 0.1) == (epsilon < 0.1) for epsilon, row in at.items())
    rows = [r for r in table("azize2023", learner="AdaP-TT, released rule") if r.epsilon < 0.011]
    yield (f"At the three epsilons up to 0.01 the share is {between([r.error for r in rows], 3)}, "
           f"and the interval lies above 0.01 in {sum(row.error_low > 0.01 for row in rows)} of "
           f"{len(rows)} cells.")
    printed = table("azize2023_errors", learner="AdaP-TT, printed")
    assert all(row.error == 0.0 for row in printed)
    ours = [row for name in ("AdaP-TT, Hoeffding", "DP-TT")
            for row in table("azize2023_errors", learner=name)]
    ours += [row for row in read("azize2023") if "released" not in row.learner]
    yield (f"never erred and takes {between([r.time / at[r.epsilon].time for r in printed])} times "
           f"as long. Our rules erred in at most {1000 * max(row.error for row in ours):.0f} of "
           "1000 trials")
    quarter, sixteenth = (table("azize2023_budget", instance="mu4", trials=1000, part=part)
                          for part in (1 / 4, 1 / 16))
    assert [(r.epsilon, r.halving_error) for r in quarter] == [(0.1, 0.0), (1.0, 0.0), (INF, 0.0)]
    yield f"never erred in 1000 trials (95 %: at most {quarter[0].halving_error_high:.4f})."
    yield "With a sixteenth, its share of errors was {:.3f}, {:.3f} and {:.3f}".format(
        *(row.halving_error for row in sixteenth))


def hanna2022():
    rows = table("hanna2022_rounds", learner="UCB1")
    assert all(row.other < row.elimination for row in rows)
    yield ("UCB1, which is not private, is ahead too, although it ignores the vectors. It has "
           f"{rows[0].other:.0f} (standard error {rows[0].other_error:.0f}), less than elimination "
           "at any epsilon")
    rows = {row.epsilon: row for row in table("hanna2022_rounds", learner="LinUCB")}
    yield ("less regret from round {:.0f} on at epsilon = 0.1, from {:.0f} at 0.25, {:.0f} at 1 "
           "and {:.0f} at 10.".format(*(round(rows[e].from_round, -3) for e in (0.1, 0.25, 1, 10))))
    yield f"ahead throughout ({rows[INF].other:.0f}, elimination {rows[INF].elimination:.0f})."
    yield (f"LinUCB has {rows[1].other:.0f} (standard error {rows[1].other_error:.0f}), "
           f"elimination {rows[1].elimination:.0f} ({rows[1].elimination_error:.0f})")

    def factor(learner, epsilon):
        means = [one("hanna2022", instance="K = 20, d = 5", learner=name, epsilon=e,
                     horizon=1e8).mean for name, e in ((learner, epsilon), ("exact", INF))]
        return means[0] / means[1]

    yield (f"privacy costs {100 * factor('exact', 1.0) - 100:.0f} % at epsilon = 1 and "
           f"{100 * factor('exact', 10.0) - 100:.0f} % at 10, with the exact radii; at 0.1 it "
           f"costs a factor of {factor('exact', 0.1):.0f}. Noise on each loss costs a factor of "
           f"{factor('local, exact', 1.0):.0f} at epsilon = 1, and "
           f"{round(factor('local, exact', 0.1), -2):.0f} at 0.1.")
    yield ("to the power {:.2f} at epsilon = 1 (T from 1e5 to 1e9), and {:.2f} without privacy. "
           "With noise on each loss the exponent is {:.2f} at epsilon = 1 and {:.2f} at "
           "0.1".format(*(one("hanna2022_exponents", learner=name, epsilon=e).exponent
                          for name, e in (("exact", 1.0), ("exact", INF), ("local, exact", 1.0),
                                          ("local, exact", 0.1)))))


def shariff2018():
    counts = [float(gram_calibration.wishart_freedom(
        6, gram_calibration.levels_of(50_000_000, calibration), 1.0, 0.1, calibration))
        for calibration in ("code", "derived")]
    yield ("The authors' program takes {:.0f} degrees of freedom per node. With the same theorem "
           "and zCDP accounting, {:.0f} are enough".format(*counts))

    def grown(learner, gap):
        rows = table("shariff2018_curves", learner=learner, gap=gap)
        (half,) = (row for row in rows if row.round == 535_566)
        return 100.0 * (rows[-1].mean / half.mean - 1.0)

    wishart = [grown(kind, gap) for kind in ("Wishart", "Wishart, unshifted") for gap in (0.0, 0.1)]
    yield (f"regret grew by {grown('Gaussian', 0.0):.1f} % with the published Gaussian noise at "
           "gap 0, by less than 0.5 % with other Gaussian noise, and by "
           f"{between(wishart)} % with Wishart noise")
    assert max(grown("Gaussian", 0.1), *(grown("Gaussian, tight", gap) for gap in (0, 0.1))) < 0.5
    tight, code, shifted = ([one("shariff2018", learner=name, gap=gap) for gap in (0, 0.1)]
                            for name in ("Gaussian, tight", "Gaussian", "Wishart"))
    yield (f"With published Gaussian noise, our regret is {code[0].ratio:.2f} and "
           f"{code[1].ratio:.2f} of that in the published figure")
    for a, b, c in zip(tight, code, shifted, strict=True):
        assert 12.5 < b.mean / a.mean < 14.5 and 6.5 < c.mean / b.mean < 7.9


def ene2021():
    def run(instance="ball", calibration="single_change", horizon=2**14, **more):
        return one("ene2021", instance=instance, noise="gaussian", horizon=horizon, epsilon=1.0,
                   calibration=calibration, rate=1.0, trials=24, **more)

    tree, buffered, plain = (
        one("ene2021_baselines", instance="ball", learner=f"PRIVATEBANDIT{kind}", epsilon=epsilon)
        for kind, epsilon in (("", 1.0), (", buffered", 1.0), ("", INF)))
    calibration = run(calibration="printed", dim=5).regret / run(dim=5).regret
    mechanism = tree.regret / buffered.regret
    assert calibration > mechanism
    yield ("The calibration matters most: on the ball at T = 2^14 the printed one has "
           f"{calibration:.1f} times the regret of `single_change`. The mechanism comes next, with "
           f"a factor of {mechanism:.1f}: mean regret is {tree.regret:.0f} (standard error "
           f"{tree.standard_error:.0f}, {tree.trials:.0f} trials) with the tree, "
           f"{buffered.regret:.0f} ({buffered.standard_error:.0f}) with `buffered` and "
           f"{plain.regret:.0f} ({plain.standard_error:.0f}) without noise.")
    domain = paper.INSTANCES["ball"](None)

    def signal(horizon, gradient):
        scale = paper.noise_scale(domain, horizon, "gaussian", "printed", 1.0)
        return paper.signal_to_noise(scale, horizon, "gaussian", 5, gradient)

    row = table("ene2021", instance="ball", noise="gaussian", horizon=2**18, rate=1.0,
                calibration="printed", epsilon=1.0)[0]
    gradient = row.signal_to_noise / signal(2**18, 1.0)
    start = next(2.0**k for k in range(4, 62, 2) if signal(2**k, gradient) > 1.0)
    yield ("By formula, the signal exceeds the noise only from about T = "
           f"10^{np.log10(start):.0f} on.")
    yield ("falls from {:.1f}, {:.1f} and {:.1f} at T = 2^14 to {:.2f}, {:.2f} and {:.2f} at T = "
           "2^18".format(*(run(name, horizon=horizon, **at).over_no_noise
                           for horizon in (2**14, 2**18)
                           for name, at in (("ball", {"dim": 5}), ("matroid", {}), ("paths", {})))))
    fits = [f"{row.slope:.2f} ({row.low:.2f} to {row.high:.2f})"
            for row in (one("ene2021_slopes", instance=name, noise="gaussian", variable="T",
                            calibration="single_change less none")
                        for name in ("ball", "matroid", "paths"))]
    yield "exponents of {}, {} and {} in T".format(*fits)


def trust():
    for name in names("trust"):
        rows = [one("trust", learner=name, epsilon=epsilon, trials=1000.0)
                for epsilon in (0.01, 0.1, 1.0)]
        cells = [f"{row.mean:.4g} ± {row.standard_error:.2g}" for row in rows]
        cells += [f"{row.factor:.3g}" for row in rows]
        yield f"| {name} | {' | '.join(cells)} |"

    def ratios(name, other="central, Gaussian", file="trust", epsilons=(0.01, 0.1, 1.0)):
        return [one(file, learner=name, epsilon=e).mean / one(file, learner=other, epsilon=e).mean
                for e in epsilons]

    yield ("With binomial noise, regret is {:.3f} times that with central Gaussian noise at "
           "epsilon = 0.01, {:.3f} times at 0.1 and {:.3f} times at 1. With Skellam noise it is "
           "{:.3f}, {:.3f} and {:.3f} times.".format(*ratios("shuffle, binomial"),
                                                     *ratios("distributed, Skellam")))
    tenth, whole = ("{0.factor:.3g} ({1}{0.factor_low:.3g} to {0.factor_high:.3g})".format(
        one("trust_identification", learner="local, randomized response", epsilon=epsilon), words)
        for epsilon, words in ((0.1, "95 %: "), (1.0, "")))
    yield f"in {tenth} times the rounds without privacy at epsilon = 0.1"
    yield f"and in {whole} times at 1"
    yield ("((e^epsilon + 1) / (e^epsilon - 1))^2 is {:.3g} and {:.3g}.".format(
        *(1.0 / np.tanh(epsilon / 2) ** 2 for epsilon in (0.1, 1.0))))
    yield ("On five arms, its regret is {0.factor:.3g} ({0.factor_low:.3g} to {0.factor_high:.3g}) "
           "and {1.factor:.3g} ({1.factor_low:.3g} to {1.factor_high:.3g}) times that without "
           "privacy.".format(*(one("trust", learner="local, randomized response", epsilon=e)
                               for e in (0.1, 1.0))))
    yield ("Laplace noise on each loss takes {:.3g} times the rounds of randomized response at "
           "epsilon = 0.1 and {:.3g} times at 1".format(*ratios(
               "local, Laplace", "local, randomized response", "trust_identification", (0.1, 1.0))))

    def onsets(game):
        found = {row.learner: row.crossing for row in table("trust_onset", game=game)}
        local = [f"{found.pop(f'local, {n}'):.2f}" for n in ("randomized response", "Laplace")]
        ends = [f"{end:.2f}" for end in (min(found.values()), max(found.values()))]
        return " to ".join(dict.fromkeys(ends)), *local

    yield ("On five arms, this epsilon is {} outside the local model, {} with randomized response "
           "and {} with Laplace noise on each loss.".format(*onsets("arms")))
    yield "(200 trials) it is {}, {} and {}, and ".format(*onsets("linear arms"))
    yield "for identification {}, {} and {}.".format(*onsets("three arms"))
    assert {row.trials for row in read("trust_linear")} == {200.0}

    def last(learner, epsilon):
        return one("trust_slopes", learner=learner, epsilon=epsilon, trials=64.0)

    models = [last(n, 10.0) for n in ("joint, tree", "shuffle, batches", "local, each user")]
    regrets = [f"{row.mean:.0f} ± {row.standard_error:.0f}"
               for row in (*models, last("joint, tree", INF))]
    yield ("Its regret is {} with the tree, {} with shuffled batches of T^(3/5) users, {} with "
           "noise on each user's row, and {} without privacy or batches.".format(*regrets))
    yield ("the exponent of regret in T is {} with the tree, {} with shuffled batches and {} with "
           "noise on each row.".format(*(f"{row.slope:.3f} ({row.low:.3f} to {row.high:.3f})"
                                         for row in models)))
    row = last("central, tree of degree k", 1.0)
    yield f"(factor {row.factor:.2f}, {row.factor_low:.2f} to {row.factor_high:.2f})"
    row = last("local, each message", 1.0)
    yield (f"{row.factor:.1f} ({row.factor_low:.1f} to {row.factor_high:.1f}) times that without "
           "privacy.")
    yield f"Its exponent is {row.slope:.3f} ({row.low:.3f} to {row.high:.3f}) in T."


STATEMENTS = (tossou2017, agarwal2017, agarwal2017_bandits, sajed2019, azize2023, hanna2022,
              shariff2018, ene2021, trust)


@pytest.mark.parametrize("statements", STATEMENTS)
def test_a_page_states_the_numbers_of_its_tables(statements):
    for sentence in statements():
        assert sentence in TEXT, f"a page should say: {sentence}"


def lines(page):
    """The cells of each line of the tables of a page."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGES[page].splitlines()
            if line.startswith("| ")]


def cells(found, mean=".4g", error=".2g", of=("mean", "standard_error")):
    """A mean and its error in each row."""
    return [f"{getattr(row, of[0]):{mean}} ± {getattr(row, of[1]):{error}}".replace("e+0", "e")
            for row in found]


def test_cells_of_the_tables_are_those_of_the_files():
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
