"""The notebooks run from the first cell to the last, and are stored with their outputs."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import venv

import nbformat
import pytest
from nbclient.exceptions import CellTimeoutError

from tests import ROOT

spec = importlib.util.spec_from_file_location("run", ROOT / "notebooks/run.py")
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SECONDS = 180  # for a whole notebook
# All others take more than a few seconds.
QUICK = ("quickstart",)

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path, kind):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def kinds(notebook):
    """The kinds of outputs of each code cell. Printed text may be in several pieces."""
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [sorted({kind for each in cell.outputs for kind in each.get("data", {"text": 0})})
            for cell in code]  # fmt: skip


def run(notebook, folder, seconds=SECONDS):
    """Executes a notebook in a folder. A cell may use the seconds left by the cells before it."""
    end = time.monotonic() + seconds
    script.run(notebook, folder, timeout_func=lambda cell: max(0.1, end - time.monotonic()))


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else pytest.mark.slow)
     for path in NOTEBOOKS],
)  # fmt: skip
def test_notebook_runs_and_draws(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    stored = kinds(notebook)
    run(notebook, tmp_path)
    assert "image/png" in {kind for cell in stored for kind in cell}
    assert kinds(notebook) == stored


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


def test_all_notebooks_share_their_first_cell():
    """It checks the versions required by pyproject.toml."""
    first = {path.stem: cells(path, "code")[0].source for path in NOTEBOOKS}
    (shared,) = set(first.values())
    asked = (ROOT / "pyproject.toml").read_text()
    python, jax = (re.search(p, asked)[1] for p in (r'-python = ">=(.*)"', r'"jax>=(.*)"'))
    for version in (python, jax):
        assert f"({version.replace('.', ', ')})" in shared and f" {version} " in shared


def test_the_first_cell_refuses_old_versions(monkeypatch):
    """Runs it without its notebook-only lines, under an older jax and an older Python."""
    source = cells(NOTEBOOKS[0], "code")[0].source
    program = "\n".join(re.sub(r"%\w.*", "pass", line) for line in source.splitlines())
    exec(program, {})
    for name, old in (("importlib.metadata.version", lambda _: "0.9.2"),
                      ("sys.version_info", (3, 10, 14))):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(name, old)
            with pytest.raises(RuntimeError, match=r"needs Python 3\.11 and jax 0\.10 or newer"):
                exec(program, {})


@pytest.mark.skipif(not (ROOT / "dpjax").is_dir(), reason="dpjax is installed from elsewhere")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "absent"), [("notebooks", ()), ("..", ()), (".", ("optax",)), ("../..", ())]
)
def test_the_first_cell_installs_a_clone(folder, absent, tmp_path):
    """Without dpjax. The clone itself is imported, not its build folder, which may be old."""
    clone, environment = tmp_path / "home" / "clone" / "dpjax", tmp_path / "environment"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "dpjax", clone / "dpjax", ignore=ignored)
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, clone)
    (clone / "notebooks").mkdir()
    venv.create(environment)
    (installed,) = environment.glob("lib/*/site-packages")
    # Only the packages of this environment: files that link dpjax to a checkout are not read.
    packages = [path for path in sys.path if path.endswith("-packages")]
    (installed / "others.pth").write_text("\n".join(packages))
    cell = cells(NOTEBOOKS[0], "code")[0].source
    program = f"""
import sys
from IPython.terminal.interactiveshell import TerminalInteractiveShell
sys.modules.update(dict.fromkeys({absent}))
TerminalInteractiveShell.instance().run_cell({cell!r}).raise_error()
for name in {absent}:
    del sys.modules[name]
from dpjax import learners
print(learners.__file__)
"""
    done = subprocess.run(
        [environment / "bin" / "python", "-c", program], cwd=clone / folder,
        env={**os.environ, "IPYTHONDIR": str(tmp_path), "PIP_NO_BUILD_ISOLATION": "false"},
        capture_output=True, text=True,
    )  # fmt: skip
    if folder == "../..":
        assert "dpjax is not installed: clone it" in done.stderr
    else:
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1] == f"{clone}/dpjax/learners/__init__.py"
        assert list(installed.glob("__editable__*"))


def test_the_page_of_notebooks_lists_them_all():
    page = (ROOT / "docs/notebooks.md").read_text()
    listed = re.findall(r"\]\(\.\./notebooks/(\w+)\.ipynb\)", page)
    assert sorted(listed) == [path.stem for path in NOTEBOOKS]


@pytest.mark.slow
def test_the_limit_is_for_the_whole_notebook(tmp_path):
    """Each of these cells is quick."""
    sleeps = [nbformat.v4.new_code_cell("import time; time.sleep(0.5)") for _ in range(9)]
    with pytest.raises(CellTimeoutError):
        run(nbformat.v4.new_notebook(cells=sleeps), tmp_path, seconds=2)


@pytest.mark.slow
def test_the_script_stores_outputs_without_bars(tmp_path, monkeypatch):
    cell = nbformat.v4.new_code_cell("import sys; print('bar', file=sys.stderr); 6 * 7")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "one.ipynb")
    monkeypatch.setattr(script, "HERE", tmp_path)
    script.main([])
    (output,) = nbformat.read(tmp_path / "one.ipynb", as_version=4).cells[0].outputs
    assert output.data == {"text/plain": "42"}
