"""Regular lines in logs for the parts of a command that have no progress bar."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

# Seconds between lines.
EVERY = 30.0


@contextmanager
def alive(words: str) -> Iterator[None]:
    """Within the block, write the elapsed time to the log every 30 seconds.

    Nothing is written to a terminal, or while a progress bar writes its own lines.

    Args:
      words: the name of the work.
    """
    begin, done = time.perf_counter(), threading.Event()

    def write():
        while not done.wait(EVERY):
            progress = sys.modules.get("dpjax.engine.progress")  # which takes a while to import
            if progress is None or not progress.Bar.in_logs:
                seconds = time.perf_counter() - begin
                print(f"{words}: {seconds:.0f} seconds so far", file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        threading.Thread(target=write, daemon=True).start()
    try:
        yield
    finally:
        done.set()
