"""Learners, environments and studies from Python files, or a sentence that names file and line."""

import pytest

from dpjax.cli import main
from dpjax.cli.learner_files import find_factory

REFUSED = {
    "no file": (None, "mine.py: no such file"),
    "a broken file": ("x = 1\ny = 1 / 0\n", "mine.py: line 2: ZeroDivisionError: division"),
    "no syntax": ("x = 1\ndef f(:\n", "mine.py: line 2: SyntaxError: invalid syntax"),
    "an exit": ("import sys\nsys.exit(3)\n", "mine.py: line 2: it ends the program"),
    "no factory": ("def main(horizon=3): pass\n", "it has no public function that requires"),
    "another's": ("from dpjax.learners import exp3\n", "no public function that requires horizon"),
    "two": ("def a(horizon): pass\ndef b(horizon): pass\n", "mine.py: it has a and b; choose one"),
    "unknown size": ("def f(horizon, armz): pass\n", "f: it needs armz (did you mean arms?)"),
    "no learner": ("def f(horizon): return 3\n", "must return a Learner or BatchLearner"),
    "raises": ("def f(horizon):\n    return 3[0]\n", "line 2: f: 'int' object is not"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("command", ["compare", "audit"])
def test_a_file_without_a_learner_is_refused(command, case, tmp_path, capsys):
    text, message = REFUSED[case]
    file, out = tmp_path / "mine.py", tmp_path / "out"
    if text is not None:
        file.write_text(text)
    assert main([command, str(file), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error and "mine.py" in error
    assert not out.exists()


def test_a_name_chooses_among_several(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dpjax.learners import exp3, ucb1\n"
        "def first(horizon, arms):\n    pass\ndef _hidden(horizon):\n    pass\n"
    )
    assert find_factory(f"{file}:ucb1")[1].__name__ == "ucb1"
    assert find_factory(str(file))[1].__name__ == "first"
    with pytest.raises(ValueError, match=r"function .* usb1 \(did you mean ucb1\?\)"):
        find_factory(f"{file}:usb1")


def test_a_file_may_import_its_neighbours(tmp_path):
    (tmp_path / "neighbour_of_mine.py").write_text("ARMS = 3\n")
    file = tmp_path / "mine.py"
    file.write_text("from neighbour_of_mine import ARMS\ndef mine(horizon, arms=ARMS): pass\n")
    assert find_factory(str(file))[1].__defaults__ == (3,)
