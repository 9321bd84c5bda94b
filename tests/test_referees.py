"""The referees that pip installs give the verdicts printed in docs/referees.md."""

import importlib
import re

import numpy as np
import pytest

from benchmarks.referees import frame
from tests import ROOT

PAGE = (ROOT / "docs" / "referees.md").read_text()
FOLDER = ROOT / "benchmarks" / "referees"
SCRIPTS = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem != "frame")


def printed(script):
    """(setting, verdict) of each row in the table after a script's command."""
    rest = PAGE[PAGE.index(f"python -m benchmarks.referees.{script}") :]
    (block,) = re.findall(r"^\| setting.*?(?=\n\n|\Z)", rest, flags=re.DOTALL | re.MULTILINE)[:1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
    return [(row[0], row[-1]) for row in rows[2:]]


def agrees_with_the_page(script, rows):
    assert [(row.setting, row.verdict) for row in rows] == printed(script)
    assert all(row.verdict == row.expected for row in rows)


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_page_has_the_command_and_a_table_of_each_script(script):
    rows = printed(script)
    assert rows and {verdict for _, verdict in rows} <= {"agree", "differ"}


def test_means_differ_beyond_four_standard_errors_and_numbers_beyond_the_tolerance():
    random = np.random.default_rng(0)
    ours, theirs = random.laplace(size=(2, 10_000))
    assert frame.compare("squares", ours**2, theirs**2).verdict == "agree"
    assert frame.compare("half the noise", ours**2, (theirs / 2.0) ** 2).verdict == "differ"
    shifted = frame.compare("shifted", ours, theirs + 0.1)
    assert shifted.verdict == "differ" and -8.0 < float(shifted.z) < -4.0
    assert frame.compare("constant", [1.0, 1.0], [1.0, 1.0]).verdict == "agree"
    assert frame.compare("constant", [1.0, 1.0], [1.01, 1.01]).verdict == "differ"
    assert frame.equal("near", [1.0, 2.0], [1.0, 2.0 + 1e-9], 1e-8).verdict == "agree"
    far = frame.equal("far", [1.0, 2.0], [1.0, 2.1], 1e-8)
    assert (far.ours, far.theirs, far.verdict) == ("1, 2", "1, 2.1", "differ")
    assert frame.between("inside", 1.0, (0.5, 2.0)).verdict == "agree"
    assert frame.between("outside", 3.0, (0.5, 2.0)).verdict == "differ"


def test_a_verdict_that_is_not_expected_and_a_clone_that_is_not_there_fail(capsys):
    rows = [frame.equal("far", 1.0, 2.0, 1e-3, "differ"), frame.equal("near", 1.0, 1.0, 1e-3)]
    frame.finish(rows)
    assert capsys.readouterr().out.count("\n") == 4
    with pytest.raises(SystemExit, match="not as expected: far"):
        frame.finish([rows[0]._replace(expected="agree")])
    with pytest.raises(SystemExit):
        frame.arguments("", "somewhere", ["--clone", "/nowhere"])
    assert "--clone: there is no folder /nowhere" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "module", "extra", "options"),
    [
        ("google_accounting", "dp_accounting", "test", {}),
        ("google_factorizations", "jax_privacy", "mf", {}),
        ("opendp_laws", "opendp", "referees", {}),
        ("smpybandits", "SMPyBandits", "referees", {"trials": 40}),
        ("adap_index", "dpjax", "test", {"trials": 200}),
    ],
)
def test_a_referee_gives_the_verdicts_of_the_page(script, module, extra, options, monkeypatch):
    pytest.importorskip(module, reason=f"needs pip install 'dpjax[{extra}]'")
    if script == "opendp_laws":  # its draws have no seed
        monkeypatch.setattr(frame, "LIMIT", 6.0)
    found = importlib.import_module(f"benchmarks.referees.{script}")
    agrees_with_the_page(script, found.rows(**options))
