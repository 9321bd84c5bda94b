"""Correct recommendations, their frequency, and the treatment of trials that did not stop."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from scipy import stats

from dpjax import Study, environments, learners
from dpjax.study import labelled

HORIZON, TRIALS = 4000, 60


def played(gains, horizon=HORIZON, trials=TRIALS, **more):
    """Two learners that stop and one that does not, on Bernoulli losses."""
    makers = {
        "AdaP-TT": lambda epsilon: learners.adap_tt(horizon, 3, epsilon=epsilon, failure=0.3),
        "LUCB": lambda: learners.lucb(horizon, 3, failure=0.3),
        "UCB": lambda: learners.ucb1(horizon, 3),
    } | more
    losses = {"bits": lambda: environments.bernoulli(1.0 - np.array(gains), regret="pseudo")}
    study = Study(makers, losses, {"epsilon": [0.002, 1.0]}, trials, checkpoints=1)
    return study.run(progress=False)


@pytest.fixture(scope="module")
def data():
    """The second arm is the best, and epsilon = 0.002 is too small for this horizon."""
    return played([0.1, 0.9, 0.2])


def test_correct_compares_the_recommendation_with_the_means(data):
    arms, correct = data["report_recommendation"], data["correct"]
    assert correct.attrs == data["report_stopped"].attrs == {"units": "0 or 1"}
    known = arms.notnull()
    np.testing.assert_array_equal(correct.where(known), (arms == 1.0).astype(float).where(known))
    # UCB recommends nothing.
    np.testing.assert_array_equal(
        known.any(["epsilon", "trial", "environment"]), [True, True, False]
    )
    assert (data["best_arms"].sel(learner="AdaP-TT") == 1.0).all()
    assert 0.0 < correct.sel(learner="AdaP-TT", epsilon=0.002).mean() < 1.0


def test_the_numbers_are_those_of_the_trials(data):
    with pytest.warns(RuntimeWarning) as said:
        found = data.dpjax.identification(confidence=0.9).squeeze("environment")
    assert len(said) == 1
    assert said[0].filename == __file__
    text = str(said[0].message)
    stopped = data["report_stopped"].squeeze("environment")
    censored = int((stopped.sel(learner="AdaP-TT") == 0.0).sum())
    assert censored >= TRIALS
    assert text == (f"report_stopping_time: {censored} of {2 * TRIALS} trials of AdaP-TT did not "
                    "stop and are censored at the horizon.")  # fmt: skip
    tau = data["report_stopping_time"].squeeze("environment")
    for learner, epsilon in (("AdaP-TT", 0.002), ("AdaP-TT", 1.0), ("LUCB", 1.0)):
        place = {"learner": learner, "epsilon": epsilon}
        cell, own = found.sel(place), tau.sel(place).values
        assert cell["time"] == own.mean() and cell["median"] == np.median(own)
        hits = int(stopped.sel(place).sum())
        assert cell["stopped"] == hits / TRIALS
        exact = stats.binomtest(hits, TRIALS).proportion_ci(0.9, "exact")
        np.testing.assert_allclose([cell["stopped_low"], cell["stopped_high"]], exact, rtol=1e-9)
        if hits == 0:  # an error of 0 would praise a learner that never recommended an arm
            assert np.isnan([cell["error"], cell["error_low"], cell["error_high"]]).all()
            continue
        assert cell["error"] == 0.0 and cell["error_low"] == 0.0
        assert cell["error_high"] == pytest.approx(1.0 - 0.05 ** (1.0 / TRIALS))
    # Censored trials count with the horizon.
    assert found["time"].sel(learner="AdaP-TT", epsilon=0.002) == HORIZON
    assert np.isnan(found["error"].sel(learner="UCB")).all()


def test_an_error_is_a_wrong_arm_of_a_trial_that_stopped(data):
    place = {"learner": "LUCB", "environment": "bits"}  # at all epsilons, because it takes none
    wrong = data.copy(deep=True)
    wrong["correct"].loc[place | {"trial": [0, 1, 2]}] = 0.0
    wrong["report_stopped"].loc[place | {"trial": 0}] = 0.0
    with pytest.warns(RuntimeWarning, match=f", 1 of {TRIALS} trials of LUCB did not stop"):
        found = wrong.dpjax.identification().sel(place)
    assert (found["error"] == 2 / TRIALS).all()


def test_no_warning_where_all_have_stopped(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = data.sel(learner="LUCB").dpjax.identification()
    assert (found["stopped"] == 1.0).all()


def test_two_best_arms_are_censored_and_the_warning_says_why():
    tied = played([0.9, 0.1, 0.9], horizon=1000, trials=40)
    assert (tied["best_arms"].sel(learner="LUCB") == 2.0).all()
    # Any of the best is correct; the rules err with probability at most 0.3, and seldom do.
    with pytest.warns(RuntimeWarning, match="If several arms are optimal, no learner can stop"):
        found = tied.dpjax.identification().squeeze("environment")
    for learner in ("AdaP-TT", "LUCB"):
        cell = found.sel(learner=learner, epsilon=1.0)
        assert cell["stopped"] <= 0.1 and not cell["error"] > 0.0
        assert cell["median"] == 1000


def test_best_arms_differ_between_points():
    """Means on an axis of the grid: each cell is compared with its own best arm."""
    makers = {"SH": lambda: learners.sequential_halving(64, 2, epsilon=np.inf)}
    losses = {
        "bits": lambda second: environments.bernoulli(jnp.array([0.5, second]), regret="pseudo")
    }
    data = Study(makers, losses, {"second": [0.0, 0.5, 1.0]}, 20, checkpoints=1).run(progress=False)
    np.testing.assert_array_equal(data["best_arms"].squeeze(), [1, 2, 1])
    arms, correct = (data[name].squeeze() for name in ("report_recommendation", "correct"))
    np.testing.assert_array_equal(correct.sel(second=0.0), arms.sel(second=0.0))
    assert (correct.sel(second=0.5) == 1.0).all()
    np.testing.assert_array_equal(correct.sel(second=1.0), 1.0 - arms.sel(second=1.0))


@pytest.mark.parametrize("order", [["better", "epsilon"], ["epsilon", "better"]])
def test_best_arms_of_an_environment_are_shared_by_all_points_of_its_learners(order):
    """The best arms depend on the environment's axis alone, wherever it is in the grid."""
    values = {"better": [0.1, 0.5, 0.9], "epsilon": [1.0, 2.0]}
    adversary = {"coins": lambda better: environments.bernoulli(
        jnp.stack([better, jnp.float32(0.5)]), regret="pseudo")}  # fmt: skip
    makers = {"DP-SE": learners.successive_elimination, "DP-TT": learners.dp_tt}
    grid = {"horizon": 64, "arms": 2, **{name: values[name] for name in order}}
    known: dict = {}
    for program in Study(makers, adversary, grid, trials=2).programs:
        better = program.points()["better"]
        expected = np.stack([better <= 0.5, better >= 0.5], axis=-1)
        np.testing.assert_array_equal(program.best_arms(known), expected)
    assert len(known) == 1


