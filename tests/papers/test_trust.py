"""The same games under every trust model: rounds by Chernoff's bound, tables, declarations."""

import bisect

import numpy as np
import pytest

from dpjax import noise, privacy
from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.papers import trust
from tests.papers.small import keep_only, read_rows


def assert_near(found, least):
    """At most one percent above the least number of rounds, and not below it."""
    assert least - 1.0 <= found <= 1.01 * least + 1.0


def rounds(law, epsilon):
    """The rounds until a mean is known to 0.05 except with probability e^-20."""
    noise_of_sums = sum_noise(law, epsilon, trust.delta_of(law))
    return float(np.ceil(noise_of_sums.least_rounds(0.05, 20.0)))


def test_rounds_by_hand():
    """The least n for which Chernoff's bound at x = 20 is 0.05, in float64 on a fine grid."""
    rows = {
        epsilon: {name: rounds(law, epsilon) for name, law in trust.LAWS.items()}
        for epsilon in trust.EPSILONS
    }
    tilts = np.geomspace(1e-4, 10.0, 200_000)

    def least(cumulant):
        gained = 0.05 * tilts - 0.125 * tilts**2
        return np.min(((20.0 + cumulant(tilts)) / gained)[gained > 0.0])

    for epsilon in (0.1, 1.0, 3.0):
        scale = float(privacy.gaussian_scale(1.0, epsilon, trust.DELTA))
        coins = 1 + bisect.bisect_left(
            range(1, 2**20), -trust.DELTA, key=lambda m, e=epsilon: -noise.binomial.delta(m, e)
        )
        stretch = 1.0 / np.tanh(0.5 * epsilon)
        found = rows[epsilon]
        assert_near(found["central, Gaussian"], least(lambda u, s=scale: 0.5 * (u * s) ** 2))
        with np.errstate(invalid="ignore"):
            laplace = least(lambda u, e=epsilon: np.where(u < e, -np.log1p(-((u / e) ** 2)), 1e9))
        assert_near(found["central, Laplace"], laplace)
        assert found["distributed, discrete Laplace"] == found["central, Laplace"]
        assert_near(found["shuffle, binomial"], least(lambda u, m=coins: 0.125 * m * u**2))
        local = 40.0 * 0.25 * stretch**2 / 0.05**2
        assert_near(found["local, randomized response"], local)
    # Computed independently to more digits.
    assert rows[0.1]["central, Laplace"] == pytest.approx(6161, rel=0.01)
    assert rows[0.01]["central, Laplace"] == pytest.approx(48121, rel=0.01)
    for row in rows[np.inf].values():
        assert np.isinf(row) or row == pytest.approx(4000, rel=0.003)
    # A shuffler adds little regret. Without it, 4 / epsilon^2 times as many are needed.
    none = rows[np.inf]["central, Laplace"]
    for epsilon in (0.01, 0.1, 0.3):
        found = rows[epsilon]
        assert found["shuffle, binomial"] <= 1.03 * found["central, Gaussian"]
        factor = found["local, randomized response"] / none
        assert factor == pytest.approx(4.0 / epsilon**2, rel=0.02)


def test_every_law_is_of_its_model():
    """A study plays them on one game, at one epsilon and delta."""
    study = trust.arms_study(10_000, 8)
    assert [program.learner for program in study.programs] == list(trust.LAWS)
    for name, make in trust.in_every_model(trust.linear_elimination, radius="joint").items():
        declared = make(10_000, epsilon=0.5).privacy
        assert declared.model == name.split(",")[0]
        assert declared.delta in (0.0, trust.DELTA)


@pytest.mark.slow
def test_a_small_run(tmp_path, monkeypatch):
    """All tables and figures; without privacy all models have one mean."""
    keep_only(monkeypatch, trust, LAWS=("central, Laplace", "local, randomized response"))
    monkeypatch.setattr(trust, "EPSILONS", (1.0, np.inf))
    printed = trust.reproduce(tmp_path / "out", horizon=100_000, trials=20, progress=False)
    assert "local, randomized response" in printed
    for ending in ("", "_linear", "_identification", "_onset", "_slopes"):
        assert read_rows(tmp_path / "out" / f"trust{ending}.csv")
    for ending in ("", "_linear", "_identification", "_contexts", "_points"):
        assert (tmp_path / "out" / f"trust{ending}.png").stat().st_size > 10_000
    rows = read_rows(tmp_path / "out" / "trust.csv")
    plain = [float(row["mean"]) for row in rows if row["epsilon"] == "inf"]
    assert plain[0] == pytest.approx(plain[1], rel=1e-6)
    costs = {row["learner"]: float(row["factor"]) for row in rows if float(row["epsilon"]) == 1.0}
    assert costs["local, randomized response"] > costs["central, Laplace"]
