"""The reproduction of Shariff & Sheffet 2018: its constants, files and results."""

import json

import numpy as np
import pytest

from dpjax.papers import shariff2018
from tests.papers.small import counted, files, names, read_rows


def test_floors_are_those_of_the_authors():
    """rho_min as printed in the notebook; the grid of the third experiment."""
    assert f"{shariff2018.regularizer('gaussian').smallest:.6g}" == "92208.7"
    assert f"{shariff2018.regularizer('wishart').smallest:.6g}" == "222336"
    unshifted = shariff2018.regularizer("wishart", shifted=False)
    assert f"{unshifted.smallest:.6g}" == "1.28101e+07"
    # Unshifted noise is noise with that floor, up to float32.
    same = shariff2018.regularizer("wishart", floor=unshifted.smallest)
    np.testing.assert_allclose(same, unshifted, rtol=1e-6)
    grid = (2.54e4, 7.16e4, 2.02e5, 5.70e5, 1.61e6, 4.54e6, 1.28e7, 3.61e7)
    np.testing.assert_allclose(shariff2018.FLOORS, grid, rtol=3e-3)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "shariff2018"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shariff2018, "PUBLISHED_SCALING", {"bernoulli": (2.437, 1.988)})
        printed = counted(shariff2018.reproduce, 5)(out, horizon=2000, trials=4, progress=False)
    return out, printed


@pytest.mark.slow
def test_files_and_their_rows(reproduced):
    out, printed = reproduced
    endings = ("", "_floor", "_scaling")
    assert names(out) == files("shariff2018", endings, (*endings, "_curves"))
    assert len(read_rows(out / "shariff2018.csv")) == 4
    assert len(read_rows(out / "shariff2018_floor.csv")) == 2 * 2
    assert json.loads((out / "parameters.json").read_text())["calibrated_for"] == 50_000_000
    assert "Wishart, unshifted" in printed


@pytest.mark.slow
def test_order_of_the_learners(reproduced):
    """No noise, then Gaussian, then Wishart; uniform play has some 0.8 per round."""
    table = read_rows(reproduced[0] / "shariff2018.csv")
    rows = {row["learner"]: float(row["mean"]) for row in table}
    assert rows["LinUCB"] < 0.25 * rows["Gaussian"]
    assert rows["Gaussian"] < rows["Wishart"] < 0.9 * 2000
    assert all(row["indefinite"] == "0" for row in table)
