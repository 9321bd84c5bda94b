"""The commands of this repository's scripts and pages, and how each is run here.

A script is itself a command: ``python examples/facets.py``. The other commands are those printed in
README.md, CHANGELOG.md and the pages. :mod:`tests.test_commands` runs each at a small size.
"""

import ast
import re
import shutil
from pathlib import Path

from tests import ROOT

FOLDERS = (".ci", "benchmarks", "docs", "dpjax", "examples", "notebooks", "tests")
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "benchmarks/README.md")),
        *(ROOT / "docs").rglob("*.md"),
    ]
)

# Arguments of an example's ``main`` for the smallest runs.
SIZES = {
    "adversarial_semi_bandits": {"horizon": 64, "trials": 4, "sizes": (2, 4)},
    "classification": {"rounds": 64, "seeds": 2},
    "cost_of_unknown_horizon": {"horizons": (64, 128), "trials": 4},
    "dartboard_batches": {"horizon": 64, "trials": 4, "batches": (1, 4)},
    "dueling": {"horizon": 64, "trials": 4, "epsilons": (1.0, float("inf"))},
    "equal_constants": {"horizon": 256, "trials": 4},
    "errors_and_memory": {"counts": (8, 16)},
    "exp3_mixing": {"horizon": 64, "trials": 4, "mixings": 2},
    "expert_advice": {"horizon": 64, "trials": 4, "sizes": (2, 4), "epsilons": (0.1, 1.0)},
    "experts_of_2026": {"horizon": 64, "local": 64, "arms": (4,), "trials": 4},
    "facets": {"horizon": 64, "trials": 4, "facets": (6, 12)},
    "federated_silos": {"users": 16, "trials": 4, "silos": (1, 2), "epsilons": (1.0,)},
    "frank_wolfe": {"horizon": 64, "trials": 4},
    "ftrl_rate": {"horizon": 64, "trials": 4, "rates": 2},
    "glm_batches": {"horizon": 64, "trials": 4, "batches": (1.0, 4.0, 16.0)},
    "kernel_bandit": {"horizon": 64, "trials": 2, "counts": (2, 4)},
    "heavy_tails": {"horizon": 256, "trials": 4},
    "knee_of_gaps": {"horizons": (64, 256), "gaps": (0.4, 0.8)},
    "linucb_ridge": {"horizon": 64, "trials": 4, "ridges": 2},
    "mechanism_errors": {"horizon": 64},
    "mechanisms": {"horizons": (16,), "trials": 4},
    "near_realizable": {"horizon": 256, "trials": 4},
    "own_recording": {"horizon": 64, "trials": 3, "shares": 2},
    "price_of_shifts": {"horizon": 64, "trials": 4, "shifts": (1, 2)},
    "principal_components": {"horizon": 64, "trials": 4, "sizes": (2, 3)},
    "printed_experts": {"horizon": 256, "trials": 4},
    "pulls": {"horizon": 256, "trials": 4},
    "running_means": {"count": 64},
    "semi_bandits": {"horizon": 256, "trials": 4},
    "trial": {"epsilons": (1.0,), "trials": 4},
    "two_points": {"horizons": (64, 256), "trials": 4},
    "two_wells": {"horizons": (64, 256), "trials": 2},
    "unknown_horizon": {"largest": 8},
}

DIAGNOSES = "dpjax run --losses tests/data/diagnoses.csv --learner dp_exp3_lap --epsilon"
STUDY = "dpjax run examples/study.py"
AUDIT = "dpjax audit hedge --overwrite"
COMPARE = (
    "dpjax compare examples/mine.py --against exp3 --epsilon 1 --horizon 64 --trials 4 --runs 1024"
)
THEOREM = "dpjax theorem agarwal2017 --epsilon 1,inf --horizon 256 --trials 4"
OWN_ENVIRONMENT = (
    "dpjax theorem exp3 --environment examples/own_environment.py --horizon 256 --trials 4"
)
SEARCH = "dpjax theorem limited_updates --search --epsilon 1 --horizon 64 --trials 8"
INSTALL = (
    "python3 -m venv .venv && .venv/bin/pip install -e . && "
    ".venv/bin/dpjax reproduce tossou2017 --quick"
)
POD = "python examples/pod.py --store pod.zarr --seeds 4 --devices 2"

