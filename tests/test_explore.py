"""The interactive page: its numbers are those of the data or the store."""

import base64
import json
import re
import sys
from itertools import compress

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import dpjax
from dpjax import environments, learners
from dpjax.cli import explore, main
from dpjax.report.output import write_json
from tests.study.test_open import small

pytest.importorskip("plotly")

NAMES = ("curves", "epsilon", "laws")


def explored(tmp_path, path):
    """The text of the page of a store or of data."""
    out = tmp_path / "page.html"
    assert main(["explore", str(path), "--out", str(out), "--overwrite"]) == 0
    return out.read_text(encoding="utf-8")


def figures(text, part=0):
    """The traces of each figure of a page, by its name; or with part 1, its layout."""
    found, decoder = {}, json.JSONDecoder()
    for place in re.finditer(r'Plotly\.newPlot\(\s*"([a-z]+)",\s*', text):
        traces, end = decoder.raw_decode(text, place.end())
        layout, _ = decoder.raw_decode(text, text.index("{", end))
        found[place[1]] = (traces, layout)[part]
    return found


def menu(text, name):
    """The settings of a figure's menu, and whether each trace is shown with it."""
    menus = figures(text, part=1)[name].get("updatemenus", [{"buttons": []}])
    return {own["label"]: own["args"][0]["visible"] for own in menus[0]["buttons"]}


