"""Plants realistic errors in a copy of the package, and reports which tests catch each of them.

    python -m tests.planted                          # all errors, in results/planted.csv
    python -m tests.planted --rooms learners noise   # those of two folders
    python -m tests.planted --whole                  # then all default tests, for errors not caught

Each error of ERRORS replaces one text of a file. For each error, pytest runs the default tests that
are near the file, and then the slow tests that are near it, until a test fails. NEAR maps files to
these tests. The line of an error in the CSV file has the tier that caught it ("default", "slow" or
"no"), the first test that failed, and the seconds of all runs. A run ends after --limit seconds.
Errors that have a line are not planted again. Then the tests that caught errors run without any
error. If some of them fail, their errors are planted again without these tests.
"""

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import ROOT

COLUMNS = ["name", "file", "tier", "test", "seconds"]
TOO_LONG = "not all tests ran"
DEFAULT = "not slow and not search and not accelerator"


def room_of(file: str) -> str:
    """The folder or module of a file below dpjax, such as "noise" or "feedback"."""
    return file.partition("/")[0].removesuffix(".py")


def near(file: str) -> list[str]:
    """Arguments of pytest that select the tests near a file: those of the longest key of NEAR."""
    keys = [key for key in NEAR if file == key or file.startswith(key + "/")]
    words = (
        NEAR[max([*keys, room_of(file)], key=len)]
        .format(module=Path(file).stem.lstrip("_"))
        .split()
    )
    patterns, rest = words, []
    if "-k" in words:
        at = words.index("-k")
        patterns, rest = words[:at], ["-k", " ".join(words[at + 1 :])]
    found = [path for pattern in patterns for path in sorted(ROOT.glob(f"tests/{pattern}"))]
    return [*dict.fromkeys(str(path.relative_to(ROOT)) for path in found), *rest]


def copied(folder: Path) -> None:
    """Copy the tracked files as they are now, and assert that Python imports the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    command = [sys.executable, "-c", "import dpjax; print(dpjax.__file__)"]
    found = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=True
    )
    assert Path(found.stdout.strip()).is_relative_to(folder), "the copy must be imported"


def environment(folder: Path) -> dict[str, str]:
    """Environment variables for Python, so that it imports the copy and compiles anew."""
    return os.environ | {"PYTHONPATH": str(folder), "DPJAX_CACHE": "off"}


def run(folder: Path, limit: float, *options: str) -> tuple[int, str]:
    """The exit status and output of pytest in the copy; 0 and TOO_LONG after ``limit`` seconds."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *options]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment(folder), capture_output=True, text=True,
            timeout=limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 0, TOO_LONG
    return done.returncode, done.stdout


def failed(output: str) -> list[str]:
    """The ids of the tests that failed, from the output of pytest."""
    return re.findall(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.*?)?)(?: - .*)?$", output, re.MULTILINE)


def caught(folder: Path, selection: list[str], limit: float, whole: bool) -> tuple[str, str]:
    """The tier that catches the planted error, and the first test that fails."""
    tiers = [("default", DEFAULT, selection), ("slow", "slow", selection)]
    tiers += [("default", DEFAULT, ["tests"])] * whole
    left = ""
    for tier, mark, options in tiers:
        status, output = run(folder, limit, "-x", "-m", mark, *options)
        if status not in (0, 5):  # 5: no test was selected
            return tier, (failed(output) or [output[-200:]])[0]
        left = TOO_LONG if output == TOO_LONG else left
    return "no", left


def main():
    """Plants the errors that have no line yet, and prints the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    rooms = sorted(set(map(room_of, ERRORS)))
    out = Path("results/planted.csv")
    parser.add_argument("--rooms", nargs="+", metavar="ROOM", choices=rooms, default=rooms)
    parser.add_argument("--out", type=Path, default=out, metavar="FILE")
    parser.add_argument("--limit", type=float, default=180.0, metavar="SECONDS", help="of one run")
    parser.add_argument("--whole", action="store_true", help="repeat lines of errors not caught")
    options = parser.parse_args()
    rows, checked, broken = {}, {"", TOO_LONG}, []
    if options.out.exists():
        with open(options.out, newline="") as file:
            rows = {row["name"]: row for row in csv.DictReader(file)}
    if options.whole:
        rows = {name: row for name, row in rows.items() if row["tier"] != "no"}
    left = [(file, *error) for file, errors in ERRORS.items() for error in errors
            if room_of(file) in options.rooms]  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        while True:
            tests = sorted({row["test"] for row in rows.values()} - checked)
            checked |= {*tests}
            found = failed(run(folder, 3600.0, "-m", "", *tests)[1]) if tests else []
            broken += [option for test in found for option in ("--deselect", test)]
            rows = {name: row for name, row in rows.items() if row["test"] not in found}
            if found:
                print("these tests fail without any error:", *found, sep="\n  ", flush=True)
            waiting = [error for error in left if error[-1] not in rows]
            if not waiting:
                break
            for error in waiting:
                row = planted(folder, *error, broken, options)
                rows[row["name"]] = row
                write(options.out, rows)
    print(counts(rows))


def planted(folder, file, old, new, what, broken, options) -> dict:
    """The line of one error, which is in the copy only during its runs."""
    plain = (ROOT / "dpjax" / file).read_text()
    (folder / "dpjax" / file).write_text(plain.replace(old, new))
    begin = time.monotonic()
    tier, test = caught(folder, [*near(file), *broken], options.limit, options.whole)
    (folder / "dpjax" / file).write_text(plain)
    seconds = round(time.monotonic() - begin)
    print(f"{tier:8}{seconds:4} s  {file}: {what}  {test}", flush=True)
    return dict(zip(COLUMNS, (what, file, tier, test, seconds), strict=True))


def write(out: Path, rows: dict) -> None:
    """Write all lines."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(out, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