# {command: the command that runs instead}. The replacement is smaller, fills in a placeholder, or
# first makes the output that the command continues from.
INSTEAD = {
    "python benchmarks/beside.py": "python benchmarks/beside.py . help --turns 1",
    "python benchmarks/beside.py ../other": "python benchmarks/beside.py --list",
    "python benchmarks/binomial.py": "python benchmarks/binomial.py --quick",
    "python benchmarks/buffered.py": "python benchmarks/buffered.py 64 --buffers 1",
    "python benchmarks/compilation.py": "python benchmarks/compilation.py exp3",
    "python benchmarks/memory.py": "python benchmarks/memory.py --quick",
    "python benchmarks/scaling.py": "python benchmarks/scaling.py --quick --out scaling",
    "python benchmarks/speed.py": "python benchmarks/speed.py W1 --quick",
    "python benchmarks/speed.py W1 W1-8": "python benchmarks/speed.py W1 W1-8 --quick",
    "python benchmarks/speed.py W1 W1-drawn": "python benchmarks/speed.py W1 W1-drawn --quick",
    "python benchmarks/speed.py arms --repeats 3": "python benchmarks/speed.py arms --quick",
    "python benchmarks/store.py": "python benchmarks/store.py --quick",
    "python benchmarks/throughput.py": "python benchmarks/throughput.py --quick --repeats 1",
    "python benchmarks/peers.py": "python benchmarks/peers.py --quick --turns 1",
    "python benchmarks/peers.py --packages": "python benchmarks/peers.py --packages --quick",
    "python benchmarks/revealed.py": "python benchmarks/revealed.py --quick --out results/revealed",
    "python benchmarks/revealed.py --out docs/audit": "python benchmarks/revealed.py --quick "
    "--out results/revealed",
    "python benchmarks/revealed.py --speed": "python benchmarks/revealed.py --speed",
    "python docs/gallery.py": "python docs/gallery.py --quick",
    "python docs/tables.py": "python docs/tables.py docs/studies.md",
    "python docs/which_learner.py": "python docs/which_learner.py --quick --trials 4 --out which",
    "python examples/pod.py": POD,
    "python -m tests.combinations --over 1": "python -m tests.combinations adap_ucb --over 1",
    "python -m tests.lines": "python -m tests.lines dpjax",
    "python -m tests.combinations ftrl hedge": "python -m tests.combinations adap_ucb",
    "python -m tests.golden.make": "python -m tests.golden.make exp3",
    "python -m tests.golden.make greedy": "python -m tests.golden.make exp3",
    "python -m tests.planted": "python -m tests.planted --rooms core",
    "python -m tests.golden.trials": "python -m tests.golden.trials trials.npz exp3",
    "python -m tests.golden.trials trials.npz": "python -m tests.golden.trials trials.npz exp3",
    "pytest -n 0 tests/test_conformance.py tests/test_golden.py -k greedy": "pytest -n 0 "
    "tests/test_conformance.py tests/test_golden.py -k hedge --collect-only -q",
    "python mine.py": "sed -n '/^```python$/,/^```$/p' README.md | sed '/^```/d' > mine.py "
    "&& python mine.py",
    'python -c "from dpjax.papers.sajed2019 import *; play_batches(HORIZON, TRIALS); '
    "play_horizons(20 * HORIZON, TRIALS); "
    'stopping.play_pairs(HORIZON, TRIALS)"': 'python -c "from dpjax.papers.sajed2019 import *; '
    "play_batches(4096, 4); play_horizons(10_000, 4); "
    'stopping.play_pairs(4096, 4)"',
    "dpjax audit --all": AUDIT,
    "dpjax audit --all --epsilon 1": AUDIT,
    "dpjax audit --changed K": "dpjax audit hedge --changed 2",
    "dpjax audit greedy": AUDIT,
    "dpjax theorem greedy --epsilon 1,10,inf --trials 100": THEOREM,
    "python docs/pages.py results/audit docs/audit": f"{AUDIT} && python docs/pages.py "
    "results/audit results/audit",
    "python docs/pages.py results/theorem docs/theorems": f"{THEOREM} && python docs/pages.py "
    "results/theorem results/theorem",
    "dpjax audit mine.py": "dpjax audit examples/mine.py --no-attack",
    "dpjax audit mine.py:name": "dpjax audit examples/mine.py:greedy --no-attack",
    "dpjax audit linucb": AUDIT,
    "dpjax compare examples/mine.py": COMPARE,
    "dpjax compare mine.py": COMPARE,
    "dpjax explore results/mine.zarr --out mine.html": f"{DIAGNOSES} 1 --seeds 4 --store "
    "results/mine.zarr && dpjax explore results/mine.zarr --out mine.html",
    "dpjax explore results/run": f"{DIAGNOSES} 0.1,1,10,inf --seeds 4 && dpjax explore results/run",
    "dpjax explore results/study": f"{STUDY} && dpjax explore results/study",
    "dpjax reproduce <name>": "dpjax reproduce tossou2017 --quick",
    "dpjax reproduce <name> --out docs/papers/<name>": "dpjax reproduce tossou2017 --quick "
    "--out docs/papers/new",
    "dpjax reproduce PAPER --quick": "dpjax reproduce tossou2017 --quick",
    "dpjax reproduce sajed2019 --store results/stores": "dpjax reproduce tossou2017 --quick "
    "--store results/stores",
    "dpjax run mine.py": STUDY,
    "dpjax run mine.py --store /scratch/$USER/mine --part $SLURM_ARRAY_TASK_ID/16": f"{STUDY} "
    "--store mine --part 1/16",
    "dpjax run mine.py --store /scratch/$USER/mine --resume": f"{STUDY} --store mine --resume",
    "dpjax run --losses tests/data/diagnoses.csv --learner exp3,dp_exp3_lap,exp3_minibatch "
    "--seeds 200": "dpjax run --losses tests/data/diagnoses.csv --learner exp3,dp_exp3_lap "
    "--seeds 4",
    "dpjax run --losses tests/data/patients.csv --label malignant --learner linucb,glm_sgd "
    "--epsilon 1,inf": "dpjax run --losses tests/data/patients.csv --label malignant "
    "--learner linucb --epsilon 1,inf --seeds 4 --horizon 64",
    "dpjax run ... --store results/mine.zarr": f"{DIAGNOSES} 1 --seeds 4 --store results/mine.zarr",
    "dpjax theorem --all --epsilon 1,10,inf --horizon 16384 --trials 100": THEOREM,
    "dpjax theorem --all --search --epsilon 0.1,1,10,inf --horizon 4096 --trials 1024": SEARCH,
    "dpjax theorem scrible-polytope glm_sgd exp4 probing_experts federated_linucb --search"
    " --epsilon 0.1,1,10,inf --horizon 256 --trials 1024": SEARCH,
    "dpjax theorem agarwal2017": THEOREM,
    "dpjax theorem exp3 --environment examples/own_environment.py": OWN_ENVIRONMENT,
    "dpjax theorem NAME --environment FILE": OWN_ENVIRONMENT,
    "dpjax theorem greedy": THEOREM,
    "dpjax theorem hedge --search": SEARCH,
    "mkdocs serve": "mkdocs build --strict",
    "python3 -m venv .venv && .venv/bin/pip install -e .": INSTALL,
    "sh tests/versions.sh": "PYTEST_ADDOPTS=tests/test_imports.py sh tests/versions.sh python3",
    "sh tests/versions.sh python3.11 -c tests/oldest.txt": "PYTEST_ADDOPTS=tests/test_imports.py "
    "sh tests/versions.sh python3 -c tests/oldest.txt",
    "sh tests/versions.sh python3.13 -c tests/colab.txt": "PYTEST_ADDOPTS=tests/test_imports.py "
    "sh tests/versions.sh python3",
    "sh tests/versions.sh python3.13 jax==0.8.3": "PYTEST_ADDOPTS=tests/test_imports.py "
    "sh tests/versions.sh python3",
    "sh tests/wheel.sh": "sh tests/wheel.sh python3 tests/test_imports.py",
    "sh tests/wheel.sh python3.12": "sh tests/wheel.sh python3 tests/test_imports.py",
    "sh tests/wheel.sh python3.12 -n 1 --part 0": "sh tests/wheel.sh python3 tests/test_imports.py",
}

