"""``dpjax compare`` on files: plays, outputs, flags and refusals."""

import csv
import importlib
from functools import partial
from html.parser import HTMLParser
from types import SimpleNamespace

import pandas
import pytest

from dpjax.cli import compare, main
from dpjax.cli.learner_files import find_factory
from dpjax.study.standard import standard

# The package exports the function under the module's name.
comparing = importlib.import_module("dpjax.study.compare")

# The learner of docs/adding/learner.md, with the declared noise scale times FACTOR.
GREEDY = """
import jax.numpy as jnp
from dpjax import noise, privacy
from dpjax.core import Arms, Learner, Privacy
from dpjax.feedback import bandit

FACTOR = 1.0

def greedy(horizon, arms, *, epsilon):
    scale = FACTOR * privacy.laplace_scale(1.0, epsilon)

    def init(key):
        return (jnp.zeros(arms), jnp.zeros(arms), jnp.int32(0)), jnp.int32(0)

    def step(state, key, loss):
        sums, pulls, arm = state
        sums = sums.at[arm].add(noise.laplace(key, jnp.clip(loss, 0.0, 1.0), scale))
        pulls = pulls.at[arm].add(1.0)
        arm = jnp.argmin(sums / jnp.maximum(pulls, 1.0)).astype(jnp.int32)
        return (sums, pulls, arm), arm

    declared = Privacy(epsilon=epsilon, model="local", accountant="Laplace mechanism, each loss")
    return Learner(init, step, bandit, Arms(arms), horizon, declared)
"""
SMALL = ["--horizon", "64", "--trials", "2", "--epsilon", "1,inf", "--runs", "512"]


def written(folder, text, name="mine.py"):
    path = folder / name
    path.write_text(text)
    return str(path)


