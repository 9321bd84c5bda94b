"""The commands of this repository's scripts and pages, and how each is run here.

A script is itself a command: ``python examples/facets.py``. The other commands are those printed in
README.md, CHANGELOG.md and the pages. :mod:`tests.test_commands` runs each at a small size,
as ``tests/data/commands.txt`` states.
"""

import re
import shutil
from pathlib import Path

from tests import ROOT, entries

FOLDERS = (".ci", "benchmarks", "docs", "dpjax", "examples", "notebooks", "tests")
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "benchmarks/README.md")),
        *(ROOT / "docs").rglob("*.md"),
    ]
)

RUNS = dict(entries("commands.txt"))
UNCHANGED, ELSEWHERE = "as it is", "not here: "
# Arguments of an example's ``main`` for the smallest runs.
SIZES = {
    Path(command).stem: eval(run, {"main": dict})
    for command, run in RUNS.items()
    if run.startswith("main(")
}
CLOUD = "gcloud compute tpus tpu-vm "  # for a TPU pod
# tests/test_benchmarks.py runs the referees that need no clone. The others need clones of the user.
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


def run_of(command) -> str | None:
    """The command that runs in place of a command; empty if none does, None if unknown."""
    if command.startswith((CLOUD, "pip ", *REFEREES)):
        return ""
    if run := RUNS.get(command):
        if run.startswith(ELSEWHERE):
            return ""
        return command if run == UNCHANGED or run.startswith("main(") else run
    if re.fullmatch(r"(dpjax \w+|dpjax|pytest|ruff)", command):
        return f"{command} --help"  # the name of a command
    if command.startswith("pytest "):  # These tests run separately.
        return f"{command} --collect-only -q"
    if re.fullmatch(r"dpjax reproduce [\w-]+", command):
        return f"{command} --quick"
    return None


def needed(run) -> list[str]:
    """The modules that a run needs beyond the extra ``test``."""
    return [module for command, module in NEEDS.items() if run.startswith(command)]


def copied(names, folder):
    """Copies some folders of the repository, and the files beside them."""
    ignored = shutil.ignore_patterns("__pycache__", "results", ".ipynb_checkpoints")
    for name in names:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, folder)


def checkout(folder):
    """Copies all files that commands read to a folder, with small sizes in the examples."""
    copied(FOLDERS, folder)
    for command, run in RUNS.items():
        if run.startswith("main("):
            path = folder / command.removeprefix("python ")
            program, _, rest = path.read_text().rpartition("main()")
            path.write_text(program + run + rest)