# Commands that run unchanged.
AS_IS = (
    "dpjax audit ftrl --epsilon 1",
    "dpjax --help",
    "dpjax list",
    'python -c "import jax; print(jax.devices())"',
    "python benchmarks/compilation.py --grid",
    "dpjax reproduce tossou2017 --quick",
    "dpjax run --losses tests/data/diagnoses.csv --learner dp_exp3_lap --epsilon 0.1,1,10,inf "
    "--seeds 200",
    STUDY,
    "python docs/pages.py",
    "mkdocs build --strict",
    "python -m tests.combinations",
    "python -m tests.lines dpjax",
    "python -m tests.slow",
    "python docs/tables.py benchmarks/README.md",
    "python docs/tables.py docs/accelerators.md",
    "python docs/tables.py docs/contributing.md",
    "python docs/tables.py docs/guides/mechanisms.md",
    "python docs/tables.py docs/reference/inference.md",
    "python docs/tables.py docs/referees.md",
    "python docs/tables.py docs/speed.md",
    "python docs/tables.py docs/studies.md",
    "python tests/data/make_diagnoses.py",
    INSTALL,
)

# Commands that do not run here, with the reason, or the test that runs them.
ELSEWHERE = {
    "bash .ci/run": "what runs these commands",
    "PYTHONPATH=. python benchmarks/card.py": "tests/test_benchmarks.py",
    "python benchmarks/card.py": "tests/test_benchmarks.py",
    "python benchmarks/in_numba.py": "imported by benchmarks/references.py",
    "python benchmarks/in_numpy.py": "imported by benchmarks/references.py",
    "python benchmarks/kernels.py": "tests/kernels/test_accelerators.py",
    "python benchmarks/measure.py": "imported by benchmarks/speed.py",
    "python benchmarks/references.py": "imported by benchmarks/speed.py",
    "python benchmarks/workloads.py": "imported by benchmarks/speed.py",
    "python docs/hooks.py": "imported by mkdocs",
    "python notebooks/install.py": "tests/test_notebooks.py",
    "python notebooks/run.py": "tests/test_notebooks.py",
    "python notebooks/run.py --heads": "tests/test_notebooks.py",
    "python examples/mine.py": "dpjax compare reads it",
    "python examples/own_environment.py": "dpjax theorem reads it",
    "python examples/study.py": "dpjax run reads it",
    "python -m tests.engine.on_devices": "tests/engine/test_devices.py",
    "python -m tests.study.test_coverage": "tests/study/test_coverage.py",
    "python -m tests.study.shared_play": "tests/study/test_spread.py",
    "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest": ".ci/run",
    "sbatch array.sh": "for a cluster",
    "sbatch pod.sh": "for a cluster",
    "ruff check": ".ci/run",
    "ruff format": ".ci/run",
    "mypy": ".ci/run",
    "python3 -m venv .venv && .venv/bin/pip install -e '.[store]' 'jax[cuda13]'": "for GPUs",
    "srun .venv/bin/python examples/pod.py --distributed --store /scratch/$USER/exp3.zarr": ""
    "for a cluster; tests/engine/test_devices.py starts it as SLURM does",
}
CLOUD = "gcloud compute tpus tpu-vm "  # for a TPU pod
# tests/test_referees.py runs the referees that need no clone. The others need clones of the user.
REFEREES = ("python -m benchmarks.referees.", "python benchmarks/referees/")

