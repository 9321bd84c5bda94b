"""Runs notebooks and stores them with their outputs, but without bars of progress.

python notebooks/run.py [NAME ...]
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def run(notebook, folder, **options):
    """Executes a notebook in a folder, and drops what does not belong into a stored notebook.

    Dropped are the standard error, on which bars of progress are drawn, and the version of Python.
    """
    NotebookClient(
        notebook, record_timing=False, resources={"metadata": {"path": folder}}, **options
    ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    notebook.metadata.pop("language_info", None)
    notebook.metadata.pop("widgets", None)  # Sliders need a kernel that runs.


def main(names) -> None:
    """Runs the notebooks of these names, or all, each in a folder of its own."""
    for path in sorted(HERE.glob("*.ipynb")):
        if not names or path.stem in names:
            notebook = nbformat.read(path, as_version=4)
            with tempfile.TemporaryDirectory() as folder:
                run(notebook, folder)
            nbformat.write(notebook, path)
            print(f"{path.name}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
