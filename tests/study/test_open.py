"""``dpjax.open``: the Dataset of a stored study or sweep, in another process and after damage."""

import json
import shutil
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import jax
import numpy as np
import pytest

import dpjax
from dpjax import Study, environments, learners, store
from dpjax.cli.arguments import prepare
from dpjax.store import objects
from dpjax.study import kept
from tests.refusals import refuses
from tests.stored import tree
from tests.test_store import mark_of_the_dead


def lap(horizon, arms, epsilon):
    return learners.dp_exp3_lap(horizon, arms, epsilon=epsilon)


def stochastic(arms):
    return environments.bernoulli([0.3] + [0.5] * (arms - 1), regret="pseudo")


def of_means(means):
    return environments.bernoulli(means, regret="pseudo")


def small(epsilons=(0.1, 0.5, 2.0, np.inf), trials=4):
    """Two learners (one takes no epsilon), two environments and four privacy levels."""
    return Study(
        {"DP-EXP3-Lap": lap, "EXP3": learners.exp3},
        {"stochastic": stochastic, "fixed": environments.deterministic},
        {"epsilon": list(epsilons), "mixing": [0.1, 0.3], "horizon": 24, "arms": 3},
        trials=trials, checkpoints=3,
    )  # fmt: skip


def summed():
    """Integer axes, and horizons of different length."""
    options = {"trials": 3, "checkpoints": 2}
    grid = {"horizon": [8, 13], "arms": 3}
    second = Study(lap, stochastic, {**grid, "epsilon": [0.3, 1.0]}, **options)
    return Study(learners.ucb1, stochastic, grid, **options) + second


def identifying():
    """Learners that recommend an arm, on arrays with labels."""
    means = {"easy": np.array([0.1, 0.5, 0.9]), "hard": np.array([0.4, 0.5, 0.5])}
    grid = {"means": means, "horizon": 200, "arms": 3, "failure": 0.2, "epsilon": [1.0, 10.0]}
    makers = {"DP-SE": learners.successive_elimination, "LUCB": learners.lucb}
    return Study(makers, {"Bernoulli": of_means}, grid, trials=3, checkpoints=1)


STUDIES = {"small": small, "summed": summed, "identifying": identifying}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A function of the name of a study: its folder, and the Dataset that its run returned."""
    folder = tmp_path_factory.mktemp("studies")

    @cache
    def run(name):
        return folder / name, STUDIES[name]().run(folder / name, progress=False)

    return run


@pytest.fixture(scope="module")
def whole(stored):
    """The folder of all studies, and the Dataset of each."""
    found = {name: stored(name) for name in STUDIES}
    return found["small"][0].parent, {name: data for name, (_, data) in found.items()}


@pytest.fixture
def folder(stored, tmp_path):
    """A copy of the small study's folder, to damage."""
    shutil.copytree(stored("small")[0], tmp_path / "small")
    return tmp_path / "small"