# The module that a command needs from an extra that the package's tests do not install.
NEEDS = {
    "python benchmarks/buffered.py": "jax_privacy",
    "python tests/data/make_diagnoses.py": "sklearn",
    "mkdocs": "material",
}

PROGRAMS = r"(?:python3?|dpjax|pytest|pip|mkdocs|ruff|mypy|sh|bash|srun|sbatch|gcloud)"
COMMAND = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:time )?(?:\.venv/bin/)?{PROGRAMS}(?: .*)?$")
FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", flags=re.DOTALL | re.MULTILINE)


def scripts() -> list[str]:
    """Files that can be run, as paths from the root."""
    found = [
        path.relative_to(ROOT).as_posix() for name in FOLDERS for path in (ROOT / name).rglob("*")
    ]
    found = [path for path in found if path.endswith((".py", ".sh")) or path == ".ci/run"]
    own = [path for path in found if not path.startswith(("dpjax/", "tests/"))]
    helpers = [path for path in found if path.startswith("tests/")]
    helpers = [path for path in helpers if path.endswith(".sh") or is_program(ROOT / path)]
    return sorted(own + helpers)


def is_program(path) -> bool:
    """Whether a module can be run as a program."""
    return '\nif __name__ == "__main__":' in path.read_text()


def commands() -> list[str]:
    """The commands of all scripts and pages."""
    found = [of_script(path) for path in scripts()]
    return sorted({*found, *(command for page in PAGES for command in printed(page))})


