"""The message about a bad file is one sentence that names the file and the place in it.

``tests/data/bad_files.txt`` has the calls and their sentences.
"""

from pathlib import Path

import numpy as np
import pytest

from dpjax.cli import main
from dpjax.cli.loss_files import read_cases, read_losses
from tests.cli.test_audits import FILE
from tests.cli.test_run import STUDY, TWO
from tests.test_wrong_uses import uses


def file(name, content):
    """Writes a file of a text, bytes or an array, and returns its name."""
    if isinstance(content, np.ndarray):
        (np.save if name.endswith("npy") else np.savez)(name, content)
    else:
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


NAMES = {
    "file": file, "main": main, "read_cases": read_cases, "read_losses": read_losses, "np": np,
    "Path": Path, "STUDY": STUDY, "TWO": TWO,
    "AUDITED": FILE.replace("jnp.int32(0))\n    init", "3 + state)\n    init"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "sentence"), uses("bad_files.txt"))
def test_a_bad_file_is_refused_in_one_sentence(code, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        assert eval(code, NAMES) == 2
        said = capsys.readouterr().err.removesuffix("\n")
    except (OSError, TypeError, ValueError) as error:
        said = str(error)
    assert "\n" not in said and not (tmp_path / "out").exists()
    assert said.startswith(sentence.removesuffix("...")) and (said == sentence or "..." in sentence)
    assert {path.name for path in tmp_path.iterdir()} <= set(code.split('"'))
