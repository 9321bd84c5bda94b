"""The interactive page: what it holds is what the table or the store holds."""

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
import pandas
import pytest

import dpjax
from dpjax import Learner, Privacy, Study, environments, learners
from dpjax.cli import main
from dpjax.domains.action_sets import Arms
from dpjax.feedback import bandit
from dpjax.report import panels as choice
from dpjax.report.found import Cell, least, of_cells, value_text
from dpjax.report.output import write_json
from dpjax.report.stores import read_store, read_study
from dpjax.report.tables import write_csv
from tests import ROOT

pytest.importorskip("plotly")

SAJED = ROOT / "docs" / "papers" / "sajed2019" / "sajed2019.csv"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def explored(tmp_path, path):
    """The text of the page of a table or a store."""
    out = tmp_path / "page.html"
    assert main(["explore", str(path), "--out", str(out)]) == 0
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


def table(tmp_path, name="table.csv", **changed):
    """The table of a run with two learners, a missing value and a censored row."""
    rows = [
        {"learner": learner, "model": "central", "epsilon": epsilon, "delta": 0.0,
         "regret": 10.0 * i + min(epsilon, 9.0), "standard_error": 0.5, "stopped": 1.0, "seeds": 4}
        for i, learner in enumerate(["one <a>", "two"]) for epsilon in (0.1, 1.0, np.inf)
    ]  # fmt: skip
    rows[1] |= changed
    write_csv(tmp_path / name, rows)
    return tmp_path / name


def test_a_published_table_is_on_the_page_with_its_numbers(tmp_path):
    text, rows = explored(tmp_path, SAJED), pandas.read_csv(SAJED)
    found = figures(text)
    assert rows["mean"].notna().all()
    settings = rows.groupby(["instance", "horizon"], sort=False)
    for i, ((instance, horizon), own) in enumerate(settings):
        assert f"<h3>instance = {instance}, horizon = {horizon}</h3>" in text
        shown = points(found[f"epsilon-{i}"])
        assert len(shown) == len(own)
        for row in own.itertuples():
            epsilon = "no ε" if np.isnan(row.asked) else f"{row.asked:.4g}".replace("inf", "∞")
            assert shown[row.learner, epsilon] == row.mean
        medians = np.concatenate([numbers(box["median"]) for box in found[f"laws-{i}"]])
        assert sorted(medians) == sorted(own["q50"])
    assert "The input holds no numbers for this figure." in text  # curves