def rows(out, name):
    with open(out / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


class Reader(HTMLParser):
    """Collects tags, attributes and text, and checks that tags are closed in order."""

    VOID = ("meta", "img")

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def one_file(page, figures=6):
    """Returns the page, after checks that it is complete and self-contained."""
    read = Reader(page)
    assert not {"script", "link", "iframe", "object", "a"} & {*read.tags}
    images = [value for name, value in read.attributes if name == "src"]
    assert len(images) == figures and all(
        each.startswith("data:image/png;base64,") for each in images
    )
    assert not any(name == "href" for name, _ in read.attributes)
    assert "http" not in page and "@import" not in page and "url(" not in page
    assert page.isascii() or '<meta charset="utf-8">' in page
    assert "width=device-width" in page
    return read


COPY = """
from dpjax import learners

def copied(horizon, arms, *, epsilon):
    return learners.dp_exp3_lap(horizon, arms, epsilon=epsilon)
"""


@pytest.mark.usefixtures("quick_compilation")
def test_a_copy_of_a_built_in_learner_has_exactly_its_regret(tmp_path, capsys):
    """Trials are paired, and equal games agree bit for bit; the title is escaped."""
    file, out = written(tmp_path, COPY, "a<b>&.py"), tmp_path / "out"
    command = ["compare", file, "--against", "dp_exp3_lap", *SMALL, "--epsilon", "inf"]
    command += ["--out", str(out)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "On narrow gap at epsilon = inf, copied has a mean regret of" in printed
    assert "The learner declares no privacy, so there was nothing to audit." in printed
    found = rows(out, "differences")
    assert len(found) == 3 and {row["verdict"] for row in found} == {"not told apart"}
    assert all(float(row[name]) == 0.0 for row in found for name in ("difference", "low", "high"))
    assert all(float(row["mean"]) > 0.0 for row in rows(out, "regret"))
    (audited,) = rows(out, "audit")
    assert (audited["checks"], audited["flagged"]) == ("nothing declared", "False")
    assert rows(out, "mutants") == []
    page = one_file((out / "compare.html").read_text())
    for word in ("copied of a<b>&.py", "2 trials, T = 64", "none: copied, dp_exp3_lap",
                 "lai_robbins (lower bound)", "at epsilon = inf, copied"):  # fmt: skip
        assert word in page.text
    assert {path.name for path in out.iterdir()} == {
        "compare.html", "regret.csv", "differences.csv", "audit.csv", "mutants.csv",
        "parameters.json",
    }  # fmt: skip
    assert main(command) == 2
    assert "is not empty; pass --overwrite" in capsys.readouterr().err


@pytest.mark.usefixtures("quick_compilation")
def test_a_search_plays_all_on_the_worst_instance_of_each(tmp_path, capsys, monkeypatch):
    """The copy has the built-in learner's worst instance and regrets, bit for bit.

    This holds at all gaps. The largest regret is that of the profile, and is at a gap of the grid.
    """
    small = partial(comparing.worst_case, trials=4, final=8, population=8, generations=2)
    monkeypatch.setattr(comparing, "worst_case", small)
    file, out = written(tmp_path, COPY), tmp_path / "out"
    command = ["compare", file, "--against", "dp_exp3_lap,ucb1", *SMALL, "--epsilon", "inf"]
    assert main([*command, "--search", "--out", str(tmp_path / "few")]) == 2
    assert "trials must be an integer of at least 4" in capsys.readouterr().err
    assert main([*command, "--trials", "4", "--search", "--out", str(out)]) == 0
    found = {(row["instance"], row["learner"]): row for row in rows(out, "worst")}
    names = {"copied", "dp_exp3_lap", "ucb1"}
    gaps = {"gap, drawn", "gap, constant"}
    assert found.keys() == {(one, other) for one in names | gaps for other in names}
    for gap in gaps:
        assert {**found[gap, "copied"], "learner": "dp_exp3_lap"} == found[gap, "dp_exp3_lap"]
    profile = rows(out, "profile")
    assert len(profile) == 3 * 2 * 16
    for row in profile:
        worst = found[f"gap, {row['environment']}", row["learner"]]
        assert worst["mean"] == row["largest"] and worst["low"] == row["largest_low"]
        assert float(row["low"]) <= float(row["mean"]) <= 64.01 * float(row["gap"])
    for one, other in (("copied", "dp_exp3_lap"), ("dp_exp3_lap", "copied")):
        assert {**found[one, one], "learner": other} == found[one, other]
    own = float(found["copied", "copied"]["mean"])
    listed = [float(r["mean"]) for r in rows(out, "regret") if r["learner"] == "copied"]
    assert own > max(listed)
    page = one_file((out / "compare.html").read_text(), figures=7)
    assert "Worst cases" in page.text and "worst for ucb1" in page.text
    assert "worst gap, drawn" in page.text and "Mean regret at T and epsilon" in page.text
    assert found["ucb1", "ucb1"]["parameters"] in page.text
    assert f", {found['gap, drawn', 'ucb1']['parameters']}" in page.text


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_a_copy_of_a_private_learner_passes_the_audit(tmp_path, capsys):
    file, out = written(tmp_path, COPY), tmp_path / "out"
    command = ["compare", file, "--against", "dp_exp3_lap", *SMALL, "--out", str(out)]
    assert main([*command, "--no-attack"]) == 0
    assert "finds no violation above the declared levels" in capsys.readouterr().out
    (audited,) = rows(out, "audit")
    assert (audited["checks"], audited["flagged"]) == ("pass", "False")
    assert (audited["attack"], audited["runs"]) == ("", "")
    assert {row["mutant"]: row["caught"] for row in rows(out, "mutants")} == dict.fromkeys(
        ["noise halved", "scale from data", "noise reused", "noise forgotten"], "True"
    )
    page = one_file((out / "compare.html").read_text())
    assert "Of 4 mutants" in page.text and "local: copied, dp_exp3_lap" in page.text


@pytest.mark.usefixtures("quick_compilation")
def test_half_the_noise_is_flagged_on_the_page_in_the_table_and_by_the_status(
    tmp_path, capsys, monkeypatch
):
    """On one environment, to save compilation."""
    monkeypatch.setattr("dpjax.study.compare.standard", lambda *of: standard(*of)[:1])
    file = written(tmp_path, GREEDY.replace("FACTOR = 1.0", "FACTOR = 0.5"))
    out = tmp_path / "out"
    assert main(["compare", file, "--against", "ucb1", *SMALL, "--out", str(out)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.startswith("dpjax: mine.py: At epsilon = 1: ")
    sentence = "a replay spent 2, but 1 is declared (2 times as much): the noise is too small"
    assert sentence in error
    (audited,) = rows(out, "audit")
    assert audited["checks"].split(", ")[0] == "epsilon" and audited["flagged"] == "True"
    assert float(audited["replay"]) == pytest.approx(2.0, abs=1e-3)
    assert audited["runs"] == "512" and float(audited["attack"]) >= 0.0
    assert sentence in audited["finding"]
    regret = {(row["learner"], row["epsilon"]): row for row in rows(out, "regret")}
    assert {*regret} == {("greedy", "1"), ("greedy", "inf"), ("ucb1", "")}
    assert regret["greedy", "1"]["model"] == "local" and regret["ucb1", ""]["declared"] == "inf"
    bounds = [regret["greedy", "1"]["bound"], regret["greedy", "inf"]["bound"]]
    assert bounds == ["lai_robbins_local", "lai_robbins"]
    differences = {row["epsilon"]: row for row in rows(out, "differences")}
    for epsilon, row in differences.items():
        less = float(regret["ucb1", ""]["mean"]) - float(regret["greedy", epsilon]["mean"])
        assert float(row["difference"]) == pytest.approx(less, abs=1e-3) != 0.0
    page = (out / "compare.html").read_text()
    assert sentence in page and '<p class="violation">The audit found a violation' in page
    assert '<p class="violation">' not in page.replace('<p class="violation">The audit found', "")


REFUSED = {
    "no file": (None, "mine.py: no such file"),
    "a broken file": ("x = 1\ny = 1 / 0\n", "mine.py: line 2: ZeroDivisionError: division"),
    "no syntax": ("x = 1\ndef f(:\n", "mine.py: line 2: SyntaxError: invalid syntax"),
    "an exit": ("import sys\nsys.exit(3)\n", "mine.py: line 2: it ends the program"),
    "no factory": ("def main(horizon=3):\n    raise SystemExit\n", "it defines no factory"),
    "another's": ("from dpjax.learners import exp3\n", "no public function that requires horizon"),
    "two": (
        "from dpjax import learners\ndef a(horizon, arms):\n    return learners.ucb1(horizon, arms)"
        "\ndef b(horizon, arms):\n    return learners.exp3(horizon, arms)\n",
        "mine.py: a and b all make learners; choose one, as in",
    ),
    "unknown size": ("def f(horizon, armz):\n    pass\n", "f: it needs armz (did you mean arms?)"),
    "no learner": (
        "def f(horizon, arms):\n    return 3\n",
        "must return a Learner or BatchLearner",
    ),
    "raises": (
        "def f(horizon, arms):\n    return arms[0]\n",
        "line 2: f: 'int' object is not subscriptable",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_learner_is_refused_in_a_sentence(case, tmp_path, capsys):
    text, message = REFUSED[case]
    file = str(tmp_path / "mine.py") if text is None else written(tmp_path, text)
    out = tmp_path / "out"
    assert main(["compare", file, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error and "mine.py" in error
    assert not out.exists()


def test_a_regret_that_is_not_a_number_is_refused(tmp_path, capsys):
    """On a point of a ball that is NaN."""
    text = """
import jax.numpy as jnp
from dpjax.core import Learner, Privacy
from dpjax.feedback import full

def broken(horizon, domain):
    nowhere = jnp.full(domain.dim, jnp.nan)
    return Learner(lambda key: ((), nowhere), lambda state, key, loss: ((), nowhere), full, domain,
                   horizon, Privacy())
"""
    file, out = written(tmp_path, text), tmp_path / "out"
    assert main(["compare", file, "--against", "ftrl", *SMALL, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "mine.py: broken: " in error and "the point [nan, " in error
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("factor", "status"), [("1.0", 0), ("0.5", 1)])
def test_a_file_is_audited_by_replays_alone(factor, status, tmp_path, capsys):
    file, out = written(tmp_path, GREEDY.replace("FACTOR = 1.0", f"FACTOR = {factor}")), "out"
    command = ["audit", f"{file}:greedy", "--no-attack", "--out", str(tmp_path / out)]
    assert main(command) == status
    (audited,) = rows(tmp_path / out, "audit")
    assert (audited["learner"], audited["runs"], audited["attack"]) == ("greedy", "", "")
    assert float(audited["replay"]) == pytest.approx(1.0 / float(factor), abs=1e-3)
    error = capsys.readouterr().err
    assert ("greedy: At epsilon = 1: a violation was found" in error) == (status == 1)


@pytest.mark.parametrize(
    ("file", "message"),
    [("none.py", "none.py: no such file"), ("mine.py:odd", "mine.py: it has no function odd")],
)
def test_a_file_that_cannot_be_audited_is_named(file, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, COPY)
    assert main(["audit", file, "--out", "out"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--against", "exp33"], "there is no 'exp33' (did you mean"),
        (["--against", "ftrl"], "against: ftrl cannot compete here (plays other actions)"),
        (
            ["--against", "hedge"],
            "against: hedge cannot compete here (plays other actions, or has",
        ),
        (["--against", "exp3,exp3"], "against: one is named twice"),
        (["--epsilon", "1,1"], "epsilon must hold different values, at least one; got [1.0, 1.0]"),
        (["--trials", "1"], "trials must be an integer of at least 2"),
        (["--horizon", "8"], "horizon must be an integer of at least 16"),
    ],
)
def test_a_bad_option_is_named(options, message, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["compare", written(tmp_path, GREEDY), *options, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
    assert not out.exists()


def test_a_name_chooses_among_several(tmp_path):
    text = "from dpjax.learners import exp3, ucb1\n\ndef first(horizon, arms):\n    pass\n\n"
    text += "def _hidden(horizon):\n    pass\n"
    file = written(tmp_path, text)
    assert find_factory(f"{file}:ucb1")[1].__name__ == "ucb1"
    assert find_factory(file)[1].__name__ == "first"
    with pytest.raises(ValueError, match=r"it has no function usb1 \(did you mean ucb1\?\)"):
        find_factory(f"{file}:usb1")


def test_a_file_may_import_its_neighbours(tmp_path):
    written(tmp_path, "ARMS = 3\n", "neighbour_of_mine.py")
    text = "from neighbour_of_mine import ARMS\n\ndef mine(horizon, arms=ARMS):\n    pass\n"
    assert find_factory(written(tmp_path, text))[1].__defaults__ == (3,)


def test_a_violation_decides_the_status_before_what_could_not_be_decided(tmp_path, monkeypatch):
    """Of several rows of an audit."""
    checks = ["not replayed", "pass", "epsilon"]
    audit = pandas.DataFrame({"checks": checks, "finding": checks})
    found = SimpleNamespace(name="greedy", audit=audit, verdicts={"audit": "two rows"})
    monkeypatch.setattr(comparing, "compare", lambda factory, **options: found)
    monkeypatch.setattr("dpjax.report.comparison.write", lambda *of, **more: None)
    file = written(tmp_path, GREEDY)
    assert compare.run(file, tmp_path / "out") == ("two rows", 1, "mine.py: epsilon")
