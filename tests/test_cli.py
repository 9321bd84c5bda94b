"""The command line, called as a function, and once as a process."""

import subprocess
import sys
from pathlib import Path

import pytest

from dpjax import environments, experiments, learners, mechanisms
from dpjax.cli import main

DIAGNOSES = str(Path(__file__).parent / "data" / "diagnoses.csv")


def call(capsys, *arguments):
    """Exit code, what was printed, and what was complained of."""
    try:
        code = main(list(arguments))
    except SystemExit as exit_:
        code = exit_.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_list_shows_everything_with_one_line_each(capsys):
    code, out, _ = call(capsys, "list")
    assert code == 0
    for package in (learners, mechanisms, environments, experiments):
        for name in package.__all__:
            shown = name.replace("_", "-") if package is experiments else name
            (line,) = [line for line in out.splitlines() if line.split()[:1] == [shown]]
            assert len(line) <= 110 and line.endswith(".")


def test_run_prints_the_table_and_writes_the_files(capsys, tmp_path):
    out = tmp_path / "out"
    code, printed, _ = call(
        capsys, "run", "--losses", DIAGNOSES, "--learner", "exp3_minibatch",
        "--epsilon", "1,inf", "--seeds", "8", "--horizon", "64", "--out", str(out),
    )  # fmt: skip
    assert code == 0
    assert "exp3_minibatch" in printed and str(out) in printed
    assert len(list(out.iterdir())) == 5


BAD = {
    "unknown learner": (["--learner", "exp4"], "learner: there is no 'exp4'"),
    "epsilon zero": (["--epsilon", "0"], "epsilon must be greater than 0"),
    "epsilon negative": (["--epsilon=-1"], "epsilon must be greater than 0"),
    "epsilon NaN": (["--epsilon", "1,nan"], "epsilon must be greater than 0"),
    "epsilon a word": (["--epsilon", "1,low"], "argument --epsilon: must be numbers"),
    "horizon too long": (["--horizon", "570"], "570 rounds were asked for, but"),
    "horizon zero": (["--horizon", "0"], "horizon must be an integer of at least 1"),
    "no seeds": (["--seeds", "0"], "seeds must be an integer of at least 1"),
    "no file": (["--losses", "absent.csv"], "absent.csv: no such file"),
    "bad output": (["--out", "/dev/null/out"], "out: cannot write to the folder /dev/null/out"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_exit_code_2_and_no_files(case, capsys, tmp_path):
    arguments, message = BAD[case]
    out = tmp_path / "out"
    code, printed, error = call(
        capsys, "run", "--losses", DIAGNOSES, "--learner", "dp_exp3_lap", "--out", str(out),
        *arguments,
    )  # fmt: skip
    assert code == 2
    assert message in error
    assert error.count("\n") == 1, "one sentence"
    assert printed == ""
    assert not out.exists()


def test_unknown_commands_and_papers(capsys):
    for arguments in ([], ["fly"], ["reproduce", "smith2013"], ["run"]):
        code, _, error = call(capsys, *arguments)
        assert code == 2
        assert error.count("\n") == 1


def test_an_interrupted_run_leaves_nothing(capsys, tmp_path, monkeypatch):
    def interrupt(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpjax.experiments.losses.play", interrupt)
    out = tmp_path / "out"
    code, _, error = call(
        capsys, "run", "--losses", DIAGNOSES, "--learner", "exp3", "--out", str(out)
    )
    assert code == 130
    assert "nothing was written" in error
    assert not out.exists()


def test_as_a_process():
    """python -m dpjax, from a folder that is not the project's."""
    done = subprocess.run(
        [sys.executable, "-m", "dpjax", "list"], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0
    assert "tossou2017" in done.stdout
