"""Run notebooks and store them with their outputs, without progress bars.

python notebooks/run.py [NAME ...]
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def run(notebook, folder, **options):
    """Executes a notebook in a folder, and removes parts that should not be stored.

    These are the standard error, which has the progress bars, and the version of Python.
    """
    NotebookClient(
        notebook, record_timing=False, resources={"metadata": {"path": folder}}, **options
    ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    notebook.metadata.pop("language_info", None)
    notebook.metadata.pop("widgets", None)  # Sliders need a running kernel.


def main(names) -> None:
    """Runs the notebooks of these names, or all, each in its own folder."""
    for path in sorted(HERE.glob("*.ipynb")):
        if not names or path.stem in names:
            notebook = nbformat.read(path, as_version=4)
            with tempfile.TemporaryDirectory() as folder:
                run(notebook, folder)
            nbformat.write(notebook, path)
            print(f"{path.name}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
