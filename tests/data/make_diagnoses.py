"""Make diagnoses.csv, the real loss table of the tests, and patients.csv of the notebooks.

Needs scikit-learn, which tests and notebooks do not.

Data: "Breast Cancer Wisconsin (Diagnostic)", W. Wolberg, O. Mangasarian, N. Street and W. Street,
UCI Machine Learning Repository, 1995, licence CC BY 4.0, as scikit-learn ships it
(sklearn.datasets.load_breast_cancer): 569 patients in the order of the file.

A round is a patient, and an arm is a rule with one measurement: "malignant if it exceeds the median
over all patients". The loss is 1 if the rule is wrong about the patient, else 0. A patient's
diagnosis decides the losses of exactly one round.

patients.csv has three measurements of each patient, and 1 if the diagnosis is malignant, else 0.
"""

import csv
from pathlib import Path

import numpy as np

RULES = ["worst area", "mean concavity", "mean texture", "mean smoothness", "mean symmetry"]
MEASUREMENTS = ["worst area", "mean texture", "worst smoothness"]


def main():
    """Writes the tables beside this file."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()

    def measured(names):
        return data.data[:, [list(data.feature_names).index(name) for name in names]]

    rules = measured(RULES)
    malignant = data.target == list(data.target_names).index("malignant")
    losses = (rules > np.median(rules, axis=0)) != malignant[:, None]
    write("diagnoses.csv", RULES, losses.astype(int).tolist())
    patients = zip(measured(MEASUREMENTS).tolist(), malignant.astype(int).tolist(), strict=True)
    write("patients.csv", [*MEASUREMENTS, "malignant"], [[*row, label] for row, label in patients])


def write(name, header, rows):
    """Writes a table beside this file."""
    with open(Path(__file__).with_name(name), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    print(f"{name}: {len(rows)} rows, means {np.mean(rows, axis=0).round(3)}")


if __name__ == "__main__":
    main()
