"""The statements of README.md are true."""

import re

import matplotlib

from tests import ROOT

README = (ROOT / "README.md").read_text()


def test_it_is_short():
    assert len(README.splitlines()) <= 140


def test_its_study_draws_a_figure(tmp_path, monkeypatch, capsys):
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip()]) <= 15
    names = {}
    exec(block, names)
    assert names["data"].final_regret.shape == (2, 2, 4, 200)
    assert (tmp_path / "mine.png").stat().st_size > 10000
    assert "DP-EXP3-Lap" in capsys.readouterr().out


def test_ci_runs_the_test_command_of_the_readme():
    """.ci/run looks for the one line of README.md, which sets everything up by itself."""
    (command,) = [line for line in README.splitlines() if "bin/pytest" in line and "&&" in line][:1]
    assert command.startswith("python3 -m venv .venv && ")
    assert README.index(command) == README.index("bin/pytest") - command.index("bin/pytest")
    assert "grep -m 1 'bin/pytest' README.md" in (ROOT / ".ci" / "run").read_text()


def test_numbers_of_the_findings_stand_on_the_pages_that_they_link():
    findings = README[README.index("## Seven findings") : README.index("## How to read privacy")]
    bullets = findings.split("\n- ")[1:]
    assert len(bullets) == 7
    for bullet in bullets:
        (path,) = re.findall(r"\]\((docs/[^)]*)\)", bullet)
        page = (ROOT / path).read_text()
        said = bullet.split(path)[1]
        for number in re.findall(r"\d[\d.^]*\d|\d", said):
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", page), (path, number)
