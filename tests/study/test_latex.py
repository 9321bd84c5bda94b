"""Tables for LaTeX."""

import numpy as np
import pytest
import xarray

import dpjax.report.accessor  # noqa: F401
from dpjax.report import latex


def data(spread=1.0, means=((9.0, 4.0), (1.5, 1.5), (9.1, 1.51))):
    """Three learners at two epsilons; the second learner takes no epsilon."""
    noise = np.random.default_rng(0).normal(size=(3, 2, 40))
    trials = np.asarray(means)[..., None] + spread * noise
    trials[1] = trials[1, 0]
    takes = ("learner", [True, False, True])
    return xarray.Dataset(
        {"final_regret": (["learner", "epsilon", "trial"], trials)},
        {"learner": ["dp_a", "plain", "b&c"], "epsilon": [0.1, np.inf], "takes_epsilon": takes},
    )


def rows(text):
    """The cells of each row between the rules."""
    body = text.split("\\midrule\n")[1].split("\n\\bottomrule")[0]
    return [line.removesuffix(" \\\\").split(" & ") for line in body.splitlines()]


def test_numbers_are_those_of_the_table_to_two_digits_of_the_error():
    text, table = data().dpjax.latex("epsilon"), data().dpjax.table()
    first = rows(text)[0]
    assert first[0] == r"dp\_a" and r"b\&c" in text and r"{0.1} & {$\infty$}" in text
    for cell, (_, row) in zip(first[1:], table.iterrows(), strict=False):
        centre, error = cell.removeprefix("\\bfseries ").split(" +- ")
        assert float(centre) == round(row["mean"], 2) and len(centre.split(".")[1]) == 2
        assert float(error) == round(row["standard_error"], 2)
    assert "S[table-format=1.2(2)]S[table-format=1.2(2)]" in text
    assert (
        "standard error of 0" not in text
        and "Regret at T: mean with standard errors; 40 trials." in text
    )


def test_bold_is_what_cannot_be_told_from_the_best():
    """At 0.1 one mean is clearly smallest; at inf two are within their noise."""
    first, plain, third = rows(data().dpjax.latex("epsilon"))
    bold = [[cell.startswith("\\bfseries") for cell in row[1:]] for row in (first, plain, third)]
    assert bold == [[False, False], [True, True], [False, True]]
    *_, third = rows(data(spread=1e-3).dpjax.latex("epsilon"))
    assert "\\bfseries" not in third[2]  # 1.51 differs from 1.5 if noise is small


def test_intervals_and_errors_of_0():
    found = data(spread=0.0, means=[[2.0, 2.0], [3.0, 3.0], [4.0, 4.0]])
    text = found.dpjax.latex("epsilon")
    assert rows(text)[0][1:] == [r"\bfseries 2 +- 0"] * 2
    assert "A standard error of 0: all trials have the same value." in text
    flat = "An interval without width: all trials have the same value."
    assert flat in found.dpjax.latex("epsilon", interval=True)
    low, high = data().dpjax.mean().isel(learner=0, epsilon=0)[["low", "high"]].to_array().values
    text = data().dpjax.latex("epsilon", interval=True)
    assert rows(text)[0][1].endswith(f"[{low:.2f}, {high:.2f}]")
    assert "{lcc}" in text and r"95\,\% confidence intervals" in text


@pytest.mark.parametrize(
    ("change", "of", "why"),
    [(lambda own: own.assign(hit=own["final_regret"] > 3.0), "hit",
      "it is not known whether a small or a large proportion is better"),
     (lambda own: own.dpjax.mean(), None, "the estimate has no trials"),
     (lambda own: own.expand_dims(rate=[1.0, 2.0]).dpjax.tune("rate"), "chosen_rate",
      "settings are not ranked")],
)  # fmt: skip
def test_the_note_says_why_no_value_is_bold(change, of, why):
    found = change(data())
    text = found.dpjax.latex("epsilon", of=of)
    assert f"No value is bold, because {why}." in text and "bfseries" not in text
    assert "bold" not in found.isel(learner=0).dpjax.latex("epsilon", of=of)


def test_a_setting_is_in_a_table_with_its_candidates():
    """The figure of a tuned learner had this quantity, and the table refused it."""
    shift = xarray.DataArray([0.0, 0.0, 9.0], {"rate": ["slow", "own", "fast"]}, ["rate"])
    takes = ("learner", [True, True, False])
    base = data().assign_coords(takes_rate=takes)
    tuned = (base + shift * base["takes_rate"]).dpjax.tune("rate")
    text = tuned.dpjax.latex("epsilon", of="chosen_rate")
    body = rows(text)
    assert body[0][1] == "slow [slow, own]" and body[2][1:] == ["unused", "unused"]
    assert "rate (dp\\_a, plain)" in text and "{lcc}" in text
    assert r"\bfseries" in tuned.dpjax.latex("epsilon")


def test_special_characters_are_escaped():
    assert latex.escaped("50% {a} #1 ~x^2 $") == (
        r"50\% \{a\} \#1 \textasciitilde{}x\textasciicircum{}2 \$"
    )


@pytest.mark.parametrize(
    ("columns", "axis", "said"),
    [("epsilon", "environment", "mean in the column, among learners at the same environment."),
     ("learner", "environment", "mean, among learners at the same environment and epsilon."),
     ("epsilon", None, "smallest mean in the column."), ("learner", None, "same epsilon.")],
)  # fmt: skip
def test_the_note_names_the_learners_that_are_compared(columns, axis, said):
    """Bold was said to be judged in the column, also with several environments in it."""
    one = data(spread=1e-3)
    two = (
        one
        if axis is None
        else xarray.concat([9.0 * one, one], axis).assign_coords({axis: ["a", "b"]})
    )
    text = two.dpjax.latex(columns)
    assert said in text.split("Bold: ")[1]
    assert text.count("bfseries") == (2 if axis is None else 4)
