"""The progress bar of a sweep."""

import sys

import jax
from tqdm import tqdm

# The seconds between two lines in a log, and from the start to the first.
_EVERY = 30.0


class Bar(tqdm):
    """A progress bar over rounds x trials. In the log of a job it writes a line every 30 seconds.

    Args:
      total: the number of rounds x trials, or of other units.
      progress: whether to show anything. Of several processes, only the first one does.
      unit: the name of the units.
    """

    def __init__(self, total: float, progress: bool, unit: str = "rounds x trials"):
        self.watched = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
        in_log = {} if self.watched else {"mininterval": _EVERY, "delay": _EVERY, "ncols": 0}
        super().__init__(
            total=total,
            unit=f" {unit}",
            unit_scale=unit == "rounds x trials",
            smoothing=0.0,
            miniters=1,
            disable=not (progress and jax.process_index() == 0),
            **in_log,
        )

    def say(self, words):
        """Show words after the bar. In a log they are in the next line."""
        self.set_postfix_str(words, refresh=self.watched)

    def skip_to(self, n):
        """Count the rounds x trials up to ``n``, which need not be played."""
        if not self.disable:
            self.initial += n - self.n
            self.n = n

    def display(self, msg=None, pos=None):
        """Show the bar, or write a line to the log."""
        if self.watched:
            return super().display(msg, pos)
        if msg is None:
            print(self, file=self.fp, flush=True)
        return True
