#!/usr/bin/env bash
# Guess: `load_svmlight_file` reads back what `dump_svmlight_file` wrote, except for empty columns
# at the end.
# Fact: If the first column is all zeros, the columns move one place to the left. Indices are then
# all positive, and by default the file is taken to count from 1, although the default of the
# writer counts from 0.
# Versions: scikit-learn 1.9.1.
# Source: sklearn/datasets/_svmlight_format_io.py. Its documentation states the defaults:
# zero_based is "auto" in the reader and True in the writer.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
env/bin/python - <<'END'
import sys

import numpy as np
import sklearn
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

print("scikit-learn", sklearn.__version__)
features = np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 0.0]])
dump_svmlight_file(features, [0, 1], "features.svm")
print("guess:", features.tolist())
read = load_svmlight_file("features.svm")[0].toarray()
print("seen:", read.tolist())
sys.exit(read.tolist() != [[1.0, 2.0], [3.0, 0.0]])
END
