"""The comparison of a learner from a user's file with the built-in ones."""

import hashlib
from pathlib import Path

from dpjax.cli.arguments import EPSILONS
from dpjax.cli.learner_files import find_factory, line_of
from dpjax.report.output import output_folder, shown


def run(file, out="results/compare", **options) -> tuple[str, int, str]:
    """Compare the learner of a file, and write the page and its tables into the folder ``out``.

    :func:`dpjax.report.comparison.write` lists the written files. ``file`` is run as a program.

    Args:
      file: as in :func:`dpjax.cli.learner_files.find_factory`.
      out: a folder.
      **options: as in :func:`dpjax.compare`, except the key.

    Returns:
      The verdicts, as text; and the exit status and its reason, as :func:`dpjax.cli.audits.run`
      returns them.

    Raises:
      ValueError, OSError: as in :func:`dpjax.cli.learner_files.find_factory` and
        :func:`dpjax.compare`; the message names the file.
    """
    # Imported here, because these take a while to load.
    from dpjax.audit import audited
    from dpjax.learners.entrants import UserError
    from dpjax.report import comparison
    from dpjax.study.compare import compare

    options = {"against": None, "epsilons": EPSILONS, "runs": 2**14, **options}
    path, factory = find_factory(file)
    name = shown(Path(path).name)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    with output_folder(out) as folder:
        try:
            found = compare(factory, **options)
        except UserError as error:
            raise ValueError(f"{path}: {line_of(path, error.__cause__)}{error}") from error
        parameters = {
            "file": shown(path), "sha256": digest, "against": options["against"],
            "epsilons": [float(epsilon) for epsilon in options["epsilons"]],
            "runs": options["runs"], "search": options.get("search", False),
            "key": "jax.random.key(0)",
        }  # fmt: skip
        title = f"{found.name} of {name} compared with the learners of dpjax"
        comparison.write(found, folder, title=title, parameters=parameters)
    text = "\n\n".join(found.verdicts.values())
    for status in (audited.VIOLATED, audited.UNDECIDED):
        for row in found.audit.to_dict("records"):
            if audited.status(row["checks"]) == status:
                return text, status, f"{name}: {row['finding']}"
    return text, 0, ""
