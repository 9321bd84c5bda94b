"""``dpjax run`` on a user's losses, on labelled cases and on a study."""

import csv
import hashlib
import json

import numpy as np
import pytest
import xarray

import dpjax
from dpjax import environments, learners, privacy
from dpjax.cli import main, run
from dpjax.cli.loss_files import read_losses
from dpjax.learners import factories
from tests import ROOT

DATA = ROOT / "tests" / "data"
DIAGNOSES, PATIENTS = DATA / "diagnoses.csv", DATA / "patients.csv"


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def play(losses, learner, **options):
    """The data of a run, with the axes epsilon, trial and round."""
    return run.study_of(losses, learner, **options).run(progress=False).squeeze()


def write(path, text):
    path.write_text(text)
    return path


def test_learners_on_one_file_have_the_numbers_that_each_has_alone(tmp_path, capsys):
    """One table, one figure with a panel for each level, one row for a learner without epsilon."""
    given = ["run", "--losses", str(DIAGNOSES), "--seeds", "4", "--horizon", "64"]
    private = ["--epsilon", "1,inf"]
    out = tmp_path / "deep" / "both"
    twice = ["--learner", "exp3", "--learner", "dp_exp3_lap"]
    assert main([*given, *private, *twice, "--out", str(out)]) == 0
    assert "dp_exp3_lap" in capsys.readouterr().out
    assert sorted(file.name for file in out.iterdir()) == [
        "curves.csv", "data.nc", "parameters.json", "regret.pdf", "regret.png", "table.csv",
    ]  # fmt: skip
    rows = read_rows(out / "table.csv")
    assert [(row["learner"], row["epsilon"]) for row in rows] == [
        ("exp3", ""), ("dp_exp3_lap", "1"), ("dp_exp3_lap", "inf"),
    ]  # fmt: skip
    alone = []
    for name, more in (("exp3", []), ("dp_exp3_lap", private)):
        assert main([*given, *more, "--learner", name, "--out", str(tmp_path / name)]) == 0
        alone += [{"epsilon": "", **row} for row in read_rows(tmp_path / name / "table.csv")]
    assert rows == alone
    curves = read_rows(out / "curves.csv")
    assert [row["mean"] for row in curves if row["round"] == "64"] == [row["mean"] for row in rows]
    parameters = json.loads((out / "parameters.json").read_text())
    assert parameters["learners"] == ["exp3", "dp_exp3_lap"]
    assert parameters["epsilons"] == [1.0, "inf"]
    assert parameters["sha256"] == hashlib.sha256(DIAGNOSES.read_bytes()).hexdigest()
    assert parameters["versions"]["dpjax"] == dpjax.__version__
    with xarray.open_dataset(out / "data.nc") as data:
        means = data["final_regret"].squeeze().mean("trial")
        assert f"{float(means.sel(learner='exp3')[0]):.6g}" == rows[0]["mean"]
        drawn = run.figure(data.load(), "Losses: a$b_{.csv: $")
    assert [axes.get_title() for axes in drawn.axes] == ["epsilon = 1", "epsilon = ∞"]
    (caption,) = (text for text in drawn.texts if "Losses" in text.get_text())
    assert "a$b_{.csv: $" in caption.get_text() and not caption.get_parse_math()


def test_regret_on_the_real_table_is_regret_against_the_best_rule():
    """Without noise EXP3 beats uniform play; at epsilon = 0.1 it learns nothing."""
    data = play(read_losses(DIAGNOSES).losses, "dp_exp3_lap", epsilons=(0.1, np.inf), seeds=200)
    noisy, plain = data["final_regret"].values
    uniform = np.mean([84, 100, 164, 202, 204]) - 84
    error = np.hypot(noisy.std(), plain.std()) / np.sqrt(200)
    assert plain.mean() + 4 * error < noisy.mean()
    assert abs(noisy.mean() - uniform) < 4 * error


@pytest.mark.slow
def test_learners_of_points_play_arms_drawn_from_them():
    """FTRL and FTPL on a table: arms, regret against the best column, and delta = T^-2."""
    table = read_losses(DIAGNOSES).losses[:64]
    for name, delta in [("ftrl", 0.0), ("ftpl", 64.0**-2)]:
        data = play(table, name, epsilons=[1.0, np.inf], seeds=40)
        final = data["final_regret"].values
        assert final.shape == (2, 40)
        assert data["privacy_delta"].values[0] == pytest.approx(delta)
        # 0/1 losses: a whole number of them, up to rounding.
        np.testing.assert_allclose(final, np.round(final), atol=1e-4)
        assert data["tally_switches"].max() < 64


def test_a_learner_of_vectors_plays_the_columns():
    """As unit vectors: a clearly best column is found."""
    table = np.tile([0.9, 0.1, 0.9], (3000, 1))
    data = play(table, "linear_elimination", epsilons=[10.0], seeds=4)
    assert (data["final_regret"] < 0.5 * 0.8 * 3000 * 2 / 3).all()


@pytest.mark.parametrize("learner", ["scrible", "projection_free", "one_point_gradient"])
def test_learners_of_points_with_value_feedback_see_the_loss_of_the_drawn_arm(learner):
    """They find the best of three arms. Given anything else, such as its number, they would not.

    Uniform play has regret 0.4 T = 6554.
    """
    table = np.broadcast_to([0.8, 0.2, 0.8], (2**14, 3))
    given = {} if learner == "one_point_gradient" else {"epsilons": (np.inf,)}
    assert play(table, learner, seeds=8, **given)["final_regret"].mean() < 0.8 * 6554


