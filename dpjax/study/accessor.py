"""``data.dpjax``: what one asks of the data of a study."""

import numpy as np
import pandas
import xarray

from dpjax.study import choice, identification, inference, plot, trends


@xarray.register_dataset_accessor("dpjax")
class Accessor:
    """Estimates with intervals, tables and figures of a study's data.

    Methods take ``of``, the name of a variable with the dimension trial; by default the regret at
    the horizon. What they return is an ``xarray.Dataset`` unless its name says otherwise.
    """

    def __init__(self, data: xarray.Dataset):
        self._data = data

    def mean(self, of="final_regret", confidence=0.95) -> xarray.Dataset:
        """See :func:`dpjax.study.inference.mean`."""
        return inference.mean(self._array(of), confidence)

    def quantile(self, q=0.5, of="final_regret", confidence=0.95) -> xarray.Dataset:
        """See :func:`dpjax.study.inference.quantile`."""
        return inference.quantile(self._array(of), q, confidence)

    def median_of_means(self, groups, of="final_regret", confidence=0.95) -> xarray.Dataset:
        """The median of the means of equal groups of trials, with bootstrap percentiles."""
        return inference.median_of_means(self._array(of), groups, confidence)

    def gini(self, of="final_regret", confidence=0.95) -> xarray.Dataset:
        """Gini's mean difference between two trials, with bootstrap percentiles."""
        return inference.gini(self._array(of), confidence)

    def proportion(self, of, confidence=0.95) -> xarray.Dataset:
        """See :func:`dpjax.study.inference.proportion`."""
        return inference.proportion(self._array(of), confidence)

    def identification(self, confidence=0.95) -> xarray.Dataset:
        """See :func:`dpjax.study.identification.identification`."""
        return identification.identification(self._data, confidence)

    def difference(self, of="final_regret", confidence=0.95, **to) -> xarray.Dataset:
        """Paired differences to one place, as in ``data.dpjax.difference(learner="EXP3")``."""
        return inference.difference(self._array(of), to, confidence)

    def band(self, over="round", of="regret", confidence=0.95) -> xarray.Dataset:
        """See :func:`dpjax.study.inference.band`."""
        return inference.band(self._array(of), over, confidence)

    def slope(self, over="horizon", of="final_regret", confidence=0.95) -> xarray.Dataset:
        """See :func:`dpjax.study.trends.slope`."""
        return trends.slope(self._array(of), over, confidence)

    def crossing(
        self, level, of=np.inf, over="epsilon", value="final_regret", confidence=0.95
    ) -> xarray.Dataset:
        """See :func:`dpjax.study.trends.crossing`; ``value`` names the variable here."""
        return trends.crossing(self._array(value), level, of, over, confidence)

    def worst(self, over="environment", of="final_regret", confidence=0.95) -> xarray.Dataset:
        """See :func:`dpjax.study.choice.worst`."""
        return choice.worst(self._array(of), over, confidence)

    def tune(self, *over, of="final_regret", confidence=0.95) -> xarray.Dataset:
        """See :func:`dpjax.study.choice.tune`; ``over`` are the axes of the settings."""
        return choice.tune(self._array(of), list(over), confidence)

    def frontier(
        self, over="epsilon", settings=None, of="final_regret", confidence=0.95
    ) -> xarray.Dataset:
        """The least mean regret for each level of declared privacy, over all settings.

        At a level all cells compete whose declared epsilon is at most the level. The winner is
        chosen and reported as :func:`dpjax.study.choice.tune` does. Cells may differ in their
        model of privacy and in delta: ``chosen_model`` names the winner's model.

        Args:
          over: the axis whose values are the levels.
          settings: the axes of the settings, ``over`` among them; by default the learner and each
            axis of the grid that holds numbers with a fraction.
          of: the variable.
          confidence: of each interval.
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

    def table(self, of="final_regret", confidence=0.95) -> pandas.DataFrame:
        """Means with their standard errors, one row a cell, beside what the cell declares.

        A learner that does not take an axis has one row, with an empty entry for the axis.
        """
        array = self._array(of)
        found = inference.mean(array, confidence).reset_coords(drop=True)
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

    def figure(self, x, **options):
        """See :func:`dpjax.study.plot.figure`."""
        return plot.figure(self._data, x, **options)

    def _array(self, name):
        if name not in self._data.data_vars:
            names = [n for n, v in self._data.data_vars.items() if "trial" in v.dims]
            raise ValueError(f"of: the data have no {name!r}, but {', '.join(names)}")
        return self._data[name]
