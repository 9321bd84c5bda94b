"""``data.dpjax``: estimates, tables and figures of a study's data."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pandas
import xarray

from dpjax._garbage import rarely_collected
from dpjax.report import (
    choice,
    estimates,
    frames,
    identification,
    latex,
    quantities,
    trends,
)
from dpjax.report.arrays import ESTIMATORS

if TYPE_CHECKING:
    from dpjax.report import figures

ESTIMATES = choice, estimates, trends  # importing them registers their estimators


@xarray.register_dataset_accessor("dpjax")
class Accessor:
    """Estimates with intervals, tables and figures of a study's data.

    Each registered estimator is a method that estimates the variable ``of`` and returns an
    ``xarray.Dataset``. By default the variable is the regret at the horizon, or the regret by round
    if ``over="round"``. ``dir(data.dpjax)`` lists the methods. See :mod:`dpjax.report.estimates`,
    :mod:`dpjax.report.trends` and :mod:`dpjax.report.choice`.

    Examples:
      >>> import xarray
      >>> data = xarray.Dataset(
      ...     {"final_regret": ("trial", [1.0, 2.0, 6.0]), "pulls": ("trial", [5.0, 6.0, 7.0])})
      >>> float(data.dpjax.mean()["mean"]), float(data.dpjax.mean(of="pulls")["mean"])
      (3.0, 6.0)
    """

    def __init__(self, data: xarray.Dataset):
        self._data = data

    def __dir__(self):
        return [*super().__dir__(), *ESTIMATORS]

    def __getattr__(self, name: str) -> Callable[..., xarray.Dataset]:
        """The method of an estimator."""
        if name not in ESTIMATORS:
            message = f"data.dpjax has no estimate {name!r}; it has {', '.join(ESTIMATORS)}"
            raise AttributeError(message, name=name, obj=self)
        function = ESTIMATORS[name]
        signature = inspect.signature(function)

        @functools.wraps(function)
        def method(*args, **kwargs):
            of = kwargs.pop("of", None)
            bound = signature.bind(None, *args, **kwargs)
            bound.apply_defaults()
            default = "regret" if bound.arguments.get("over") == "round" else "final_regret"
            return function(self._array(of, default), *args, **kwargs)

        keyword = inspect.Parameter
        variable = keyword("of", keyword.KEYWORD_ONLY, default=None, annotation=str | None)
        parameters = [*list(signature.parameters.values())[1:], variable]
        parameters.sort(key=lambda parameter: parameter.kind)
        method.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return method

    def identification(self, confidence: float = 0.95) -> xarray.Dataset:
        """See :func:`dpjax.report.identification.identification`.

        Examples:
          >>> import xarray
          >>> found = {"report_recommendation": [0, 0, 1], "correct": [1.0, 1.0, 0.0]}
          >>> found |= {"report_stopped": [1.0] * 3, "report_stopping_time": [10.0, 20.0, 60.0]}
          >>> data = xarray.Dataset({name: ("trial", each) for name, each in found.items()})
          >>> rates = data.assign(best_arms=1).dpjax.identification()
          >>> [round(float(rates[name]), 2) for name in ("error", "stopped", "time")]
          [0.33, 1.0, 30.0]
        """
        return identification.identification(self._data, confidence)

    def table(
        self,
        of: str | None = None,
        confidence: float = 0.95,
        estimates: Sequence[str | Callable] | None = None,
    ) -> pandas.DataFrame:
        """A table of estimates and declared privacy, one row per cell.

        A learner that does not take an axis has one row. Its entry for the axis is NaN if the axis
        holds numbers, and otherwise empty. The column ``trials`` is the number of trials that
        count in the row, and ``attrs["notes"]`` of the table has remarks on them. Cells outside of
        the study have no row. The model of a cell that declares no privacy is "none".

        The table of an estimate, such as ``data.dpjax.slope().dpjax.table()``, has its variables.

        Args:
          of: the variable, by default the regret at the horizon.
          confidence: level of each interval.
          estimates: names of estimators, or functions like them; by default the mean. With one
            estimator, the columns have the names of its variables. With several, a column has the
            names of the estimator and the variable, or only one name if both are equal.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset(
          ...     {"final_regret": (("learner", "trial"), [[1.0, 2.0, 6.0], [3.0, 5.0, 10.0]])},
          ...     {"learner": ["A", "B"]})
          >>> data.dpjax.table()[["learner", "mean", "trials"]].values.tolist()
          [['A', 3.0, 3], ['B', 6.0, 3]]
          >>> table = data.dpjax.table(estimates=("mean", "quantile"))
          >>> list(table)[4:]
          ['mean_high', 'quantile', 'quantile_low', 'quantile_high', 'trials']
        """
        if quantities.is_estimate(self._data) and of is None:
            if estimates is not None or confidence != 0.95:
                raise ValueError("estimates: the data are already an estimate; leave out estimates "
                                 "and confidence")  # fmt: skip
            return frames.of_estimate(self._data)
        return frames.cells(self._array(of), estimates or ("mean",), confidence)

    def latex(self, columns: str, of: str | None = None, **options: Any) -> str:
        """A table for LaTeX: see :func:`dpjax.report.latex.table`.

        Args:
          columns: the axis whose values are the columns.
          of: the variable, by default the regret at the horizon.
          **options: passed to :func:`dpjax.report.latex.table`.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset(
          ...     {"final_regret": (("learner", "epsilon", "trial"), [[[1.0, 2.0, 6.0]]])},
          ...     {"learner": ["A"], "epsilon": [1.0]})
          >>> "3.0 +- 1.5" in data.dpjax.latex("epsilon")
          True
        """
        if quantities.is_estimate(self._data):
            return latex.table(self._data, columns, of=of, **options)
        return latex.table(self._array(of), columns, **options)

    def figure(self, x: str, **options: Any) -> "figures.Captioned":
        """See :func:`dpjax.report.figures.figure`.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset(
          ...     {"final_regret": (("epsilon", "trial"), [[40.0, 42.0], [22.0, 24.0]])},
          ...     {"epsilon": [0.1, 1.0]})
          >>> data.dpjax.figure("epsilon").axes[0].get_xlabel()
          'privacy parameter epsilon'
        """
        with rarely_collected():  # matplotlib is loaded here
            from dpjax.report import figures

        return figures.figure(self._data, x, **options)

    def _array(self, name, default="final_regret"):
        """The variable of this name, or the default of a study, or the trials of a choice."""
        data = self._data
        names = [str(n) for n, v in data.data_vars.items() if "trial" in v.dims]
        if not names:
            about = data.attrs.get("label", data.attrs.get("estimate", ""))
            raise ValueError(
                f"data: an estimate needs trials, and the data have none{about and f' ({about})'}. "
                "Estimate from the data of a study, or from the results of tune or frontier"
            )
        if name is None and quantities.is_estimate(data):
            name = data.attrs["variable"]
        return quantities.variable(data, name or default)
