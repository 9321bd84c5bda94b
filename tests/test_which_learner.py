"""The page that names learners is that of its CSV file, and its rules do what the page says."""

import numpy as np
import pandas
import pytest
import xarray

from dpjax import learners
from tests import ROOT, script

HERE = ROOT / "docs" / "which_learner"
which = script("docs/which_learner.py")


def test_the_page_is_that_of_its_csv_file():
    assert which.page(HERE) == (HERE / "index.md").read_text()


def test_the_csv_file_has_all_settings_and_learners_that_exist():
    found = pandas.read_csv(HERE / "regret.csv", keep_default_na=False)
    assert set(found["setting"]) == set(which.SETTINGS)
    for name, setting in which.SETTINGS.items():
        own = found[found["setting"] == name]
        names = set(own["learner"].str.removesuffix(which.BITS))
        assert names <= {*learners.__all__, *setting.more} - set(setting.slow)
        assert set(own["environment"]) == set(setting.games)
        assert set(own["horizon"]) == set(setting.horizons)
        assert set(own["epsilon"]) == set(which.EPSILONS)


def regret(apart=1.0):
    """Four learners with 16 trials: B is better than A by 0.1, and C and D are ``apart``."""
    noise = 0.01 * np.resize([1.0, -1.0], 16)
    levels = np.array([1.1, 1.0, 1.0 + apart, 0.5])[:, None] + noise * np.array([[1, 2, 3, 0.5]]).T
    own = np.stack([levels, levels])[None]  # one environment; two epsilons
    return xarray.DataArray(
        own.transpose(2, 0, 1, 3)[:, :, None],
        {"learner": [*"ABCD"], "environment": ["narrow gap"], "horizon": [8],
         "epsilon": [1.0, np.inf],
         "privacy_epsilon": (("learner", "epsilon"), [[1, 9], [1, 9], [0.5, 9], [2, 9]]),
         "privacy_model": (("learner", "epsilon"), [["central"] * 2, ["joint"] * 2,
                                                    ["local"] * 2, ["local"] * 2])},
        ["learner", "environment", "horizon", "epsilon", "trial"],
    )  # fmt: skip


cell = which._cell


def test_learners_compete_if_their_declaration_and_their_model_allow_it():
    """D declares 2 where 1 is asked for, so it competes without privacy only."""
    found = which.rows("a setting", regret())
    served = (found["epsilon"] == 1.0) & (found["trust"] == "the server")
    assert set(found["learner"][served]) == {*"ABC"}
    assert cell(found, 1.0, "the server").startswith("`B` 1 ± ")
    assert cell(found, 1.0, "no one").startswith("`C` 2")
    assert cell(found, np.inf, "the server").startswith("`D` 0.5")
    assert cell(found, np.inf, "no one") == ""
    assert found[found["learner"] == "C"]["standard_error"].iloc[0] == pytest.approx(
        float(regret().sel(learner="C", epsilon=1.0).std("trial", ddof=1).item()) / 4.0
    )


def test_learners_on_randomized_bits_do_not_compete_with_their_bases_without_privacy():
    own = regret().assign_coords(learner=["A", "B", f"C{which.BITS}", f"D{which.BITS}"])
    found = which.rows("a setting", own)
    assert cell(found, 1.0, "no one").startswith(f"`C{which.BITS}` 2")
    assert set(found["learner"][found["epsilon"] == np.inf]) == {"A", "B"}


@pytest.mark.parametrize(
    ("setting", "names"),
    [("4 arms, bandit feedback", ["dp_imed", "kl_ucb", "thompson", "tsallis_inf"]),
     ("10 arms, full information", ["ftrl on the simplex", "hedge", "limited_updates"])],
)  # fmt: skip
def test_learners_without_noise_play_in_the_local_model(setting, names):
    found = which.competitors(which.SETTINGS[setting])[0]
    for name in names:
        made = found[name + which.BITS](horizon=64, epsilon=0.5)
        declared = made.privacy
        assert (declared.model, declared.epsilon, declared.delta) == ("local", 0.5, 0.0), name
        assert made.action_set.count == int(setting.split()[0])


@pytest.mark.parametrize(("apart", "named"), [(1.0, "`B` 1 ± 0.0"), (0.001, ", `C`")])
def test_a_learner_that_is_not_clearly_worse_stays_in(apart, named):
    text = cell(which.rows("a setting", regret(apart)), 1.0, "the server")
    assert named in text and ("`C`" in text) == (apart < 0.1) and "`A`" not in text


@pytest.mark.slow
def test_the_command_writes_the_page(tmp_path):
    which.main(tmp_path, trials=4, quick=True, progress=False)
    page = (tmp_path / "index.md").read_text()
    assert page == which.page(tmp_path) and f"## {which.QUICK}" in page
    found = pandas.read_csv(tmp_path / "regret.csv", keep_default_na=False)
    assert set(found["learner"]) == set(which.competitors(which.SETTINGS[which.QUICK])[0])
    assert (found["trials"] == 4).all()
