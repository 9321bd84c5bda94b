"""apple/ml-shuffling-amplification, the code of Feldman, McMillan & Talwar 2021: shuffling.

    python -m benchmarks.referees.shuffled_clones --clone ml-shuffling-amplification

Their code sums over blocks of numbers of clones, and returns an upper and a lower bound on epsilon.
dpjax sums over every number. Its epsilon should lie between them, up to the error of their
bisection.
"""

import contextlib
import io

from benchmarks.referees import frame
from dpjax import privacy

BATCHES = ((1000, 1.0, 1e-6), (10_000, 2.0, 1e-6), (10_000, 4.0, 1e-8))


def rows(clone):
    """A row for each comparison."""
    del clone
    import computeamplification as theirs

    made = []
    for users, local, delta in BATCHES:
        exact = privacy.shuffle_epsilon(local, delta, users, bound="clones")
        with contextlib.redirect_stdout(io.StringIO()):
            bounds = [
                theirs.numericalanalysis(users, local, delta, 20, 1, upper)
                for upper in (False, True)
            ]
        title = f"{users} users, epsilon {local:g} each, delta {delta:g}"
        made.append(frame.between(f"{title}: sum over clones", exact, bounds))
    return made


if __name__ == "__main__":
    options = frame.arguments(__doc__, "https://github.com/apple/ml-shuffling-amplification")
    frame.finish(rows(options.clone))
