"""A user's own loss table: reading it, refusing it, playing it."""

import csv
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
import xarray

import dpjax
from dpjax import learners, privacy
from dpjax.cli import run
from dpjax.cli.case_files import read_cases
from dpjax.learners import factories
from dpjax.report import plot
from dpjax.report.output import output_folder
from tests import ROOT

DIAGNOSES = ROOT / "tests" / "data" / "diagnoses.csv"


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def play(losses, learner, **options):
    """The data of a run, with the axes epsilon, trial and round."""
    return run.study_of(losses, learner, **options).run(progress=False).squeeze()


def write(path, text):
    path.write_text(text)
    return path


def test_the_real_table_reads_as_it_was_written():
    """569 patients, 5 rules; wrong diagnoses counted independently (awk)."""
    table = run.read_losses(DIAGNOSES)
    assert table.arms == (
        "worst area",
        "mean concavity",
        "mean texture",
        "mean smoothness",
        "mean symmetry",
    )
    assert table.losses.shape == (569, 5)
    assert table.losses.sum(axis=0).tolist() == [84, 100, 164, 202, 204]


def test_the_same_table_reads_the_same_from_every_format(tmp_path):
    values = np.array([[0.0, 1.0, 0.25], [0.5, 0.125, 1.0]])
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "one.npz", anything=values)
    np.savez(tmp_path / "two.npz", losses=values, other=np.zeros(3))
    np.save(tmp_path / "bool.npy", values > 0.3)
    write(tmp_path / "plain.csv", "0,1,0.25\n0.5,0.125,1\n")
    write(tmp_path / "spaced.csv", "\ufeffx, y ,z\n\n 0, 1,0.25\r\n0.5,.125,1e0\n\n")
    for name in ("a.npy", "one.npz", "two.npz", "plain.csv"):
        read = run.read_losses(tmp_path / name)
        np.testing.assert_array_equal(read.losses, values)
        assert read.arms == ("arm 1", "arm 2", "arm 3")
    spaced = run.read_losses(tmp_path / "spaced.csv")
    np.testing.assert_array_equal(spaced.losses, values)
    assert spaced.arms == ("x", "y", "z")
    np.testing.assert_array_equal(run.read_losses(tmp_path / "bool.npy").losses, values > 0.3)