def counts(rows: dict) -> str:
    """The number of errors by folder and tier."""
    tiers = ["default", "slow", "no"]
    lines = ["room          " + "".join(f"{tier:>9}" for tier in tiers)]
    rooms = dict.fromkeys(room_of(row["file"]) for row in rows.values())
    for room in [*rooms, ""]:
        mine = [row["tier"] for row in rows.values() if room in ("", room_of(row["file"]))]
        lines.append(f"{room or 'all':14}" + "".join(f"{mine.count(tier):9}" for tier in tiers))
    return "\n".join(lines)


# Arguments of pytest below tests/. A pattern may contain {module}, and after -k follows an
# expression. The longest key that is a file, or a folder of it, counts.
NEAR = {
    "core": "test_wrong_uses.py test_arrays.py",
    "core/generators": "test_generators.py engine/test_batch_last.py",
    "feedback": "test_batches.py test_doctests.py learners/test_one_point.py "
    "-k batches or feedback or two_point",
    "domains": "domains test_action_sets.py",
    "domains/loss_sets.py": "domains/test_domains.py learners/test_ftrl.py",
    "domains/lotteries.py": "test_golden.py learners/test_semi_bandits.py -k semi_bandit",
    "maths": "maths/test_{module}.py",
    "maths/intervals.py": "audit/test_audit.py audit/test_anytime.py analysis/test_statistics.py "
    "-k pearson or bound or interval or proportion",
    "noise": "test_laws.py test_noise.py -k {module}",
    "noise/choices.py": "test_noise.py test_randomized_learners.py",
    "noise/integers.py": "test_laws.py -k integer",
    "noise/law.py": "test_laws.py test_noise.py audit/test_releases.py",
    "noise/release.py": "test_laws.py test_noise.py",
    "noise/_gaussian.py": "test_laws.py audit/test_users.py -k gaussian or release",
    "noise/_discrete_laplace.py": "test_laws.py audit/test_revealed.py -k laplace or probabilities",
    "noise/_skellam.py": "privacy/test_integer.py test_laws.py",
    "noise/_wishart.py": "test_noise.py learners/test_linucb.py -k wishart",
    "privacy": "privacy/test_*{module}*.py privacy/test_conversions.py test_privacy.py",
    "privacy/gaussian.py": "test_privacy.py",
    "mechanisms": "mechanisms -k {module}",
    "mechanisms/normalized.py": "mechanisms",
    "mechanisms/_per_item.py": "mechanisms/test_mechanisms.py -k per_item or batch",
    "mechanisms/prefix.py": "mechanisms",
    "mechanisms/trees.py": "mechanisms -k tree or honaker",
    "mechanisms/toeplitz.py": "mechanisms -k buffered or square_root",
    "learners": "test_golden.py learners/test_*.py test_conformance.py "
    "audit/test_declarations.py audit/test_audit.py -k {module}",
    "learners/adap.py": "test_golden.py learners/test_stochastic.py "
    "learners/test_long_sums.py -k ada",
    "learners/_dp_ucb.py": "learners/test_stochastic.py -k dp_ucb",
    "learners/klucb.py": "learners/test_stochastic.py -k growing",
    "learners/_semi_bandit_ftrl.py": "learners/test_semi_bandits.py",
    "learners/_exp3.py": "test_golden.py learners/test_exp3.py test_conformance.py -k exp3",
    "learners/lazy.py": "test_golden.py learners/test_stochastic.py -k lazy",
    "learners/parts/arm_sums.py": "learners/test_stochastic.py learners/test_long_sums.py",
    "learners/parts/dartboard.py": "learners/test_*dartboard*.py",
    "learners/parts/doubling_means.py": "learners/test_stochastic.py",
    "learners/parts/elimination.py": "learners/test_elimination.py",
    "learners/parts/elimination_phases.py": "learners/test_elimination.py",
    "learners/parts/fixed_share.py": "learners/test_hedge.py learners/test_*dartboard*.py",
    "learners/parts/gram_calibration.py": "learners/test_linucb.py",
    "learners/parts/gram_streams.py": "learners/test_linucb.py",
    "learners/parts/growing_batches.py": "learners/test_stochastic.py -k growing",
    "learners/parts/identification.py": "learners/test_identification*.py",
    "learners/parts/one_point.py": "learners/test_one_point.py",
    "learners/parts/prefix_sums.py": "learners/parts/test_prefix_sums.py learners/test_ftrl.py "
    "mechanisms/test_mechanisms.py",
    "learners/parts/selectors.py": "learners/test_hedge.py",
    "learners/parts/stopping_rules.py": "learners/test_identification*.py",
    "learners/parts/sum_noise.py": "learners/parts/test_prefix_sums.py",
    "learners/stopping.py": "test_stopping.py audit/test_stopping_times.py",
    "learners/top_two.py": "test_golden.py learners/test_identification*.py -k identification",
    "combinators": "test_combinators.py -k {module}",
    "combinators/_returned.py": "test_returned.py",
    "combinators/batches.py": "test_batches.py test_combinators.py test_wrong_uses.py "
    "learners/test_exp3.py -k batch or combinators or exp3",
    "combinators/delays.py": "test_combinators.py -k copy or copies",
    "combinators/duels.py": "learners/test_elimination.py -k sparring",
    "combinators/environments.py": "test_combinators.py environments",
    "combinators/epochs.py": "test_combinators.py -k epoch",
    "combinators/features.py": "test_combinators.py -k features",
    "combinators/learners.py": "test_combinators.py",
    "combinators/local.py": "test_randomized_learners.py",
    "combinators/reduction.py": "test_randomized_learners.py",
    "combinators/users.py": "audit/test_users.py",
    "environments": "environments/test_environments.py environments/test_{module}.py",
    "engine": "engine/test_{module}.py",
    "engine/compute.py": "engine/test_devices.py test_sweep.py attack/test_values.py",
    "game": "test_simulate.py test_returned.py",
    "kernels": "kernels/test_entries.py",
    "audit": "audit/test_{module}.py audit/test_audit.py",
    "study": "study/test_study.py test_simulate.py",
    "study/traces.py": "test_sweep.py test_golden.py",
    "study/halving.py": "study/test_study.py study/test_coverage.py study/test_horizons.py -k "
    "tun or halving",
    "store": "test_store.py attack/test_stores.py",
    "report": "analysis/test_statistics.py study/test_coverage.py",
    "report/figures.py": "study/test_figures.py",
    "report/latex.py": "study/test_latex.py study/test_counted_trials.py",
    "bounds": "analysis test_doctests.py -k bound",
    "papers": "papers/test_{module}.py papers/test_parts.py",
    "cli": "cli/test_{module}.py",
}

