"""The comparison of a learner from a user's file with the built-in ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpjax.cli import audits
from dpjax.cli.learner_files import digest, find_factory, line_of
from dpjax.cli.run import Plan, play
from dpjax.learners.entrants import UserError
from dpjax.report.output import shown
from dpjax.study.compare import EPSILONS, compare


def run(
    file: str, out: str, *, epsilons: Sequence[float] = EPSILONS, runs: int | None = 2**14,
    **options: Any,
) -> tuple[str, int, str]:  # fmt: skip
    """Audit the learner of a file, and play it beside the built-in learners.

    The audit is at the finite epsilon nearest to 1. Its tables are written into the folder
    ``audit`` in ``out``, and the files of :func:`dpjax.cli.run.play` into ``out``.

    Args:
      file: as in :func:`dpjax.cli.learner_files.find_factory`. It is run as a program.
      out: a folder.
      epsilons, options: as in :func:`dpjax.compare`, except the key.
      runs: counted runs of each sequence in the attack; None for no attack.

    Returns:
      The tables, as text; and the exit status and its reason, as :func:`dpjax.cli.audits.run`
      returns them.

    Raises:
      ValueError, OSError: as in :func:`dpjax.cli.learner_files.find_factory`,
        :func:`dpjax.compare` and :func:`dpjax.cli.audits.run`; the message names the file.
    """
    path, factory = find_factory(file)
    try:
        study = compare(factory, epsilons=epsilons, **options)
    except UserError as error:
        raise ValueError(f"{path}: {line_of(path, error.__cause__)}{error}") from error
    finite = [epsilon for epsilon in epsilons if np.isfinite(epsilon)] or [1.0]
    level = min(finite, key=lambda epsilon: abs(np.log(epsilon)))
    audit, status, reason = audits.run([file], Path(out) / "audit", epsilon=level, runs=runs)
    x = "epsilon" if "epsilon" in study.grid else "round"
    parameters = {"file": shown(path), "sha256": digest(path), **study.grid}
    plan = Plan(study, out, parameters, draw=lambda data: data.dpjax.figure(
        x, color="learner", panel="environment"))  # fmt: skip
    return f"{audit}\n\n{play(plan, out)}", status, reason
