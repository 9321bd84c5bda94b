"""The notebooks run from the first cell to the last, and are stored without outputs."""

import re
import time

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError

from tests import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SECONDS = 180  # for a whole notebook
# All others take more than some seconds.
QUICK = ("quickstart",)

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path, kind):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def run(notebook, folder, seconds=SECONDS):
    """Executes a notebook in a folder. A cell has the seconds that the cells before it left."""
    end = time.monotonic() + seconds
    NotebookClient(
        notebook,
        timeout_func=lambda cell: max(0.1, end - time.monotonic()),
        resources={"metadata": {"path": folder}},
    ).execute()


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else pytest.mark.slow)
     for path in NOTEBOOKS],
)  # fmt: skip
def test_notebook_runs_and_draws(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    run(notebook, tmp_path)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert "image/png" in {kind for output in outputs for kind in output.get("data", {})}


@every_notebook
def test_notebook_is_stored_without_outputs_and_begins_with_a_title(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = cells(path, "code")
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert notebook.cells[0].cell_type == "markdown" and notebook.cells[0].source.startswith("# ")
    assert notebook.cells[1] == code[0]


def test_all_notebooks_share_their_first_cell():
    """It installs dpjax where it is missing, and checks the versions that pyproject.toml asks."""
    first = {path.stem: cells(path, "code")[0].source for path in NOTEBOOKS}
    (shared,) = set(first.values())
    asked = (ROOT / "pyproject.toml").read_text()
    python, jax = (re.search(p, asked)[1] for p in (r'-python = ">=(.*)"', r'"jax>=(.*)"'))
    for version in (python, jax):
        assert f"({version.replace('.', ', ')})" in shared and f" {version} " in shared


def test_the_first_cell_refuses_old_versions(monkeypatch):
    """Run without its lines for notebooks only, under an older jax and an older Python."""
    source = cells(NOTEBOOKS[0], "code")[0].source
    program = "\n".join(re.sub(r"%\w.*", "pass", line) for line in source.splitlines())
    exec(program, {})
    for name, old in (("importlib.metadata.version", lambda _: "0.9.2"),
                      ("sys.version_info", (3, 10, 14))):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(name, old)
            with pytest.raises(RuntimeError, match=r"needs Python 3\.11 and jax 0\.10 or newer"):
                exec(program, {})


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
