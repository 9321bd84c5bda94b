"""Studies from files are played as written, and mistakes are named."""

from functools import partial

import pytest
import xarray

from dpjax import domains, learners
from dpjax.cli import main
from dpjax.cli.config import read_study
from tests import ROOT

GOOD = """
[learners]
EXP3 = "exp3"
slow = {factory = "exp3", mixing = 0.5}

[environments]
stochastic = {factory = "bernoulli", means = [0.4, 0.5, 0.5]}

[grid]
horizon = 32
arms = 3

[study]
trials = 4
checkpoints = 2
"""


def written(folder, text):
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_a_study_is_played_and_written(tmp_path, capsys):
    text = GOOD + '[figure]\nx = "round"\ncolor = "learner"\n'
    out = tmp_path / "out"
    assert main(["run", "--config", str(written(tmp_path, text)), "--out", str(out)]) == 0
    assert sorted(file.name for file in out.iterdir()) == [
        "data.nc", "figure.pdf", "figure.png", "parameters.json", "study.toml", "table.csv",
    ]  # fmt: skip
    assert (out / "study.toml").read_text() == text
    assert "slow" in capsys.readouterr().out
    study, figure = read_study(tmp_path / "study.toml")
    assert figure == {"x": "round", "color": "learner"}
    with xarray.open_dataset(out / "data.nc") as data:
        again = study.run(progress=False)
        assert (data["regret"].values == again["regret"].values).all()


def test_domains_and_mechanisms_are_built_by_name(tmp_path):
    text = """
    [learners]
    FTRL = "ftrl"
    [environments]
    drawn = {factory = "linear_losses", losses = "iid"}
    [grid]
    horizon = 16
    epsilon = [1.0, inf]
    mechanism = ["tree", {factory = "kary", k = 5}]
    domain.ball = {factory = "ball", dim = 3}
    [study]
    trials = 2
    """
    study, _ = read_study(written(tmp_path, text))
    labels = {name: axis.labels.tolist() for name, axis in study.parts[0].axes.items()}
    assert labels["mechanism"] == ["tree", "kary k=5"]
    assert labels["domain"] == ["ball"]
    assert isinstance(study.parts[0].axes["domain"].values[0], domains.Domain)
    assert study.parts[0].learners["FTRL"] is learners.ftrl


def test_laws_of_gram_matrices_are_built_by_name(tmp_path):
    text = """
    [learners]
    Wishart = {factory = "linucb", gram = {factory = "wishart", floor = 3.0}}
    LinUCB = "linucb"
    [environments]
    gap = "gap_arms"
    [grid]
    horizon = 16
    dim = 3
    delta = 0.1
    epsilon = 1.0
    gram = ["losses_only", {factory = "gaussian", mechanism = "per_item"}]
    [study]
    trials = 2
    """
    study, _ = read_study(written(tmp_path, text))
    axis = study.parts[0].axes["gram"]
    assert axis.labels.tolist() == ["losses_only", "gaussian mechanism=per_item"]
    makers = [partial(learners.linucb, gram=law) for law in axis.values]
    made = [make(16, 3, epsilon=1.0, delta=0.1) for make in makers]
    assert [(each.privacy.model, each.privacy.unit) for each in made] == [
        ("joint", "entry"), ("local", "round"),
    ]  # fmt: skip
    wrong = text.replace("losses_only", "laplace")
    with pytest.raises(ValueError, match="gram has no 'laplace'"):
        read_study(written(tmp_path, wrong))


def test_the_example_is_a_study():
    study, figure = read_study(ROOT / "examples" / "study.toml")
    assert (len(study.programs), figure["x"]) == (4, "epsilon")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"exp3"\nslow', '"exp33"\nslow', r"learners has no 'exp33' \(did you mean exp3\?\)"),
        ('"bernoulli"', '"Learner"', "environments has no 'Learner'"),
        ("[learners]", "[learner]", r"the file has 'learner' \(did you mean learners\?\)"),
        ("trials", "trails", r"\[study\] has 'trails' \(did you mean trials\?\)"),
        ("arms = 3", "armz = 3", "needs arms"),
        ("trials = 4", "trials = 0", "trials must be"),
        (
            "trials = 4",
            f"trials = 4\nkey = {2**32}",
            "key must be a whole number from 0 to 4294967295",
        ),
        (
            "trials = 4",
            "trials = 4\nkey = true",
            r"study.toml: key must be a whole number from 0 to 4294967295, got True$",
        ),
        (
            "trials = 4",
            "trails = 4\nkye = 1",
            r"\[study\] has 'trails' \(did you mean trials\?\), "
            r"'kye' \(did you mean key\?\); allowed are trials, key, checkpoints",
        ),
        ("mixing = 0.5", "mixing = 2.5", "mixing"),
        ("means = [0.4", "mean = [0.4", "mean"),
        ('EXP3 = "exp3"', "EXP3 = 3", "an entry of learners must be a name"),
        ("[study]", "[study", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named_with_the_file(tmp_path, capsys, old, new, message):
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(ValueError, match=message) as caught:
        read_study(path)
    assert str(caught.value).startswith(f"{path}: ")
    out = tmp_path / "out"
    assert main(["run", "--config", str(path), "--out", str(out)]) == 2
    assert not out.exists()
    assert capsys.readouterr().err.count("\n") == 1


def test_options_of_losses_do_not_go_with_a_study(tmp_path, capsys):
    path = str(written(tmp_path, GOOD))
    assert main(["run", "--config", path, "--seeds", "3", "--out", str(tmp_path / "out")]) == 2
    assert "seeds: set it in the file of the study" in capsys.readouterr().err
    assert main(["run", "--config", str(tmp_path / "none.toml")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_a_figure_that_means_nothing_leaves_no_results(tmp_path, capsys):
    path = written(tmp_path, GOOD + '[figure]\nx = "epsilon"\n')
    out = tmp_path / "out"
    assert main(["run", "--config", str(path), "--out", str(out)]) == 2
    assert "x: epsilon is not an axis" in capsys.readouterr().err
    assert not out.exists()


def test_a_figure_may_have_a_style(tmp_path, capsys):
    figure = '[figure]\nx = "round"\ncolor = "learner"\nstyle = "icml-column"\ncaption = false\n'
    out = tmp_path / "out"
    assert main(["run", "--config", str(written(tmp_path, GOOD + figure)), "--out", str(out)]) == 0
    assert (out / "figure.pdf").is_file()
    path = written(tmp_path, GOOD + figure.replace("icml-column", "nips"))
    assert main(["run", "--config", str(path), "--out", str(tmp_path / "other")]) == 2
    assert "style must be one of neurips" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