def numbers(values):
    """The numbers of a trace, which plotly may write as bytes."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"]).astype(float)
    return np.array(values, float)


def points(traces):
    return {(trace["name"], x): y for trace in traces
            for x, y in zip(trace["x"], numbers(trace["y"]), strict=True)}  # fmt: skip


def data(**axes):
    """Data as from a study: a private learner with 8, 4, 2, 2 by epsilon, and one with 4."""
    levels, spread = [1.0, 2.0, 4.0, np.inf], np.array([-0.1, 0.0, 0.0, 0.1])
    means = np.array([[8.0, 4.0, 2.0, 2.0], [4.0] * 4])
    regret = means[:, :, None, None] + spread[:, None] * np.array([0.5, 1.0])
    regret = regret.reshape(2, *[1] * len(axes), *regret.shape[1:])
    sizes = [len(values) for values in axes.values()]
    regret = np.broadcast_to(regret, (2, *sizes, 4, 4, 2))
    dims = ("learner", *axes, "epsilon", "trial")
    pair = ("learner", "epsilon")
    return xarray.Dataset(
        {"regret": ((*dims, "round"), regret), "final_regret": (dims, regret[..., -1])},
        {"learner": np.array(["one <a>", "two"], object), "epsilon": levels, "round": [1, 2],
         "privacy_epsilon": (pair, [levels, [np.inf] * 4]),
         "privacy_delta": (pair, np.zeros((2, 4))),
         "privacy_model": (pair, np.full((2, 4), "central", object)),
         "takes_epsilon": ("learner", [True, False]), **axes},
    )  # fmt: skip


def masked(made, kept):
    """Data in which some trials were not played."""
    names = ("regret", "final_regret")
    return made.assign({name: made[name].where(kept).transpose(*made[name].dims) for name in names})


def written(tmp_path, made):
    """The results folder of some data."""
    folder = tmp_path / "results"
    folder.mkdir(exist_ok=True)
    made.to_netcdf(folder / "data.nc")
    write_json(folder / "parameters.json", {"losses": "mine </pre> of 1963"})
    return folder


def test_a_folder_of_results_is_on_the_page_with_its_numbers(tmp_path):
    text = explored(tmp_path, written(tmp_path, data()))
    found = figures(text)
    assert sorted(found) == sorted(NAMES) and not menu(text, "epsilon")
    assert points(found["epsilon"]) == {
        ("one <a>", "1"): 8.0, ("one <a>", "2"): 4.0, ("one <a>", "4"): 2.0, ("one <a>", "∞"): 2.0,
        ("two", "no ε"): 4.0,
    }  # fmt: skip
    error = np.std([-0.1, 0.0, 0.0, 0.1], ddof=1) / 2
    width = numbers(found["epsilon"][0]["error_y"]["array"])
    np.testing.assert_allclose(width, 3.1824 * error, rtol=1e-4)  # Student's quantile
    assert [numbers(trace["y"])[-1] for trace in found["curves"]] == [8.0, 4.0, 2.0, 2.0, 4.0]
    medians = [numbers(box["median"]).tolist() for box in found["laws"]]
    assert medians == [[8.0, 4.0, 2.0, 2.0], [4.0]]
    assert "mine &lt;/pre&gt; of 1963" in text and "declared model" in text
    # The page loads nothing.
    assert not re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)\s*=\s*["\']?http', text)
    assert "default-src 'none'" in text and "@import" not in text
    assert text == explored(tmp_path, tmp_path / "results" / "data.nc").replace(
        "results/data.nc", "results"
    )


def test_a_study_is_on_the_page_with_its_numbers(tmp_path):
    """Two learners, two environments, four epsilons and two mixings, from the store."""
    made = small(trials=8).run(tmp_path / "stores", progress=False)
    text = explored(tmp_path, tmp_path / "stores")
    found = figures(text)
    means = made.dpjax.mean()["mean"]
    settings = [(e, m) for e in ("stochastic", "fixed") for m in (0.1, 0.3)]
    shown = menu(text, "epsilon")
    assert {*shown} == {f"environment = {e}, mixing = {m}" for e, m in settings}
    for environment, mixing in settings:
        visible = shown[f"environment = {environment}, mixing = {mixing}"]
        own = means.sel(environment=environment, mixing=mixing)
        expected = {("EXP3", "no ε"): own.sel(learner="EXP3").values[0]}
        for epsilon, label in zip((0.1, 0.5, 2.0, np.inf), ("0.1", "0.5", "2", "∞"), strict=True):
            expected["DP-EXP3-Lap", label] = own.sel(learner="DP-EXP3-Lap", epsilon=epsilon).item()
        assert points(compress(found["epsilon"], visible)) == expected
    assert [sum(visible) for visible in menu(text, "curves").values()] == [5] * 4
    assert [trace["visible"] for trace in found["epsilon"]] == next(iter(shown.values()))
    declared = re.findall(r"<td>DP-EXP3-Lap</td>\s*<td>([^<]*)</td>\s*<td>([^<]*)</td>", text)
    assert ("0.1", "0.1") in declared and ("∞", "inf") in declared


def test_a_sweep_is_on_the_page_with_its_numbers_in_their_order(tmp_path):
    def game(point):
        learner = learners.dp_exp3_lap(horizon=4, arms=2, epsilon=point["epsilon"])
        return learner, environments.bernoulli(jnp.stack([1.0 / point["odds"], jnp.float32(0.9)]))

    # As texts, 1000 is before 30.
    values = {"epsilon": np.array([0.1, 0.1, 0.1, 1.0]), "odds": np.array([1e3, 30.0, 200.0, 30.0])}
    store = tmp_path / "a" / "mine"
    result = dpjax.sweep(game, values, 4, jax.random.key(0), store=store, progress=False)
    text = explored(tmp_path, store)
    shown, found = menu(text, "epsilon"), figures(text)["epsilon"]
    assert [*shown] == [f"odds = {n}" for n in (30, 200, 1000)]
    assert "<h1>mine</h1>" in text and "<title>mine: dpjax explore</title>" in text
    means = np.asarray(result.regret)[..., -1].astype(float).mean(axis=1)
    own = [[*points(compress(found, visible)).values()] for visible in shown.values()]
    np.testing.assert_allclose(np.concatenate(own), means[[1, 3, 2, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("path", "title"),
    [("results/study", "study"), ("results/study/data.nc", "study"), ("a/b/mine.zarr/", "mine"),
     ("s3://bucket/mine", "mine"), ("data.nc", "data"), ("mine.nc", "mine")],
)  # fmt: skip
def test_a_title_has_no_names_of_folders(path, title):
    assert explore.title_of(path) == title


def test_trials_that_did_not_stop_are_counted(tmp_path):
    """A learner that takes no epsilon counts once, for any number of levels."""
    made, stopped = data(), np.ones((2, 4, 4))
    stopped[0, :2, 0] = stopped[1, :, :3] = 0.0
    made["report_stopped"] = ("learner", "epsilon", "trial"), stopped
    text = explored(tmp_path, written(tmp_path, made))
    assert "2 of 16 trials of one &lt;a&gt;, 3 of 4 trials of two did not stop and" in text
    made["report_stopped"][:] = 1.0
    assert "did not stop" not in explored(tmp_path, written(tmp_path, made))


def test_of_many_settings_the_menu_shows_one(tmp_path):
    made = data(instance=["a <b>", "c"], arms=[*range(13, 5, -1)])
    kept = (made["instance"] == "a <b>") == (made["arms"] < 10)
    made = masked(made, kept)
    text = explored(tmp_path, written(tmp_path, made))
    settings = [f"instance = {i}, arms = {n}" for n in range(6, 14) for i in ("a <b>", "c")
                if (i == "a <b>") == (n < 10)]  # fmt: skip
    for name in NAMES:
        shown = menu(text, name)
        assert sorted(shown) == sorted(settings) and len(figures(text)[name]) == sum(
            map(sum, shown.values())
        )
    assert "<b>" not in text.partition("plotly.js v")[0]


def test_trials_that_were_not_played_are_counted_and_do_not_count(tmp_path):
    made = data()
    kept = (made["trial"] < 3) | (made["learner"] == "two")
    made = masked(made, kept)
    text = explored(tmp_path, written(tmp_path, made))
    sentence = (
        "Trials that failed or were not played do not count: 1 of 4 at learner = one &lt;a&gt;."
    )
    assert sentence in text
    expected = made["final_regret"].sel(learner="one <a>", epsilon=1.0)[:3].mean().item()
    assert points(figures(text)["epsilon"])["one <a>", "1"] == pytest.approx(expected)


def test_one_trial_has_means_and_no_intervals(tmp_path):
    found = figures(explored(tmp_path, written(tmp_path, data().isel(trial=[1]))))
    assert points(found["epsilon"])["two", "no ε"] == 4.0


def test_paths_are_refused(tmp_path, capsys):
    def refused(path, words):
        assert main(["explore", str(path)]) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1, said

    refused(tmp_path / "gone.csv", "gone.csv: no such file or folder")
    refused(tmp_path, "there is no store of a study or sweep in")
    (tmp_path / "table.csv").write_text("learner,mean\nx,1\n")
    refused(tmp_path / "table.csv", "table.csv: pass a store, a file data.nc, or a folder of")
    (tmp_path / "data.nc").write_text("learner,mean\nx,1\n")
    refused(tmp_path, "data.nc: cannot be read as data of a study")
    xarray.Dataset({"x": ("y", [1.0])}).to_netcdf(tmp_path / "data.nc")
    refused(tmp_path / "data.nc", "data.nc: holds no data of a study")
    empty = data()
    empty["final_regret"] = empty["final_regret"] * np.nan
    path = written(tmp_path, empty)
    refused(path, "results: no trial is finite")
    path = written(tmp_path, data())
    assert main(["explore", str(path)]) == 0 and (tmp_path / "results.html").is_file()
    refused(path, "--overwrite")
    assert main(["explore", str(path), "--overwrite"]) == 0


def test_without_plotly_one_sentence_says_what_to_install(tmp_path, capsys, monkeypatch):
    path = written(tmp_path, data())
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert main(["explore", str(path)]) == 2
    assert "plotly is not installed; pip install 'dpjax[explore]'" in capsys.readouterr().err
