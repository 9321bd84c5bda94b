"""Makes diagnoses.csv, the real loss table of the tests. Needs scikit-learn, which tests do not.

Data: "Breast Cancer Wisconsin (Diagnostic)", W. Wolberg, O. Mangasarian, N. Street and W. Street,
UCI Machine Learning Repository, 1995, licence CC BY 4.0, as scikit-learn ships it
(sklearn.datasets.load_breast_cancer): 569 patients in the order of the file.

A round is a patient, an arm a rule of one measurement: "malignant if it exceeds the median over
all patients". The loss is 1 where the rule is wrong about the patient, else 0. One patient's
diagnosis decides the losses of exactly one round.
"""

import csv
from pathlib import Path

import numpy as np

RULES = ["worst area", "mean concavity", "mean texture", "mean smoothness", "mean symmetry"]


def main():
    """Writes the table beside this file."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    columns = [list(data.feature_names).index(name) for name in RULES]
    measured = data.data[:, columns]
    says_malignant = measured > np.median(measured, axis=0)
    malignant = data.target == list(data.target_names).index("malignant")
    losses = (says_malignant != malignant[:, None]).astype(int)
    path = Path(__file__).with_name("diagnoses.csv")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(RULES)
        writer.writerows(losses.tolist())
    print(f"{path}: {losses.shape}, mean losses {losses.mean(axis=0).round(3)}")


if __name__ == "__main__":
    main()
