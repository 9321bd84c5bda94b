#!/usr/bin/env bash
# Guess: A table partitioned by the float column epsilon has this column back as floats.
# Fact: pandas reads it as categories of strings, "1" for 1.0, and `epsilon == 1.0` selects no
# row. polars reads floats from the same files.
# Versions: pandas 3.1.1, pyarrow 26.0.1, polars 2.1.0.
# Source: pyarrow/parquet/core.py, which discovers hive partitions with infer_dictionary=True, and
# the documentation of pyarrow.dataset.HivePartitioning. A schema sets other types.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet pandas==3.1.1 pyarrow==26.0.1 polars==2.1.0 numpy==2.4.6
env/bin/python - <<'END'
import sys

import pandas as pd
import polars as pl
import pyarrow as pa

print("pandas", pd.__version__, "pyarrow", pa.__version__, "polars", pl.__version__)
table = pd.DataFrame({"epsilon": [0.1, 1.0, float("inf")], "regret": [3.0, 2.0, 1.0]})
table.to_parquet("table", partition_cols=["epsilon"])
print("guess: floats, and one row with epsilon == 1.0")
read = pd.read_parquet("table")
rows = int((read.epsilon == 1.0).sum())
print("seen by pandas:", read.epsilon.tolist(), read.epsilon.dtype, "with", rows, "such rows")
other = pl.read_parquet("table/**/*.parquet", hive_partitioning=True)
print("seen by polars:", other["epsilon"].to_list(), other["epsilon"].dtype)
sys.exit(not (rows == 0 and other.filter(pl.col("epsilon") == 1.0).height == 1))
END
