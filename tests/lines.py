"""Counts lines of code by room: those that are not blank, comments or docstrings.

python -m tests.lines dpjax
python -m tests.lines tests
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

from tests import ROOT

NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
           tokenize.ENDMARKER}  # fmt: skip


def count(text: str) -> int:
    """The lines of code of a file."""
    docstrings: set[int] = set()
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node):
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def rooms(folder: str) -> Counter[str]:
    """Lines of code by the folders in a folder of the repository; "." for files beside them."""
    root, lines = ROOT / folder, Counter()
    for path in root.rglob("*.py"):
        room, *rest = path.relative_to(root).parts
        lines[room if rest else "."] += count(path.read_text())
    return lines


if __name__ == "__main__":
    lines = rooms(Path(sys.argv[1]).name)
    print(*(f"{number:6} {room}" for room, number in lines.most_common()), sep="\n")
    print(f"{lines.total():6} in all")
