"""The progress bar of a sweep."""

import sys
import threading
from typing import ClassVar

import jax
import numpy as np
from tqdm import tqdm

# All times are in seconds. The time between two lines in a log, and from the start to the first.
_EVERY = 30.0
# If a block or a compilation takes longer than this, a line is written while it runs. A terminal is
# refreshed more often.
_SILENT, _REFRESH = 30.0, 1.0
# After this time without progress, its length is shown.
_WAITING = 5.0


class Bar(tqdm):
    """A progress bar over rounds x trials. In the log of a job it writes a line every 30 seconds.

    Args:
      total: the number of rounds x trials, or of other units.
      progress: whether to show anything. Of several processes, only the first one does.
      unit: the name of the units.
    """

    in_logs: ClassVar[int] = 0  # how many bars write lines into a log now

    def __init__(self, total: float, progress: bool, unit: str = "rounds x trials"):
        self.quiet: threading.Event | None = None
        self.advanced = np.inf  # the time of the last update
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
        if not self.disable:
            self.advanced = self._time()
            Bar.in_logs += not self.watched
            self.quiet = threading.Event()
            threading.Thread(target=self._write_lines, args=[self.quiet], daemon=True).start()

    @property
    def format_dict(self):
        """The contents of the bar, with the seconds since the last progress if they are many."""
        contents, waiting = super().format_dict, self._time() - self.advanced
        if waiting >= _WAITING:
            words = contents["postfix"], f"{waiting:.0f} s since the last progress"
            contents["postfix"] = ", ".join(filter(None, words))
        return contents

    def _write_lines(self, quiet):
        """Show the bar after each period without a line, until the event is set."""
        period = _REFRESH if self.watched else _SILENT
        while not quiet.wait(max(0.0, self.last_print_t + period - self._time())):
            if self._time() - self.last_print_t >= period:
                self.last_print_t = self._time()
                self.refresh()

    def close(self):
        """End the bar."""
        if self.quiet is not None:
            Bar.in_logs -= not self.watched
            self.quiet.set()
            self.quiet = None
        super().close()

    def update(self, n=1):
        """Count rounds x trials that were played."""
        if self.disable:
            return False
        self.advanced = self._time()
        return super().update(n)

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