# {file below dpjax: [(text that occurs once in it, text that replaces it, the error)]}
# fmt: off
ERRORS = {
    "core/_check.py": [
        ("_require(lambda x: (x > low) & (x < high), requirement, values)",
         "_require(lambda x: (x >= low) & (x < high), requirement, values)",
         "an argument may be equal to an excluded lower limit"),
    ],
    "core/generators/threefry.py": [
        ("schedule[(group + 1) % 3] + np.uint32(group)", "schedule[(group + 1) % 3] + np.uint32(i)",
         "a generator of keys adds the wrong round number"),
    ],
    "feedback.py": [
        ("return jnp.round(inside), outside", "return inside, outside",
         "losses between 0 and 1 are not rounded to bits"),
        ("jnp.mean(values(loss, action))", "jnp.sum(values(loss, action))",
         "the loss at several points is their sum instead of the mean"),
    ],
    "domains/loss_sets.py": [
        ("return losses.diameters if neighbours == \"replace\" else losses.norms",
         "return losses.norms", "replaced losses have the sensitivity of losses that disappear"),
    ],
    "domains/lotteries.py": [
        ("stability=4.0 * root", "stability=2.0 * root",
         "the sets of a lottery declare half of their stability"),
    ],
    "maths/exact_sums.py": [
        ("third * part + (middle >> 15)", "third * part + (middle >> 16)",
         "a product of an exact sum carries one bit too little"),
    ],
    "maths/intervals.py": [
        ("scipy.special.betaincinv(hits, runs - hits + 1.0, error)",
         "scipy.special.betaincinv(hits, runs - hits, error)",
         "Clopper and Pearson's lower limit counts one failure too few"),
    ],
    "maths/transport.py": [
        ("cost = n * _departure(rest, u, part, epsilon) + m *",
         "cost = m * _departure(rest, u, part, epsilon) + n *",
         "the transport cost swaps the samples of two arms"),
    ],
    "noise/_laplace.py": [
        ("variance=lambda scale: 2.0 * scale * scale", "variance=lambda scale: scale * scale",
         "the variance of Laplace noise is halved"),
    ],
    "noise/_gaussian.py": [
        ("return privacy.gaussian_epsilon(privacy.zcdp_mu(rho), delta)",
         "return privacy.gaussian_epsilon(jnp.sqrt(rho), delta)",
         "epsilon of composed Gaussian noise takes sqrt(rho) for mu"),
    ],
    "noise/_discrete_gaussian.py": [
        ("scale * (scale / wide)) / scale", "scale / wide) / scale",
         "proposals of discrete Gaussian draws are accepted around a wrong centre"),
    ],
    "noise/_discrete_laplace.py": [
        ("jnp.log(jnp.tanh(0.5 / scale)) - jnp.abs(noise)",
         "jnp.log(jnp.tanh(1.0 / scale)) - jnp.abs(noise)",
         "the log-density of discrete Laplace noise is not normalized"),
    ],
    "noise/_skellam.py": [
        ("squared + 6.0 * l1)", "squared)", "the Renyi bound of Skellam noise lacks its L1 term"),
    ],
    "noise/choices.py": [
        ("lost = binomial(ones_key, value, flip)", "lost = binomial(zeros_key, value, flip)",
         "randomized response flips ones and zeros with one key"),
    ],
    "noise/integers.py": [
        ("return scales[useful].astype(np.float32), epsilons",
         "return scales[: len(epsilons)].astype(np.float32), epsilons",
         "a table of integer noise pairs scales with the wrong epsilons"),
        ("place = jnp.sum(epsilons > budget, dtype=jnp.int32)",
         "place = jnp.maximum(jnp.sum(epsilons > budget, dtype=jnp.int32) - 1, 0)",
         "integer noise takes the scale before the sufficient one"),
    ],
    "noise/law.py": [
        ("return Cost(pure, pure * pure / 2.0, jnp.float32(0.0))",
         "return Cost(pure, pure * pure / 2.0, pure * pure / 2.0)",
         "the cost of pure noise counts as Gaussian"),
    ],
    "noise/_wishart.py": [
        ("(jnp.sqrt(k) * (b + b.T) + product)", "(jnp.sqrt(k) * (b + b.T) - product)",
         "Wishart noise subtracts its square"),
    ],
    "privacy/continuous.py": [
        ("rho = (epsilon_ + jnp.log1p(1.0 / b)) / (1.0 + 2.0 * b)",
         "rho = (epsilon_ + jnp.log1p(1.0 / b)) / (1.0 + b)",
         "the largest rho for an epsilon is not at its best order"),
        ("return _real(count) * jnp.square(_real(width)) / 8.0",
         "return _real(count) * jnp.square(_real(width)) / 4.0",
         "bounded range costs twice its rho"),
    ],
    "privacy/group.py": [
        ("most = jnp.exp((size - 1) * epsilon) * _share(epsilon, size)", "most = float(size)",
         "group privacy multiplies delta by the size only"),
    ],
    "privacy/integer.py": [
        ("return min(max(divergence(first, second), divergence(second, first)), 1.0)",
         "return min(divergence(first, second), 1.0)",
         "delta of integer noise is computed in one direction"),
    ],
    "privacy/renyi.py": [
        ("converted = (_log_inverse(delta) - log_orders) / steps",
         "converted = (_log_inverse(delta) + log_orders) / steps",
         "Renyi divergences are converted with a swapped sign"),
    ],
    "privacy/shuffle.py": [
        ("start, law = _binomial_log_pmf(users - 1, -math.log",
         "start, law = _binomial_log_pmf(users, -math.log",
         "the user who changes counts as a possible clone"),
    ],
    "privacy/columns.py": [
        ("taken = [np.arange(first, width, spacing)[:rounds] for first in range(width)]",
         "taken = [np.arange(first, width, spacing)[:rounds] for first in range(1)]",
         "the columns of a user with fixed spacing start at the first round only"),
    ],
    "mechanisms/trees.py": [
        ("height = (horizon - 1).bit_length()\n\n", "height = (horizon - 2).bit_length()\n\n",
         "the tree has a level too few for horizons of 2^k + 1 rounds"),
        ("weights = 2.0**levels / (2.0 ** (levels + 1) - 1)",
         "weights = 2.0**levels / (2.0 ** (levels + 1) + 1)",
         "honaker's estimates weigh their own sum too little"),
    ],
    "mechanisms/_hybrid.py": [
        ("nodes = 2.0 * epoch if separate else epoch + 1.0",
         "nodes = 2.0 * epoch if separate else epoch",
         "the hybrid mechanism counts one node too few in an epoch"),
    ],
    "mechanisms/_kary.py": [
        ("known = (digit <= 0) & (level < height - 1)",
         "known = (digit < 0) & (level < height - 1)",
         "kary draws a node afresh that was already subtracted"),
    ],
    "mechanisms/_smooth.py": [
        ("used = sum(comb(height - j - 1, ones) <= count for j in range(ones))",
         "used = sum(comb(height - j - 1, ones) < count for j in range(ones))",
         "the smooth tree drops a level at some horizons"),
    ],
    "mechanisms/toeplitz.py": [
        ("added = columns.geometric_norm(decays, scales, count - t) * fresh",
         "added = columns.geometric_norm(decays, scales, count - t + 1) * fresh",
         "buffered noise with normalized columns uses the weight of the round before"),
    ],
    "mechanisms/_stationary.py": [
        ("float(np.linalg.norm(encoder)) * released", "float(np.abs(encoder).max()) * released",
         "the stationary mechanism takes the largest entry for the L2 sensitivity"),
    ],
    "mechanisms/_unbounded.py": [
        ("(sum(parts) + tail) / np.pi", "sum(parts) / np.pi",
         "the sensitivity of unbounded leaves out entries beyond 2^57"),
    ],
    "mechanisms/normalized.py": [
        ("steps = norms * (norms * np.cumsum(inverse**2) + 2.0 * crossed)",
         "steps = norms * (norms * np.cumsum(inverse**2) + crossed)",
         "the variance with normalized columns counts a covariance once"),
    ],
    "mechanisms/_per_item.py": [
        ("items == batch,", "items >= batch - 1,", "per_item sends batches of one item less"),
    ],
    "mechanisms/prefix.py": [
        ("return float(count), float(np.sqrt(count))", "return float(count), float(count)",
         "trees declare their L1 sensitivity as the L2 sensitivity"),
        ("rounding_key, key = jr.split(key)", "rounding_key = key",
         "values are rounded to integers with the key of the noise"),
    ],
    "learners/_hedge.py": [
        ("by_sum = epsilon / (2.0 * draws)", "by_sum = epsilon / draws",
         "hedge calibrates its rate to half of the log-ratio of one draw"),
        ("privacy.bounded_range_rho(2.0 * rate, draws)", "privacy.bounded_range_rho(rate, draws)",
         "hedge declares a quarter of its rho"),
    ],
    "learners/_exp3.py": [
        ("return moved - jnp.maximum(moved[arm], 0.0)", "return moved - moved[arm]",
         "exp3 shifts exponents by the current arm, so that others overflow"),
        ("jnp.minimum(sensitivity, 2.0 * cap)", "jnp.minimum(sensitivity, cap)",
         "exp3 bounds the range of a draw by one side of its log-ratios"),
    ],
    "learners/_exp3_minibatch.py": [
        ("quotients.whole(horizon, tau)[1]", "quotients.whole(horizon, tau)[0]",
         "exp3_minibatch forgets the last batch in its composition"),
    ],
    "learners/_exp2.py": [
        ("second_moment = largest * largest + 2.0 * scale * scale",
         "second_moment = largest * largest + scale * scale",
         "exp2 uses the square of a Laplace scale as the variance"),
        ("return jnp.minimum(eta, gamma / reach), gamma, eta * reach > 0.5",
         "return eta, gamma, eta * reach > 0.5", "exp2 does not lower a rate that is capped"),
    ],
    "learners/_exp4.py": [
        ("q = jax.nn.softmax(state.exponents)", "q = jax.nn.softmax(-state.exponents)",
         "exp4 weighs a loss by the probabilities of the opposite exponents"),
    ],
    "learners/_tsallis_inf.py": [
        ("loss / state.probability)", "loss / jnp.sqrt(state.probability))",
         "tsallis_inf divides by the root of the probability, which biases its estimates"),
    ],
    "learners/adap.py": [
        ("samples = jnp.maximum(pulls // 2, 1)", "samples = jnp.maximum(pulls, 1)",
         "adap_ucb counts all losses instead of those of the latest episode"),
        ("law.variance / samples / samples", "law.variance / samples",
         "adac_ucb adds noise to each loss in its bound instead of to the sum"),
    ],
    "learners/klucb.py": [
        ("divergences.d_epsilon(means, jnp.min(means), epsilon)",
         "divergences.d_epsilon(jnp.min(means), means, epsilon)",
         "dp_imed swaps the arguments of its divergence"),
    ],
    "learners/_dp_ucb.py": [
        ("epsilon=share,", "epsilon=epsilon,",
         "dp_ucb adds noise for all of epsilon to each arm with split='paper'"),
    ],
    "learners/_dp_ucb_bound.py": [
        ("scale=privacy.laplace_scale(mechanism.sensitivity[0], epsilon)",
         "scale=privacy.laplace_scale(mechanism.sensitivity[1], epsilon)",
         "dp_ucb_bound scales Laplace noise by the L2 sensitivity"),
    ],
    "learners/_dp_ucb_int.py": [
        ("noisy = exact_sums.mean(total, jnp.maximum(pulls, 1))",
         "noisy = exact_sums.mean(total, jnp.maximum(t, 1))",
         "dp_ucb_int divides an arm's sum by all rounds"),
        ("return jnp.maximum((horizon - 1) // interval - (arms - 1), 0)",
         "return jnp.maximum(horizon // interval // arms, 0)",
         "dp_ucb_int counts the releases of arms that are played equally often"),
    ],
    "learners/lazy.py": [
        ("noise.laplace.total(noise_key, total, scale)", "noise.laplace.total(key, total, scale)",
         "lazy_ucb draws its noise with the key that it splits"),
    ],
    "learners/_gaussian_thompson.py": [
        ("square = max(draws, 0) / max(pulls + 1, 2) / variance",
         "square = max(draws, 0) / max(pulls + 1, 1) / variance",
         "gaussian_thompson composes draws that see no loss"),
    ],
    "learners/_dp_ts_ucb.py": [
        ("count.astype(jnp.float32), float(max(horizon - arms, 0))",
         "count.astype(jnp.float32), float(horizon // arms)",
         "dp_ts_ucb bounds the draws from one mean by the rounds of an average arm"),
    ],
    "learners/_cucb.py": [
        ("scale = privacy.laplace_scale(1.0 if read == \"one\" else float(ones), epsilon)",
         "scale = privacy.laplace_scale(1.0, epsilon)",
         "cucb with read='all' hides one loss instead of all losses of a round"),
    ],
    "learners/_batched_bandit.py": [
        ("threshold = _THRESHOLD * jnp.sqrt(state.probability)",
         "threshold = _THRESHOLD * state.probability",
         "batched_bandit skips losses beyond a threshold that is too small"),
    ],
    "learners/_limited_updates.py": [
        ("scale = privacy.laplace_scale(1.0 if printed else 2.0, epsilon)",
         "scale = privacy.laplace_scale(1.0, epsilon)",
         "limited_updates halves the scale of its noisy minimum"),
    ],
    "learners/_sparse_vector_experts.py": [
        ("return 0.5 * epsilon, 0.25 * epsilon / draws",
         "return 0.5 * epsilon, 0.5 * epsilon / draws",
         "sparse_vector_experts spends twice the budget of its draws"),
        ("armed = jnp.where(left, jr.key_data(fresh), state.armed)", "armed = state.armed",
         "sparse_vector_experts reuses the noise of its first threshold"),
    ],
    "learners/_shrinking_dartboard.py": [
        ("granted = asked & (state.draws < budget)", "granted = asked & (state.draws <= budget)",
         "shrinking_dartboard grants one draw beyond its budget"),
    ],
    "learners/_ftpl.py": [
        ("missing = jnp.sqrt(jnp.maximum(0.0, jnp.square(needed) - private))",
         "missing = jnp.maximum(0.0, needed - jnp.sqrt(private))",
         "ftpl adds deviations of its perturbation instead of variances"),
    ],
    "learners/_ftrl.py": [
        ("regularizer.range / (regularizer.stability(losses) * horizon)",
         "regularizer.range / (2 * regularizer.stability(losses) * horizon)",
         "ftrl's default rate is divided by the root of two"),
    ],
    "learners/_private_giga.py": [
        ("jnp.asarray(change * np.sqrt(horizon - 1), jnp.float32)",
         "jnp.asarray(change * np.sqrt(max(horizon - 2, 0)), jnp.float32)",
         "private_giga composes one draw too few"),
    ],
    "learners/parts/one_point.py": [
        ("zeta, shrunk(domain, 1.0 - zeta / r)", "zeta, domain",
         "one_point_gradient plays points outside of the domain"),
    ],
    "learners/_two_point_gradient.py": [
        ("(2 * n**1.5 * longest, 2 * n * longest)", "(n**1.5 * longest, n * longest)",
         "two_point_gradient hides a loss that disappears instead of a replaced loss"),
    ],
    "learners/_projection_free.py": [
        ("last_summed = batch * (batches - 2)", "last_summed = batch * (batches - 1)",
         "projection_free sums one batch more than its mechanism covers"),
        ("worst_gap=jnp.where(done, jnp.maximum(state.worst_gap, gap), state.worst_gap)",
         "worst_gap=jnp.where(done, gap, state.worst_gap)",
         "projection_free reports the gap of the last batch instead of the largest"),
    ],
    "learners/_scrible.py": [
        ("variance = 2.0 * jnp.square(privacy.laplace_scale(high - low, epsilon))",
         "variance = jnp.square(privacy.laplace_scale(high - low, epsilon))",
         "scrible's step size counts half of the variance of its noise"),
    ],
    "learners/_semi_bandit_ftrl.py": [
        ("times = jnp.sum(state.action) if one else 1.0", "times = 1.0",
         "semi_bandit_ftrl does not correct for the entries that it does not read"),
    ],
    "learners/_sequential_halving.py": [
        ("stay = (jnp.sum(state.active, dtype=jnp.int32) + 1) // 2",
         "stay = jnp.sum(state.active, dtype=jnp.int32) // 2",
         "sequential_halving eliminates the middle of an odd number of arms"),
    ],
    "learners/_linucb.py": [
        ("share = jnp.where(sums.noisy, 2.0 * sums.events, 1.0)",
         "share = jnp.where(sums.noisy, 2.0, 1.0)",
         "linucb uses the confidence of one event for a bound in each round"),
    ],
    "learners/_federated_linucb.py": [
        ("sender = jnp.arange(senders) == state.round % senders",
         "sender = jnp.arange(senders) == 0",
         "federated_linucb records all users at the first silo"),
    ],
    "learners/_glm_sgd.py": [
        ("return noise.gaussian(key, total, 2.0 * radius * sigma)",
         "return noise.gaussian(key, total, radius * sigma)",
         "glm_sgd uses a radius instead of a diameter"),
    ],
    "learners/top_two.py": [
        ("law, cost = sum_noise(\"laplace\", epsilon, None), transport_cost(epsilon)",
         "law, cost = sum_noise(\"laplace\", epsilon, None), transport_cost(jnp.inf)",
         "dp_tt samples by the transport cost without privacy"),
    ],
    "learners/parts/prefix_sums.py": [
        ("library.minimum(change[1] + count**0.5, count**0.5 * widest)",
         "library.minimum(change[1], count**0.5 * widest)",
         "rounding to integers does not add to the L2 sensitivity"),
    ],
    "learners/parts/sum_noise.py": [
        ("variance = 0.5 / jnp.asarray(rho, jnp.float32)",
         "variance = 0.5 / jnp.asarray(rho, jnp.float32) ** 2",
         "noise for rho-zCDP is calibrated as if rho were mu"),
        ("excess = (2 * ones - count)", "excess = (ones - count)",
         "sums of flipped bits are debiased by the wrong count"),
    ],
    "learners/parts/gram_calibration.py": [
        ("share = failure if norm_bound == \"paper\" else 0.5 * failure", "share = failure",
         "the tight bound on noise gives all of the failure probability to each of two events"),
    ],
    "learners/parts/elimination.py": [
        ("means - best <= 2.0 * plan(state.number, count)[1]",
         "means - best <= plan(state.number, count)[1]",
         "elimination compares means with one radius instead of two"),
    ],
    "learners/parts/dartboard.py": [
        ("return jnp.where(setting.budget > 1, jnp.maximum(leave, keep) + later, 0.0)",
         "return jnp.where(setting.budget > 1, jnp.minimum(leave, keep) + later, 0.0)",
         "the dartboard's epsilon takes the smaller log-ratio of a coin"),
    ],
    "learners/parts/stopping_rules.py": [
        ("union = jnp.log(jnp.pi**2 / 6.0 * phase**2 / failure)",
         "union = jnp.log(phase**2 / failure)",
         "the printed stopping rule has no sum of 1 / k^2 in its union bound"),
    ],
    "learners/parts/identification.py": [
        ("stopping_time = jnp.where(stopped, played, horizon)",
         "stopping_time = jnp.where(stopped, state.played, horizon)",
         "stopping times are one batch too early"),
    ],
    "combinators/batches.py": [
        ("batches = -(-horizon // int(min(float(tau), horizon)))",
         "batches = horizon // int(min(float(tau), horizon))",
         "minibatch accepts a learner that is one batch too short"),
    ],
    "combinators/delays.py": [
        ("length = -(-horizon // count)", "length = horizon // count",
         "interleaved copies are calibrated for one round too few"),
    ],
    "combinators/duels.py": [
        ("epsilon=2.0 * declared.epsilon, delta=2.0 * declared.delta",
         "epsilon=2.0 * declared.epsilon, delta=declared.delta",
         "sparring declares the delta of one player"),
    ],
    "combinators/environments.py": [
        ("switched = (state.previous >= 0) & (state.previous != arm)",
         "switched = state.previous != arm", "the first round counts as a switch"),
        ("moved = jnp.minimum(state.behind[1:], least)",
         "moved = jnp.minimum(state.behind[:-1], least)",
         "tracking regret moves between the wrong numbers of shifts"),
    ],
    "combinators/epochs.py": [
        ("step_before(t == ends[i], *mine", "step_before(t == lengths[i], *mine",
         "doubling switches learners at the length of an epoch instead of its end"),
    ],
    "combinators/learners.py": [
        ("jnp.where(total > 1.001, weights / total, weights)",
         "jnp.where(total > 1.001, weights, weights)",
         "sample_arms draws from weights that add up to more than 1"),
    ],
    "combinators/local.py": [
        ("noise.coin(key, flip + (1.0 - 2.0 * flip) * loss)",
         "noise.coin(key, flip + (1.0 - flip) * loss)", "a local message reveals a loss of 1"),
    ],
    "combinators/reduction.py": [
        ("largest = norm * jnp.max(jnp.abs(state.point))",
         "largest = norm * jnp.sum(jnp.abs(state.point))",
         "private_reduction clips losses more loosely than its sensitivity assumes"),
    ],
    "combinators/users.py": [
        ("squares = rounds // most * most**2 + (rounds % most) ** 2",
         "squares = rounds // most * most**2",
         "the last incomplete release of a user is not counted"),
    ],
    "environments/_memory.py": [
        ("(state.streak >= needed)", "(state.streak > needed)",
         "an arm of the adversary with memory pays off one round too late"),
    ],
    "environments/_piecewise.py": [
        ("jnp.sum(t > before", "jnp.sum(t >= before", "means change one round too early"),
    ],
    "environments/_dueling.py": [
        ("bernoulli(wins.T.ravel()", "bernoulli(wins.ravel()",
         "the row player of a duel loses when it should win"),
    ],
    "engine/compute.py": [
        ("Block(block.point + point, piece_seeds[seed:])", "Block(block.point, piece_seeds[seed:])",
         "a block that is computed in pieces repeats its first points"),
    ],
    "engine/closure_digest.py": [
        ("\"__defaults__\", \"__kwdefaults__\"]", "\"__defaults__\"]",
         "a cached program is reused when a keyword default has changed"),
    ],
    "engine/evaluate.py": [
        ("last = _fixed_point(lambda carry: step(carry, rows)[0], start)",
         "last = step(start, rows)[0]", "dependence on inputs is followed for one round of a loop"),
    ],
    "kernels/rules.py": [
        ("\"argmin\": _extreme(lax.lt)", "\"argmin\": _extreme(lax.le)",
         "a kernel's argmin is the last of several least entries"),
        ("axis, step = eqn.params[\"axis\"], -1 if eqn.params[\"reverse\"] else 1",
         "axis, step = eqn.params[\"axis\"], 1",
         "a kernel's running sums ignore that they are reversed"),
    ],
    "audit/counts.py": [
        ("np.log(np.maximum(low - delta, 0.0)) - np.log(high)", "np.log(low) - np.log(high)",
         "an audit's bound forgets delta"),
    ],
    "audit/verdicts.py": [
        ("judgement.spent.reshape(paths, count).max(axis=0)",
         "judgement.spent.reshape(paths, count).min(axis=0)",
         "a verdict reports the smallest epsilon over its paths"),
    ],
    "game/rounds.py": [
        ("step_arguments(learner, coins, t, (state, action), outcome.loss)",
         "step_arguments(learner, nature, t, (state, action), outcome.loss)",
         "learner and environment draw with the same key"),
    ],
    "game/play.py": [
        ("firsts = np.concatenate([[1], rounds[:-1] + 1]).astype(np.int32)",
         "firsts = np.concatenate([[1], rounds[:-1]]).astype(np.int32)",
         "the round of a checkpoint is played twice"),
    ],
    "study/traces.py": [
        ("jr.fold_in(key, seed), checkpoints", "jr.fold_in(key, seed + 1), checkpoints",
         "a trial plays with the seed of the next one"),
    ],
    "study/halving.py": [
        ("order = np.argsort(means[cells], axis=1)[:, :kept]",
         "order = np.argsort(-means[cells], axis=1)[:, :kept]",
         "tuning keeps the settings with the largest regret"),
    ],
    "store/objects.py": [
        ("if len(data) != size or _crc32c(data) != end:", "if len(data) != size:",
         "a block's checksum is not compared"),
    ],
    "store/opening.py": [
        ("if key != ROOT and stored[key] != data]", "if key != ROOT and stored[key] is None]",
         "damaged coordinates of a store are not written again"),
    ],
    "store/layout.py": [
        ("    \"checkpoints\": \"checkpoints\",\n", "",
         "a store accepts a sweep with other checkpoints"),
    ],
    "report/estimates.py": [
        ("width = scipy.special.stdtrit(trials - 1, 0.5 + confidence / 2) * error",
         "width = scipy.special.stdtrit(trials, 0.5 + confidence / 2) * error",
         "a confidence interval has one degree of freedom too many"),
    ],
    "report/figures.py": [
        ("axes.fill_between(places[order], low[order], high[order]",
         "axes.fill_between(places[order], low[order], centre[order]",
         "the band of a curve is drawn below it only"),
    ],
    "report/latex.py": [
        ("return away[\"low\"] <= 0.0", "return away[\"high\"] <= 0.0",
         "a table prints only the best learner in bold"),
    ],
    "bounds/bandits.py": [
        ("return 4.0 * np.sqrt(arms * horizon) + 1.0", "return 2.0 * np.sqrt(arms * horizon) + 1.0",
         "the bound of tsallis_inf has half of its constant"),
    ],
    "bounds/stochastic_lower.py": [
        ("return np.maximum(plain, np.minimum(", "return np.minimum(plain, np.minimum(",
         "a lower bound takes the smaller of its terms"),
    ],
    "papers/hanna2022.py": [
        ("behind[-1] + 1 if len(behind)", "behind[0] + 1 if len(behind)",
         "a learner is ahead from the first round after it is behind"),
    ],
    "papers/tossou2017.py": [
        ("memory = 1 if adversary == \"switching cost\" else 0", "memory = 0",
         "the bound against switching costs is for an adversary without memory"),
    ],
    "cli/audits.py": [
        ("for status in (VIOLATED, UNDECIDED):", "for status in (UNDECIDED, VIOLATED):",
         "dpjax audit exits as undecided when it found a violation"),
    ],
    "cli/formats.py": [
        ("+ (1 if header else 0)", "",
         "messages about a CSV file count its rows from the one below the header"),
    ],
}
# fmt: on


if __name__ == "__main__":
    main()
