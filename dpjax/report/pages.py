"""Pages of results: the frame, paragraphs and tables of a self-contained HTML file."""

import base64
import io
import warnings
from collections.abc import Callable, Iterable
from html import escape
from typing import Any

import pandas

from dpjax.report.output import FigureWarning
from dpjax.report.tables import entry

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto;
       max-width: 56rem; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin-top: 2.2rem; }
figure { margin: 1rem 0; } img { width: 100%; height: auto; }
figcaption, .small { font-size: .85rem; color: #555; }
.verdict { border-left: 4px solid #0072B2; padding: .2rem .8rem; background: #eef5fa; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right;
         white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0;
         background: #fff; }
"""


def document(title: str, body: Iterable[str], head: Iterable[str] = ()) -> str:
    """A page as text.

    Args:
      title: of the page.
      body: its parts, as HTML.
      head: more elements of its head, as HTML.
    """
    return "\n".join(
        [
            "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">', *head,
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>", f"<style>{_STYLE}</style>", "</head>", "<body>",
            *body, "</body>", "</html>", "",
        ]
    )  # fmt: skip


def paragraph(text: str, kind: str = "") -> str:
    """A text as a paragraph; ``kind`` is a CSS class, such as "small"."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def frame_table(frame: pandas.DataFrame, digits: int = 4) -> str:
    """A DataFrame as a table with its column names; ``digits`` are those of floats."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in frame.columns)
    lines = ["".join(f"<td>{escape(entry(value, digits))}</td>" for value in row)
             for row in frame.itertuples(index=False)]  # fmt: skip
    rows = "".join(f"<tr>{line}</tr>" for line in lines)
    return (f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>")  # fmt: skip


def picture(alternative: str, draw: Callable, *arguments: Any) -> str:
    """A figure as an image inside the page, or a sentence if it cannot be drawn."""
    try:
        file = io.BytesIO()
        draw(*arguments).savefig(file, format="png", dpi=150)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        sentence = f"the figure {alternative!r} could not be drawn ({reason})"
        warnings.warn(f"{sentence}; its numbers are in the tables", FigureWarning, stacklevel=2)
        return paragraph(f"{sentence[0].upper()}{sentence[1:]}.")
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return f'<img alt="{escape(alternative)}" src="data:image/png;base64,{data}">'
