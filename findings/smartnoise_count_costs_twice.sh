#!/usr/bin/env bash
# Guess: With epsilon 1 in `Privacy`, a count without groups costs epsilon 1, and a mean 2, for a
# sum and a count.
# Fact: The count costs 2 and the mean 3. A hidden count of distinct users is released for a
# threshold on small groups, even if there are no groups. With `censor_dims: False` the costs are
# 1 and 2.
# Versions: smartnoise-sql 1.0.10, opendp 0.14.2.
# Source: snsql/sql/private_reader.py: get_privacy_cost, whose example sets censor_dims to False,
# and _get_keycount_position.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet smartnoise-sql==1.0.10 opendp==0.14.2 pandas==2.3.3 numpy==2.4.6
env/bin/python - <<'END'
import sys
from importlib.metadata import version

import numpy as np
import pandas as pd
from snsql import Privacy, from_df

print("smartnoise-sql", version("smartnoise-sql"))
print("guess: COUNT(*) costs 1, AVG(x) costs 2")
data = pd.DataFrame({"user": range(100), "x": np.linspace(0.0, 10.0, 100)})
cost = {}
for censor in (True, False):
    table = {
        "user": {"type": "int", "private_id": True},
        "x": {"type": "float", "lower": 0.0, "upper": 10.0},
        "rows": 100, "censor_dims": censor,
    }
    privacy = Privacy(epsilon=1.0, delta=1e-5)
    reader = from_df(data, metadata={"": {"": {"t": table}}}, privacy=privacy)
    queries = "SELECT COUNT(*) FROM t", "SELECT AVG(x) FROM t"
    cost[censor] = [round(float(reader.get_privacy_cost(query)[0]), 6) for query in queries]
print("seen: the costs of both by censor_dims, true by default:", cost)
sys.exit(cost != {True: [2.0, 3.0], False: [1.0, 2.0]})
END
