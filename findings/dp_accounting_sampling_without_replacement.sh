#!/usr/bin/env bash
# Guess: A random subset of 999 of 1000 records costs no more than all 1000 records: sampling
# never hurts.
# Fact: For Gaussian noise of multiplier 1 at delta 1e-5, epsilon is 4.73 for all records, 4.91
# for 999 and 4.78 for 900. The bound for samples is above the exact divergence, which is used
# only for the full set.
# Versions: dp-accounting 0.6.0.
# Source: dp_accounting/rdp/rdp_privacy_accountant.py: the bound of Wang, Balle & Kasiviswanathan
# 2019 for Gaussian noise, with a special case for the ratio 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet dp-accounting==0.6.0
env/bin/python - <<'END'
import sys
from importlib.metadata import version

import dp_accounting
from dp_accounting import rdp

print("dp-accounting", version("dp-accounting"))
print("guess: epsilon increases with the size of the sample")
epsilon = {}
for size in (500, 900, 999, 1000):
    accountant = rdp.RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    gaussian = dp_accounting.GaussianDpEvent(1.0)
    accountant.compose(dp_accounting.SampledWithoutReplacementDpEvent(1000, size, gaussian))
    epsilon[size] = round(float(accountant.get_epsilon(1e-5)), 3)
print("seen: epsilon by size of the sample of 1000:", epsilon)
sys.exit(not (epsilon[999] > epsilon[900] > epsilon[1000] > epsilon[500]))
END
