"""Allowed imports inside the package, read from the source."""

import ast
import functools
import pydoc
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import dpjax

ROOT = Path(dpjax.__file__).parent
# The dpjax rooms that each room may import. A room may always import itself.
COMMON = {"core", "maths", "noise", "privacy"}
# Folders that are separate rooms.
WITHIN = {"bounds.theorems", "learners.parts"}
ALL = {path.stem if path.is_file() else path.name for path in ROOT.iterdir()} | WITHIN
ALLOWED = {
    "_garbage": set(),
    "core": set(),
    "store": {"core"},
    "engine": {"_garbage", "core"},
    "kernels": {"core", "engine"},
    "maths": {"core"},
    "feedback": {"core", "maths"},
    "privacy": {"core"},
    "noise": {"core", "maths", "privacy"},
    "domains": {"core", "maths"},
    "mechanisms": COMMON,
    "environments": COMMON | {"domains", "feedback"},
    "combinators": COMMON | {"domains", "feedback"},
    "game": COMMON | {"combinators", "domains", "engine", "feedback"},
    "learners.parts": COMMON | {"domains", "feedback", "mechanisms"},
    "learners": COMMON | {"combinators", "domains", "feedback", "learners.parts", "mechanisms"},
    "audit": COMMON | {"combinators", "domains", "engine", "feedback", "game"},
    "bounds": {"core", "maths"},
    "bounds.theorems": COMMON
    | {"bounds", "domains", "environments", "learners", "learners.parts", "mechanisms"},
    "report": {"_garbage", "bounds", "core", "maths", "store"},
    "study": ALL - {"cli", "papers"},
    "papers": ALL - {"cli", "engine", "audit"},
    "cli": ALL,
    "__init__": ALL - {"cli"},
    "__main__": {"cli"},
}
FILES = sorted(ROOT.rglob("*.py"))


def room(parts):
    """The room of a module or folder, from the parts of its name below dpjax."""
    within = ".".join(parts[:2])
    return within if within in WITHIN else parts[0]


def room_of(path):
    return room(path.relative_to(ROOT).with_suffix("").parts)


@functools.cache
def imports(path):
    """The imports of a file: (rooms of dpjax, packages)."""
    inside, outside = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [node.module]
            if node.module in ("dpjax", "dpjax.learners"):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first == "dpjax":
                inside.add(room(tuple(rest)))
            else:
                outside.add(first)
    return inside, outside


def test_imports_within_the_package():
    for path in FILES:
        extra = imports(path)[0] - ALLOWED[room_of(path)] - {room_of(path)}
        assert not extra, f"{path} may not import {sorted(extra)}"


def arrows():
    """The rooms that each room imports. The package and its program are not rooms."""
    graph = {}
    for path in FILES:
        graph.setdefault(room_of(path), set()).update(imports(path)[0] - {room_of(path)})
    del graph["__init__"], graph["__main__"]
    return graph


def test_no_room_imports_one_above_it_and_rooms_and_arrows_are_few():
    """Neither directly nor through others."""
    graph = arrows()
    TopologicalSorter(graph).prepare()
    with pytest.raises(CycleError):
        TopologicalSorter({**graph, "core": {"store"}}).prepare()
    assert len(graph) <= 24
    assert sum(map(len, graph.values())) <= 130


def test_only_figures_import_their_libraries():
    figures = {"report/plot.py", "report/figures.py"}
    users = {name: {path.relative_to(ROOT).as_posix() for path in FILES if name in imports(path)[1]}
             for name in ("matplotlib", "plotly")}  # fmt: skip
    assert users == {"matplotlib": figures, "plotly": {"report/explore_page.py"}}


def test_a_learner_imports_another_only_where_the_paper_combines_them():
    combined = {
        "adac_oful": {"linucb"}, "dp_exp3_lap": {"exp3"}, "exp3_minibatch": {"exp3"},
        "federated_linucb": {"linucb"}, "batched_bandit": {"exp2", "tsallis_inf"}, "exp4": {"exp2"},
    }  # fmt: skip
    for path in (ROOT / "learners").glob("*.py"):
        if path.name != "__init__.py":
            others = re.findall(r"^ *from dpjax\.learners\._?(\w+)", path.read_text(), re.MULTILINE)
            name = path.stem.lstrip("_")
            assert {*others} - {"parts", "factories"} <= combined.get(name, set()), path


def test_only_a_sweep_names_the_room_of_kernels():
    """It imports the room if there is an accelerator. No other module imports it."""
    others = [path for path in FILES if room_of(path) != "kernels"]
    naming = [path.name for path in others if "import dpjax.kernels" in path.read_text()]
    assert naming == ["sweep.py"]
    assert loaded("dpjax.sweep", ["dpjax.kernels", "jax.experimental.pallas"]) == []