def test_a_learner_that_takes_rho_is_played_at_every_epsilon():
    """It receives rho = epsilon^2 / 2 and declares the epsilon of this rho at T^-2."""
    given = {"epsilons": (1.0, np.inf), "seeds": 2}
    played = run.study_of(np.full((16, 2), 0.5), "adac_ucb", **given).run(progress=False)
    assert played["privacy_rho"].squeeze().values.tolist() == [0.5, np.inf]
    exact, declared = privacy.gaussian_epsilon(1.0, 16.0**-2), played["privacy_epsilon"].min()
    assert float(declared) == pytest.approx(float(exact), rel=1e-5) and declared > 1.5


def test_every_learner_without_epsilon_says_that_it_is_to_be_left_out():
    without = [
        name for name in learners.__all__
        if not (factories.takes(name, "epsilon") or factories.requires(name, "rho"))
    ]  # fmt: skip
    assert {"exp3", "dp_ts_ucb", "ucb1"} <= {*without} and "adac_ucb" not in without
    for name in without:
        with pytest.raises(ValueError, match=f"^epsilon: the learner {name} takes none; leave it"):
            run.study_of(np.full((4, 2), 0.5), name, epsilons=(1.0,))


def sides(seed, seen=True):
    """A CSV text in which a word says which of two arms loses, or does not."""
    rng = np.random.default_rng(seed)
    left = rng.random(400) < 0.5
    shown = left if seen else rng.random(400) < 0.5
    words = np.where(shown, "left", "right")
    rows = [f"{word},{float(x)},{float(not x)}" for word, x in zip(words, left, strict=True)]
    return "\n".join(["side,a,b", *rows])


def test_a_learner_sees_the_features_of_its_round(tmp_path):
    """Best arms lose 0 in hindsight; a fixed arm loses 200. It learns from a word that tells."""
    lost = {}
    for seen in (True, False):
        path = write(tmp_path / f"{seen}.csv", sides(0, seen))
        study, game = run.read_study(path, ["linucb"], features=["side"], epsilons=[np.inf],
                                     seeds=4)  # fmt: skip
        assert game.arms == ("a", "b") and game.environment.horizon == 400
        data = study.run(progress=False)
        lost[seen] = float(data["tally_suffered"].mean())
        compared = float(data["tally_compared"].mean())
        assert compared == 0.0 if seen else compared > 150.0
    assert lost[True] < 60.0 and lost[False] > 150.0


def test_labelled_cases_are_those_of_the_environment(recwarn):
    """The same game as classification of the columns, at any horizon, with losses -1 and 1."""
    study, game = run.read_study(PATIENTS, ["linucb"], label="malignant", epsilons=[1.0], seeds=2,
                                 horizon=700)  # fmt: skip
    *columns, labels = np.loadtxt(PATIENTS, delimiter=",", skiprows=1).T
    assert game.arms == ("0", "1") and game.table.tolist() == labels.tolist()
    np.testing.assert_allclose(
        game.mean_losses(700), [np.mean(2 * labels - 1), np.mean(1 - 2 * labels)]
    )
    environment = environments.classification(np.stack(columns, 1), labels)
    by_hand = run.study_of(environment, ["linucb"], epsilons=[1.0], seeds=2, horizon=700)
    np.testing.assert_array_equal(
        study.run(progress=False)["regret"], by_hand.run(progress=False)["regret"]
    )
    assert not [each for each in recwarn if "clipped" in str(each.message)]


def test_an_encoding_is_printed_and_kept(tmp_path, capsys):
    path = write(tmp_path / "a.csv", sides(0))
    given = ["run", "--losses", str(path), "--features", "side", "--learner", "linucb"]
    out = tmp_path / "out"
    assert main([*given, "--seeds", "1", "--epsilon", "inf", "--out", str(out)]) == 0
    note = "one feature of 0 or 1 for each different word: side (2)."
    assert note in capsys.readouterr().out
    parameters = json.loads((out / "parameters.json").read_text())
    assert parameters["notes"][0].endswith(note) and parameters["features"] == ["side"]
    last = read_rows(out / "curves.csv")[-1]  # One trial has no band.
    assert last["low"] == last["high"] == "nan"


STUDY = """
from dpjax import Study, environments, learners

coins = {"coins": environments.bernoulli([0.4, 0.5])}
mine = Study(learners.exp3, coins, {"horizon": [16, 32], "arms": 2}, trials=4)
"""
TWO = "other = Study(learners.ucb1, coins, {'horizon': 32, 'arms': 2}, trials=2)\n"


def test_a_study_is_played_and_written(tmp_path, capsys, recwarn):
    path, out = write(tmp_path / "mine.py", STUDY), tmp_path / "out"
    assert main(["run", str(path), "--out", str(out)]) == 0
    assert "exp3" in capsys.readouterr().out and not recwarn
    assert sorted(file.name for file in out.iterdir()) == [
        "data.nc", "parameters.json", "table.csv",
    ]  # fmt: skip
    study = run.plan(str(path)).study
    with xarray.open_dataset(out / "data.nc") as data:
        np.testing.assert_array_equal(data["regret"], study.run(progress=False)["regret"])
    parameters = json.loads((out / "parameters.json").read_text())
    assert parameters["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_name_selects_a_study_and_the_example_has_one(tmp_path):
    path = write(tmp_path / "mine.py", STUDY + "alias = mine\n" + TWO)
    assert run.plan(f"{path}:mine").study.trials == 4
    assert len(run.plan(str(ROOT / "examples" / "study.py")).study.programs) == 4
