"""``data.dpjax``: what one asks of the data of a study."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas
import xarray

from dpjax.report import choice, estimates, identification, trends
from dpjax.report import figures as plot


@xarray.register_dataset_accessor("dpjax")
class Accessor:
    """Estimates with intervals, tables and figures of a study's data.

    Methods take ``of``, the name of a variable with the dimension trial; by default the regret at
    the horizon. What they return is an ``xarray.Dataset`` unless its name says otherwise.

    Examples:
      >>> import xarray
      >>> data = xarray.Dataset({"final_regret": ("trial", [1.0, 2.0, 6.0])})
      >>> float(data.dpjax.mean()["mean"])
      3.0
    """

    def __init__(self, data: xarray.Dataset):
        self._data = data

    def mean(self, of: str = "final_regret", confidence: float = 0.95) -> xarray.Dataset:
        """See :func:`dpjax.report.estimates.mean`.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset({"final_regret": ("trial", [1.0, 2.0, 6.0])})
          >>> found = data.dpjax.mean(confidence=0.9)
          >>> {name: round(float(value), 2) for name, value in found.items()}
          {'mean': 3.0, 'standard_error': 1.53, 'low': -1.46, 'high': 7.46}
        """
        return estimates.mean(self._array(of), confidence)

    def quantile(
        self, q: float = 0.5, of: str = "final_regret", confidence: float = 0.95
    ) -> xarray.Dataset:
        """See :func:`dpjax.report.estimates.quantile`.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset({"final_regret": ("trial", np.arange(100.0))})
          >>> found = data.dpjax.quantile(0.9)
          >>> {name: round(float(value), 2) for name, value in found.items()}
          {'quantile': 89.1, 'low': 83.0, 'high': 95.0}
        """
        return estimates.quantile(self._array(of), q, confidence)

    def median_of_means(
        self, groups: int, of: str = "final_regret", confidence: float = 0.95
    ) -> xarray.Dataset:
        """The median of the means of equal groups of trials, with bootstrap percentiles.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset({"final_regret": ("trial", [1.0, 2.0, 6.0])})
          >>> found = data.dpjax.median_of_means(3)
          >>> {name: round(float(value), 2) for name, value in found.items()}
          {'median_of_means': 2.0, 'low': 1.0, 'high': 6.0}
        """
        return estimates.median_of_means(self._array(of), groups, confidence)

    def gini(self, of: str = "final_regret", confidence: float = 0.95) -> xarray.Dataset:
        """Gini's mean difference between two trials, with bootstrap percentiles.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset({"final_regret": ("trial", [1.0, 2.0, 6.0])})
          >>> found = data.dpjax.gini()
          >>> {name: round(float(value), 2) for name, value in found.items()}
          {'gini': 3.33, 'low': 0.0, 'high': 3.33}
        """
        return estimates.gini(self._array(of), confidence)

    def proportion(self, of: str, confidence: float = 0.95) -> xarray.Dataset:
        """See :func:`dpjax.report.estimates.proportion`.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset({"correct": ("trial", [True] * 9 + [False])})
          >>> found = data.dpjax.proportion("correct")
          >>> {name: round(float(value), 2) for name, value in found.items()}
          {'proportion': 0.9, 'low': 0.55, 'high': 1.0}
        """
        return estimates.proportion(self._array(of), confidence)

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

    def difference(
        self, of: str = "final_regret", confidence: float = 0.95, **to: Any
    ) -> xarray.Dataset:
        """Paired differences to one place, as in ``data.dpjax.difference(learner="EXP3")``.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset(
          ...     {"final_regret": (("learner", "trial"), [[1.0, 2.0, 6.0], [3.0, 5.0, 10.0]])},
          ...     {"learner": ["A", "B"]})
          >>> data.dpjax.difference(learner="A")["mean"].values.tolist()
          [0.0, 3.0]
        """
        return estimates.difference(self._array(of), to, confidence)

    def band(
        self, over: str | Sequence[str] = "round", of: str = "regret", confidence: float = 0.95
    ) -> xarray.Dataset:
        """See :func:`dpjax.report.estimates.band`.

        Examples:
          >>> import xarray
          >>> values = [[1.0, 2.0, 3.0], [2.0, 5.0, 8.0]]
          >>> data = xarray.Dataset({"regret": (("round", "trial"), values)}, {"round": [10, 20]})
          >>> data.dpjax.band()["mean"].values.tolist()
          [2.0, 5.0]
        """
        return estimates.band(self._array(of), over, confidence)

    def slope(
        self, over: str = "horizon", of: str = "final_regret", confidence: float = 0.95
    ) -> xarray.Dataset:
        """See :func:`dpjax.report.trends.slope`.

        Examples:
          >>> import xarray
          >>> values = [[1.0, 2.0], [2.0, 4.0]]
          >>> data = xarray.Dataset(
          ...     {"final_regret": (("horizon", "trial"), values)}, {"horizon": [100, 400]})
          >>> round(float(data.dpjax.slope()["slope"]), 2)
          0.5
        """
        return trends.slope(self._array(of), over, confidence)

    def crossing(
        self,
        level: float,
        of: float = np.inf,
        over: str = "epsilon",
        value: str = "final_regret",
        confidence: float = 0.95,
    ) -> xarray.Dataset:
        """See :func:`dpjax.report.trends.crossing`; ``value`` names the variable here.

        Examples:
          >>> import xarray
          >>> values = [[40.0, 42.0], [22.0, 24.0], [20.0, 20.0]]
          >>> data = xarray.Dataset(
          ...     {"final_regret": (("epsilon", "trial"), values)}, {"epsilon": [0.1, 1.0, np.inf]})
          >>> float(data.dpjax.crossing(1.5)["crossing"].round(2))
          0.41
        """
        return trends.crossing(self._array(value), level, of, over, confidence)

    def worst(
        self, over: str = "environment", of: str = "final_regret", confidence: float = 0.95
    ) -> xarray.Dataset:
        """See :func:`dpjax.report.choice.worst`.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset(
          ...     {"final_regret": (("learner", "trial"), [[1.0, 2.0, 6.0], [3.0, 5.0, 10.0]])},
          ...     {"learner": ["A", "B"]})
          >>> data.dpjax.worst("learner")["learner"].item()
          'B'
        """
        return choice.worst(self._array(of), over, confidence)

    def tune(
        self, *over: str, of: str = "final_regret", confidence: float = 0.95
    ) -> xarray.Dataset:
        """See :func:`dpjax.report.choice.tune`; ``over`` are the axes of the settings.

        Examples:
          >>> import xarray
          >>> values = [[1.0, 2.0, 1.0, 3.0], [9.0, 7.0, 8.0, 9.0]]
          >>> data = xarray.Dataset(
          ...     {"final_regret": (("rate", "trial"), values)}, {"rate": [0.1, 0.2]})
          >>> float(data.dpjax.tune("rate")["chosen_rate"])
          0.1
        """
        return choice.tune(self._array(of), list(over), confidence)

    def frontier(
        self,
        over: str = "epsilon",
        settings: Sequence[str] | None = None,
        of: str = "final_regret",
        confidence: float = 0.95,
    ) -> xarray.Dataset:
        """The least mean regret for each level of declared privacy, over all settings.

        At a level all cells compete whose declared epsilon is at most the level. The winner is
        chosen and reported as :func:`dpjax.report.choice.tune` does. Cells may differ in their
        model of privacy and in delta: ``chosen_model`` names the winner's model.

        Args:
          over: the axis whose values are the levels.
          settings: the axes of the settings, ``over`` among them; by default the learner and each
            axis of the grid that holds numbers with a fraction.
          of: the variable.
          confidence: of each interval.

        Examples:
          >>> import xarray
          >>> axes, cells = ("learner", "epsilon"), np.array([[8.0, 6.0], [9.0, 3.0]])
          >>> declared = [[0.1, 1.0], [0.1, 1.0]]
          >>> data = xarray.Dataset(
          ...     {"final_regret": ((*axes, "trial"), cells[..., None] + [0.0, 0.1, 0.2, 0.3])},
          ...     {"learner": ["A", "B"], "epsilon": [0.1, 1.0],
          ...      "privacy_epsilon": (axes, declared),
          ...      "privacy_model": (axes, [["central"] * 2] * 2)})
          >>> data.dpjax.frontier(settings=axes)["chosen_learner"].values.tolist()
          ['A', 'B']
        """
        array = self._array(of)
        if settings is None:
            grid = [name for name in array.dims if f"takes_{name}" in array.coords]
            settings = ["learner", *(n for n in grid if array[n].dtype.kind == "f")]
        declared, models = array["privacy_epsilon"], array["privacy_model"]
        found = []
        for level in array[over].values:
            allowed = array.where(declared <= level * (1.0 + 1e-5))
            best = choice.tune(allowed, settings, confidence)
            at = {name: best[f"chosen_{name}"].fillna(array[name].values[0]) for name in settings}
            best["chosen_model"] = (
                models.sel(at).reset_coords(drop=True).where(best["mean"].notnull(), "")
            )
            # The setting may have been declared for a smaller epsilon than the level.
            best = best.rename({f"chosen_{over}": "chosen_at"}).drop_dims(settings)
            found.append(best.assign_coords({over: level}))
        return xarray.concat(found, over, combine_attrs="override", join="exact")

    def table(self, of: str = "final_regret", confidence: float = 0.95) -> pandas.DataFrame:
        """Means with their standard errors, one row a cell, beside what the cell declares.

        A learner that does not take an axis has one row, with an empty entry for the axis.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset(
          ...     {"final_regret": (("learner", "trial"), [[1.0, 2.0, 6.0], [3.0, 5.0, 10.0]])},
          ...     {"learner": ["A", "B"]})
          >>> data.dpjax.table()[["learner", "mean", "trials"]].values.tolist()
          [['A', 3.0, 3], ['B', 6.0, 3]]
        """
        array = self._array(of)
        found = estimates.mean(array, confidence).reset_coords(drop=True)
        for name in ("privacy_epsilon", "privacy_delta", "privacy_model"):
            if name in array.coords:
                found[name] = array.coords[name].variable
        order = [name for name in array.dims if name in found.dims]
        frame = found.to_dataframe(dim_order=order).dropna(subset=["mean"]).reset_index()
        for name in array.dims:
            if f"takes_{name}" in array.coords and name in frame:
                takes = array[f"takes_{name}"].to_series()
                pairs = pandas.MultiIndex.from_frame(frame[list(takes.index.names)])
                ignored = ~takes.reindex(pairs).to_numpy()
                frame[name] = frame[name].astype(object).mask(ignored, "")
        keys = [name for name in frame.columns if name in array.dims]
        return frame.drop_duplicates(subset=keys).assign(trials=array.sizes["trial"])

    def figure(self, x: str, **options: Any) -> plot.Figure:
        """See :func:`dpjax.report.figures.figure`.

        Examples:
          >>> import xarray
          >>> data = xarray.Dataset(
          ...     {"final_regret": (("epsilon", "trial"), [[40.0, 42.0], [22.0, 24.0]])},
          ...     {"epsilon": [0.1, 1.0]})
          >>> data.dpjax.figure("epsilon").axes[0].get_xlabel()
          'epsilon that the learner was given'
        """
        return plot.figure(self._data, x, **options)

    def _array(self, name):
        if name not in self._data.data_vars:
            names = [n for n, v in self._data.data_vars.items() if "trial" in v.dims]
            raise ValueError(f"of: the data have no {name!r}, but {', '.join(names)}")
        return self._data[name]
