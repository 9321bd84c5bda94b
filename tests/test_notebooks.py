"""The notebooks run from the first cell to the last, and are stored without outputs."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_draws(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    resources = {"metadata": {"path": tmp_path}}
    NotebookClient(notebook, timeout=240, resources=resources).execute()
    kinds = [kind for cell in code for output in cell.outputs for kind in output.get("data", {})]
    assert "image/png" in kinds


def test_there_is_a_quickstart():
    assert [path.stem for path in NOTEBOOKS] == ["quickstart"]
