"""The interactive page: its numbers are those of the data or the store."""

import base64
import json
import re
import shutil
import subprocess
import sys
from html import unescape
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import dpjax
from dpjax import Learner, Privacy, Study, environments, learners
from dpjax.cli import explore, main
from dpjax.domains.action_sets import Arms
from dpjax.feedback import bandit
from dpjax.report import panels
from dpjax.report.output import write_json
from tests.study.test_open import small

pytest.importorskip("plotly")

NAMES = ("curves", "epsilon", "laws", "frontier")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def explored(tmp_path, path):
    """The text of the page of a store or of data."""
    out = tmp_path / "page.html"
    assert main(["explore", str(path), "--out", str(out), "--overwrite"]) == 0
    return out.read_text(encoding="utf-8")


def figures(text):
    """The traces of each figure of a page, by its name."""
    found, decoder = {}, json.JSONDecoder()
    for place in re.finditer(r'Plotly\.newPlot\(\s*"([a-z]+-\d+)",\s*', text):
        found[place[1]] = decoder.raw_decode(text, place.end())[0]
    return found


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


def written(tmp_path, made):
    """The results folder of some data."""
    folder = tmp_path / "results"
    folder.mkdir(exist_ok=True)
    made.to_netcdf(folder / "data.nc")
    write_json(folder / "parameters.json", {"losses": "mine </pre> of 1963"})
    return folder


def many():
    """Data of 14 settings, the last with the most cells, and a name with HTML in it."""
    made = data(instance=["a <b>", "c"], arms=[*range(2, 14)])
    first = (made["instance"] == "a <b>") & (made["arms"] < 10)
    second = (made["instance"] == "c") & (made["arms"] >= 8)
    fewer = (made["epsilon"] < 4.0) | (made["arms"] == 13)
    kept = (first | second) & fewer
    for name in ("regret", "final_regret"):
        made[name] = made[name].where(kept).transpose(*made[name].dims)
    return made


def test_a_folder_of_results_is_on_the_page_with_its_numbers(tmp_path):
    text = explored(tmp_path, written(tmp_path, data()))
    found = figures(text)
    assert sorted(found) == sorted(f"{name}-0" for name in NAMES)
    assert points(found["epsilon-0"]) == {
        ("one <a>", "1"): 8.0, ("one <a>", "2"): 4.0, ("one <a>", "4"): 2.0, ("one <a>", "∞"): 2.0,
        ("two", "no ε"): 4.0,
    }  # fmt: skip
    error = np.std([-0.1, 0.0, 0.0, 0.1], ddof=1) / 2
    width = numbers(found["epsilon-0"][0]["error_y"]["array"])
    np.testing.assert_allclose(width, 3.1824 * error, rtol=1e-4)  # Student's quantile
    assert [numbers(trace["y"])[-1] for trace in found["curves-0"]] == [8.0, 4.0, 2.0, 2.0, 4.0]
    medians = [numbers(box["median"]).tolist() for box in found["laws-0"]]
    assert medians == [[8.0, 4.0, 2.0, 2.0], [4.0]]
    best = {x: trace["name"] for trace in found["frontier-0"] for x in trace["x"]}
    assert best == {"1": "one <a>", "2": "one <a>", "4": "one <a>", "∞": "one <a>"}
    assert "mine &lt;/pre&gt; of 1963" in text and "declared model" in text
    assert text == explored(tmp_path, tmp_path / "results" / "data.nc").replace(
        "results/data.nc", "results"
    )


def test_the_least_epsilon_is_that_of_a_crossing(tmp_path):
    """Regret 8, 4, 2 at epsilon 1, 2, 4, and 2 without privacy, against a baseline of 4."""
    text = explored(tmp_path, written(tmp_path, data()))
    rows = re.findall(r"<tr><td>one &lt;a&gt;</td><td>([^<]*)</td><td>([^<]*)</td>", text)
    assert {name: value for name, value in rows if "ε" in name or name == "two"} == {
        "1.1 times itself at ε = ∞": f"{2.0 ** (1.0 + 0.9):.3g}",
        "2 times itself at ε = ∞": "2",
        "two": "2",
    }