def of_script(path) -> str:
    """The command that runs a script."""
    if (ROOT / path).with_name("__init__.py").is_file() and path.endswith(".py"):
        return f"python -m {path.removesuffix('.py').replace('/', '.')}"
    program = {".py": "python", ".sh": "sh"}.get(Path(path).suffix, "bash")
    return f"{program} {path}"


def printed(page) -> list[str]:
    """The commands that a page prints: in its lines, in blocks, and in indented lines."""
    text = page.read_text()
    blocks = [block for _, kind, block in FENCED.findall(text) if kind in ("", "sh", "bash")]
    rest = FENCED.sub("", text)
    blocks += re.findall(r"^ {4}(.*)$", rest, flags=re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").split("\n")]
    lines += re.findall(r"`([^`]+)`", rest)
    return [plain(line) for line in lines if COMMAND.match(plain(line))]


def plain(command) -> str:
    """A command without its comment, without ``time``, and without a leading ``.venv/bin``."""
    words = " ".join(command.partition("  #")[0].split())
    return words.removeprefix("time ").removeprefix(".venv/bin/")


def run_of(command) -> str:
    """The command that runs in place of a command; empty if none does.

    Raises:
      KeyError: no list of this file has the command.
    """
    if command in ELSEWHERE or command.startswith((CLOUD, "pip ", *REFEREES)):
        return ""
    if command in INSTEAD:
        return INSTEAD[command]
    if command in AS_IS or command in {f"python examples/{name}.py" for name in SIZES}:
        return command
    if re.fullmatch(r"(dpjax \w+|dpjax|pytest|ruff)", command):
        return f"{command} --help"  # the name of a command
    if command.startswith("pytest "):  # These tests run separately.
        return f"{command} --collect-only -q"
    if re.fullmatch(r"dpjax reproduce [\w-]+", command):
        return f"{command} --quick"
    raise KeyError(f"tests/commands.py does not say how to run {command!r} at a small size")


def needed(run) -> list[str]:
    """The modules that a run needs beyond the extra ``test``."""
    return [module for command, module in NEEDS.items() if run.startswith(command)]


def smaller(source, sizes) -> str:
    """The source of a program, with other defaults of ``main``."""
    tree = ast.parse(source)
    (main,) = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"
    ]
    names = [argument.arg for argument in main.args.args]
    for name, value in sizes.items():
        text = repr(value).replace("inf", "1e999")  # a literal of infinity
        main.args.defaults[names.index(name)] = ast.parse(text, mode="eval").body
    return ast.unparse(tree)


def checkout(folder):
    """Copies all files that commands read to a folder, with small sizes in the examples."""
    ignored = shutil.ignore_patterns("__pycache__", "results", ".ipynb_checkpoints")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, folder)
    for name, sizes in SIZES.items():
        path = folder / "examples" / f"{name}.py"
        path.write_text(smaller(path.read_text(), sizes))
