"""Stores: their contents, resuming, growing, refusals and faults.

After each fault, a resumed sweep ends with the bytes of an undisturbed one.
"""

import errno
import io
import os
import re
import shutil
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
import zarr
from jax import random as jr

from dpjax import environments, learners, simulate, simulate_batches, store
from dpjax.store import layout, objects
from tests.stored import POINTS, assert_same, dp_exp3_lap, finished, run, tree


@pytest.fixture
def written(monkeypatch):
    """First point and first seed of each written block."""
    blocks, write = [], store.Store.write

    def counting(self, point, seed, cells):
        blocks.append((point, seed))
        write(self, point, seed, cells)

    monkeypatch.setattr(store.Store, "write", counting)
    return blocks


def remove(folder, blocks):
    """Removes blocks of two seeds each from a store, as if they had never been computed."""
    for path in Path(folder).glob("*/c/0/*"):
        if path.name in map(str, blocks) and path.parts[-4] not in ("means",):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


# Contents of a store


def test_a_stored_sweep_is_the_sweep(undisturbed):
    folder, result = undisturbed
    assert_same(result, run())
    assert_same(result, store.read(folder))


@pytest.mark.parametrize("consolidated", [True, False])
def test_xarray_reads_labelled_axes_and_parameters(undisturbed, consolidated):
    folder, result = undisturbed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = xarray.open_zarr(folder, chunks=None, consolidated=consolidated)
    assert data.regret.dims == ("point", "seed", "round")
    assert dict(data.sizes) == {"point": 2, "seed": 60, "round": 4, "tally_0": 3, "means_0": 3}
    np.testing.assert_array_equal(data["round"], [8192, 16384, 24576, 32768])
    np.testing.assert_array_equal(data.seed, np.arange(60))
    np.testing.assert_array_equal(data.epsilon, POINTS["epsilon"].astype(np.float32))
    np.testing.assert_array_equal(data.means, POINTS["means"].astype(np.float32))
    assert data.learner.item() == "dp_exp3_lap"
    assert {*data.coords} == {
        *("point", "seed", "round", "epsilon", "means", "learner", "done", "checksum")
    }
    assert data.done.values.all()
    np.testing.assert_array_equal(data.regret, result.regret)
    np.testing.assert_array_equal(data.tally, result.tally)
    np.testing.assert_array_equal(data.report_rejected, result.report.rejected)
    assert data.attrs["horizon"] == 32768
    assert data.attrs["game"] == "tests.stored.dp_exp3_lap"
    assert data.attrs["key"] == "threefry2x32 [0, 0]"


@pytest.mark.parametrize("url", ["memory://tests/store", "file://{}/store"])
def test_fsspec_urls(url, tmp_path, undisturbed):
    url = url.format(tmp_path)
    small = run(url, seeds=3)
    np.testing.assert_array_equal(small.regret, undisturbed[1].regret[:, :3])
    grown = run(url, seeds=5)
    np.testing.assert_array_equal(grown.regret, undisturbed[1].regret[:, :5])
    data = xarray.open_zarr(url, chunks=None)
    np.testing.assert_array_equal(data.regret, grown.regret)
    assert_same(store.read(url), grown)


# Resuming and growing


def test_what_is_done_is_not_computed_again(undisturbed, written):
    """Nor are fewer seeds or points, which are read from the larger store."""
    before = tree(undisturbed[0])
    assert_same(run(undisturbed[0]), undisturbed[1])
    assert_same(run(undisturbed[0], chunk=64), undisturbed[1])
    few = run(undisturbed[0], seeds=7, points={k: v[:1] for k, v in POINTS.items()})
    np.testing.assert_array_equal(few.regret, undisturbed[1].regret[:1, :7])
    assert written == [] and tree(undisturbed[0]) == before


@pytest.mark.parametrize("chunk", [2, 1000])
def test_only_what_is_missing_is_computed_whatever_the_chunk(undisturbed, written, tmp_path, chunk):
    folder = tmp_path / "store"
    shutil.copytree(undisturbed[0], folder)
    blocks = [0, 3, 4, 5, 17, 28, 29]
    remove(folder, blocks)
    missing = [seed for block in blocks for seed in (2 * block, 2 * block + 1)]
    before = finished(folder)
    data = xarray.open_zarr(folder, chunks=None)
    np.testing.assert_array_equal(np.flatnonzero(~data.done.values[0]), missing)
    assert np.isnan(data.regret.values[:, missing]).all()
    assert np.isnan(data.report_rejected.values[:, missing]).all()
    part = store.read(folder)
    assert np.isnan(part.regret[:, missing]).all() and np.isnan(part.tally[:, missing]).all()
    assert_same(run(folder, chunk=chunk), undisturbed[1])
    assert sorted(written) == [(0, 2 * block) for block in blocks]
    assert tree(folder) == tree(undisturbed[0])
    assert finished(folder).items() >= before.items(), "a finished block was written again"


