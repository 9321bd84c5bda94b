"""Install the packages that the notebooks need and the kernel lacks; import dpjax from this clone.

The first cell of each notebook runs this file before it imports NumPy. An installed version of jax
or NumPy stays if `pyproject.toml` allows it.
"""

import importlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

if sys.version_info < (3, 11):
    raise RuntimeError(
        f"dpjax needs Python 3.11 or newer, and this is Python {platform.python_version()}: "
        "choose another kernel."
    )

import tomllib

from packaging.requirements import Requirement
from packaging.version import Version

CLONE = Path(__file__).resolve().parents[1]
# The packages that make jax use a GPU or a TPU, and the extra of jax that installs each.
PLUGINS = {"jax-cuda12-plugin": "cuda12", "jax-cuda13-plugin": "cuda13", "libtpu": "tpu"}


def version(name: str) -> str | None:
    """The installed version of a package; None if it is missing."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def lacks(requirement: Requirement) -> bool:
    """Whether the package is missing, or installed in a version that is not allowed."""
    held = version(requirement.name)
    return held is None or not requirement.specifier.contains(held, prereleases=True)


def install() -> None:
    """Installs what is lacking; raises RuntimeError if pip fails, or replaces a package."""
    project = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]
    names = [*project["dependencies"], *project["optional-dependencies"]["store"], "ipywidgets"]
    wanted = {each.name: each for each in map(Requirement, names) if lacks(each)}
    if not wanted:
        return
    if jax := wanted.get("jax"):
        jax.extras = {extra for name, extra in PLUGINS.items() if version(name)}
        kept = []  # The new jax may need a new NumPy.
    else:
        kept = [name for name in ("jax", "jaxlib", "numpy") if name not in wanted and version(name)]
    asked = [*map(str, wanted.values()), *(f"{name}=={version(name)}" for name in kept)]
    pip = [sys.executable, "-m", "pip", "install", *asked]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip could not install {', '.join(asked)}:\n{done.stderr}")
    importlib.invalidate_caches()
    if replaced := re.findall("Found existing installation: (.+)", done.stdout):
        raise RuntimeError(
            f"pip replaced {', '.join(replaced)} by versions that dpjax can use: "
            "restart the kernel, then run this cell again."
        )


def check_plugins() -> None:
    """Raises RuntimeError if all plugins for GPUs differ from jaxlib in version: jax ignores them."""
    jaxlib = version("jaxlib")
    plugins = {name: version(name) for name in PLUGINS if name.startswith("jax") and version(name)}
    releases = {Version(plugin).release for plugin in plugins.values()}
    used = not plugins or Version(jaxlib).release in releases
    if not used and os.environ.get("JAX_PLATFORMS") != "cpu":
        name, plugin = plugins.popitem()
        raise RuntimeError(
            f"jax does not use the GPU, because {name} is {plugin} and jaxlib is {jaxlib}: run "
            f'%pip install "jax[{PLUGINS[name]}]=={version("jax")}", then restart the kernel.'
        )


install()
check_plugins()
sys.path.insert(0, str(CLONE))
