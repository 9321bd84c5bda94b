"""Remove the files of an earlier build, which setuptools would also put into the wheel."""

import shutil
from pathlib import Path

from setuptools import setup

shutil.rmtree(Path(__file__).parent / "build" / "lib", ignore_errors=True)
setup()