def test_more_seeds_compute_only_the_new_ones(undisturbed, written, tmp_path):
    """Seeds that pad a last block are kept, and used when the store grows."""
    folder = tmp_path / "store"
    run(folder, seeds=5, chunk=6)  # blocks of 3 seeds
    assert sorted(written) == [(0, 0), (0, 3)]
    before = tree(folder)
    grown = run(folder, seeds=6, chunk=6)
    assert len(written) == 2
    np.testing.assert_array_equal(grown.regret, undisturbed[1].regret[:, :6])
    assert_same(run(folder, chunk=64), undisturbed[1])
    assert sorted(written[2:]) == [(0, seed) for seed in range(6, 60, 3)]
    after = tree(folder)
    assert all(after[name] == data for name, data in before.items() if "/c/0/" in name)
    assert xarray.open_zarr(folder, chunks=None).sizes["seed"] == 60


def test_more_points_compute_only_the_new_ones(written, tmp_path):
    folder = tmp_path / "store"
    points = {
        "epsilon": np.array([0.5, np.inf, 1.0, 2.0, 0.1]),
        "means": np.random.default_rng(0).random((5, 3)),
    }
    whole = run(points=points, seeds=4, chunk=4)
    for count, new in [(2, [0]), (3, [2]), (5, [2, 4]), (5, [])]:
        written.clear()
        part = run(folder, 4, {k: v[:count] for k, v in points.items()})
        np.testing.assert_array_equal(part.regret, whole.regret[:count])
        assert sorted(written) == [(point, seed) for point in new for seed in (0, 2)]
    data = xarray.open_zarr(folder, chunks=None)
    np.testing.assert_array_equal(data.epsilon, points["epsilon"].astype(np.float32))
    np.testing.assert_array_equal(data.regret, whole.regret)
    assert data.done.values.all()


def test_new_points_of_a_block_show_nothing_before_they_are_done(tmp_path, monkeypatch):
    """In a block of two points with one done, the other is a repetition and is not kept."""
    folder = tmp_path / "store"
    points = {k: np.concatenate([v, v]) for k, v in POINTS.items()}
    run(folder, 2, {k: v[:2] for k, v in points.items()})
    run(folder, 2, {k: v[:3] for k, v in points.items()})

    def killed(self, point, seed, cells):
        raise SystemExit

    monkeypatch.setattr(store.Store, "write", killed)
    with pytest.raises(SystemExit):
        run(folder, 2, points)
    data = xarray.open_zarr(folder, chunks=None)
    np.testing.assert_array_equal(data.done, [[True] * 2] * 3 + [[False] * 2])
    assert np.isnan(data.regret.values[3]).all() and np.isfinite(data.regret.values[:3]).all()


# Refusing


def of_another_game(point):
    return learners.exp3(32768, 3), environments.bernoulli(point["means"])


def with_table(losses, jitted):
    """Games with other losses, whose programs have the same text."""
    table = jax.jit(lambda: jnp.asarray(losses)) if jitted else lambda: losses
    return lambda point: (learners.exp3(8, 3), environments.table(table()))


