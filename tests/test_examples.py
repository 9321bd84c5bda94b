"""The examples run, and show the stated results."""

import jax
import numpy as np
import pytest

from dpjax import audit, environments, simulate
from dpjax.cli.learner_files import find_factory
from tests import ROOT, script


def test_a_classification_data_set_becomes_a_contextual_bandit():
    """Two linearly separable classes, with fewer mistakes than by chance."""
    module = script("examples/classification.py")
    rng = np.random.default_rng(0)
    measured = rng.normal(size=(300, 2))
    labels = (measured @ [1.0, -1.0] > 0).astype(int)
    wrong, fitted = module.play(measured, labels, 2000, (1.0, np.inf), 4, progress=False)
    assert fitted.mean() < 0.1 and wrong[1].mean() < 0.2
    assert wrong[1].mean() < wrong[0].mean() < 0.55


@pytest.mark.usefixtures("quick_compilation")
def test_the_learner_of_a_file_learns_and_spends_what_it_declares():
    _, greedy = find_factory(str(ROOT / "examples" / "mine.py"))
    easy = environments.bernoulli([0.1, 0.9, 0.9], regret="pseudo")
    played = simulate(greedy(512, 3, epsilon=np.inf), easy, jax.random.key(0))
    assert 0.0 < float(played.regret[-1]) < 0.25 * 512 * 0.8
    learner = greedy(16, 3, epsilon=1.0)
    pairs = audit.pairs_for(learner, 16, jax.random.key(0))
    found = audit.verdict(learner, pairs, jax.random.key(1))
    assert found.failed == () and found.spent.max() == pytest.approx(1.0, rel=1e-3)


def test_a_recording_is_easier_than_its_adversary(capsys):
    """The dartboard plays both, at a small size; the more it switches, the smaller its regret."""
    module = script("examples/own_recording.py")
    assert len((ROOT / "examples" / "own_recording.py").read_text().splitlines()) <= 100
    live, again = module.main(horizon=64, trials=3, shares=2).axes[1].get_lines()[:2]
    regret = live.get_ydata()
    assert (regret > again.get_ydata()).all() and regret[0] > 0.8 > 0.6 > regret[1]
    assert "budget" in capsys.readouterr().out


@pytest.mark.usefixtures("quick_compilation")
def test_one_loss_with_less_noise_is_worth_more_than_all_of_a_semi_bandit():
    """With 4 of 16 entries and epsilon = 1, at a small size, trial by trial."""
    module = script("examples/semi_bandits.py")
    module.SETS = {4: module.SETS[4]}
    _, table = module.main(1024, trials=8, epsilons=(1.0,))
    (row,) = table.to_dict("records")
    assert row["all minus one"] > 3 * row["standard error"] > 0
    assert row["all"] - row["one"] == pytest.approx(row["all minus one"], abs=1e-2)


@pytest.mark.usefixtures("quick_compilation")
def test_a_lower_threshold_is_better_until_its_draws_run_out():
    """At a small size: it wins if the best expert has no losses, and loses if it has many."""
    module = script("examples/near_realizable.py")
    module.LEARNERS = {name: module.LEARNERS[name] for name in ("sparse vector", "lower")}
    _, table = module.main(horizon=2048, trials=16, best=(0.0, 0.2), epsilons=(10,))
    safe, low = (table.sel(learner=name).values.ravel() for name in ("sparse vector", "lower"))
    assert low[0] < 0.5 * safe[0] and low[1] > 2 * safe[1]


@pytest.mark.usefixtures("quick_compilation")
def test_printed_experts_state_what_they_do_not_have(capsys):
    """At a small size: one row per calibration, and Hedge declares less epsilon than its paper."""
    module = script("examples/printed_experts.py")
    module.FACTORIES = {"hedge": module.FACTORIES["hedge"]}
    module.main(horizon=256, trials=4, epsilons=(1.0,))
    derived, printed = capsys.readouterr().out.splitlines()[-2:]
    assert "paper nan, declared 1," in derived and "paper 1, declared 0.851," in printed


