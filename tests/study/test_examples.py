"""The studies in ``examples/`` run, at a small size, and are as short as they claim."""

import importlib.util

import numpy as np
import pytest

from tests import ROOT

STUDIES = {
    "equal_constants": {"horizon": 256, "trials": 4},
    "exp3_mixing": {"horizon": 64, "trials": 4, "mixings": 2},
    "ftrl_rate": {"horizon": 64, "trials": 4, "rates": 2},
    "linucb_ridge": {"horizon": 64, "trials": 4, "ridges": 2},
    "mechanisms": {"horizons": (16,), "trials": 4},
    "pulls": {"horizon": 256, "trials": 4},
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_draws_its_figure(name, capsys):
    path = ROOT / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    figure = module.main(**STUDIES[name])
    drawn = [axes for axes in figure.axes if axes.get_lines()]
    assert drawn and all(np.isfinite(line.get_ydata()).all()
                         for axes in drawn for line in axes.get_lines())  # fmt: skip
    assert "mean" in capsys.readouterr().out


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_short(name):
    source = (ROOT / "examples" / f"{name}.py").read_text()
    _, body = source.split("\n\n", 1)  # without the docstring
    assert len([line for line in body.splitlines() if line.strip()]) <= 25