REFUSED = {
    "key": ({"key": jr.key(1)}, ["key", "threefry2x32 [0, 0]", "threefry2x32 [0, 1]"]),
    "horizon": ({"game": partial(dp_exp3_lap, horizon=16384)}, ["horizon", "32768", "16384"]),
    "checkpoints": (
        {"checkpoints": 2}, ["checkpoints", "[8192, 16384, 24576, 32768]", "[16384, 32768]"],
    ),
    "play": (
        {"play": simulate_batches, "game": lambda p: (
            learners.exp3_minibatch(32768, 3, tau=4.0),
            environments.bernoulli(p["means"], regret="pseudo"),
        )},
        ["play", "dpjax.simulate", "dpjax.simulate_batches"],
    ),
    "game": ({"game": of_another_game}, ["game", "dp_exp3_lap", "of_another_game"]),
    "points": (
        {"points": {**POINTS, "epsilon": np.array([0.5, 2.0])}},
        ["points: epsilon of point 1", "inf", "2.0"],
    ),
    "names of points": (
        {
            "points": {"eps": POINTS["epsilon"], "means": POINTS["means"]},
            "game": lambda p: dp_exp3_lap({"epsilon": p["eps"], "means": p["means"]}),
        },
        ["points", "epsilon, means", "eps, means"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("field", REFUSED)
def test_a_store_of_another_sweep_is_refused_by_field_and_both_values(undisturbed, field):
    options, words = REFUSED[field]
    before = tree(undisturbed[0])
    with pytest.raises(ValueError) as refused:
        run(undisturbed[0], **options)
    assert "was made with another" in str(refused.value)
    assert all(word in str(refused.value) for word in words), refused.value
    assert tree(undisturbed[0]) == before


@pytest.mark.parametrize(("name", "module"), [("dpjax", layout), ("jax", jax)])
def test_a_store_of_another_version_is_refused(undisturbed, monkeypatch, name, module):
    version = module.__version__
    monkeypatch.setattr(module, "__version__", "9.9.9")
    message = f"version of {name}: {version} in the store, 9.9.9 now"
    with pytest.raises(ValueError, match=message):
        run(undisturbed[0])


def with_mixing(mixing, twice=False):
    """Games that differ in a number, or by one more operation."""

    def game(point):
        def regret(state, tally):
            found = losses.regret(state, tally)
            return jnp.sqrt(jnp.square(found)) if twice else found

        losses = environments.bernoulli(point["means"])
        return learners.exp3(8, 3, mixing=mixing), losses._replace(regret=regret)

    return game


def test_a_refused_game_says_which_arrays_numbers_and_operations_differ(tmp_path):
    def refused(folder, game):
        with pytest.raises(ValueError) as error:
            run(tmp_path / folder, 2, game=game)
        _, _, said = str(error.value).partition("was made with another game: ")
        return said

    run(tmp_path / "numbers", 2, game=with_mixing(0.25))
    assert refused("numbers", with_mixing(0.5)).startswith("0.25 in the store, ")
    said = refused("numbers", with_mixing(0.25, twice=True))
    there, here = re.search(r"(\d+) equations in the store, .*?(\d+) equations now", said).groups()
    assert int(here) > int(there) > 10
    table = np.array([[0.5, 0.25, 1.0]] * 8, np.float32)
    run(tmp_path / "arrays", 2, game=with_table(table, False))
    other = table.copy()
    other[0, 1] = 0.75
    said = refused("arrays", with_table(other, False))
    assert said.startswith("float32(8, 3) [0.5, 0.25, 1.0, ...] with digest ")
    assert " in the store, float32(8, 3) [0.5, 0.75, 1.0, ...] with digest " in said


def test_one_loss_of_a_table_makes_another_game(tmp_path):
    losses = np.random.default_rng(0).random((8, 3)).astype(np.float32)
    run(tmp_path / "store", 2, game=with_table(losses, True))
    run(tmp_path / "store", 2, game=with_table(losses.copy(), True))
    losses[7, 1] = np.nextafter(losses[7, 1], np.float32(1.0))
    with pytest.raises(ValueError, match="another game"):
        run(tmp_path / "store", 2, game=with_table(losses, True))


def test_points_are_not_added_to_a_store_of_one(tmp_path):
    """XLA compiles a different program for one point, whose last bits may differ."""
    run(tmp_path / "store", 2, {k: v[:1] for k, v in POINTS.items()})
    with pytest.raises(ValueError, match="made with one point"):
        run(tmp_path / "store", 2)


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("all of it")
    with pytest.raises(ValueError, match=r"must be empty .*thesis\.tex"):
        run(tmp_path, 2)
    with pytest.raises(ValueError, match=r"must be empty .*thesis\.tex"):
        run(tmp_path / "thesis.tex", 2)
    assert tree(tmp_path) == {"thesis.tex": b"all of it"}
    zarr.create_group(tmp_path / "group")
    with pytest.raises(ValueError, match="not belong to a sweep; use another folder"):
        run(tmp_path / "group", 2)
    with pytest.raises(ValueError, match="no store of a sweep"):
        store.read(tmp_path / "nothing")
    with pytest.raises(TypeError, match="store must be a path or an fsspec URL, got 3"):
        run(3, 2)


@pytest.mark.parametrize("module", ["zarr", "fsspec", "google_crc32c"])
def test_a_missing_package_is_one_sentence(tmp_path, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"{module} is not installed; pip install 'dpjax"):
        run(tmp_path / "store", 2)


# Faults


class Killed(BaseException):
    pass


@pytest.mark.filterwarnings("ignore:store. damaged, or of another version of zarr")
def test_killed_between_any_two_objects(tmp_path, monkeypatch):
    """Creating, computing, and growing: killed before each object in turn, then resumed.

    At each of these moments, all finished parts of the store read by xarray are right.
    """
    write, left = objects.Files.write, [0]

    def dying(self, key, data, **options):
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return write(self, key, data, **options)

    plain, folder = run(seeds=3), tmp_path / "store"
    for seeds in (2, 3):
        run(tmp_path / "whole", seeds)
        shutil.copytree(tmp_path / "whole", tmp_path / f"whole {seeds}")
    monkeypatch.setattr(objects.Files, "write", dying)
    for seeds in (2, 3):
        expected = tree(tmp_path / f"whole {seeds}")
        for moment in range(0, 100, 3):
            shutil.rmtree(folder, ignore_errors=True)
            if seeds == 3:
                shutil.copytree(tmp_path / "whole 2", folder)
            left[0] = moment
            try:
                run(folder, seeds)
            except Killed:
                pass
            else:
                break
            if (folder / "zarr.json").exists():
                data = xarray.open_zarr(folder, chunks=None)
                done = data.done.values
                shown = plain.regret[:, : done.shape[1]]
                np.testing.assert_array_equal(data.regret.values[done], shown[done])
            left[0] = 10**6
            run(folder, seeds)
            assert tree(folder) == expected
        assert moment > 10, "it was killed at many moments"


def test_a_writer_that_undoes_the_points_of_another_is_noticed(tmp_path, monkeypatch):
    """A process that knows three of four points writes the second block last."""
    points = {k: np.concatenate([v, v[::-1]]) for k, v in POINTS.items()}
    three = {k: v[:3] for k, v in points.items()}
    result = store.Store.result

    def overtaken(self, structure=None):
        monkeypatch.setattr(store.Store, "result", result)
        shutil.rmtree(tmp_path / "store" / "done" / "c" / "1")
        run(tmp_path / "store", 2, three)
        return result(self, structure)

    run(tmp_path / "store", 2, three)
    monkeypatch.setattr(store.Store, "result", overtaken)
    with pytest.raises(ValueError, match="seed 0 of point 3 is missing .* run the sweep again"):
        run(tmp_path / "store", 2, points)
    np.testing.assert_array_equal(
        run(tmp_path / "store", 2, points).regret, run(None, 2, points).regret
    )


@pytest.mark.parametrize("other", ["blocks", "points"])
def test_two_creators(tmp_path, monkeypatch, undisturbed, other):
    """The slower one finds the faster one's store, and follows it or is refused."""
    folder, write = tmp_path / "store", objects.Files.write
    points = POINTS if other == "blocks" else {**POINTS, "epsilon": np.array([0.5, 3.0])}

    def overtaken(self, *arguments, **options):
        monkeypatch.setattr(objects.Files, "write", write)
        run(folder, 8, chunk=2)
        return write(self, *arguments, **options)

    monkeypatch.setattr(objects.Files, "write", overtaken)
    if other == "blocks":
        run(folder, 8, points, chunk=6)
    else:
        with pytest.raises(ValueError, match="epsilon of point 1: inf in the store, 3.0 now"):
            run(folder, 8, points, chunk=6)
    run(tmp_path / "alone", 8)
    assert tree(folder) == tree(tmp_path / "alone")
    np.testing.assert_array_equal(store.read(folder).regret, undisturbed[1].regret[:, :8])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("regret", "one bit"),
        ("tally", "truncated"),
        ("report_rejected", "empty"),
        ("done", "one bit"),
    ],
)
def test_a_damaged_block_is_named_and_computed_again(undisturbed, written, tmp_path, name, damage):
    folder = tmp_path / "store"
    shutil.copytree(undisturbed[0], folder)
    (file,) = (p for p in (folder / name / "c" / "0" / "9", folder / name / "c" / "0" / "9" / "0")
               if p.is_file())  # fmt: skip
    data = file.read_bytes()
    flipped = bytes([data[0] ^ 1]) + data[1:]
    file.write_bytes({"truncated": data[:-7], "empty": b"", "one bit": flipped}[damage])
    with pytest.raises(ValueError, match=f"store: {file} is damaged"):
        store.read(folder)
    with pytest.warns(RuntimeWarning, match=f"{file} is damaged; its block is computed again"):
        assert_same(run(folder), undisturbed[1])
    assert written == [(0, 18)]
    assert tree(folder) == tree(undisturbed[0])


def test_disk_full(undisturbed, written, tmp_path, monkeypatch):
    """As reported by the system: a write fails half way."""
    size = sum(map(len, tree(undisturbed[0]).values()))
    folder, room = tmp_path / "store", [size - 3000]  # blocks take 6360 of it

    class Full(io.FileIO):
        def write(self, data):
            super().write(data[: room[0]])
            room[0] -= len(data)
            if room[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(objects, "open", Full, raising=False)
    with pytest.raises(OSError, match=f"store: cannot write {folder}/.*: No space left on device"):
        run(folder)
    before = finished(folder)
    assert 0 < len(before) < len(finished(undisturbed[0]))
    assert not [name for name in tree(folder) if "partial" in name]
    room[0] = 10**9
    assert_same(run(folder), undisturbed[1])
    assert finished(folder).items() >= before.items()
    assert tree(folder) == tree(undisturbed[0])


def test_a_place_that_cannot_be_written_to():
    with pytest.raises(OSError, match="store: cannot write /dev/null/store/.*: Not a directory"):
        run("/dev/null/store", 2)


def mark_of_the_dead():
    """The mark of a process of this machine that has ended."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    return f"{objects.process_mark().rpartition('-')[0]}-{dead.pid}"


def test_what_killed_processes_left_is_removed_and_no_other(undisturbed, tmp_path):
    folder = tmp_path / "store"
    shutil.copytree(undisturbed[0], folder)
    marks = [mark_of_the_dead(), objects.process_mark(), "elsewhere-1"]
    files = [folder / "regret" / "c" / f".0.0123.{mark}.partial" for mark in marks]
    for file in files:
        file.write_bytes(b"half")
    run(folder)
    assert [file.exists() for file in files] == [False, True, True]


# Results


def test_a_result_with_labels(undisturbed, tmp_path):
    folder, result = undisturbed
    data = result.to_xarray(POINTS, learner="dp_exp3_lap")
    stored = xarray.open_zarr(folder, chunks=None).drop_vars(["done", "checksum"]).load()
    assert data.drop_vars("learner").equals(stored.drop_vars("learner"))
    assert data.learner.item() == stored.learner.item()
    result.to_netcdf(tmp_path / "result.nc", POINTS, learner="dp_exp3_lap")
    with xarray.open_dataset(tmp_path / "result.nc") as loaded:
        assert loaded.equals(data)


def test_a_result_as_a_long_table(undisturbed):
    _, result = undisturbed
    table = result.to_dataframe()
    assert [*table.columns] == ["point", "seed", "round", "regret"]
    assert len(table) == 2 * 60 * 4
    row = table[(table.point == 1) & (table.seed == 17) & (table["round"] == 24576)]
    assert row.regret.item() == result.regret[1, 17, 2]
    table = result.to_dataframe(POINTS, learner="dp_exp3_lap")
    means = table[table["round"] == 32768].groupby("epsilon").regret.mean()
    np.testing.assert_allclose(means, result.regret[..., -1].mean(axis=1), rtol=1e-5)
    assert {*table.learner} == {"dp_exp3_lap"}


def test_one_trajectory_with_labels():
    result = simulate(*dp_exp3_lap({k: v[0] for k, v in POINTS.items()}), jr.key(0), checkpoints=4)
    data = result.to_xarray()
    assert data.regret.dims == ("round",) and data.tally.dims == ("tally_0",)
    assert [*result.to_dataframe().columns] == ["round", "regret"]


def test_labels_need_no_package_of_the_stores(undisturbed, monkeypatch):
    for module in ("zarr", "fsspec", "google_crc32c"):
        monkeypatch.setitem(sys.modules, module, None)
    result = undisturbed[1]
    np.testing.assert_array_equal(result.to_xarray().regret, result.regret)
