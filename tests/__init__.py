import os
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]

# The tests compile thousands of programs that run for milliseconds. XLA makes kernels in two ways,
# and without threads or with them; these are the quicker ones to compile. Whoever sets flags of
# XLA, or has a version without the choice, compiles as XLA does by default.
if "XLA_FLAGS" not in os.environ and version("jaxlib").startswith("0.10."):
    os.environ["XLA_FLAGS"] = (
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )
