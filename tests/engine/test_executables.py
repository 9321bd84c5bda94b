"""Compiled programs on disk: another process compiles nothing, and no file can do harm."""

import os
import pickle
import shutil
import stat
import subprocess
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

import dpjax
from dpjax import environments, generators, learners, sweep
from dpjax.engine import executables, programs
from tests import ROOT

PROGRAM = """
import jax, numpy, hashlib
import dpjax
from dpjax.engine import programs
from dpjax import environments, learners, sweep
jax.config.update("jax_num_cpu_devices", {devices})
if {keep}: dpjax.keep_compiled()
compiled, compile_block = [], programs.compile_block
programs.compile_block = lambda *own: compiled.append(own) or compile_block(*own)
def game(epsilon):
    return learners.dp_exp3_lap(16, 3, epsilon=epsilon), environments.bernoulli([0.1, 0.5, 0.5])
def played():
    return sweep(game, numpy.array([0.5, 2.0]), 100, jax.random.key(0), progress=False).regret
found, count = played(), len(compiled)
dpjax.clear_caches()
numpy.testing.assert_array_equal(played(), found)  # from the disk, in the same process
print(count, hashlib.sha256(found).hexdigest())
"""


def game(epsilon):
    return learners.dp_exp3_lap(9, 3, epsilon=epsilon), environments.bernoulli([0.2, 0.5, 0.5])


def run(chosen=game, key=None):
    programs.clear_caches()
    key = jr.key(0) if key is None else key
    return sweep(chosen, np.array([0.5, 2.0]), 4, key, progress=False).regret


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for compiled programs, with keeping enabled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DPJAX_CACHE")
    return tmp_path / "dpjax" / "executables"


@pytest.fixture
def compiled(monkeypatch):
    """The sizes of the compiled blocks."""
    sizes, compile_block = [], programs.compile_block

    def counted(traced, size, mesh):
        sizes.append(size)
        return compile_block(traced, size, mesh)

    monkeypatch.setattr(programs, "compile_block", counted)
    return sizes


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def python(code, home, cwd=ROOT):
    """(the number of programs that a process compiled, a digest of its regret)."""
    inherited = {k: v for k, v in os.environ.items() if k != "DPJAX_CACHE"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=True,
        env={**inherited, "XDG_CACHE_HOME": str(home)},
    )  # fmt: skip
    count, digest = done.stdout.split()
    return int(count), digest


def process(home, keep=False, devices=1, cwd=ROOT):
    return python(PROGRAM.format(keep=keep, devices=devices), home, cwd)


def test_a_second_process_compiles_nothing(tmp_path):
    """With several devices too. A number of devices is a setting, so it has its own file."""
    counts, digests = zip(*(process(tmp_path, devices=n) for n in (4, 1, 4, 1)), strict=True)
    assert counts == (1, 1, 0, 0) and len({*digests}) == 1


def test_what_jax_read_from_its_own_cache_is_not_copied(tmp_path):
    """A copy of such a program would fail when it runs."""
    first = process(tmp_path, keep=True)
    (kept,) = files(tmp_path / "dpjax" / "executables")
    kept.unlink()
    assert process(tmp_path, keep=True) == process(tmp_path, keep=True) == first
    assert not files(tmp_path / "dpjax" / "executables")


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "foreign", "other pickle"])
def test_a_damaged_file_is_named_and_written_again(folder, compiled, damage):
    first = run()
    (kept,) = files(folder)
    whole = kept.read_bytes()
    content = {
        "cut": whole[:1000], "changed": whole[:-1] + bytes([whole[-1] ^ 1]), "empty": b"",
        "foreign": b"not a program of dpjax, but long enough for a digest",
    }.get(damage)  # fmt: skip
    if content is None:
        content = zlib.compress(pickle.dumps("no program"))
    kept.write_bytes(content)
    with pytest.warns(RuntimeWarning, match=rf"{kept} is not used \(.*\); compiling it again"):
        second = run()
    assert len(compiled) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run()  # from the file, which is intact again
    assert len(compiled) == 2 and files(folder) == [kept]
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("target", ["file", "folder", "user"])
def test_files_that_others_can_write_are_not_loaded(folder, compiled, target, monkeypatch):
    run()
    (kept,) = files(folder)
    monkeypatch.setattr(executables.pickle, "loads", lambda _: pytest.fail("it was loaded"))
    message = "others can write to it"
    if target == "user":
        message = "belongs to another user"
        monkeypatch.setattr(executables.os, "getuid", lambda: -1)
    else:
        place = kept if target == "file" else kept.parent
        place.chmod(place.stat().st_mode | stat.S_IWOTH)
    with pytest.warns(RuntimeWarning, match=message):
        run()
    assert len(compiled) == 2