@pytest.mark.usefixtures("quick_compilation")
def test_a_private_trial_needs_more_patients(capsys):
    """Than the lower bound, and than a trial without privacy. At a small size."""
    module = script("examples/trial.py")
    module.LEARNERS = {"central": {"DP-SE": module.LEARNERS["central"]["DP-SE"]}}
    module.PLAIN = {"LUCB": module.PLAIN["LUCB"]}
    data, table = module.main(str(ROOT / module.FILE), delta=0.05, epsilons=(0.1,), trials=50)
    assert "0.927273" in capsys.readouterr().out  # 51 of 55 patients with streptomycin
    private, plain = table.to_dict("records")
    assert private["time"] > plain["time"] > plain["lower_bound"]
    assert private["lower_bound"] > plain["lower_bound"] and plain["epsilon"] == np.inf
    assert module.figure(data).axes[0].get_xlabel() == "patients"


def test_no_mechanism_is_below_the_lower_bound():
    """The bound from the closed form and by an SVD; the least mean error; all rows, also binned."""
    module, counts = script("examples/errors_and_memory.py"), (2, 5, 32, 64)
    for count in counts:
        values = np.linalg.svd(np.tri(count), compute_uv=False)
        assert module.lower_bound(count) == pytest.approx(values.sum() / count, rel=1e-12)
        assert module.lower_bound(count) > (2 + np.log((2 * count + 1) / 3)) / np.pi  # Matousek
    found = module.table(counts)
    bounds = [cell[0] for cell in found.pop("lower bound")]
    least = [module.least_error(count) for count in counts]
    assert all(1.0 < low / bound < 1.06 for low, bound in zip(least, bounds, strict=True))
    for cells in found.values():
        for (mean, largest, _), lowest in zip(cells, least, strict=True):
            assert lowest <= mean * (1.0 + 1e-9) <= largest * (1.0 + 2e-9)
    # The bounds have power: the best mechanism is close to them.
    best = found["square_root(normalized=True)"]
    assert all(mean < 1.02 * low for (mean, _, _), low in zip(best, least, strict=True))


def test_bins_keep_few_numbers_and_the_error():
    """Each row's bins refine the next row's, so that their sums can be merged."""
    module = script("examples/errors_and_memory.py")
    before = set()
    for t, starts in enumerate(module.bins(300, most=3)):
        assert starts[0] == 0 and starts[-1] == t and set(starts) <= before | {t}
        before = set(starts)
    count = 300
    mean, largest, kept = module.binned_square_root(count)
    exact = module.declared(module.ROWS["square_root"], count)
    assert kept < 50 < count and mean < 1.001 * exact[0] and largest < 1.001 * exact[1]


def test_factors_of_sums_and_of_means_at_their_users():
    """Bands are better for users at a fixed distance, and the factor of means for one round."""
    module = script("examples/running_means.py")
    for make in module.ROWS.values():
        mechanism = make(65)
        decoder, encoder = mechanism.matrices()
        np.testing.assert_allclose(mechanism.variance(), np.sum(decoder**2, axis=1), rtol=1e-9)
        if make is not module.batches:
            np.testing.assert_allclose(decoder @ encoder, np.tri(65, 64, -1), atol=1e-9)
    # A batch's mean, times t.
    decoder, encoder = module.batches(65).matrices()
    np.testing.assert_allclose((decoder @ encoder)[[1, 3, 9], :9], [
        [1, *[0] * 8], [0, 3, *[0] * 7], [*[0] * 4, *[9 / 4] * 4, 0],
    ])  # fmt: skip

    found = {name: module.errors(make(1025), 16, 64) for name, make in module.ROWS.items()}
    assert min(found, key=lambda name: found[name][0]) == "square_root(bands=32)"
    best = sorted(found, key=lambda name: found[name][1])[:3]
    assert best == ["harmonic(bands=16)", "square_root(bands=8)", "harmonic"]
    assert found["square_root"][1] > 2.4 * found["square_root(bands=8)"][1]
    once = {name: module.errors(make(257))[1] for name, make in module.ROWS.items()}
    assert min(once, key=once.get).startswith("harmonic")
    t = np.arange(1, 257)[:, None]
    assert once["harmonic"] > module.least_error(np.tri(256) / t) > 0.9 * once["harmonic"]