BAD_CSV = {
    "semicolons": ("a;b\n0;1\n", r"its entries are separated by semicolons; .* commas"),
    "decimal commas": ("a;b\n0,5;1\n0,25;0,5\n", r"its entries are separated by semicolons"),
    "semicolons in one row": ("0;1\n", r"its entries are separated by semicolons"),
    "tabs": ("a\tb\n0\t1\n", r"its entries are separated by tabs"),
    "a stray semicolon": ("1,0\n0,1;\n", r"row 2, column 2: '1;' is not a number"),
    "an index from 0": (",a,b\n0,0,1\n1,1,0\n2,0,0\n", r"column 1 counts the rows, 0 to 2; "),
    "an index from 1": ("1,0,1\n2,1,0\n", r"column 1 counts the rows, 1 to 2; .* remove it"),
    "rounds behind": ("0,1,1\n0,1,2\n1,1,3\n", r"column 3 counts the rows, 1 to 3; "),
    "no index": (
        "1,0\n2,1\n2,0\n",
        r"row 2, column 1 is 2; losses must lie in \[0, 1\] \(and 1 more in this column\)$",
    ),
    "two arms of one name": (
        "a,b, a\n0,1,0\n",
        "columns 1 and 3 are both named 'a'; rename or remove one$",
    ),
    "missing entry": (
        "a,b\n0,1\n0.5,\n",
        r"row 3, column 2 \(b\): is missing; fill it in, or remove the row$",
    ),
    "a mark": (
        "a,b\n0,1\n0.5, .\n",
        r"row 3, column 2 \(b\): is '\.', which marks a missing entry; fill it in, or remove",
    ),
    "NULL": ("1,0\nNULL,0\n", r"row 2, column 1: is 'NULL', which marks a missing entry; fill"),
    "a header of marks": (
        "NA,NA\n0,1\n",
        r"has 2 faults: \(1\) row 1, column 1: is 'NA', which marks a missing entry",
    ),
    "NaN": ("1,0\nnan,0\n", r"row 2, column 1 is missing"),
    "not a number": ("a,b\n0,1\n\n0.5,high\n", r"row 4, column 2 \(b\): 'high' is not a number"),
    "half a header": ("a,0.5\n0,1\n", r"row 1, column 1: 'a' is not a number"),
    "infinite": ("1,0\n0,inf\n", r"row 2, column 2 is inf"),
    "out of range": ("a,b\n0,1\n0,1.5\n", r"row 3, column 2 \(b\) is 1.5; losses must lie"),
    "negative": ("1,0\n-0.1,0\n", r"row 2, column 1 is -0.1"),
    "ragged": ("a,b\n0,1\n0.5\n", r"row 3 has 1 entries, but the header has 2"),
    "ragged without header": ("1,0\n0,1,1\n", r"row 2 has 3 entries, but row 1 has 2"),
    "empty": ("", r"has no rows"),
    "header only": ("a,b\n", r"has no rows"),
    "one arm": ("a\n0.5\n", r"has 1 arm"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_a_bad_csv_is_refused_in_one_sentence(case, tmp_path):
    text, message = BAD_CSV[case]
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(ValueError, match=rf"bad\.csv: {message}") as error:
        run.read_losses(path)
    assert "\n" not in str(error.value)


DIRTY = "a,b,c\n0,1,0\n,1,0\n0,1,0\n0\n1,high,0\n0,1,1.7\n-1,NA,inf\n"
FAULTS = [
    "row 3, column 1 (a): is missing; fill it in, or remove the row (and 1 more in this column)",
    "row 5 has 1 entries, but the header has 3",
    "row 6, column 2 (b): 'high' is not a number (and 1 more in this column)",
    "row 7, column 3 (c) is 1.7; losses must lie in [0, 1] (and 1 more in this column)",
]


def test_the_first_fault_of_each_column_of_a_table_is_listed(tmp_path):
    with pytest.raises(ValueError) as error:
        run.read_losses(write(tmp_path / "dirty.csv", DIRTY))
    listed = "; ".join(f"({i}) {fault}" for i, fault in enumerate(FAULTS, 1))
    assert str(error.value) == f"{tmp_path}/dirty.csv: has 7 faults: {listed}"


@pytest.mark.parametrize("kind", ["csv", "npy", "npz"])
def test_ten_columns_are_listed_and_the_others_counted(kind, tmp_path):
    losses, path = np.full((40, 13), 0.5), tmp_path / f"losses.{kind}"
    losses[5:30, :12] = 1.5
    if kind == "csv":
        np.savetxt(path, losses, delimiter=",")
    else:
        (np.save if kind == "npy" else np.savez)(path, losses)
    with pytest.raises(ValueError) as error:
        run.read_losses(path)
    said = str(error.value)
    one = "row 6, column {0} is 1.5; losses must lie in [0, 1] (and 24 more in this column)"
    listed = "; ".join(f"({i}) {one.format(i)}" for i in range(1, 11))
    assert said == f"{path}: has 300 faults: {listed}; columns not listed: 2"


WORDS = {
    "few words": (("u", "v"), "; remove this column, or name it with --features b"),
    "many words": (tuple(f"w{i}" for i in range(40)), "; remove this column"),
    "one word": (("u",), "; remove this column"),
    "a missing word": (("u", "v", ""), "; remove this column"),
    "one number": (("u", "v", "0.5"), ""),
}


@pytest.mark.parametrize("case", WORDS)
@pytest.mark.parametrize("with_features", [False, True])
def test_a_column_of_words_hides_no_fault_of_another(case, with_features, tmp_path):
    words, advice = WORDS[case]
    rows = [["x", "b", "c", "d"]]
    rows += [[i / 7, words[i % len(words)], 0, 1.5 if i == 30 else 1] for i in range(40)]
    text = "\n".join(",".join(map(str, row[not with_features :])) for row in rows)
    path = write(tmp_path / "words.csv", text)
    with pytest.raises(ValueError) as error:
        _ = read_cases(path, features=["x"]) if with_features else run.read_losses(path)
    column, faults = 2 + with_features, sum(row[1] != "0.5" for row in rows[1:])
    said = str(error.value)
    assert said.startswith(f"{path}: has {faults + 1} faults: (1) row 2, column {column - 1} (b)")
    assert f" (and {faults - 1} more in this column){advice}; (2) row 32, " in said
    assert said.endswith(f"column {column + 1} (d) is 1.5; losses must lie in [0, 1]")


def test_what_resembles_an_index_or_a_separator_and_is_none_is_read(tmp_path):
    path = write(tmp_path / "two.csv", "a;b, c\n0,\t1\n1,0\n")
    assert run.read_losses(path).arms == ("a;b", "c")
    assert run.read_losses(path).losses.tolist() == [[0, 1], [1, 0]]


def test_bad_arrays_and_files_are_refused(tmp_path):
    cases = {
        "index.npy": (np.array([[1, 0, 1], [2, 1, 0]]), "column 1 counts the rows, 1 to 2"),
        "nan.npy": (np.array([[0.0, 1.0], [np.nan, 0.0]]), "row 2, column 1 is missing"),
        "flat.npy": (np.zeros(4), r"shape \(T, K\)"),
        "words.npy": (np.array([["a", "b"]]), "not real numbers"),
        "complex.npy": (np.ones((2, 2)) * 1j, "not real numbers"),
        "objects.npy": (np.array([[None, 1]]), "objects that need pickle"),
        "empty.npy": (np.zeros((0, 3)), "has no rows"),
    }
    for name, (array, message) in cases.items():
        np.save(tmp_path / name, array, allow_pickle=True)
        with pytest.raises(ValueError, match=f"{name}: .*{message}|{name} .*{message}"):
            run.read_losses(tmp_path / name)
    np.savez(tmp_path / "many.npz", a=np.zeros((2, 2)), b=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"many\.npz: holds a, b; exactly one array"):
        run.read_losses(tmp_path / "many.npz")
    for name in ("garbage.npy", "garbage.npz", "empty.npz"):
        (tmp_path / name).write_bytes(b"" if name == "empty.npz" else b"\x93NOT an array")
        with pytest.raises(ValueError, match=f"{name}: is (not an array|damaged, or not an .npz)"):
            run.read_losses(tmp_path / name)
    (tmp_path / "latin.csv").write_bytes(b"na\xefve,b\n0,1\n")
    with pytest.raises(ValueError, match=r"latin\.csv: is not UTF-8"):
        run.read_losses(tmp_path / "latin.csv")
    with pytest.raises(ValueError, match=r"must be a \.csv, \.npy or \.npz"):
        run.read_losses(write(tmp_path / "table.txt", "0,1\n"))
    with pytest.raises(OSError, match="no such file"):
        run.read_losses(tmp_path / "absent.csv")


def test_run_writes_curves_table_figure_and_parameters(tmp_path):
    out = tmp_path / "deep" / "out"
    text = run.run(
        DIAGNOSES, "dp_exp3_lap", out, epsilons=(0.5, np.inf), seeds=20, horizon=300, progress=False
    )
    assert sorted(file.name for file in out.iterdir()) == [
        "curves.csv",
        "data.nc",
        "parameters.json",
        "regret.pdf",
        "regret.png",
        "table.csv",
    ]
    rows = read_rows(out / "table.csv")
    assert [row["epsilon"] for row in rows] == ["0.5", "inf"]
    assert all(row["seeds"] == "20" and row["horizon"] == "300" for row in rows)
    curves = read_rows(out / "curves.csv")
    final = [row for row in curves if row["round"] == "300"]
    assert [row["regret"] for row in final] == [row["regret"] for row in rows]
    with xarray.open_dataset(out / "data.nc") as data:
        means = data["final_regret"].squeeze().mean("trial")
    assert [f"{mean:.6g}" for mean in means.values] == [row["regret"] for row in rows]
    parameters = json.loads((out / "parameters.json").read_text())
    assert parameters["epsilons"] == [0.5, "inf"]
    assert parameters["privacy"][0]["epsilon"] == 0.5
    assert parameters["privacy"][0]["rho"] is None
    assert (out / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert "local" in text


def test_regret_on_the_real_table_is_regret_against_the_best_rule():
    """Without noise EXP3 beats uniform play; at epsilon = 0.1 it learns nothing."""
    data = play(run.read_losses(DIAGNOSES).losses, "dp_exp3_lap", epsilons=(0.1, np.inf), seeds=200)
    noisy, plain = data["final_regret"].values
    uniform = np.mean([84, 100, 164, 202, 204]) - 84
    error = np.hypot(noisy.std(), plain.std()) / np.sqrt(200)
    assert plain.mean() + 4 * error < noisy.mean()
    assert abs(noisy.mean() - uniform) < 4 * error


@pytest.mark.slow
def test_learners_of_points_play_arms_drawn_from_them():
    """FTRL and FTPL on a table: arms, regret against the best column, and delta = T^-2."""
    table = run.read_losses(DIAGNOSES).losses[:64]
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
    exact, declared = privacy.gaussian_epsilon(1.0, 16.0**-2), run.table(played)[0]["epsilon"]
    assert declared == pytest.approx(float(exact), rel=1e-5) and declared > 1.5


def test_every_learner_without_epsilon_says_that_it_is_to_be_left_out():
    without = [
        name for name in learners.__all__
        if not (factories.takes(name, "epsilon") or factories.requires(name, "rho"))
    ]  # fmt: skip
    assert {"exp3", "dp_ts_ucb", "ucb1"} <= {*without} and "adac_ucb" not in without
    for name in without:
        with pytest.raises(ValueError, match=f"^epsilon: the learner {name} takes none; leave it"):
            run.study_of(np.full((4, 2), 0.5), name, epsilons=(1.0,))


def test_play_refuses_what_the_learner_does_not_take():
    table = np.full((8, 2), 0.5)
    with pytest.raises(ValueError, match="learner: there is no 'exp33' .*; known are .*exp3"):
        run.study_of(table, "exp33")
    with pytest.raises(ValueError, match="epsilon: the learner exp3 takes none"):
        run.study_of(table, "exp3", epsilons=(1.0,))
    with pytest.raises(ValueError, match="learner: linucb plays on features"):
        run.study_of(table, "linucb")
    for epsilon in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="epsilon must be greater than 0"):
            run.study_of(table, "dp_exp3_lap", epsilons=(1.0, epsilon))
    with pytest.raises(ValueError, match="horizon: .* 9 rounds, but .* only 8"):
        run.study_of(table, "exp3", horizon=9)


def test_one_seed_has_a_line_and_no_band(tmp_path):
    table = np.tile([0.5, 0.0, 1.0], (8, 1))
    path = tmp_path / "losses.npy"
    np.save(path, table)
    for seeds, bands in [(1, False), (2, True)]:
        data = run.study_of(table, "exp3", seeds=seeds).run(progress=False)
        (axes,) = run.figure(data, "note").axes
        (line,) = (each for each in axes.lines if len(each.get_xdata()) > 2)
        assert np.isfinite(line.get_ydata()).all()
        drawn = [path for each in axes.collections for path in each.get_paths()]
        assert any(len(path.vertices) for path in drawn) == bands
    run.run(path, "exp3", tmp_path / "out", seeds=1, progress=False)
    row = read_rows(tmp_path / "out" / "curves.csv")[-1]
    assert float(row["regret"]) >= 0.0 and row["low"] == row["high"] == "nan"


def test_parameters_say_what_table_and_what_program(tmp_path):
    """The hash is the file's, as sha256sum prints it; any change of a loss changes it."""
    found = []
    for loss in (0.5, 0.25):
        path, out = write(tmp_path / "losses.csv", f"1,0\n{loss},1\n"), tmp_path / str(loss)
        run.run(path, "exp3", out, seeds=2, progress=False)
        found.append(json.loads((out / "parameters.json").read_text()))
        assert found[-1]["losses_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found[0]["losses_sha256"] != found[1]["losses_sha256"]
    assert found[0]["versions"]["dpjax"] == dpjax.__version__


def test_a_figure_is_saved_by_the_name_of_a_folder_that_is_made(tmp_path):
    folder = str(tmp_path / "deep" / "folder")
    figure, _ = plot.panels(1, 1, (2, 2))
    plot.save(figure, folder, "name")
    assert sorted(file.name for file in Path(folder).iterdir()) == ["name.pdf", "name.png"]


def test_output_appears_as_a_whole_or_not_at_all(tmp_path):
    out = tmp_path / "a" / "b"
    with pytest.raises(RuntimeError), output_folder(out) as folder:
        (folder / "half.csv").write_text("1")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []

    with output_folder(out) as folder:
        (folder / "whole.csv").write_text("1")
        assert not (out / "whole.csv").exists()
    with pytest.raises(RuntimeError), output_folder(out) as folder:
        (folder / "whole.csv").write_text("2")
        raise RuntimeError
    assert [file.name for file in out.iterdir()] == ["whole.csv"]
    assert (out / "whole.csv").read_text() == "1"


def test_a_folder_that_cannot_be_written_is_named_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="out: cannot write to the folder .*file/out"):
        run.run(DIAGNOSES, "exp3", tmp_path / "file" / "out", progress=False)
    if os.geteuid() != 0:
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        with pytest.raises(OSError, match="out: cannot write to the folder .*locked"):
            run.run(DIAGNOSES, "exp3", locked, progress=False)
