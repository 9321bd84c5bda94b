"""A classification data set as a contextual bandit, with and without joint privacy.

    python examples/classification.py

A round is the visit of a patient, and an arm is a diagnosis. The learner sees only whether its
diagnosis was right. The features of arm k are the measurements in the k-th of as many blocks as
there are arms, so that each diagnosis has its own coefficients. Patients are drawn with
replacement: the declared privacy is that of a visit, not of a patient who comes again. The data
are those of tests/data/make_diagnoses.py.
"""

from pathlib import Path

import jax
import numpy as np

from dpjax import environments, learners, sweep

PATIENTS = Path(__file__).parents[1] / "tests" / "data" / "patients.csv"


def as_bandit(measurements, labels, rounds, seed=0):
    """Features (T, K, K (p + 1)) of length at most 1 and losses (T, K), -1 where right, else 1.

    Args:
      measurements: (n, p) numbers.
      labels: (n,) classes 0 .. K - 1.
      rounds: T; so many cases are drawn with replacement from the n.
      seed: the seed of that draw.
    """
    measurements, labels = np.asarray(measurements, np.float64), np.asarray(labels)
    classes = int(labels.max()) + 1
    centred = (measurements - measurements.mean(axis=0)) / measurements.std(axis=0)
    context = np.concatenate([centred, np.ones((len(centred), 1))], axis=1)
    # Outliers are scaled down to the length of most cases.
    length = np.linalg.norm(context, axis=1, keepdims=True)
    context = context / np.maximum(length, np.quantile(length, 0.9))
    case = np.random.default_rng(seed).integers(len(labels), size=rounds)
    features = np.einsum("kj,tp->tkjp", np.eye(classes), context[case])
    losses = np.where(np.arange(classes)[None] == labels[case][:, None], -1.0, 1.0)
    return features.reshape(rounds, classes, -1), losses


def play(measurements, labels, rounds, epsilons, seeds, progress=True):
    """The share of wrong diagnoses, (epsilons, seeds), and that of the least-squares fit."""
    features, losses = as_bandit(measurements, labels, rounds)

    def game(epsilon):
        learner = learners.linucb(
            rounds, features.shape[2], epsilon=epsilon, delta=rounds**-1.5, parameter_bound=2.0
        )
        return learner, environments.contextual_table(features, losses)

    result = sweep(
        game, np.array(epsilons), seeds, jax.random.key(0), checkpoints=1, progress=progress
    )
    wrong = 0.5 * (1.0 + np.asarray(result.tally.suffered) / rounds)
    return wrong, 0.5 * (1.0 + float(result.tally.compared[0, 0]) / rounds)


def main(rounds=2**15, seeds=16):
    """Prints one line per epsilon."""
    *measurements, malignant = np.loadtxt(PATIENTS, delimiter=",", skiprows=1).T
    labels = malignant.astype(int)
    epsilons = (0.1, 1.0, 10.0, np.inf)
    wrong, fitted = play(np.stack(measurements, axis=1), labels, rounds, epsilons, seeds)
    for epsilon, shares in zip(epsilons, wrong, strict=True):
        error = shares.std(ddof=1) / len(shares) ** 0.5
        print(f"epsilon {epsilon:g}: {shares.mean():.3f} wrong, standard error {error:.3f}")
    print(f"least squares in hindsight: {fitted:.3f}; always the same diagnosis: "
          f"{min(np.bincount(labels)) / len(labels):.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
