"""Remove the files of an earlier build, which setuptools would also put into the wheel."""

import shutil

from setuptools import setup

shutil.rmtree("build/lib", ignore_errors=True)
setup()