def test_a_folder_that_cannot_be_made_is_left_out(tmp_path, monkeypatch, compiled):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.delenv("DPJAX_CACHE")
    (tmp_path / "file").write_text("a file, where the folder would be")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run()
    assert len(compiled) == 1


def test_every_module_is_part_of_the_key(tmp_path):
    """Draws of generators and noise are inlined: a changed rotation must not get old numbers."""
    home, package = tmp_path / "home", tmp_path / "dpjax"
    first = process(home)
    shutil.copytree(ROOT / "dpjax", package, ignore=shutil.ignore_patterns("__pycache__"))
    assert process(home, cwd=tmp_path) == (0, first[1])
    threefry = package / "core" / "generators" / "threefry.py"
    threefry.write_text(threefry.read_text().replace("(13, 15,", "(13, 16,"))
    count, digest = process(home, cwd=tmp_path)
    assert count == 1 and digest != first[1]


@pytest.mark.parametrize("what", ["version", "setting", "flags", "sources"])
def test_another_program_has_another_file(folder, compiled, what, monkeypatch):
    run()
    if what == "version":
        monkeypatch.setattr(executables.jax, "__version__", "0.0.0")
    elif what == "flags":
        monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    elif what == "sources":
        monkeypatch.setattr(executables, "_sources", lambda: "changed")
    with jax.default_matmul_precision("highest" if what == "setting" else None):
        run()
    assert len(compiled) == 2 and len(files(folder)) == 2


def test_programs_that_call_python_are_not_kept(folder):
    def own(epsilon):
        learner, environment = game(epsilon)

        def step(state, key, loss):
            jax.debug.callback(lambda _: None, jnp.float32(0.0))
            return learner.step(state, key, loss)

        return learner._replace(step=step), environment

    run(own)
    assert not files(folder)


@pytest.mark.parametrize("impl", ["threefry2x32", "threefry13"])
def test_programs_of_own_generators_are_kept_and_files_outlive_caches(folder, compiled, impl):
    key = jr.key(0, impl=getattr(generators, impl) if impl == "threefry13" else impl)
    first = run(key=key)
    dpjax.clear_caches()
    second = run(key=key)
    assert len(compiled) == 1 and len(files(folder)) == 1
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("cause", ["the cache is off", "the code of a generator is not in the key"])
def test_nothing_is_kept(cause, folder, compiled, monkeypatch):
    if cause == "the cache is off":
        monkeypatch.setenv("DPJAX_CACHE", "off")
    else:
        monkeypatch.setattr(generators, "OWN", generators.OWN - {"key<fry>"})
    run(), run()
    assert len(compiled) == 2 and not files(folder)


def full(*_):
    raise OSError("no space left on device")


@pytest.mark.parametrize(
    ("where", "name", "value", "message"),
    [
        (executables, "serialize", lambda _: pickle.dumps(lambda: None), "pickle"),
        (executables.os, "replace", full, "no space left on device"),
    ],
)
def test_a_program_that_is_not_kept_is_logged(
    where, name, value, message, folder, monkeypatch, caplog
):
    """And leaves no scratch file."""
    caplog.set_level("INFO", logger="dpjax")
    monkeypatch.setattr(where, name, value)
    run()
    assert not files(folder)
    assert "a compiled program is not kept: " in caplog.text and message in caplog.text


def test_threads_compile_a_program_once(folder, compiled):
    programs.clear_caches()
    arguments = game, np.array([0.5, 2.0]), 4, jr.key(0)
    with ThreadPoolExecutor(6) as pool:
        played = list(pool.map(lambda _: sweep(*arguments, progress=False).regret, range(6)))
    assert len(compiled) == 1
    for found in played:
        np.testing.assert_array_equal(found, played[0])


def test_a_program_runs_on_the_default_device(tmp_path):
    """Also from the disk, after the program of another device."""
    code = PROGRAM.format(keep=False, devices=2).replace(
        "found, count", "jax.config.update('jax_default_device', jax.devices()[1])\nfound, count"
    )
    code += "assert dpjax.engine.devices.default() == jax.devices()[1]\n"
    before = process(tmp_path, devices=2)
    assert python(code, tmp_path)[1] == before[1]


def test_the_folder_does_not_grow_for_ever(folder, monkeypatch):
    run()
    (first,) = files(folder)
    os.utime(first, (0, 0))
    monkeypatch.setattr(executables, "_MOST", first.stat().st_size * 3 // 2)
    run(lambda epsilon: (game(epsilon)[0], environments.bernoulli([0.3, 0.5, 0.5])))
    (second,) = files(folder)
    assert second != first
