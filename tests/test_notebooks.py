"""The notebooks run from the first cell to the last, and are stored with their outputs."""

import importlib.metadata
import re
import runpy
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbclient.exceptions import CellTimeoutError

from tests import ROOT, script

notebooks = script("notebooks/run.py")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SECONDS = 180  # for a whole notebook

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path, kind):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def kinds(notebook):
    """The kinds of outputs of each code cell. Printed text may be in several pieces."""
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [sorted({kind for each in cell.outputs for kind in each.get("data", {"text": 0})})
            for cell in code]  # fmt: skip


def run(notebook, folder):
    """Executes a notebook in a folder. A cell may use the seconds left by the cells before it.

    Under load, now and then, a kernel of ipykernel 7.4.0 is idle while its client waits for it. So
    a notebook that takes too long has a second kernel.
    """
    for attempt in range(2):
        end = time.monotonic() + SECONDS
        try:
            notebooks.run(
                notebook, folder, timeout_func=lambda _, end=end: max(0.1, end - time.monotonic())
            )
            return
        except CellTimeoutError:
            if attempt:
                raise


@every_notebook
def test_notebook_runs_draws_and_leaves_no_files(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    stored = kinds(notebook)
    run(notebook, tmp_path)
    assert "image/png" in {kind for cell in stored for kind in cell}
    assert kinds(notebook) == stored
    assert not [*tmp_path.iterdir()], "a notebook leaves files in its folder"


@every_notebook
def test_notebook_is_stored_with_its_outputs_and_begins_with_a_title(path):
    """As ``python notebooks/run.py`` stores it: small, without errors, progress bars and paths."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = cells(path, "code")
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [each for cell in code for each in cell.outputs]
    assert not [each for each in outputs if each.get("name") == "stderr" or "ename" in each]
    assert not re.search(r"/(tmp|home|root|work)/", str(outputs))
    assert path.stat().st_size < 300 * 1024
    assert notebook.cells[0].cell_type == "markdown" and notebook.cells[0].source.startswith("# ")
    assert notebook.cells[1] == code[0]


def test_all_notebooks_have_the_badge_and_first_cell_of_the_script():
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        stored = [cell.source for cell in notebook.cells[:2]]
        notebooks.write_head(notebook, path.stem)
        assert [cell.source for cell in notebook.cells[:2]] == stored
    assert notebooks.badge() in notebooks.PAGE.read_text()


@pytest.mark.parametrize("ending", ["", ".git", "/"])
def test_one_setting_writes_the_address_into_badges_and_cells(ending):
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    repository = f"https://github.com/someone/dpjax{ending}"
    notebooks.write_head(notebook, "quickstart", repository)
    github = "https://colab.research.google.com/github"
    file = f"({github}/someone/dpjax/blob/main/notebooks/quickstart.ipynb)"
    assert file in notebook.cells[0].source
    assert f'\nREPOSITORY = "{repository}"  #' in notebook.cells[1].source
    assert notebooks.badge(repository=repository).endswith(f"({github}/someone/dpjax/)")
    assert notebooks.badge("blob", "https://example.org/dpjax.git").endswith(f"({github}/)")


INSTALL = ROOT / "notebooks" / "install.py"


@pytest.fixture
def installed(monkeypatch):
    """Versions that install.py finds, and the commands of pip, which it does not run."""
    versions, commands = {"jax": "0.10.2", "jaxlib": "0.10.2", "numpy": "2.4.6"}, []
    usual = importlib.metadata.version

    def version(name):
        held = versions.get(name) or usual(name)
        if held == "missing":
            raise importlib.metadata.PackageNotFoundError(name)
        return held

    def pip(command, **_):
        commands.append(command)
        old = "".join(f"    Found existing installation: {x} {versions[x]}\n" for x in pip.replaced)
        return subprocess.CompletedProcess(command, pip.code, old, "ERROR: no index")

    pip.code, pip.replaced = 0, ()
    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr("subprocess.run", pip)
    monkeypatch.setattr("sys.path", [*sys.path])
    return versions, pip, commands


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ({}, None),
        ({"zarr": "missing"}, ["zarr>=", "jax==0.10.2", "jaxlib==0.10.2", "numpy==2.4.6"]),
        ({"numpy": "1.26.4"}, ["numpy>=2.0", "jax==0.10.2", "jaxlib==0.10.2"]),
        ({"jax": "0.4.30"}, ["jax>="]),
        ({"jax": "0.4.30", "jax-cuda12-plugin": "0.4.30"}, ["jax[cuda12]>="]),
        ({"jax": "0.4.30", "jax-cuda13-plugin": "0.4.30"}, ["jax[cuda13]>="]),
        ({"jax": "0.4.30", "libtpu": "0.0.11", "optax": "missing"}, ["jax[tpu]>=", "optax>="]),
    ],
)
def test_jax_and_numpy_keep_their_versions_unless_they_are_too_old(installed, held, asked):
    versions, pip, commands = installed
    versions |= held
    pip.replaced = [name for name in held if name == "jax"]
    replaced = pytest.raises(RuntimeError, match=r"^pip replaced jax 0\.4\.30 by .* restart the ")
    with replaced if pip.replaced else nullcontext():
        runpy.run_path(str(INSTALL))
        assert sys.path[0] == str(ROOT)
    assert len(commands) == (asked is not None)
    for command in commands:
        assert command[:4] == [sys.executable, "-m", "pip", "install"]
        assert all(map(str.startswith, command[4:], asked)) and len(command) == 4 + len(asked)


@pytest.mark.parametrize("plugin", ["jax-cuda12-plugin", "jax-cuda13-plugin"])
def test_a_plugin_that_jax_ignores_is_named(installed, plugin):
    installed[0][plugin] = "0.10.1"
    extra = plugin[4:10]
    message = f'{plugin} is 0.10.1 and jaxlib is 0.10.2: run %pip install "jax[{extra}]==0.10.2"'
    with pytest.raises(RuntimeError, match=re.escape(message)):
        runpy.run_path(str(INSTALL))
    installed[0][plugin] = "0.10.2"
    runpy.run_path(str(INSTALL))


@pytest.mark.parametrize("name", ["contextual", "dp_ftrl_optax"])
def test_without_a_clone_its_data_are_named(name, tmp_path):
    (source,) = (
        cell.source
        for cell in cells(ROOT / "notebooks" / f"{name}.ipynb", "code")
        if "patients.csv" in cell.source
    )
    installed = SimpleNamespace(__file__=str(tmp_path / "dpjax" / "__init__.py"))
    with pytest.raises(FileNotFoundError, match="^patients.csv is in the clone of dpjax: clone it"):
        exec(source, {"dpjax": installed, "Path": Path})


def test_a_failure_of_pip_is_shown(installed):
    versions, pip, _ = installed
    versions["zarr"], pip.code = "missing", 1
    with pytest.raises(RuntimeError, match=r"(?s)^pip could not install zarr.*ERROR: no index"):
        runpy.run_path(str(INSTALL))


def test_the_first_cell_refuses_an_old_python(monkeypatch):
    (bound,) = re.findall('requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text())
    assert bound == "3.11"
    monkeypatch.setattr("sys.version_info", (3, 10, 14))
    with pytest.raises(RuntimeError, match=r"^dpjax needs Python 3\.11 or newer, and this is "):
        runpy.run_path(str(INSTALL))


@pytest.mark.parametrize("repository", ["", "absent"])
def test_the_first_cell_stops_with_one_sentence_without_a_clone(repository, tmp_path, monkeypatch):
    """Also if git cannot make one."""
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    notebooks.write_head(notebook, "quickstart", repository and (tmp_path / repository).as_uri())
    plain = re.sub(r"(?m)^( *)[!%].*$", r"\1pass", notebook.cells[1].source)  # without magics
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="^dpjax is missing: clone it into this folder, or set"):
        exec(plain, {})


def test_the_page_of_notebooks_lists_them_all():
    page = (ROOT / "docs/notebooks.md").read_text()
    listed = re.findall(r"\]\(\.\./notebooks/(\w+)\.ipynb\)", page)
    assert sorted(listed) == [path.stem for path in NOTEBOOKS]


@pytest.mark.slow
def test_the_script_stores_outputs_without_bars(tmp_path, monkeypatch):
    title = nbformat.v4.new_markdown_cell("# Title\n\nText")
    first, cell = map(nbformat.v4.new_code_cell, ("", "print('bar', file=sys.stderr); 6 * 7"))
    nbformat.write(nbformat.v4.new_notebook(cells=[title, first, cell]), tmp_path / "one.ipynb")
    (tmp_path / "page.md").write_text("[![old](badge)\n")
    monkeypatch.setattr(notebooks, "HERE", tmp_path)
    monkeypatch.setattr(notebooks, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(notebooks, "FIRST_CELL", "import sys")
    for arguments, outputs in ((["--heads"], []), ([], [{"text/plain": "42"}])):
        notebooks.main(arguments)
        title, first, cell = nbformat.read(tmp_path / "one.ipynb", as_version=4).cells
        assert title.source == f"# Title\n\n{notebooks.badge()}\n\nText"
        assert first.source == "import sys"
        assert [each.data for each in cell.outputs] == outputs
    assert (tmp_path / "page.md").read_text() == f"{notebooks.badge()}\n"
    with pytest.raises(SystemExit, match=r"There is no notebook two: choose among one"):
        notebooks.main(["two"])