def test_the_page_loads_nothing(tmp_path):
    text = explored(tmp_path, table(tmp_path))
    assert not re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)\s*=\s*["\']?http', text)
    assert "default-src 'none'" in text and "@import" not in text
    assert text.count("<script>") and "plotly.js v" in text


def test_a_table_of_a_run_with_its_curves_and_parameters(tmp_path):
    path = table(tmp_path)
    curves = [{"epsilon": e, "round": t, "regret": e * t, "low": 0.0, "high": t}
              for e in (0.1, 1.0) for t in (1, 2)]  # fmt: skip
    write_csv(tmp_path / "curves.csv", curves)
    write_json(tmp_path / "parameters.json", {"losses": "mine </pre> of 1963"})
    text = explored(tmp_path, path)
    found = figures(text)
    assert [trace["name"] for trace in found["curves-0"]] == ["0.1", "1"]
    assert numbers(found["curves-0"][1]["y"]).tolist() == [1.0, 2.0]
    assert points(found["epsilon-0"])["two", "0.1"] == 10.1
    assert numbers(found["epsilon-0"][1]["error_y"]["array"])[0] == pytest.approx(0.98, abs=1e-3)
    assert points(found["frontier-0"])["one <a>", "∞"] == 0.1  # by less privacy than is allowed
    assert "mine &lt;/pre&gt; of 1963" in text and "declared model" in text


def test_rows_without_a_value_and_censored_rows_are_said(tmp_path):
    text = explored(tmp_path, table(tmp_path, regret=np.nan))
    assert "1 rows have no value and are left out: one &lt;a&gt; at ε = 1." in text
    text = explored(tmp_path / "second", table(tmp_path, stopped=0.5))
    assert "1 rows are censored" in text


def test_a_store_is_on_the_page_with_its_numbers(tmp_path):
    def game(epsilon):
        learner = learners.dp_exp3_lap(horizon=16, arms=2, epsilon=epsilon)
        return learner, environments.bernoulli(means=[0.2, 0.8])

    epsilons = np.array([0.5, 2.0, np.inf])
    store = tmp_path / "mine.zarr"
    result = dpjax.sweep(game, epsilons, 6, jax.random.key(0), store=store, progress=False)
    text = explored(tmp_path, store)
    found = figures(text)
    shown = points(found["epsilon-0"])
    final = result.regret[..., -1].astype(float)
    for level, own in zip(("0.5", "2", "∞"), final, strict=True):
        assert shown["game", level] == own.mean()
    (box,) = found["laws-0"]
    assert numbers(box["y"]).tolist() == final.ravel().tolist()
    last = [numbers(trace["y"])[-1] for trace in found["curves-0"]]
    assert last == final.mean(axis=1).tolist()
    assert "A store keeps no declarations of privacy" in text
    assert numbers(found["frontier-0"][0]["y"])[0] in final[0, 3:].mean(keepdims=True)


class Stopped(NamedTuple):
    stopped: jax.Array


def stopping(losses):
    """A learner of one arm that stops once it has suffered more losses than these."""
    return Learner(
        lambda key: (jnp.float32(0.0), jnp.int32(0)),
        lambda state, key, loss: (state + loss, jnp.int32(0)),
        bandit, Arms(2), 16, Privacy(), lambda state: Stopped(jnp.float32(state > losses)),
    )  # fmt: skip


def test_trials_that_did_not_stop_are_said_of_a_study_and_of_its_stores(tmp_path):
    """A learner that takes no epsilon counts once, however many levels there are."""
    makers = {"mine": lambda epsilon: stopping(epsilon), "fixed": lambda: stopping(8.0)}
    losses = {"bits": lambda: environments.bernoulli([0.5, 0.5])}
    study = Study(makers, losses, {"epsilon": [7.0, 9.0]}, trials=8, checkpoints=1)
    data = study.run(store=tmp_path / "stores", progress=False)
    data.to_netcdf(tmp_path / "study.nc")
    late = data["report_stopped"].squeeze("environment") == 0.0
    mine, fixed = int(late.sel(learner="mine").sum()), int(late.sel(learner="fixed")[0].sum())
    assert 0 < mine < 16 and 0 < fixed < 8
    said = [f"{n} trials of {name} did not stop and are censored at the horizon."
            for name, n in (("mine", mine), ("fixed", fixed))]  # fmt: skip
    assert read_study(tmp_path / "study.nc").notes == said
    assert set(said) < set(read_store(tmp_path / "stores").notes)


def test_a_study_whose_trials_all_stopped_says_nothing_of_it(tmp_path):
    study = Study(lambda: stopping(-1.0), lambda: environments.bernoulli([0.5, 0.5]), trials=2)
    study.run(progress=False).to_netcdf(tmp_path / "study.nc")
    assert read_study(tmp_path / "study.nc").notes == []


def many(tmp_path):
    """A table of 14 settings, of which the last has most rows, and a word with HTML in it."""
    settings = [("a <b>", arms) for arms in range(2, 10)] + [("c", arms) for arms in range(8, 14)]
    rows = [
        {"learner": learner, "instance": instance, "arms": arms, "epsilon": epsilon,
         "regret": arms + min(epsilon, 9.0)}
        for learner in ("one", "two") for instance, arms in settings for epsilon in (1.0, 2.0)
    ]  # fmt: skip
    rows += [rows[-1] | {"epsilon": epsilon} for epsilon in (0.5, np.inf)]
    write_csv(tmp_path / "table.csv", rows)
    return tmp_path / "table.csv"


def test_of_many_settings_the_page_shows_the_one_that_is_chosen(tmp_path):
    text = explored(tmp_path, many(tmp_path))
    assert "The input has 14 settings. The boxes choose" in text
    told = json.loads(re.search(r'id="settings">(.*?)</script>', text)[1])
    assert len(told["settings"]) == 14 and told["first"] == {"instance": "c", "arms": "13"}
    assert {"instance": "a <b>", "arms": "2"} in told["settings"]
    assert "<b>" not in text.partition("</script>")[2]
    assert re.findall('<select name="(.*?)">', text) == ["instance", "arms"]
    assert len(figures(text)) == text.count("<figure>") == 2 * 14
    # A least epsilon has a baseline to compare with in the last setting alone.
    assert text.count("<template ") == 2 * 14 + 1
    assert "<template" not in explored(tmp_path / "few", table(tmp_path))


def test_settings_are_read_from_the_texts_of_panels():
    panel = "runs/x, means = (0.5, 0.2), horizon = 1000000, gap = 0.1"
    values = {"store": "runs/x", "means": "(0.5, 0.2)", "horizon": "1000000", "gap": "0.1"}
    assert choice.setting(panel) == values and choice.setting("") == {}
    assert [*map(value_text, (10**6, np.float32(0.1)))] == ["1000000", "0.1"]


def test_trials_that_were_not_played_are_said_and_left_out():
    regret = np.array([[1.0, 2.0], [3.0, 4.0], [np.nan, np.nan]], np.float32)
    labels = {"learner": "mine", "epsilon": 1.0, "panel": ""}
    rounds = np.array([1, 2])
    played = Cell(labels, {}, rounds, regret)
    found = of_cells("page", [played, Cell(labels, {}, rounds, regret * np.nan)], {}, [])
    assert found.notes == [f"{n} of 3 trials of mine, 1.0 were not played." for n in (1, 3)]
    assert found.means["mean"].tolist() == [3.0] and found.means["trials"].tolist() == [2]
    with pytest.raises(ValueError, match="page: no trial has been played yet"):
        of_cells("page", [Cell(labels, {}, rounds, regret * np.nan)], {}, [])


def test_the_least_epsilon_is_that_of_a_crossing():
    """Regret 8, 4, 2 at epsilon 1, 2, 4 and 2 without privacy, against a baseline of 4."""
    rows = [{"learner": "mine", "epsilon": e, "panel": "", "mean": m}
            for e, m in ((1.0, 8.0), (2.0, 4.0), (4.0, 2.0), (np.inf, 2.0))]  # fmt: skip
    rows.append({"learner": "free", "epsilon": np.nan, "panel": "", "mean": 4.0})
    found = least(pandas.DataFrame(rows)).set_index("baseline")["least"]
    assert found["2 times itself at ε = ∞"] == found["free"] == pytest.approx(2.0)
    assert found["1.1 times itself at ε = ∞"] == pytest.approx(2.0 ** (1.0 + 0.9))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a,b\n1,2\n", "bad.csv: there is no column learner"),
        ("learner,epsilon\nx,1\n", "bad.csv: there is no column mean"),
        ("learner,epsilon,mean\nx,1,high\n", "bad.csv: column mean must hold numbers, got 'high'"),
        ("learner,epsilon,mean\nx,1,\n", "bad.csv: column mean has no numbers"),
        ("learner,epsilon,mean\n", "bad.csv: has no rows"),
        ("", "bad.csv: is no CSV table"),
    ],
)
def test_other_tables_are_refused_with_one_sentence(tmp_path, capsys, text, wrong):
    (tmp_path / "bad.csv").write_text(text)
    assert main(["explore", str(tmp_path / "bad.csv")]) == 2
    said = capsys.readouterr().err
    assert wrong in said and said.count("\n") == 1
    assert not (tmp_path / "bad.html").exists()


