"""Run notebooks and store them with their outputs, without progress bars.

python notebooks/run.py [NAME ...]  # these notebooks, or all
python notebooks/run.py --heads     # none

Both write the badge for Colab and the first code cell into all notebooks, and the badge into
docs/notebooks.md.
"""

import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "notebooks.md"
REPOSITORY = ""  # The git URL of the published repository: https://github.com/OWNER/dpjax
COLAB = "https://colab.research.google.com/"
FIRST_CELL = """\
# Imports dpjax from a clone of its repository: this folder, the one above, or one in this folder.
# Installs missing packages. jax and NumPy keep their versions, unless dpjax needs newer ones.
import glob
import importlib.util
import pathlib
import runpy
import sys

REPOSITORY = ""  # the git URL to clone if there is no clone yet


def clones():
    scripts = (sorted(glob.glob(f"{place}notebooks/install.py")) for place in ("", "../", "*/"))
    folders = [pathlib.Path(file).resolve().parents[1] for files in scripts for file in files]
    projects = ((folder, folder / "pyproject.toml") for folder in folders)
    return [x for x, file in projects if file.is_file() and 'name = "dpjax"' in file.read_text()]


missing = getattr(importlib.util.find_spec("dpjax"), "origin", None) is None
if missing and REPOSITORY and not clones():
    !GIT_TERMINAL_PROMPT=0 git clone --quiet --depth 1 "$REPOSITORY" dpjax
if clones():
    if missing:
        sys.modules.pop("dpjax", None)  # a folder without a package, if it was imported before
    runpy.run_path(str(clones()[0] / "notebooks" / "install.py"))
elif missing:
    raise RuntimeError("dpjax is missing: clone it into this folder, or set REPOSITORY above.")
%matplotlib inline"""


def badge(path="", repository=REPOSITORY):
    """A link that opens a file of GitHub in Colab; Colab's own dialog for other addresses."""
    github = re.fullmatch(r"https://github\.com/(.+?)(\.git)?/?", repository)
    target = f"{github[1]}/{path}" if github else ""
    return f"[![Open in Colab]({COLAB}assets/colab-badge.svg)]({COLAB}github/{target})"


def write_head(notebook, name, repository=REPOSITORY):
    """Writes the badge below the title, and the first code cell."""
    title, *rest = notebook.cells[0].source.split("\n\n")
    rest = [each for each in rest if not each.startswith("[![")]
    link = badge(f"blob/main/notebooks/{name}.ipynb", repository)
    notebook.cells[0].source = "\n\n".join([title, link, *rest])
    setting = 'REPOSITORY = "{}"'
    notebook.cells[1].source = FIRST_CELL.replace(setting.format(""), setting.format(repository))


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


def main(arguments) -> None:
    """Writes the heads of all notebooks; runs those of these names, or all, each in a folder."""
    paths = sorted(HERE.glob("*.ipynb"))
    names = [path.stem for path in paths]
    if unknown := {*arguments} - {"--heads", *names}:
        sys.exit(f"There is no notebook {min(unknown)}: choose among {', '.join(names)}.")
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        write_head(notebook, path.stem)
        if not arguments or path.stem in arguments:
            with tempfile.TemporaryDirectory(dir=HERE.parent) as folder:  # next to the package
                run(notebook, folder)
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size // 1024} KiB")
    PAGE.write_text(re.sub(r"^\[!\[.*", badge(), PAGE.read_text(), flags=re.MULTILINE))


if __name__ == "__main__":
    main(sys.argv[1:])
