"""The choice of platform and compiler, and programs for absent devices."""

import importlib
import importlib.util
import sys
import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

import dpjax.kernels  # noqa: F401  # It adds its platforms before a test replaces them.
from dpjax import clear_caches, sweep
from dpjax.engine import compile, devices, one_kernel
from tests.engine import games

SIZE = (2, 8)


def traced():
    return games.traced(games.game_of("exp3", 16), [8, 16])


def test_a_mesh_has_the_platform_of_its_devices(monkeypatch):
    def mesh(platform, version="cuda 13000"):
        client = SimpleNamespace(platform_version=version)
        device = SimpleNamespace(platform=platform, client=client)
        return SimpleNamespace(devices=np.array([device]))

    monkeypatch.setattr(compile, "PLATFORMS", {"cpu": compile.CPU})
    assert compile.platform_of(mesh("cpu")) is compile.CPU
    assert compile.platform_of(mesh("gpu")) is compile.ACCELERATOR
    importlib.reload(importlib.import_module("dpjax.kernels"))
    assert compile.platform_of(mesh("gpu")) is compile.PLATFORMS["cuda"]
    assert compile.platform_of(mesh("tpu")) is compile.PLATFORMS["tpu"]
    assert compile.platform_of(mesh("gpu", "rocm 70000")) is compile.ACCELERATOR
    here = compile.platform_of(jax.make_mesh((1,), ("one",)))
    assert compile.platform_of(None) is here


def test_a_sweep_asks_for_kernels_only_on_an_accelerator(monkeypatch, caplog):
    """It plays the same without kernels, if Pallas has changed and cannot be imported.

    Up to rounding: which products and sums are contracted depends on the surrounding program.
    """
    monkeypatch.setitem(sys.modules, "dpjax.kernels", None)
    caplog.set_level("INFO", logger="dpjax")

    def played(checkpoints):  # other checkpoints are another program
        options = {"chunk": 8, "checkpoints": checkpoints, "progress": False}
        game = games.game_of("exp3", 16)
        return sweep(game, np.ones(2), 12, jr.key(0), **options).regret[..., -1]

    expected = played(1)
    assert "kernels" not in caplog.text
    accelerator = lambda mesh: compile.ACCELERATOR  # noqa: E731
    monkeypatch.setattr(compile, "platform_of", accelerator)
    monkeypatch.setattr(sys.modules["dpjax.study.sweep"], "platform_of", accelerator)
    np.testing.assert_allclose(played(2), expected, rtol=1e-4, atol=1e-4)
    assert "there are no kernels: import of dpjax.kernels halted" in caplog.text
    monkeypatch.undo()
    clear_caches()


def test_compilers_are_tried_in_order_until_one_serves(caplog):
    """The log says why a program takes a slower way."""
    caplog.set_level("INFO", logger="dpjax")
    tried = []

    def compiler(name, error=None):
        def compiled(function, arguments, batched, spread):
            tried.append(name)
            if error:
                raise error
            return name

        compiled.__name__ = name
        return compiled

    def found(*compilers):
        tried.clear()
        return compile.compile_for(compile.CPU._replace(compilers=compilers), None, (), ())

    unfit = one_kernel.Unfit("it sorts")
    assert found(compiler("one"), compiler("two")) == "one" and tried == ["one"]
    assert found(compiler("one", unfit), compiler("two", unfit), compiler("three")) == "three"
    assert tried == ["one", "two", "three"]
    assert caplog.messages == [f"{name} cannot be used: Unfit: it sorts" for name in tried[:2]]
    with pytest.raises(one_kernel.Unfit, match="it sorts"):
        found(compiler("one", unfit), compiler("two", unfit))
    with pytest.raises(ValueError, match="another"):
        found(compiler("one", ValueError("another")), compiler("two"))


@pytest.mark.parametrize(
    "error, level",
    [
        (one_kernel.Unfit("it sorts"), "INFO"),
        (NotImplementedError("no rule"), "INFO"),
        (jax.errors.JaxRuntimeError("INTERNAL: too many registers"), "INFO"),
        (IndexError("a mistake in the layout"), "WARNING"),
    ],
)
def test_a_layout_that_fails_is_logged(error, level, monkeypatch, caplog):
    """A mistake is a warning, not a silent fallback."""
    caplog.set_level("INFO", logger="dpjax")

    def kernel(program, size, platform):
        raise error

    here = compile.CPU._replace(layouts=(kernel, *compile.CPU.layouts))
    monkeypatch.setattr(compile, "platform_of", lambda mesh: here)
    assert compile.compile_block(traced(), (2, 8), None)
    message = f"kernel cannot be used: {type(error).__name__}: {error}"
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [(level, message)]


@pytest.mark.parametrize("meshed", [False, True])
@pytest.mark.parametrize("target", ["cuda", "rocm", "tpu"])
def test_a_block_lowers_for_an_accelerator(target, meshed):
    """Without an accelerator: nothing is specific to CPU, and the rounds remain one loop."""
    mesh = jax.make_mesh((1,), ("one",)) if meshed else None
    if meshed:
        mesh = devices.local(mesh)
    one = traced()
    function = compile.block_function(one.program, compile.ACCELERATOR.isolate_draws)
    if meshed:
        function = devices.shard(function, mesh)
    shapes = compile.block_shapes(one, SIZE, mesh)
    lowered = jax.jit(function).trace(*shapes).lower(lowering_platforms=(target,))
    text = lowered.as_text()
    assert "stablehlo.while" in text
    assert not any(word in text for word in ("xla_cpu", "complex", "callback"))


def test_only_cpu_keeps_draws_in_kernels_of_their_own():
    """In conditions that are always true; an accelerator's program has none."""
    one = traced()
    shapes = compile.block_shapes(one, SIZE, None)

    def conditions(platform):
        function = compile.block_function(one.program, platform.isolate_draws)
        return str(jax.make_jaxpr(function)(*shapes)).count(" cond[")

    assert conditions(compile.CPU) > conditions(compile.ACCELERATOR) == 0


def test_a_warning_about_the_kernels_does_not_reach_users():
    """Also if their warnings are errors. JAX 0.11 warns that Triton will be removed."""

    def kernel(x):
        warnings.warn("The Pallas Triton backend is deprecated", DeprecationWarning, stacklevel=1)
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile.compile_for(compile.ACCELERATOR, kernel, (jnp.ones(2),), (True,))


def test_a_gpu_uses_triton_while_jax_has_it(monkeypatch):
    def targets():
        importlib.reload(importlib.import_module("dpjax.kernels"))
        *kernels, last = compile.PLATFORMS["cuda"].layouts
        assert last is compile.trials_last
        return [kernel.keywords["target"] for kernel in kernels]

    monkeypatch.setattr(compile, "PLATFORMS", {"cpu": compile.CPU})
    both = ["triton", "mosaic_gpu"][: 1 + (jax.__version_info__ >= (0, 10))]
    assert targets() == both
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if "triton" in name else found(name)
    )
    assert targets() == both[1:]