def test_paths_are_refused(tmp_path, capsys):
    assert main(["explore", str(tmp_path / "gone.csv")]) == 2
    assert "gone.csv: no such file" in capsys.readouterr().err
    assert main(["explore", str(tmp_path)]) == 2
    assert "there is no store of a sweep" in capsys.readouterr().err
    path = table(tmp_path)
    assert main(["explore", str(path)]) == 0 and (tmp_path / "table.html").is_file()
    assert main(["explore", str(path)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["explore", str(path), "--overwrite"]) == 0


def test_without_plotly_one_sentence_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert main(["explore", str(table(tmp_path))]) == 2
    assert "plotly is not installed; pip install 'dpjax[explore]'" in capsys.readouterr().err


# Written before the page's own scripts, and after them: what failed, and what a click does.
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


# A choice of a value that the chosen setting cannot have with its others: these are mended.
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
    """What a script says of the page of a table in a browser."""
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
    found = watched(tmp_path, table(tmp_path), _CLICK, width)
    assert found["failures"] == []
    assert found["panels"] == ["epsilon-0", "frontier-0"]
    assert (found["before"], found["after"]) == (2, 1)
    assert found["wide"] <= 0


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no browser")
def test_a_browser_shows_the_setting_that_is_chosen(tmp_path):
    found = watched(tmp_path, many(tmp_path), _CHOOSE)
    assert found["failures"] == []
    assert found["before"] == ["epsilon-13", "frontier-13"]
    assert found["after"] == ["epsilon-1", "frontier-1"]
    assert found["instance"] == "a <b>"
    assert found["heads"] == 2 * ["instance = a <b>, arms = 3"]
