import importlib.util
import os
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import jax

ROOT = Path(__file__).parents[1]

# The tests compile thousands of programs that run for milliseconds. XLA has two ways to emit
# kernels, each with or without threads; these flags choose the one that compiles fastest. If
# XLA_FLAGS is set, or another version of jaxlib is installed, XLA compiles with its defaults.
if "XLA_FLAGS" not in os.environ and version("jaxlib").startswith("0.10."):
    os.environ["XLA_FLAGS"] = (
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )


def script(path):
    """The program in a file below the root, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entries(file):
    """The pairs of lines of a table in tests/data, such as (call, sentence)."""
    lines = (ROOT / "tests" / "data" / file).read_text().splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    return list(zip(lines[::2], [line.strip() for line in lines[1::2]], strict=True))


@contextmanager
def quick():
    """Compile without most optimizations, for programs that take longer to compile than to run."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