def test_data_without_means_are_refused(data):
    with pytest.raises(ValueError, match="^data: the best arm is known only for i.i.d."):
        data.drop_vars("correct").dpjax.identification()
    with pytest.raises(ValueError, match="^confidence must be in"):
        data.dpjax.identification(confidence=1.0)


def test_no_best_arm_is_known_of_losses_that_are_a_table():
    makers = {"SH": lambda: learners.sequential_halving(64, 2, epsilon=1.0)}
    table = np.random.default_rng(0).random((64, 2), np.float32)
    data = Study(makers, {"table": lambda: environments.table(table)}, {}, 4).run(progress=False)
    assert "report_recommendation" in data and "correct" not in data


# Captions and tables of censored trials ------------------------------------------------------


@pytest.fixture
def censored():
    """At epsilon = 0.1, 23 of 80 trials of DP-TT do not stop. UCB takes no epsilon."""
    dims, stopped = ("learner", "epsilon", "trial"), np.ones((2, 2, 80))
    stopped[0, 0, 57:] = 0.0
    times = np.where(stopped == 1.0, np.arange(80.0) + 5.0, 100.0)
    times[1] = times[1, 0]
    names = ("report_stopping_time", "report_stopped", "report_recommendation", "correct")
    return xarray.Dataset(
        {name: (dims, values)
         for name, values in zip(names, (times, stopped, 0 * stopped, stopped), strict=True)}
        | {"best_arms": 1},
        {"learner": ["DP-TT", "UCB"], "epsilon": [0.1, 1.0], "horizon": 100,
         "takes_epsilon": ("learner", [True, False])},
    )  # fmt: skip


SENTENCE = "23 of 160 trials of DP-TT did not stop and are censored at the horizon."
ONE = "23 of 80 trials of DP-TT did not stop and are censored at the horizon."
SHOWN = {
    "figure": lambda own: own.figure("epsilon", of="report_stopping_time", color="learner").caption,
    "latex": lambda own: own.latex("epsilon", of="report_stopping_time"),
    "table": lambda own: own.table("report_stopping_time").attrs["notes"],
}


@pytest.mark.parametrize("name", SHOWN)
def test_trials_that_did_not_stop_are_counted_beside_their_times(censored, name):
    """A learner that never stopped was drawn and tabulated as if it stopped at the horizon."""
    with pytest.warns(RuntimeWarning, match=SENTENCE) as said:
        assert SENTENCE in SHOWN[name](censored.dpjax)
    assert len(said) == 1 and said[0].filename == __file__
    with pytest.warns(RuntimeWarning, match=ONE):
        assert ONE in SHOWN[name](censored.isel(epsilon=[0]).dpjax)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "did not stop" not in SHOWN[name](censored.isel(epsilon=[1]).dpjax)


