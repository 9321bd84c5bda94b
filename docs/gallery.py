"""Run the code blocks of docs/gallery.md and save the figure of each in docs/gallery.

python docs/gallery.py [--quick]
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
SECTION = re.compile(r"^## (.*?)$.*?^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
# Shorter games, for tests.
QUICK = {r"trials=\d+": "trials=4", r"2048|4096": "64", r"range\(8, 15, 2\)": "range(5, 7)"}


def sections() -> dict[str, str]:
    """{figure name: code}. The name is the title of a section, hyphenated in lower case."""
    page = (HERE / "gallery.md").read_text()
    return {re.sub(r"\W+", "-", title.lower()): code for title, code in SECTION.findall(page)}


def main(quick=False) -> None:
    """Draws all figures. If ``quick``, games are shorter and figures go to the folder ./gallery."""
    out = Path("gallery") if quick else HERE / "gallery"
    out.mkdir(parents=True, exist_ok=True)
    for name, code in sections().items():
        for long, short in QUICK.items() if quick else ():
            code = re.sub(long, short, code)
        names: dict = {}
        exec(code, names)
        names["figure"].savefig(out / f"{name}.png", dpi=90)
        print(name)


if __name__ == "__main__":
    main("--quick" in sys.argv)