def test_the_page_loads_nothing(tmp_path):
    text = explored(tmp_path, written(tmp_path, data()))
    assert not re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)\s*=\s*["\']?http', text)
    assert "default-src 'none'" in text and "@import" not in text
    assert text.count("<script>") and "plotly.js v" in text


def test_a_study_is_on_the_page_with_its_numbers(tmp_path):
    """Two learners, two environments, four epsilons and two mixings, from the store."""
    made = small(trials=8).run(tmp_path / "stores", progress=False)
    text = explored(tmp_path, tmp_path / "stores")
    found = figures(text)
    assert len(found) == 4 * 4
    means = made.dpjax.mean()["mean"]
    settings = [(e, m) for e in ("stochastic", "fixed") for m in (0.1, 0.3)]
    for i, (environment, mixing) in enumerate(settings):
        assert f"<h3>environment = {environment}, mixing = {mixing}</h3>" in text
        own = means.sel(environment=environment, mixing=mixing)
        expected = {("EXP3", "no ε"): own.sel(learner="EXP3").values[0]}
        for epsilon, label in zip((0.1, 0.5, 2.0, np.inf), ("0.1", "0.5", "2", "∞"), strict=True):
            expected["DP-EXP3-Lap", label] = own.sel(learner="DP-EXP3-Lap", epsilon=epsilon).item()
        assert points(found[f"epsilon-{i}"]) == expected
        assert len(found[f"curves-{i}"]) == 5
    declared = re.findall(r"<tr><td>DP-EXP3-Lap</td><td>([^<]*)</td><td>([^<]*)</td>", text)
    assert ("0.1", "0.1") in declared and ("∞", "inf") in declared


def test_a_sweep_is_on_the_page_with_its_numbers(tmp_path):
    def game(epsilon):
        learner = learners.dp_exp3_lap(horizon=16, arms=2, epsilon=epsilon)
        return learner, environments.bernoulli(means=[0.2, 0.8])

    epsilons = np.array([0.5, 2.0, np.inf])
    store = tmp_path / "mine.zarr"
    result = dpjax.sweep(game, epsilons, 6, jax.random.key(0), store=store, progress=False)
    found = figures(explored(tmp_path, store))
    shown = points(found["epsilon-0"])
    final = result.regret[..., -1].astype(float)
    for level, own in zip(("0.5", "2", "∞"), final, strict=True):
        assert shown["game", level] == own.mean()
    last = [numbers(trace["y"])[-1] for trace in found["curves-0"]]
    assert last == final.mean(axis=1).tolist()
    assert numbers(found["frontier-0"][0]["y"])[0] in final[0, 3:].mean(keepdims=True)


def test_points_of_several_parameters_have_panels_by_the_others(tmp_path):
    def game(point):
        learner = learners.dp_exp3_lap(horizon=16, arms=2, epsilon=point["epsilon"])
        return learner, environments.bernoulli(jnp.stack([point["gap"], jnp.float32(0.9)]))

    values = {"epsilon": np.array([0.1, 1.0, 0.1, 0.1]), "gap": np.array([0.1, 0.1, 0.2, 0.2])}
    dpjax.sweep(game, values, 4, jax.random.key(0), store=tmp_path / "mine", progress=False)
    text = explored(tmp_path, tmp_path / "mine")
    found = figures(text)
    assert [found[f"epsilon-{i}"][0]["x"] for i in range(2)] == [["0.1", "1"], ["0.1"]]
    assert "<h3>gap = 0.1</h3>" in text and "<h3>gap = 0.2</h3>" in text


def test_settings_are_in_the_order_of_their_numbers(tmp_path):
    """As texts, 1000 is before 200."""
    made = data(instance=["a", "b"], horizon=[1000, 200, 30])
    text = explored(tmp_path, written(tmp_path, made))
    heads = re.findall("<h3>(.*?)</h3>", text)[:6]
    horizons = [30, 200, 1000]
    assert heads == [f"instance = {i}, horizon = {h}" for i in "ab" for h in horizons]


def test_a_box_has_numbers_in_their_order_and_words_as_they_come():
    settings = [{"instance": i, "arms": n} for i, n in (("c", "8"), ("c", "10"), ("a", "2"))]
    made = panels.boxes(settings, settings[0])
    assert re.findall('<option value="(.*?)"', made) == ["c", "a", "2", "8", "10"]


def test_points_of_a_sweep_are_in_the_order_of_their_numbers(tmp_path):
    def game(point):
        learner = learners.dp_exp3_lap(horizon=4, arms=2, epsilon=point["epsilon"])
        return learner, environments.bernoulli(jnp.stack([1.0 / point["odds"], jnp.float32(0.9)]))

    values = {"epsilon": np.array([0.1] * 3), "odds": np.array([1000.0, 30.0, 200.0])}
    dpjax.sweep(game, values, 4, jax.random.key(0), store=tmp_path / "a" / "mine", progress=False)
    text = explored(tmp_path, tmp_path / "a" / "mine")
    assert re.findall("<h3>(.*?)</h3>", text)[:3] == [f"odds = {n}" for n in (30, 200, 1000)]
    assert "<h1>mine</h1>" in text and "<title>mine: dpjax explore</title>" in text
    data = dpjax.open(tmp_path / "a" / "mine")["final_regret"].mean("trial").values.ravel()
    shown = [numbers(figures(text)[f"epsilon-{i}"][0]["y"])[0] for i in range(3)]
    np.testing.assert_allclose(shown, data[[1, 2, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("path", "title"),
    [("results/study", "study"), ("results/study/data.nc", "study"), ("a/b/mine.zarr/", "mine"),
     ("s3://bucket/mine", "mine"), ("data.nc", "data"), ("mine.nc", "mine")],
)  # fmt: skip
def test_a_title_has_no_names_of_folders(path, title):
    assert explore.title_of(path) == title


class Stopped(NamedTuple):
    stopped: jax.Array


def stopping(losses):
    """A learner of one arm that stops once its losses exceed this number."""
    return Learner(
        lambda key: (jnp.float32(0.0), jnp.int32(0)),
        lambda state, key, loss: (state + loss, jnp.int32(0)),
        bandit, Arms(2), 16, Privacy(), lambda state: Stopped(jnp.float32(state > losses)),
    )  # fmt: skip


def test_trials_that_did_not_stop_are_counted(tmp_path):
    """A learner that takes no epsilon counts once, for any number of levels."""
    makers = {"mine": lambda epsilon: stopping(epsilon), "fixed": lambda: stopping(8.0)}
    losses = {"bits": lambda: environments.bernoulli([0.5, 0.5])}
    study = Study(makers, losses, {"epsilon": [7.0, 9.0]}, trials=8, checkpoints=1)
    made = study.run(store=tmp_path / "stores", progress=False)
    late = made["report_stopped"].squeeze("environment") == 0.0
    mine, fixed = int(late.sel(learner="mine").sum()), int(late.sel(learner="fixed")[0].sum())
    assert 0 < mine < 16 and 0 < fixed < 8
    text = explored(tmp_path, tmp_path / "stores")
    for n, of, name in ((mine, 16, "mine"), (fixed, 8, "fixed")):
        assert f"{n} of {of} trials of {name} did not stop and are censored" in text
    study = Study(lambda: stopping(-1.0), lambda: environments.bernoulli([0.5, 0.5]), trials=2)
    study.run(tmp_path / "all", progress=False)
    assert "did not stop" not in explored(tmp_path, tmp_path / "all")


def test_of_many_settings_the_page_shows_the_one_that_is_chosen(tmp_path):
    text = explored(tmp_path, written(tmp_path, many()))
    assert "The input has 14 settings. Choose the one" in text
    told = json.loads(re.search(r'id="settings">(.*?)</script>', text)[1])
    assert len(told["settings"]) == 14 and told["first"] == {"instance": "c", "arms": "13"}
    assert {"instance": "a <b>", "arms": "2"} in told["settings"]
    assert "<b>" not in text.partition("</script>")[2]
    assert re.findall('<select name="(.*?)">', text) == ["instance", "arms"]
    assert len(figures(text)) == text.count("<figure>") == 4 * 14
    assert text.count("<template ") == 5 * 14  # and the tables of the least epsilons
    assert "<template" not in explored(tmp_path, written(tmp_path, data()))


def test_trials_that_were_not_played_are_counted_and_do_not_count(tmp_path):
    made = data()
    kept = (made["trial"] < 3) | (made["learner"] == "two")
    for name in ("regret", "final_regret"):
        made[name] = made[name].where(kept).transpose(*made[name].dims)
    text = explored(tmp_path, written(tmp_path, made))
    sentence = (
        "Trials that failed or were not played do not count: 1 of 4 at learner = one &lt;a&gt;."
    )
    assert sentence in text
    expected = made["final_regret"].sel(learner="one <a>", epsilon=1.0)[:3].mean().item()
    assert points(figures(text)["epsilon-0"])["one <a>", "1"] == pytest.approx(expected)


def test_a_cell_with_one_trial_leaves_the_frontier_and_the_least_epsilons(tmp_path):
    """It once removed both from the page."""
    found = []
    for count in (0, 1):
        made = data()
        other = (made["learner"] != "one <a>") | (made["epsilon"] != 2.0)
        for name in ("regret", "final_regret"):
            own = made[name].where(other | (made["trial"] < count))
            made[name] = own.transpose(*made[name].dims)
        text = explored(tmp_path, written(tmp_path, made))
        least = text.partition("<h3>Least ε")[2].partition("</table>")[0]
        found.append((points(figures(text)["frontier-0"]), least))
    assert found[0] == found[1] and all(found[0])


def test_one_trial_has_means_and_no_intervals(tmp_path):
    found = figures(explored(tmp_path, written(tmp_path, data().isel(trial=[1]))))
    assert sorted(found) == ["curves-0", "epsilon-0", "laws-0"]
    assert points(found["epsilon-0"])["two", "no ε"] == 4.0


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


# Written before and after the page's own scripts: errors, and the effect of a click.
_WATCH = """<script>
const failures = [];
addEventListener("error", e => failures.push(String(e.message)));
addEventListener("securitypolicyviolation", e => failures.push(e.blockedURI));
console.error = (...words) => failures.push(words.join(" "));
</script>"""
_CLICK = """<script>
setTimeout(() => {
  const figure = document.getElementById("epsilon-0");
  const seen = () => figure._fullData.filter(trace => trace.visible === true).length;
  const before = seen(), entry = figure.querySelector(".legendtoggle");
  for (const kind of ["mousedown", "mouseup", "click"])
    entry.dispatchEvent(new MouseEvent(kind, {bubbles: true, view: window}));
  setTimeout(() => {
    const panels = [...document.querySelectorAll(".plotly-graph-div")].filter(
      each => each.querySelector(".main-svg")).map(each => each.id);
    document.body.innerHTML = "<pre>" + JSON.stringify({failures, panels, before, after: seen(),
      wide: document.documentElement.scrollWidth - innerWidth}) + "</pre>";
  }, 2000);
}, 3000);
</script>"""


# A choice that does not fit the other values of the setting: these are changed.
_CHOOSE = """<script>
setTimeout(() => {
  const shown = () => [...document.querySelectorAll(".plotly-graph-div")].filter(
    each => each.querySelector(".main-svg")).map(each => each.id);
  const box = name => document.querySelector(`select[name=${name}]`);
  const before = shown();
  box("arms").value = "3";
  box("arms").dispatchEvent(new Event("change"));
  setTimeout(() => {
    const told = {failures, before, after: shown(), instance: box("instance").value,
      heads: [...document.querySelectorAll(".shown h3")].map(each => each.textContent)};
    document.body.innerHTML = "<pre></pre>";
    document.querySelector("pre").textContent = JSON.stringify(told);
  }, 2000);
}, 3000);
</script>"""


def watched(tmp_path, path, script, width=1280):
    """The report of a script on the page of some data in a browser."""
    text = explored(tmp_path, path).replace("<style>", f"{_WATCH}<style>", 1)
    page = tmp_path / "watched.html"
    head, end = text.rsplit("</body>", 1)
    page.write_text(f"{head}{script}</body>{end}", encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000", "--dump-dom",
        page.as_uri(),
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return json.loads(unescape(re.search(r"<pre>(\{.*?\})</pre>", shown)[1]))


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no browser")
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_draws_the_page_and_a_click_on_a_legend_hides_a_curve(tmp_path, width):
    found = watched(tmp_path, written(tmp_path, data()), _CLICK, width)
    assert found["failures"] == []
    assert found["panels"] == ["curves-0", "epsilon-0", "laws-0", "frontier-0"]
    assert (found["before"], found["after"]) == (2, 1)
    assert found["wide"] <= 0


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no browser")
def test_a_browser_shows_the_setting_that_is_chosen(tmp_path):
    found = watched(tmp_path, written(tmp_path, many()), _CHOOSE)
    assert found["failures"] == []
    assert found["before"] == [f"{name}-13" for name in NAMES]
    assert found["after"] == [f"{name}-1" for name in NAMES]
    assert found["instance"] == "a <b>"
    assert found["heads"] == 5 * ["instance = a <b>, arms = 3"]
