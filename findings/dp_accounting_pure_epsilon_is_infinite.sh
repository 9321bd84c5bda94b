#!/usr/bin/env bash
# Guess: One Laplace release of scale 1 has epsilon 1 at delta = 0, in every accountant.
# Fact: The accountant by privacy loss distributions returns infinity at delta 0, and 1 at delta
# 1e-15. Without the accountant, the distribution itself returns infinity for scales 2, 10 and
# 100, but not for 1 and 3. For 100 Gaussian releases it is infinite at delta 1e-16, and the Renyi
# accountant returns 4.19.
# Versions: dp-accounting 0.6.0.
# Source: dp_accounting/pld: mass that truncation or rounding leaves is put at an infinite loss.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet dp-accounting==0.6.0
env/bin/python - <<'END'
import math
import sys
from importlib.metadata import version

import dp_accounting
from dp_accounting import pld, rdp

print("dp-accounting", version("dp-accounting"))
print("guess: epsilon 1 for one Laplace release of scale 1, and 1 / scale for others")
accountant = pld.PLDAccountant().compose(dp_accounting.LaplaceDpEvent(1.0))
pure, almost = accountant.get_epsilon(0.0), accountant.get_epsilon(1e-15)
print(f"seen: accountant {pure} at delta 0, {almost:.6f} at delta 1e-15")
law = pld.privacy_loss_distribution.from_laplace_mechanism
print("seen: distributions", {s: law(s).get_epsilon_for_delta(0.0) for s in (1, 2, 3, 10, 100)})
both = [
    kind().compose(dp_accounting.GaussianDpEvent(20.0), 100).get_epsilon(1e-16)
    for kind in (pld.PLDAccountant, rdp.RdpAccountant)
]
print(f"seen: 100 Gaussian releases at delta 1e-16: {both[0]} and {both[1]:.2f} by Renyi")
sys.exit(not (math.isinf(pure) and almost < 1.001 and math.isinf(both[0]) and both[1] < 5))
END
