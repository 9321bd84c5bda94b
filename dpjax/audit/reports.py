"""The fields of a learner's report that its declaration covers."""

import jax

from dpjax.core import BatchLearner, Learner, PyTree


def reported(learner: Learner | BatchLearner, state: PyTree) -> list:
    """The arrays of the report in the fields that ``learner.privacy.reported`` names.

    Fields are searched at any depth, since combinators nest the reports of their base learners.

    Raises:
      ValueError: the report has no field of such a name.
    """
    entries: dict[str, list] = {name: [] for name in learner.privacy.reported}
    if not entries:
        return []
    for path, leaf in jax.tree_util.tree_leaves_with_path(learner.report(state)):
        for name in {getattr(key, "name", "") for key in path} & set(entries):
            entries[name].append(leaf)
    missing = [name for name, leaves in entries.items() if not leaves]
    if missing:
        raise ValueError(
            f"learner: its privacy covers {missing[0]!r} of the report, which has no such field"
        )
    return [leaf for leaves in entries.values() for leaf in leaves]