def opened(url):
    """The Dataset, and the warnings as texts. All warnings name this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = dpjax.open(url)
    assert {warning.filename for warning in caught} <= {__file__}
    return found, [str(warning.message) for warning in caught]


def test_labels_declarations_and_units_are_those_of_the_study(whole, stored):
    for name, data in whole[1].items():
        found, said = opened(whole[0] / name)
        assert found.identical(data) and said == [], name
    found = dpjax.open(stored("small")[0])
    assert found["epsilon"].values.tolist() == [0.1, 0.5, 2.0, np.inf]
    assert (found["horizon"].item(), found["arms"].item()) == (24, 3)
    declared = found["privacy_epsilon"].sel(learner="DP-EXP3-Lap", mixing=0.1)
    np.testing.assert_allclose(declared, [0.1, 0.5, 2.0, np.inf], rtol=1e-6)
    assert found["takes_epsilon"].sel(environment="fixed").values.tolist() == [True, False]
    assert found["regret"].attrs == found["final_regret"].attrs == {"units": "loss of one round"}
    found = dpjax.open(whole[0] / "identifying")
    assert (found["best_arms"] == 1).all()
    assert found["report_stopping_time"].attrs == {"units": "rounds"}
    assert {"correct", "best_arms"} <= {*found.data_vars}


def test_fsspec_urls():
    data = summed().run("memory://tests/study", progress=False)
    assert dpjax.open("memory://tests/study").identical(data)


class Killed(BaseException):
    pass


def test_a_study_killed_between_any_two_objects_opens_and_goes_on(whole, tmp_path, monkeypatch):
    write, left, shown = objects.Files.write, [0], whole[1]["summed"]
    expected = tree(whole[0] / "summed")

    def dying(self, key, data, **options):
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return write(self, key, data, **options)

    monkeypatch.setattr(objects.Files, "write", dying)
    for moment in range(0, 200, 20):
        target = tmp_path / str(moment)
        left[0] = moment
        try:
            summed().run(target, progress=False)
        except Killed:
            pass
        else:
            break
        if moment == 0:
            refuses("there is no store of a study or sweep in", dpjax.open, (target,))
        else:
            found, said = opened(target)
            assert dict(found.sizes) == dict(shown.sizes)
            played = found["final_regret"].notnull()
            assert said and not played.all()
            for name in shown.data_vars.keys() & found.data_vars.keys():
                own = found[name].notnull()
                assert (found[name] == shown[name]).where(own, True).all()
            declared = found.get("privacy_epsilon", shown["privacy_epsilon"] * np.nan)
            known = declared.notnull()
            assert (declared == shown["privacy_epsilon"]).where(known, True).all()
            assert (known | ~played.any(("trial", "environment"))).all()
        left[0] = 10**6
        assert summed().run(target, progress=False).identical(shown)
        assert tree(target) == expected
    assert moment > 60, "it was killed at many moments"


def test_cells_that_are_not_done_are_nan_and_counted(folder, stored):
    (program,) = folder.glob("DP-EXP3-Lap-stochastic*")
    (program / "done" / "c" / "0" / "1").unlink()
    shutil.rmtree(next(folder.glob("EXP3-fixed*")))
    found, said = opened(folder)
    assert any(f"of 16 trials of {program} are not done" in each for each in said)
    assert any("1 of 4 programs of" in each and "EXP3-fixed" in each for each in said)
    final = found["final_regret"]
    assert final.sel(learner="EXP3", environment="fixed").isnull().all()
    gone = final.sel(learner="DP-EXP3-Lap", environment="stochastic").isnull()
    assert gone.any() and not gone.all()
    assert (found["clipped"].isnull() == final.isnull()).all()
    assert small().run(folder, progress=False).identical(stored("small")[1])
    assert tree(folder) == tree(stored("small")[0])


def test_more_trials_and_more_values_open_as_they_were_played(tmp_path):
    folder = tmp_path / "kept"

    def made(epsilons, trials):
        grid = {"epsilon": epsilons, "horizon": 24, "arms": 3}
        return Study(lap, stochastic, grid, trials=trials, checkpoints=3)

    for study in (made([0.1, 0.5], 2), made([0.1, 0.5], 4), made([0.1, 0.5, 2.0], 3)):
        assert study.run(folder, progress=False).identical(dpjax.open(folder))
    few = made([0.1, 0.5], 2).run(folder, progress=False)  # The stores hold more than this.
    assert dpjax.open(folder).identical(few) and few.sizes["trial"] == 2


@pytest.mark.parametrize(
    ("first", "mixing"),
    [(0.05, [0.1, 0.2, 0.3]), (np.inf, [0.3, 0.05, 0.1])],
    ids=["a new first value", "another order"],
)
def test_values_can_be_inserted_anywhere(tmp_path, first, mixing, monkeypatch):
    def made(epsilons, mixing):
        grid = {"epsilon": epsilons, "mixing": mixing, "horizon": 24, "arms": 3}
        makers = {"mine": lambda horizon, arms, epsilon, mixing: lap(horizon, arms, epsilon)}
        return Study(makers, stochastic, grid, trials=3, checkpoints=3)

    made([0.1, 1.0, np.inf], [0.1, 0.3]).run(tmp_path / "kept", progress=False)
    before = {name for name in tree(tmp_path / "kept") if "/c/" in name}
    epsilons = list(dict.fromkeys([first, 0.1, np.inf, 10.0, 1.0]))
    study = made(epsilons, mixing)
    found = study.run(tmp_path / "kept", progress=False)
    assert found["epsilon"].values.tolist() == sorted(epsilons)
    assert found.identical(study.run(progress=False))
    assert dpjax.open(tmp_path / "kept").identical(found)
    assert before <= tree(tmp_path / "kept").keys()
    write = Counter()
    monkeypatch.setattr(store.Store, "write", lambda *block: write.update([block[1:3]]))
    again = made(epsilons[::-1], mixing[::-1]).run(tmp_path / "kept", progress=False)
    assert not write and again.identical(found)
    assert len([*(tmp_path / "kept").glob("*/zarr.json")]) == 1


def test_a_new_store_beside_one_with_some_of_the_points_is_named(tmp_path):
    def made(epsilons):
        return Study(lap, stochastic, {"epsilon": epsilons, "horizon": 8, "arms": 2}, trials=1)

    made([0.1, 1.0]).run(tmp_path, progress=False)
    (old,) = (path.name for path in tmp_path.iterdir() if path.is_dir())
    said = f"lap, stochastic, .* begins a new store in {tmp_path}, although {old} has some of its"
    with pytest.warns(RuntimeWarning, match=said) as caught:
        found = made([0.05, 0.1]).run(tmp_path, progress=False)
    assert [warning.filename for warning in caught] == [__file__]
    assert dpjax.open(tmp_path).identical(found)


@pytest.mark.parametrize("damage", ["truncated", "empty", "a digit", "a list", "gone"])
def test_a_damaged_object_is_named_and_written_again(folder, stored, damage):
    """Half of an object, of a killed process, is removed."""
    file = folder / kept.STUDY
    (folder / f".study.json.0123.{mark_of_the_dead()}.partial").write_bytes(b"half")
    assert dpjax.open(folder).identical(stored("small")[1])
    text = file.read_text()
    file.write_text({
        "truncated": text[:-30], "a digit": text.replace("0.5", "0.7"), "a list": "[]",
    }.get(damage, ""))  # fmt: skip
    said = f"store: {file} is damaged; run the study again"
    if damage == "gone":
        file.unlink()
        said = "there is no store of a study or sweep in"
    refuses(said, dpjax.open, (folder,))
    if damage == "a list":
        file.unlink()
    assert small().run(folder, progress=False).identical(dpjax.open(folder))
    assert tree(folder) == tree(stored("small")[0])


def test_a_foreign_object_is_left_alone(folder):
    (folder / "study.json").write_text('{"mine": 1}')
    with pytest.raises(ValueError, match=r"study\.json does not belong to a study; choose"):
        small().run(folder, progress=False)
    assert (folder / "study.json").read_text() == '{"mine": 1}'


def two(means=(0.3, 0.5), epsilons=(0.1, 0.5), **options):
    """One learner in two environments, of which the second has these means."""
    coins = {"coins": environments.bernoulli([0.2, 0.8]), "last": environments.bernoulli(means)}
    return Study({"mine": lap}, coins, {"epsilon": list(epsilons), "horizon": 8, "arms": 2},
                 **{"trials": 2, "checkpoints": 2, **options})  # fmt: skip


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """The folder of a study of two programs, and its Dataset."""
    folder = tmp_path_factory.mktemp("two")
    return folder, two().run(folder, progress=False)


NEW = {"means": [0.3, 0.6]}  # another second program
# {what is refused: (changes of the study, arguments of its run, the message)}
REFUSED = {
    "points": ({"epsilons": [0.1, 0.7]}, {}, "points: epsilon of point 1: 0.5 in the store, 0.7"),
    "second program": (NEW, {}, "another game: float32"),
    "part": (NEW, {"part": (2, 2)}, "another game: float32"),
    "chunk": (NEW, {"chunk": 0}, "chunk must be"),
    "mesh": (NEW, {"mesh": 3}, "mesh must be"),
    "executor": (NEW, {"executor": 3}, "executor must have a method submit"),
    "parts": (NEW, {"executor": ThreadPoolExecutor(1), "parts": 0}, "parts must be"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_leaves_all_files_as_they_were(of_two, case, tmp_path):
    changes, arguments, message = REFUSED[case]
    folder, data = of_two
    (folder / f".study.json.0.{mark_of_the_dead()}.partial").write_bytes(b"half")
    before = tree(folder)
    refuses(message, two(**changes, trials=80).run, (folder,), progress=False, **arguments)
    assert tree(folder) == before
    assert dpjax.open(folder).identical(data)
    if case in ("chunk", "mesh", "executor", "parts"):
        refuses(message, two().run, (tmp_path / "new",), progress=False, **arguments)
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("url", ["", "/", "memory://"])
def test_a_store_without_a_name_is_refused(url, tmp_path, monkeypatch):
    """Nothing is written, neither into the working folder nor into the root of the disk."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(objects.Files, "write", lambda *_, **__: pytest.fail("written"))
    calls = [
        lambda: dpjax.open(url),
        lambda: store.read(url),
        lambda: two().run(url, progress=False),
        lambda: two().run(url, progress=False, executor=ThreadPoolExecutor(1)),
        lambda: play([0.1], url),
        lambda: prepare(url, resume=False, devices=None),
    ]
    for call in calls:
        refuses(f"store: must name a folder or URL, got {url!r}; ", call, ())


