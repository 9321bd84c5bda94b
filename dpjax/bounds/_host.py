"""Helpers for bounds: float64 arguments, the gaps of arms, and divergences without cancellation."""

import functools
import inspect
from collections.abc import Iterable
from typing import Literal

import numpy as np

from dpjax.core import Numbers, _arrays

Shape = Literal["simplex", "ball", "cube"]  # a decision set


def all_in_float64(exported: dict, names: Iterable[str]) -> None:
    """Wrap these functions of a module's dictionary so that they receive float64 arrays."""

    def array(name, value):
        if value is None or isinstance(value, str):
            return value
        return _arrays.real(name, value, -np.inf, np.inf, nan=True)

    def converted(bound):
        signature = inspect.signature(bound)

        @functools.wraps(bound)
        def on_host(*arguments, **keywords):
            passed = signature.bind(*arguments, **keywords).arguments
            return bound(**{name: array(name, value) for name, value in passed.items()})

        return on_host

    exported.update({name: converted(exported[name]) for name in names})


def log_gap(ratio: Numbers) -> np.ndarray:
    """r - ln(1 + r), by its series for small r; inf at r = -1."""
    small = np.where(np.abs(ratio) < 1e-3, ratio, 0.0)
    series = np.zeros_like(ratio)
    for n in range(7, 1, -1):
        series = (-1) ** n / n + small * series
    with np.errstate(divide="ignore"):
        plain = ratio - np.log1p(ratio)
    return np.where(small == ratio, series * small**2, plain)


def suboptimal(means: Numbers) -> tuple[np.ndarray, np.ndarray, np.floating]:
    """(means, gaps) of the suboptimal arms, and the mean of the best arm."""
    if means.ndim != 1 or len(means) < 2 or not np.all((means >= 0.0) & (means <= 1.0)):
        raise ValueError(
            f"means must be at least two mean losses in [0, 1], (K,); got {means.tolist()}"
        )
    best = means.min()
    worse = means[means > best]
    return worse, worse - best, best
