"""Write the tables of pages as CSV files, with the digits that the pages print.

    python docs/tables.py docs/studies.md benchmarks/README.md --out tables

A file is named after the heading above its table. The name of a second table below the same
heading ends with -2.
"""

import argparse
import csv
import re
from pathlib import Path


def tables(text) -> dict[str, list[list[str]]]:
    """The tables of a page, as rows of cells, by file name."""
    found: dict[str, list[list[str]]] = {}
    name, times, before = "table", 0, ""
    for line in re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE).split("\n"):
        if line.startswith("#"):
            name, times = re.sub(r"\W+", "-", line.lstrip("# ").lower()).strip("-"), 0
        elif re.fullmatch(r"\|(\s*:?-+:?\s*\|)+", line):  # below the column names
            times += 1
            own = found[f"{name}-{times}" if times > 1 else name] = [cells(before)]
        elif line.startswith("|") and before.startswith("|"):
            own.append(cells(line))
        before = line
    return found


def cells(row) -> list[str]:
    """The cells of a row, without the markup of links, code and escapes."""
    parts = re.split(r"(?<!\\)\|", row.strip())[1:-1]
    texts = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", part).replace("`", "") for part in parts]
    return [re.sub(r"\\(.)", r"\1", text).strip() for text in texts]


def main(arguments=None):
    """Writes a file for each table and prints the file names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("tables"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for page in options.pages:
        for name, rows in tables(page.read_text(encoding="utf-8")).items():
            path = options.out / f"{name}.csv"
            with open(path, "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(rows)
            print(path)


if __name__ == "__main__":
    main()
