"""The sensitivity of mechanisms to several values of one user, over all choices of columns."""

import itertools
from functools import partial

import numpy as np
import pytest

from dpjax import mechanisms, privacy

FACTORIES = {name: getattr(mechanisms, name) for name in mechanisms.__all__ if name != "exact"} | {
    "kary, k = 3": partial(mechanisms.kary, k=3),
    "tree, one law": partial(mechanisms.tree, identical_law=True),
    "hybrid, totals": partial(mechanisms.hybrid, totals="separate"),
    "square_root, normalized": partial(mechanisms.square_root, normalized=True),
    "buffered, normalized": partial(mechanisms.buffered, normalized=True),
    "per_item, batches": partial(mechanisms.per_item, batch=3),
}
NORMALIZED = [name for name in FACTORIES if name.endswith("normalized")]


def largest(encoder, count, spacing):
    """The largest (L1, L2) norms of signed sums of ``count`` columns."""
    width = encoder.shape[1]
    if spacing is None:
        chosen = itertools.combinations(range(width), min(count, width))
    else:
        chosen = (range(first, width, spacing)[:count] for first in range(width))
    norms = np.zeros(2)
    for columns in chosen:
        for signs in itertools.product((1.0, -1.0), repeat=len(columns) - 1):
            moved = encoder[:, list(columns)] @ np.array([1.0, *signs])
            norms = np.maximum(norms, [np.abs(moved).sum(), np.linalg.norm(moved)])
    return norms


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize("spacing", [None, 1, 3])
def test_the_worst_columns_are_found(name, spacing):
    """Exactly, except for signs in ``stationary`` and if any columns of normalized ones count."""
    for horizon in (2, 10, 13):
        mechanism = FACTORIES[name](horizon)
        _, encoder = mechanism.matrices()
        for count in (1, 2, 3, 4):
            found = privacy.user_sensitivity(mechanism, count, spacing=spacing)
            l1, l2 = largest(encoder, count, spacing)
            if name == "stationary":
                assert l1 <= found.l1 * (1.0 + 1e-9)
            else:
                assert found.l1 == pytest.approx(l1, rel=1e-9)
            if found.exact:
                assert found.l2 == pytest.approx(l2, rel=1e-9)
            assert l2 <= found.l2 * (1.0 + 1e-9) and found.l2 <= 1.03 * l2
            if name != "stationary" and not (name in NORMALIZED and spacing is None):
                assert found.exact
            if count == 1 and name != "unbounded":  # whose declared columns are infinite
                assert found[:2] == pytest.approx(mechanism.sensitivity, rel=1e-9)


def test_adjacent_values_of_a_tree_cost_nearly_k_times_one_value():
    """Between sqrt k and k times. The worst columns are adjacent; distant ones share few nodes."""
    mechanism = mechanisms.tree(1024, noise="gaussian")
    (_, one), k = mechanism.sensitivity, 16
    worst = privacy.user_sensitivity(mechanism, k)
    adjacent = privacy.user_sensitivity(mechanism, k, spacing=1)
    apart = privacy.user_sensitivity(mechanism, k, spacing=64)
    assert worst.l2 == pytest.approx(adjacent.l2)
    assert k**0.5 * one < apart.l2 < 0.7 * worst.l2 and 0.7 * k * one < worst.l2 < k * one
    # With noise on each item, k values are in k releases.
    items = mechanisms.per_item(1024, noise="gaussian")
    assert privacy.user_sensitivity(items, k)[:2] == (16.0, 4.0)
