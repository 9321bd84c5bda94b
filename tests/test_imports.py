"""Who may import whom inside the package, read off the source."""

import ast
from pathlib import Path

import pytest

import dpjax

ROOT = Path(dpjax.__file__).parent
ALL = {path.stem if path.is_file() else path.name for path in ROOT.iterdir()} - {"__pycache__"}
LEARNERS = {
    "core", "arm_sums", "barriers", "batches", "combinators", "designs", "divergences", "domains",
    "ellipsoids", "exact_sums", "gram_sums", "mechanisms", "noise", "one_point", "prefix_sums",
    "privacy", "two_words", "_check",
}  # fmt: skip

# What each module, or each module of a folder, may import of dpjax. A folder may import itself.
ALLOWED = {
    "core": set(),
    "exact_sums": set(),
    "noise": {"core", "exact_sums", "_check"},
    "privacy": {"core", "_check"},
    "_check": {"core"},
    "statistics": {"core", "_check"},
    "bounds": {"core", "designs", "_check"},
    "plot": {"core", "_check"},
    "mechanisms": {"core", "noise", "_check"},
    "arm_sums": {"core", "exact_sums", "noise", "_check"},
    "barriers": {"core", "_check"},
    "two_words": {"barriers", "core"},
    "designs": {"core", "_check"},
    "divergences": {"core", "_check"},
    "ellipsoids": {"core", "_check"},
    "domains": {"barriers", "core", "two_words", "_check"},
    "losses": {"core", "domains", "noise", "_check"},
    "noisy_oco": {"core", "_check"},
    "one_point": {"barriers", "core", "noise", "_check"},
    "prefix_sums": {"core", "domains", "mechanisms", "noise", "privacy", "_check"},
    "gram_sums": {"core", "ellipsoids", "mechanisms", "noise", "privacy", "_check"},
    "action_sets": {"core", "domains"},
    "batches": {"action_sets", "core", "exact_sums", "_check"},
    "combinators": {"action_sets", "core", "domains", "exact_sums", "noise", "privacy", "_check"},
    "stopping": {"core", "exact_sums", "noise", "privacy", "_check"},
    "learners": LEARNERS,
    "environments": {"core", "domains", "exact_sums", "generators", "losses", "noise", "_check"},
    "simulate": {"core", "batches", "_check"},
    "generators": set(),
    "batch_last": {"generators", "interpret"},
    "devices": set(),
    "objects": {"core"},
    "layout": {"core", "objects", "__version__"},
    "blocks": {"core", "layout", "objects"},
    "store": {"blocks", "core", "layout", "objects"},
    "one_kernel": set(),
    "reads": set(),
    "programs": {"batch_last", "devices", "one_kernel", "reads", "_check"},
    "sweep": {"core", "batches", "devices", "programs", "simulate", "store", "_check"},
    "interpret": {"core", "noise"},
    "audit": ALL - {"learners", "environments", "experiments", "cli", "plot"},
    "experiments": ALL | {"__version__"},
    "cli": ALL | {"__version__"},
    "__init__": ALL,
    "__main__": {"cli"},
}
FILES = sorted(ROOT.rglob("*.py"))


def owner(path):
    """The module or folder of dpjax that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path):
    """Names of modules that a file imports: (of dpjax, first part), (others, first part)."""
    inside, outside = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [node.module]
            if node.module == "dpjax":
                names = [f"dpjax.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "dpjax":
                inside.add(parts[1])
            else:
                outside.add(parts[0])
    return inside, outside


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_within_the_package(path):
    inside, _ = imports(path)
    extra = inside - ALLOWED[owner(path)] - {owner(path)}
    assert not extra, f"{path.name} may not import {sorted(extra)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_plot_imports_matplotlib(path):
    _, outside = imports(path)
    assert "matplotlib" not in outside or owner(path) == "plot"


def test_a_learner_imports_another_only_where_the_paper_combines_them():
    combined = {
        "dp_exp3_lap": {"exp3"},
        "exp3_minibatch": {"exp3"},
        "batched_bandit": {"exp2", "tsallis_inf"},
    }
    for path in (ROOT / "learners").glob("*.py"):
        if path.stem == "__init__":
            continue
        others = {
            node.module.split(".")[2]
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module.startswith("dpjax.learners.")
        }
        assert others <= combined.get(path.stem, set())


def test_the_package_sets_no_jax_configuration():
    """But for the command line, which is a program: the number of CPU devices, where asked."""
    for path in FILES:
        assert "config.update" not in path.read_text() or path.name == "cli.py", path
