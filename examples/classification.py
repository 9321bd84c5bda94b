"""Play a classification data set as a contextual bandit, with and without joint privacy.

    python examples/classification.py

A round is a patient's visit, and an arm is a diagnosis. The learner sees only whether its diagnosis
was right. Patients are drawn with replacement: the declared privacy protects one visit, not all
visits of a patient. The data come from tests/data/make_diagnoses.py.
"""

from pathlib import Path

import jax
import numpy as np

from dpjax import environments, learners, sweep

PATIENTS = Path(__file__).parents[1] / "tests" / "data" / "patients.csv"


def play(measurements, labels, rounds, epsilons, seeds, progress=True):
    """Shares of wrong diagnoses, by the learner and by the least-squares fit, (epsilons, seeds)."""
    environment = environments.classification(measurements, labels)

    def game(epsilon):
        learner = learners.linucb(
            rounds, environment.action_set.dim, epsilon=epsilon, delta=rounds**-1.5,
            parameter_bound=2.0,
        )  # fmt: skip
        return learner, environment

    result = sweep(
        game, np.array(epsilons), seeds, jax.random.key(0), checkpoints=1, progress=progress
    )
    return [0.5 * (1.0 + np.asarray(total) / rounds) for total in result.tally]


def main(rounds=2**15, seeds=16):
    """Prints one line per epsilon."""
    *measurements, malignant = np.loadtxt(PATIENTS, delimiter=",", skiprows=1).T
    labels = malignant.astype(int)
    epsilons = (0.1, 1.0, 10.0, np.inf)
    wrong, fitted = play(np.stack(measurements, axis=1), labels, rounds, epsilons, seeds)
    for epsilon, shares in zip(epsilons, wrong, strict=True):
        error = shares.std(ddof=1) / len(shares) ** 0.5
        print(f"epsilon {epsilon:g}: {shares.mean():.3f} wrong, standard error {error:.3f}")
    print(f"least squares in hindsight: {fitted.mean():.3f}; always the same diagnosis: "
          f"{min(np.bincount(labels)) / len(labels):.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
