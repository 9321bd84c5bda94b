"""The reproduction of Shariff & Sheffet 2018: its constants, files and results."""

import numpy as np
import pytest

from dpjax.papers import shariff2018
from tests.papers.small import played


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


@pytest.mark.slow
def test_order_of_the_learners():
    """No noise, then Gaussian, then Wishart; uniform play has some 0.8 per round."""
    tables, printed, parameters = played("shariff2018")
    assert (len(tables[""]), len(tables["_floor"])) == (4, 2 * 2)
    assert parameters["calibrated_for"] == 50_000_000 and "Wishart, unshifted" in printed
    mean = {row.learner: row.mean for row in tables[""]}
    assert mean["LinUCB"] < 0.25 * mean["Gaussian"]
    assert mean["Gaussian"] < mean["Wishart"] < 0.9 * 2000
    assert all(row.indefinite == 0 for row in tables[""])