@pytest.mark.filterwarnings("ignore:.*did not stop")
@pytest.mark.parametrize(
    ("estimate", "said"),
    [(lambda own, of: own.mean(of=of), SENTENCE), (lambda own, of: own.quantile(of=of), SENTENCE),
     (lambda own, of: own.slope("epsilon", of=of), SENTENCE),
     (lambda own, of: own.crossing(1.1, at=1.0, of=of), SENTENCE),
     (lambda own, of: own.difference(learner="UCB", of=of), SENTENCE),
     (lambda own, of: own.worst("epsilon", of=of), SENTENCE),
     (lambda own, of: own.tune("rate", of=of), ONE)],
)  # fmt: skip
def test_estimates_of_stopping_times_count_the_censored_trials(censored, estimate, said):
    """A tuned learner has those of the second half, in which all censored trials are here."""
    data = (
        censored.expand_dims(rate=[1.0, 2.0]).transpose(..., "trial") if said == ONE else censored
    )
    found = estimate(data.dpjax, "report_stopping_time")
    assert said in found.dpjax.table().attrs["notes"] and said in found.dpjax.latex(
        "epsilon" if "epsilon" in found.dims else "learner"
    )


@pytest.mark.filterwarnings("ignore:.*did not stop")
def test_identification_has_figures_and_tables_like_other_estimates(censored):
    found = censored.dpjax.identification()
    drawn = found.dpjax.figure("epsilon", color="learner", of="time", across={"bound": [9.0, 2.0]})
    (axes,) = drawn.axes
    assert axes.get_ylabel() == "stopping time, rounds"
    assert axes.get_lines()[0].get_ydata().tolist() == found["time"][0].values.tolist()
    about = "Stopping time, rounds: mean with Student's 95 % confidence intervals; 80 trials."
    assert drawn.caption.startswith(about) and SENTENCE in drawn.caption
    labels = [axes.get_ylabel() for axes in found.dpjax.figure("epsilon", color="learner").axes]
    assert labels == ["stopping time, rounds", "proportion of wrong recommendations",
                      "proportion of trials that stopped"]  # fmt: skip
    text = found.dpjax.latex("epsilon")
    assert "Stopping time, rounds: mean with standard errors; 80 trials." in text
    assert SENTENCE in text and "privacy parameter epsilon" in text
    errors = found.dpjax.latex("epsilon", of="error")
    assert r"Proportion of wrong recommendations with 95\,\% intervals of Clopper" in errors
    with pytest.raises(ValueError, match="^of: the estimate has no 'low'; it has time, error, sto"):
        found.dpjax.latex("epsilon", of="low")


@pytest.mark.filterwarnings("ignore:.*did not stop")
@pytest.mark.parametrize("name", ["correct", "report_stopped"])
def test_a_variable_that_is_true_or_false_is_a_proportion(censored, name):
    """The band of `correct` once reached 1.03."""
    data = censored.copy()
    data[name] = data[name].assign_attrs(units="0 or 1")  # as a study does
    (axes,) = data.dpjax.figure("epsilon", of=name, color="learner").axes
    assert axes.dataLim.y1 <= 1.0
    label = {"correct": "correct recommendations", "report_stopped": "trials that stopped"}[name]
    assert axes.get_ylabel() == f"proportion of {label}"
    about = rf"Proportion of {label} with 95\,\% intervals of Clopper and Pearson; 80 trials."
    assert about in data.dpjax.latex("epsilon", of=name)


def test_a_constant_that_a_learner_does_not_take_is_known():
    """UCB takes no failure probability, which is an axis of one value here."""
    makers = {"LUCB": learners.lucb, "UCB": learners.ucb1}
    losses = environments.bernoulli([0.1, 0.9, 0.8], regret="pseudo")
    grid = {"failure": 0.3, "horizon": 64, "arms": 3, "epsilon": [1.0]}
    study = Study(makers | {"DP-TT": learners.dp_tt}, {"bits": losses}, grid, 2)
    played = [labelled.Played(program, np.empty(0), {}, {}) for program in study.programs]
    takes = labelled._takes(labelled.layout(study), played)
    assert takes["takes_failure"][1].ravel().tolist() == [True, False, True]
    assert "takes_horizon" not in takes


# Proportions ----------------------------------------------------------------------------------


def test_proportions_are_of_the_learners_that_recommend(data):
    found = data.dpjax.proportion(of="correct").squeeze("environment")
    assert np.isnan(found.sel(learner="UCB").to_dataarray()).all()
    assert found["low"].sel(learner="LUCB").max() < 1.0 == found["high"].sel(learner="LUCB").min()