def python(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


LATE = ["matplotlib", "optax", "pandas", "plotly", "xarray"]
LATE += [f"scipy.{name}" for name in ("linalg", "optimize", "signal", "special", "stats")]


def loaded(program, late):
    """The libraries of a list that a program loads."""
    program = f"import sys, dpjax\n{program}\nprint(*({{*{late}}} & {{*sys.modules}}))"
    done = python(program)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


def test_the_package_loads_its_libraries_when_it_needs_them():
    """Each would take a tenth of a second or more, and most runs need none."""
    with_data = "Study", "compare", "from_python", "open", "worst_case"
    names = [name for name in dir(dpjax) if name not in with_data]
    assert loaded(f"[getattr(dpjax, name) for name in {names}]", LATE) == []
    assert loaded("import dpjax.bounds.linear, dpjax.bounds.adversarial", LATE) == []
    assert loaded("import dpjax.cli.audits", ["dpjax.study.study", *LATE[:5]]) == []
    with_study = {*loaded("dpjax.Study", LATE)}
    assert {"pandas", "xarray"} <= with_study and not {"matplotlib", "optax"} & with_study


@pytest.mark.parametrize("own, within", [(500, 50000), (0, 0), (90000, 90000)])
def test_garbage_is_collected_rarely_where_games_are_made(own, within):
    """Between calls the thresholds are the user's. Those who collect more rarely keep theirs."""
    program = (
        f"import gc, dpjax\ngc.set_threshold({own}, 9, 9)\nseen = []\n"
        "def learner(horizon):\n    seen.append(gc.get_threshold()[0])\n"
        "    return dpjax.learners.exp3(horizon, 2)\n"
        "coins = dpjax.environments.bernoulli([0.1, 0.9])\n"
        "study = dpjax.Study(learner, {'coins': coins}, {'horizon': 8}, trials=2)\n"
        "study.run(progress=False)\nprint({*seen}, gc.get_threshold()[:2])"
    )
    assert python(program).stdout == f"{{{within}}} ({own}, 9)\n"


def test_no_module_is_hidden_by_an_object_of_its_name():
    program = (
        "import pkgutil, types, dpjax\n"
        "for module in pkgutil.walk_packages(dpjax.__path__, 'dpjax.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        named = pkgutil.resolve_name(module.name)\n"
        "        if not isinstance(named, types.ModuleType): print(module.name)"
    )
    assert python(program).stdout == ""


def test_public_names_are_listed_and_nothing_else_is():
    named = {name for name in dir(dpjax) if not name.startswith("__")}
    internal = {"cli", "engine", "game", "kernels", "maths"}
    rooms = {path.stem for path in ROOT.glob("[!_]*") if path.suffix in ("", ".py")}
    assert rooms - internal < named
    assert not internal & named
    assert {"open", "audit"} < named and all(hasattr(dpjax, name) for name in named)
    for room, some in ((dpjax.study, {"Study", "theorems"}), (dpjax.report, {"estimates"})):
        assert some <= {*dir(room)} and all(hasattr(room, name) for name in dir(room))


@pytest.mark.parametrize(
    "name", ["designs", "divergences", "families", "generators", "gram", "loss_families",
             "prefix_sums", "stopping"],
)  # fmt: skip
def test_a_module_within_a_room_is_found_first(name):
    """Also if nothing has imported it before."""
    done = python(f"import dpjax; print(type(dpjax.{name}).__name__)")
    assert done.stdout == "module\n", done.stderr


def test_help_is_short():
    """A class takes a hundred lines and more, and has help of its own."""
    assert pydoc.render_doc(dpjax).count("\n") < 100


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["reproduce", "--help"]])
def test_help_loads_no_library(words):
    """Help takes a tenth of a second. ``import jax`` alone takes half a second."""
    program = f"from dpjax.cli import main\ntry: main({words})\nexcept SystemExit: pass\n"
    assert loaded(program, ["jax", "numpy", "tqdm", *LATE]) == []


def test_importing_computes_nothing_and_a_missing_package_is_named():
    """JAX's backend is not initialised, so a user can still choose the devices."""
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES]
    names = [f"dpjax.{name.removesuffix('__init__')}".rstrip(".") for name in modules]
    choice = "import jax; jax.config.update('jax_num_cpu_devices', 3); print(jax.device_count())"
    program = "import importlib\nfor name in {}: importlib.import_module(name)\n" + choice
    program = program.format([name for name in names if not name.endswith("__main__")])
    assert python(program).stdout == "3\n"
    done = python("import sys; sys.modules['tqdm'] = None\nfrom dpjax import Study")
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: import of tqdm"), done


def test_few_files_name_a_law_of_noise():
    """Its own file, the list of laws, and learners that document it; all others use LAWS."""
    naming = [path for path in FILES if "skellam" in path.read_text().lower()]
    assert ROOT / "noise" / "_skellam.py" in naming
    assert len(naming) <= 8, naming


def test_the_package_sets_no_jax_configuration():
    """Except for the command line, which is a program, and ``keep_compiled``, which is meant to."""
    for path in FILES:
        if path.name == "settings.py":
            functions = path.read_text().split("\ndef ")
            setters = [text for text in functions if "config.update" in text]
            assert [text.partition("(")[0] for text in setters] == ["keep_compiled"]
        else:
            assert "config.update" not in path.read_text() or room_of(path) == "cli", path
