"""A user's own learner beside all built-in ones: what competes, the study, the audit, the page.

Users come in through ``dpjax.compare`` and the command ``dpjax compare``.
"""

from dpjax.comparison.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]
