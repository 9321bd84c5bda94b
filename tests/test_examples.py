"""The examples run, and say what they should."""

import importlib.util

import numpy as np

from tests import ROOT

PATH = ROOT / "examples" / "classification.py"


def test_a_classification_data_set_becomes_a_contextual_bandit():
    """Two classes that a line divides: features, losses, and fewer mistakes than by chance."""
    spec = importlib.util.spec_from_file_location("classification", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng = np.random.default_rng(0)
    measured = rng.normal(size=(300, 2))
    labels = (measured @ [1.0, -1.0] > 0).astype(int)
    features, losses = module.as_bandit(measured, labels, 1000)
    assert features.shape == (1000, 2, 6) and losses.shape == (1000, 2)
    assert np.linalg.norm(features, axis=2).max() <= 1.0 + 1e-9
    np.testing.assert_array_equal(losses.sum(axis=1), 0.0)
    assert (features[:, 0, 3:] == 0.0).all() and (features[:, 1, :3] == 0.0).all()
    wrong, fitted = module.play(measured, labels, 2000, (1.0, np.inf), 4, progress=False)
    assert fitted < 0.1 and wrong[1].mean() < 0.2
    assert wrong[1].mean() < wrong[0].mean() < 0.55