def test_labels_of_another_study_are_refused(of_two, tmp_path):
    shutil.copytree(of_two[0], tmp_path / "one")
    two(epsilons=[0.1, 0.7]).run(tmp_path / "other", progress=False)
    shutil.copy(tmp_path / "other" / kept.STUDY, tmp_path / "one")
    refuses(r"holds other points than .*study\.json; it", dpjax.open, (tmp_path / "one",))


# Single sweeps


def game(epsilon):
    return lap(16, 2, epsilon), environments.bernoulli([0.2, 0.8])


def play(points, folder, made=game, seeds=4):
    return dpjax.sweep(made, points, seeds, jax.random.key(0), checkpoints=2, store=folder,
                       progress=False)  # fmt: skip


def test_a_sweep_opens_with_its_points_and_declarations(tmp_path):
    result = play(np.array([0.1, 3.0, np.inf]), tmp_path / "mine")
    found, said = opened(tmp_path / "mine")
    assert found["regret"].dims == ("learner", "epsilon", "trial", "round") and said == []
    assert found["epsilon"].values.tolist() == [0.1, 3.0, np.inf]
    assert found["learner"].values.tolist() == ["game"]
    np.testing.assert_array_equal(found["regret"][0], result.regret)
    np.testing.assert_allclose(found["privacy_epsilon"][0], [0.1, 3.0, np.inf], rtol=1e-6)
    assert found["privacy_model"].values.tolist() == [["local"] * 3]
    assert found.dpjax.mean()["mean"].shape == (1, 3)


