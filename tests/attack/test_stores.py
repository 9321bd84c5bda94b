"""Stores under attack: bit flips, truncations and swaps of every object, kills, many writers.

After each attack, a read returns the right values or fails with one sentence. A resumed sweep ends
with the bytes of an undisturbed store.
"""

import itertools
import json
import os
import re
import shutil
import signal
import time
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray

from dpjax import environments, learners, store
from dpjax.store import blocks, objects
from tests.stored import POINTS, SEEDS, assert_same, finished, run, tree, wait_for, writer

SMALL = 6  # seeds, in blocks of two


def small(point):
    learner = learners.dp_exp3_lap(16, 3, epsilon=point["epsilon"])
    return learner, environments.bernoulli(point["means"])


def play(folder=None, **options):
    return run(folder, **{"seeds": SMALL, "game": small, **options})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A complete small store, and the Result of its sweep."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    return folder, play(folder)


@pytest.fixture
def folder(whole, tmp_path):
    """A copy of the small store, to damage."""
    shutil.copytree(whole[0], tmp_path / "store")
    return tmp_path / "store"


def noted(function):
    """The result of a function, or None and the error; and the warnings, on a test, as texts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = function(), None
        except (ValueError, OSError) as raised:
            result, error = None, raised
    assert all("tests" in Path(warning.filename).parts for warning in caught)
    return result, error, [str(warning.message) for warning in caught]


def assert_read_is_right(folder, expected):
    """The read returns the right values and warns of missing ones, or fails with a sentence."""
    result, error, told = noted(lambda: store.read(folder))
    if error is not None:
        assert str(error).startswith("store: ") and str(folder) in str(error), error
        assert "\n" not in str(error)
        return "named"
    missing = np.isnan(result.regret[..., 0])
    assert any("are not done" in text for text in told) == missing.any()
    for part, whole in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        if part.shape[:2] == missing.shape:
            part, whole = part[~missing], whole[~missing]
        np.testing.assert_array_equal(part, whole)
    return "right" if not told else "right, with a warning"


def assert_mended(folder, whole, told=True):
    """A resumed sweep gives the same results and bytes, and reports the repair."""
    result, error, warned = noted(lambda: play(folder))
    assert error is None, error
    assert_same(result, whole[1])
    assert tree(folder) == tree(whole[0])
    assert bool(warned) == told, warned
    assert all(str(folder) in text for text in warned)


def assert_refused(folder, words, **options):
    """A read and a sweep both fail with a sentence with these words, and change no file."""
    before = tree(folder)
    for refused in (lambda: store.read(folder), lambda: play(folder, **options)):
        result, error, warned = noted(refused)
        assert result is None and not warned and re.search(words, str(error)), error
        assert "\n" not in str(error)
        assert tree(folder) == before


# Single damages


@pytest.mark.parametrize("name", ["epsilon/c/0", "seed/c/0", "learner/c", "regret/zarr.json"])
@pytest.mark.parametrize("damage", ["gone", "truncated"])
def test_metadata_and_coordinates_are_mended(folder, whole, name, damage):
    """Only other readers of Zarr need them."""
    file = folder / name
    file.unlink() if damage == "gone" else file.write_bytes(file.read_bytes()[:-1])
    assert assert_read_is_right(folder, whole[1]) == "right"
    assert_mended(folder, whole, told=damage != "gone")


def of_version_1(data):
    document = json.loads(data)
    document["attributes"]["format"] = "dpjax sweep 1"
    return json.dumps(document).encode()


ROOTS = {
    "gone": (None, "does not exist; restore it from a copy, or delete .* and run the sweep again"),
    "truncated": (lambda data: data[:-100], "is damaged; restore it from a copy, or delete"),
    "a digit": (lambda data: data.replace(b'"horizon": 16', b'"horizon": 17'), "is damaged"),
    "a key": (lambda data: data.replace(b"[0, 0]", b"[0, 1]"), "is damaged"),
    "deep lists": (lambda data: b"[" * 10**5, "is damaged"),
    "a list": (lambda data: b"[]", "does not belong to a sweep; use another folder, or restore"),
    "no attributes": (lambda data: b"{}", "does not belong to a sweep"),
    "older": (of_version_1, "its format is 'dpjax sweep 1', and this version reads"),
}


@pytest.mark.parametrize("damage", ROOTS)
def test_a_damaged_root_is_refused_and_nothing_is_touched(folder, whole, damage):
    """By the same call and by others. With its root restored, the sweep runs."""
    root, (change, words) = folder / "zarr.json", ROOTS[damage]
    data = root.read_bytes()
    root.unlink() if change is None else root.write_bytes(change(data))
    first = {name: values[:1] for name, values in POINTS.items()}
    for options in ({}, {"key": jax.random.key(1)}, {"seeds": 3, "points": first}):
        assert_refused(folder, words, **options)
    root.write_bytes(data)
    assert_mended(folder, whole, told=False)


@pytest.mark.parametrize("other", ["place of one array", "place", "sweep"])
def test_a_block_of_another_place_or_sweep_is_seen(folder, whole, tmp_path, other):
    """Its own checksums and its shape are right."""
    origin, block = folder, "0"
    if other == "sweep":
        origin, block = tmp_path / "other", "1"
        play(origin, key=jax.random.key(7))
    for array in ["regret"] if "array" in other else whole_arrays(folder):
        source, target = origin / array / "c" / "0" / "1", folder / array / "c" / "0" / block
        copy = partial(shutil.copytree, dirs_exist_ok=True) if source.is_dir() else shutil.copy
        copy(source, target)
    with pytest.raises(ValueError, match=rf"checksum/c/0/{block} does not match .* its block"):
        store.read(folder)
    assert_mended(folder, whole)


def whole_arrays(folder):
    """Names of the arrays that hold blocks."""
    return [path.name for path in folder.iterdir() if (path / "c" / "0" / "1").exists()]


def test_an_array_without_its_others_is_named(folder, whole):
    (folder / "report_rejected" / "c" / "0" / "2").unlink()
    with pytest.raises(ValueError, match="report_rejected/c/0/2 does not exist; run the"):
        store.read(folder)
    assert_mended(folder, whole)


def test_the_setting_of_threefry_is_named(folder, whole):
    """Its draws and program differ, and no program compiled under the other setting is used."""
    now = jax.config.jax_threefry_partitionable
    with jax.threefry_partitionable(not now):
        message = f"another setting jax_threefry_partitionable: {now} in the store, {not now} now"
        with pytest.raises(ValueError, match=message):
            play(folder)
        assert not np.array_equal(play().regret, whole[1].regret)
    assert_same(play(), whole[1])


@pytest.mark.skipif(os.name != "posix", reason="folders are not opened")
def test_the_root_is_on_the_disk_before_the_first_block(tmp_path, monkeypatch):
    events, sync, write = [], os.fsync, objects.Files.write

    def syncing(file):
        events.append(os.readlink(f"/proc/self/fd/{file}") if os.path.exists("/proc") else "")
        sync(file)

    def writing(self, key, data, **options):
        written = write(self, key, data, **options)
        events.append(key)
        return written

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(objects.Files, "write", writing)
    play(tmp_path / "store")
    at = events.index("zarr.json")
    file, folder, parent = events[at - 3 : at]
    if os.path.exists("/proc"):
        assert file.startswith(f"{tmp_path}/store/.zarr.json.")
        assert (folder, parent) == (str(tmp_path / "store"), str(tmp_path))
    assert not any("regret/c" in event for event in events[:at])
    assert len(events) - len(tree(tmp_path / "store")) == 3, "no other file or folder is synced"


def test_a_power_failure_costs_what_was_not_on_the_disk(folder, whole):
    """Files with a name but no content yet, or with no name; the root exists."""
    rng = np.random.default_rng(0)
    for name in tree(folder):
        if name != "zarr.json" and rng.random() < 0.4:
            (folder / name).write_bytes(b"") if rng.random() < 0.5 else (folder / name).unlink()
    assert_read_is_right(folder, whole[1])
    assert_mended(folder, whole)


def test_a_folder_that_is_a_loop_and_strange_files_do_no_harm(folder, whole):
    (folder / "again").symlink_to(folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "regret" / "c" / "0" / "strange").write_text("mine")
    assert assert_read_is_right(folder, whole[1]) == "right"
    assert_same(play(folder), whole[1])
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_folder_that_cannot_be_listed_is_named(folder, monkeypatch):
    scandir = os.scandir

    def forbidding(path):
        if str(path).endswith("done/c/0"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", forbidding)
    for refused in (lambda: store.read(folder), lambda: play(folder)):
        with pytest.raises(OSError, match=r"store: cannot list .*done/c/0: Permission denied"):
            refused()


def test_stores_behind_a_url_are_mended(whole):
    url = "memory://attack/store"
    expected = play(url)
    system = objects.Files(url).system
    for path in ["epsilon/c/0", "regret/c/0/1/0", "done/zarr.json"]:
        system.rm_file(f"/attack/store/{path}")
        assert_same(play(url), expected)
    root = system.cat_file("/attack/store/zarr.json")
    system.rm_file("/attack/store/zarr.json")
    for refused in (lambda: store.read(url), lambda: play(url)):
        with pytest.raises(ValueError, match=f"store: {url}/zarr.json does not exist"):
            refused()
    system.pipe_file("/attack/store/zarr.json", root)
    assert_same(play(url), expected)
    assert_same(store.read(url), expected)
    stored = {path: system.cat_file(path) for path in system.find("/attack/store")}
    assert {path[len("/attack/store/") :]: data for path, data in stored.items()} == tree(whole[0])


def test_a_checksum_sees_place_sweep_and_every_bit():
    rng = np.random.default_rng(0)
    leaves = [rng.random((2, 3, 5)).astype(np.float32), rng.integers(0, 9, (2, 3), np.int32),
              rng.random((2, 3)) < 0.5]  # fmt: skip
    points = rng.integers(0, 2**32, (2, 3), np.uint32)

    def sums(sweep=b"one", points=points, seeds=range(3), leaves=leaves):
        return blocks.cell_checksums(sweep, points, np.arange(9)[[*seeds]], leaves)

    first = sums()
    assert first.shape == (2, 3) and first.dtype == np.uint32 and len({*first.ravel()}) == 6
    assert (sums(b"two") != first).all() and (sums(seeds=range(3, 6)) != first).all()
    assert (sums(points=points ^ np.uint32(1)) != first).all()
    np.testing.assert_array_equal(sums(seeds=[0, 2], leaves=[x[:, [0, 2]] for x in leaves]),
                                  first[:, [0, 2]])  # fmt: skip
    for index, leaf in enumerate(leaves):
        for bit in range(8 * leaf[0, 0].nbytes):
            flipped = leaf.copy()
            cell = flipped[1:2, 2:3].view(np.uint8).reshape(-1)
            cell[bit // 8] ^= np.uint8(1 << bit % 8)
            flipped[1, 2] = cell.view(leaf.dtype).reshape(leaf.shape[2:])
            changed = sums(leaves=[*leaves[:index], flipped, *leaves[index + 1 :]]) != first
            assert np.argwhere(changed).tolist() == [[1, 2]]


# Campaigns


def damages(name, data, others, rng):
    """Ways to damage an object with this content, as (description, new content or None)."""
    flips = 12 if name == "zarr.json" else 2
    for _ in range(flips):
        bit = int(rng.integers(8 * len(data)))
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield "one bit", bytes(flipped)
    yield "truncated", data[: int(rng.integers(len(data)))]
    yield "zeroed", bytes(len(data))
    yield "gone", None
    array, _, _ = name.partition("/c/")
    alike = [other for other in others if other != name and other.startswith(f"{array}/c/")]
    other = rng.choice(alike if alike else [other for other in others if other != name])
    if others[other] != data:
        yield "another", others[other]


@pytest.mark.slow
def test_every_object_damaged_in_every_way(whole, folder):
    rng = np.random.default_rng(0)
    good = tree(whole[0])
    tried, reads = Counter(), Counter()
    for name, data in good.items():
        for what, damaged in damages(name, data, good, rng):
            file = folder / name
            file.unlink() if damaged is None else file.write_bytes(damaged)
            reads[assert_read_is_right(folder, whole[1])] += 1
            if name == "zarr.json":
                assert_refused(folder, "zarr.json ")
                file.write_bytes(data)
            # An unfinished block is no damage: it is computed without a warning.
            # Neither are metadata and coordinates that were not written yet.
            block = "/c/" in name and name.partition("/")[0] in whole_arrays(whole[0])
            silent = what == "gone" and (name.startswith("done/c/") or not block)
            silent |= name == "zarr.json"
            assert_mended(folder, whole, told=not silent)
            tried[what] += 1
    places = sorted(name.removeprefix("done/") for name in good if name.startswith("done/c/"))
    for source, target in itertools.permutations(places, 2):
        for name, data in good.items():
            if f"/{source}" in name and not name.startswith(("epsilon", "means")):
                (folder / name.replace(source, target)).write_bytes(data)
        reads[assert_read_is_right(folder, whole[1])] += 1
        assert_mended(folder, whole)
        tried["a whole block"] += 1
    assert tried.total() > 200
    print(
        f"\nstores, damage: {tried.total()} cases on {len(good)} objects ({dict(tried)}); "
        f"reads: {dict(reads)}; resumed to the same bytes: {tried.total()}"
    )


@pytest.mark.parametrize("kills", [5, 40])
def test_sigkill_at_random_moments(undisturbed, tmp_path, kills):
    """Killed repeatedly without warning, each time a little later."""
    rng = np.random.default_rng(kills)
    folder, hits = tmp_path / "store", 0
    for done in np.sort(rng.integers(0, SEEDS // 2, kills)):
        process, before = writer(folder, tmp_path / "cache"), finished(folder)
        wait_for(folder, done, process)
        time.sleep(rng.uniform(0.0, 0.02))
        process.kill()
        process.join()
        hits += process.exitcode == -signal.SIGKILL
        assert finished(folder).items() >= before.items(), "a finished block was written again"
        if (folder / "zarr.json").exists():
            part = xarray.open_zarr(folder, chunks=None)
            here = part.done.values
            np.testing.assert_array_equal(part.regret.values[here], undisturbed[1].regret[here])
    assert hits >= kills // 2
    before = finished(folder)
    assert_same(run(folder), undisturbed[1])
    assert finished(folder).items() >= before.items()
    assert tree(folder) == tree(undisturbed[0]), "the same files, and none left half written"
    print(f"\nstores, kills: {hits} of {kills} SIGKILLs hit a writer; resumed to the same bytes")


@pytest.mark.slow
def test_several_writers_of_which_some_die(undisturbed, tmp_path):
    """Rounds of three writers of one store: one is killed, one is interrupted, one continues."""
    rng = np.random.default_rng(0)
    rounds, ended = 5, Counter()
    for attempt in range(rounds):
        folder = tmp_path / f"store{attempt}"
        processes = [writer(folder, tmp_path / "cache") for _ in range(3)]
        wait_for(folder, int(rng.integers(1, 8)), processes[0])
        processes[0].kill()
        os.kill(processes[1].pid, signal.SIGINT)
        for process in processes:
            process.join(120)
        ended.update(process.exitcode for process in processes[:2])
        assert processes[2].exitcode == 0
        assert_same(run(folder), undisturbed[1])
        assert tree(folder) == tree(undisturbed[0])
    print(
        f"\nstores, writers: {rounds} rounds of three writers of one store, one killed and one "
        f"interrupted (exit codes {dict(ended)}); the same bytes each time"
    )
