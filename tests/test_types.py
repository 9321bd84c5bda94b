"""What is public says its types; mypy checks in `.ci/run` that they hold."""

import inspect
from importlib.resources import files

import pytest

from dpjax import audit, combinators, domains, environments, learners, mechanisms

ROOMS = (audit, combinators, domains, environments, learners, mechanisms)
PUBLIC = {
    f"{room.__name__}.{name}": getattr(room, name)
    for room in ROOMS
    for name in room.__all__
    if inspect.isfunction(getattr(room, name))
}


@pytest.mark.parametrize("function", PUBLIC.values(), ids=PUBLIC)
def test_parameters_and_results_have_types(function):
    signature = inspect.signature(function)
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
    assert not bare
    assert signature.return_annotation is not signature.empty


def test_the_package_says_that_it_has_types():
    assert (files("dpjax") / "py.typed").is_file()
