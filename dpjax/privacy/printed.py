"""Calibrations as papers print them, declared beside our own."""

from typing import Literal

from dpjax.core import Number, Privacy, _check

Calibration = Literal["derived", "printed"]


def is_printed(calibration: Calibration) -> bool:
    """Whether the paper's calibration is to be used instead of the derived one.

    Raises:
      ValueError: ``calibration`` is neither "derived" nor "printed".
    """
    _check.one_of("derived", "printed", calibration=calibration)
    return calibration == "printed"


def stated(declared: Privacy, calibration: str, paper_epsilon: Number) -> Privacy:
    """The declaration, with the epsilon that the paper states if the calibration is not derived.

    Args:
      declared: the privacy of the noise that is drawn, whatever the paper states.
      calibration: "derived", "printed" as in the paper, or "code" as in its published program.
      paper_epsilon: the epsilon that the paper states for it.
    """
    if calibration == "derived":
        return declared
    return declared._replace(calibration=calibration, paper_epsilon=paper_epsilon)
