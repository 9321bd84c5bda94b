"""MIFA-Lab/LDPbandit2020, the code of Zheng et al. 2020: the noise of local LinUCB.

    python -m benchmarks.referees.local_linucb --clone LDPbandit2020

A user sends x x^T and y x with Gaussian noise, for ||x|| <= 1 and |y| <= 1. From one user to
another, the vector and the entries on and above the diagonal change by at most sqrt(4.5). If c is
the cosine of x and x', the squared change is 2 - 2 c^2 + 2 + 2 c, which is largest at c = 1 / 2.
"""

import numpy as np

from benchmarks.referees import frame
from dpjax import privacy
from dpjax.core._versions import enable_x64

DIM, DRAWS, DELTA = 3, 4000, 1e-5


def largest_change(count=20_000):
    """The largest change between two messages, by a random and then a local search."""
    random = np.random.default_rng(0)
    upper = np.triu_indices(2)
    users, best = random.normal(size=(count, 2, 3)), 0.0
    for width in (1.0, 0.1, 0.01, 0.001):
        vectors, values = users[..., :2], np.clip(users[..., 2:], -1.0, 1.0)
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1.0)
        squares = vectors[..., :, None] * vectors[..., None, :]
        messages = np.concatenate([squares[(..., *upper)], vectors * values], axis=-1)
        changes = np.linalg.norm(messages[:, 0] - messages[:, 1], axis=-1)
        best = max(best, changes.max())
        users = users[changes.argmax()] + width * random.normal(size=users.shape)
    return best


def rows(clone):
    """A row for each comparison."""
    del clone
    from src.linucb import LinUCB

    learner = LinUCB(DIM, epsilon=1.0, delta=DELTA, T=1000)
    learner.update_status(1)
    np.random.seed(0)
    arm = np.eye(1, DIM, dtype=np.float32)
    errors = []
    for _ in range(DRAWS):
        matrix, vector, _ = learner.construct(arm, np.ones(1))
        errors.append([matrix[0, 1], matrix[1, 1], matrix[0, 0] - 1.0, vector[0] - 1.0, vector[1]])
    with enable_x64(True):
        least = float(privacy.gaussian_scale(np.float64(4.5**0.5), 1.0, DELTA))
        epsilon = float(privacy.gaussian_epsilon(np.float64(4.5**0.5) / learner._sigma, DELTA))
    commented = 4.0 * np.sqrt(2.0 * np.log(1.25 / DELTA))
    normal = np.random.default_rng(1).normal(size=50_000)
    return [
        frame.compare(
            "its noise, squares in units of the scale below", normal**2,
            np.ravel(errors) ** 2 / learner._sigma**2,
        ),
        frame.equal("largest change of a message", 4.5**0.5, largest_change(), 1e-3),
        frame.equal("noise at epsilon = 1, delta = 1e-5", least, learner._sigma, 1e-3, "differ"),
        frame.equal("the epsilon of its noise", 1.0, epsilon, 1e-3, "differ"),
        frame.equal(
            "its noise, and that of the comment above the line", commented, learner._sigma, 1e-3,
            "differ",
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    frame.finish(rows(frame.arguments(__doc__, "https://github.com/MIFA-Lab/LDPbandit2020").clone))