def test_points_of_several_parameters_are_coordinates(tmp_path):
    def made(point):
        losses = environments.bernoulli(point["means"])
        return lap(16, 2, point["epsilon"]), losses

    points = {"epsilon": np.array([0.1, 0.1]), "means": np.array([[0.1, 0.5], [0.7, 0.5]])}
    result = play(points, tmp_path / "mine", made)
    found = dpjax.open(tmp_path / "mine")
    named = dpjax.sweep(
        lambda trial: game(trial), [1.0, 2.0], 3, jax.random.key(0), store=tmp_path / "named",
        progress=False,
    )  # fmt: skip
    again = dpjax.open(tmp_path / "named")
    np.testing.assert_array_equal(again["regret"][0], named.regret)
    assert again["regret"].dims == ("learner", "point_trial", "trial", "round")
    assert found["epsilon"].dims == ("point",)
    np.testing.assert_array_equal(found["means"], points["means"].astype(np.float32))
    np.testing.assert_array_equal(found["regret"][0], result.regret)
    assert found["means"].dims == ("point", "means_0")


def test_points_of_a_growing_sweep_are_in_the_order_of_the_store(tmp_path):
    folder = tmp_path / "mine"
    play(np.array([0.1, 3.0]), folder)
    result = play(np.array([0.1, 5.0, 3.0]), folder)
    found = dpjax.open(folder)
    np.testing.assert_array_equal(found["regret"][0], result.regret[[0, 2, 1]])
    np.testing.assert_array_equal(result.regret, play(np.array([0.1, 5.0, 3.0]), None).regret)
    np.testing.assert_allclose(found["privacy_epsilon"][0], [0.1, 3.0, 5.0], rtol=1e-6)


def test_tables_and_figures_of_a_store_with_a_missing_program_name_its_cells(stored, tmp_path):
    """A learner that had not been started once had no row, and was "none" in the caption."""
    name = "summed"
    url, whole = stored(name)
    shutil.copytree(url, tmp_path / name)
    told = json.loads((tmp_path / name / kept.STUDY).read_text())["programs"]
    missing = [each for each in told if each["at"]["learner"] == told[-1]["at"]["learner"]]
    learner = missing[0]["at"]["learner"][0]
    for each in missing:
        shutil.rmtree(tmp_path / name / each["folder"])
    data, _ = opened(tmp_path / name)
    axes = [n for n in whole["final_regret"].dims if n != "trial"]
    expected = whole.dpjax.table()
    with pytest.warns(RuntimeWarning, match=f"do not count: .*{learner}"):
        table = data.dpjax.table()
    assert table[axes].equals(expected[axes])
    lost = table["learner"] == learner
    assert (table["trials"][lost] == 0).all() and table["mean"][lost].isnull().all()
    assert (table["trials"][~lost] == whole.sizes["trial"]).all()
    assert (table["privacy_model"][lost] == "").all()
    part = data.isel({n: 0 for n in axes if n not in ("learner", "horizon")})
    with pytest.warns(RuntimeWarning, match="do not count"):
        drawn = part.dpjax.figure("horizon", color="learner")
    assert f"at learner = {learner}" in drawn.caption and f"none ({learner})" not in drawn.caption
    assert learner not in [text.get_text() for text in drawn.legends[0].get_texts()]
    assert "planned" not in whole.coords
