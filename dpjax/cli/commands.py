"""The command line: its commands, and what they print and return."""

import argparse
import inspect
import io
import sys
import warnings
from collections.abc import Sequence
from contextlib import contextmanager

from dpjax import environments, learners, mechanisms, papers
from dpjax.cli import audits, compare, config, explore, run, theorem, trial
from dpjax.cli.arguments import (
    Parser,
    add_output,
    add_scale,
    epsilon_list,
    prepare,
    results_folder,
)
from dpjax.core._version import __version__
from dpjax.engine.settings import keep_compiled
from dpjax.papers.sweeps import kept_in, on_devices
from dpjax.report.output import FigureWarning, shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
      arguments: the words after ``dpjax``; None for those of this process, which then keeps what it
        compiles for the next one (:func:`dpjax.keep_compiled`).

    Returns:
      The exit status. It is 0 where all went well. Otherwise a sentence on stderr says what is
      wrong. The status is 1 where the results were written, but a figure could not be, or a
      comparison found a violation of what a learner declares; 130 where the command was
      interrupted; and 2 elsewhere.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the encoding of the stream lacks is written as an escape.
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    if arguments is None:
        keep_compiled()
    try:
        with _failed_figures() as failed:
            violation = options.command(options)
        sys.stdout.flush()
    except (ValueError, OSError, ImportError) as error:
        _complain(error)
        return 2
    except MemoryError as error:
        _complain(f"there is not enough memory ({error})")
        return 2
    except KeyboardInterrupt as interrupt:
        kept = getattr(options, "store", None)
        rest = f"what is finished is in {kept}: --resume goes on" if kept else "nothing was written"
        _complain(f"interrupted; {interrupt if interrupt.args else rest}")
        return 130
    complaints = [*failed, *([violation] if violation else [])]
    for complaint in complaints:
        _complain(complaint)
    return 1 if complaints else 0


def _complain(what) -> None:
    print(f"dpjax: {shown(what)}", file=sys.stderr)


@contextmanager
def _failed_figures():
    """Yields a list that collects what is said of figures that fail. Other warnings are shown."""
    failed, usual = [], warnings.showwarning

    def show(message, category, *place, **options):
        if issubclass(category, FigureWarning):
            failed.append(message)
        else:
            usual(message, category, *place, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("always", FigureWarning)
        warnings.showwarning = show
        yield failed


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="dpjax", description="Simulates differentially private online learning and bandits."
    )
    parser.add_argument("--version", action="version", version=f"dpjax {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="list learners, mechanisms, environments and papers")
    listing.set_defaults(command=_list)

    _add_run(commands)

    reproduce = commands.add_parser("reproduce", help="rebuild a paper's figure and table")
    reproduce.set_defaults(command=_reproduce)
    known = [name.replace("_", "-") for name in papers.__all__]
    reproduce.add_argument("paper", choices=known)
    reproduce.add_argument(
        "--quick", action="store_true", help="shorter, with fewer trials and settings"
    )
    add_output(reproduce, "results/PAPER")
    add_scale(
        reproduce, "a folder or URL for Zarr stores, one a sweep, that keep results chunk by chunk"
    )

    _add_theorem(commands)
    _add_compare(commands)
    _add_trial(commands)
    _add_explore(commands)

    audit = commands.add_parser("audit", help="replay and attack a learner's calibration")
    audit.set_defaults(command=_audit)
    audit.add_argument("learner", nargs="*", metavar="NAME", help="as dpjax list shows them")
    audit.add_argument("--all", action="store_true", help="every learner")
    audit.add_argument("--epsilon", type=float, default=1.0, metavar="E", help="default 1")
    audit.add_argument(
        "--runs", type=int, default=audits.RUNS, metavar="N",
        help=f"counted runs of each sequence (default {audits.RUNS})",
    )  # fmt: skip
    audit.add_argument(
        "--changed", type=int, default=1, metavar="K",
        help="audit what a group of K changed rounds spends (default 1)",
    )  # fmt: skip
    add_output(audit, "results/audit")
    return parser


def _add_run(commands) -> None:
    run = commands.add_parser("run", help="play a learner on your own losses, or a study")
    run.set_defaults(command=_run)
    what = run.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--losses", metavar="FILE",
        help="(T, K) losses in [0, 1], a row a round: .csv, .npy or .npz",
    )  # fmt: skip
    what.add_argument("--config", metavar="FILE", help="a study, as TOML; all else is in the file")
    run.add_argument("--learner", metavar="NAME", help="as dpjax list shows them")
    run.add_argument(
        "--epsilon", type=epsilon_list, metavar="E,E,...",
        help="privacy levels, inf for none (default 0.1,1,10,inf)",
    )  # fmt: skip
    run.add_argument("--seeds", type=int, metavar="N", help="default 100")
    run.add_argument("--horizon", type=int, metavar="T", help="default: all rows")
    run.add_argument("--seed", type=int, help="of the random key (default 0)")
    add_output(run, "results/run")
    add_scale(run, "a folder or URL for a Zarr store that keeps results chunk by chunk")


def _add_theorem(commands) -> None:
    theorem = commands.add_parser("theorem", help="measure regret beside the bound of a theorem")
    theorem.set_defaults(command=_theorem)
    theorem.add_argument(
        "names", nargs="*", metavar="NAME",
        help="theorems, learners or papers; without any, all are listed",
    )  # fmt: skip
    theorem.add_argument("--all", action="store_true", help="every theorem")
    theorem.add_argument(
        "--epsilon", type=epsilon_list, metavar="E,E,...",
        help="privacy levels, inf for none (default 0.1,1,10,inf)",
    )  # fmt: skip
    theorem.add_argument(
        "--horizon", type=int, default=2**14, metavar="T",
        help="the longest of three horizons, each a quarter of the next (default 16384)",
    )  # fmt: skip
    theorem.add_argument("--trials", type=int, default=200, metavar="N", help="default 200")
    add_output(theorem, "results/theorem")


def _add_compare(commands) -> None:
    words = "compare a learner of your own with the built-in ones"
    comparison = commands.add_parser(
        "compare", help=words,
        description=f"{words[0].upper()}{words[1:]}, and audit it. FILE is run as a Python "
        "program: compare no file that you would not run. Its factory is the only public function "
        "in it that requires horizon and returns a Learner.",
    )  # fmt: skip
    comparison.set_defaults(command=_compare)
    comparison.add_argument("file", metavar="FILE[:NAME]", help="your file, and a name in it")
    comparison.add_argument(
        "--against", type=lambda text: text.split(","), metavar="NAME,NAME,...",
        help="as dpjax list shows them (default: all that play the same and see the same)",
    )  # fmt: skip
    comparison.add_argument(
        "--epsilon", type=epsilon_list, metavar="E,E,...", default=compare.EPSILONS,
        help="privacy levels, inf for none (default 0.1,1,10,inf)",
    )  # fmt: skip
    comparison.add_argument(
        "--horizon", type=int, default=10**5, metavar="T", help="default 100000"
    )
    comparison.add_argument("--trials", type=int, default=200, metavar="N", help="default 200")
    comparison.add_argument(
        "--runs", type=int, default=audits.RUNS, metavar="N",
        help=f"counted runs of each sequence in the attack (default {audits.RUNS})",
    )  # fmt: skip
    add_output(comparison, "results/compare")


def _add_trial(commands) -> None:
    words = "how many patients a private trial takes, on outcomes of your own"
    command = commands.add_parser("trial", help=words)
    command.set_defaults(command=_trial)
    command.add_argument(
        "--data", required=True, metavar="FILE",
        help="a CSV file with the columns treatment and outcome (0 or 1), a row for each patient",
    )  # fmt: skip
    command.add_argument(
        "--delta", type=float, default=0.01, metavar="P",
        help="the probability of a wrong recommendation that is allowed (default 0.01)",
    )  # fmt: skip
    command.add_argument(
        "--epsilon", type=epsilon_list, metavar="E,E,...", default=trial.EPSILONS,
        help="privacy levels, inf for none (default 0.1,1,10)",
    )  # fmt: skip
    command.add_argument(
        "--model", choices=list(trial.LEARNERS), default="central",
        help="who is trusted with the outcomes (default central)",
    )  # fmt: skip
    command.add_argument(
        "--horizon", type=int, default=10**8, metavar="T", help="the most patients (default 10^8)"
    )
    command.add_argument("--trials", type=int, default=1000, metavar="N", help="default 1000")
    add_output(command, "results/trial")


def _add_explore(commands) -> None:
    command = commands.add_parser(
        "explore", help="an interactive page of results, readable offline"
    )
    command.set_defaults(command=_explore)
    command.add_argument(
        "path", metavar="STORE|CSV",
        help="a store (a folder or URL), or a table of dpjax run, of a study or of reproduce",
    )  # fmt: skip
    command.add_argument("--out", metavar="FILE", help="default: next to the input, as .html")
    command.add_argument("--overwrite", action="store_true", help="replace FILE")


def _first_line(thing) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _list(options) -> None:
    del options
    for title, package in [
        ("learners", learners),
        ("mechanisms", mechanisms),
        ("environments", environments),
        ("papers", papers),
    ]:
        print(f"{title}:")
        width = max(map(len, package.__all__))
        for name in package.__all__:
            # The command line takes the name of a paper with hyphens.
            shown = name.replace("_", "-") if package is papers else name
            print(f"  {shown:{width}}  {_first_line(getattr(package, name))}")


def _written_to(out) -> None:
    print(f"\nWritten to {shown(out)}.")


def _run(options) -> None:
    played = {name: getattr(options, name) for name in ("epsilon", "seeds", "horizon", "seed")}
    if options.config is not None:
        for name, value in {"learner": options.learner, **played}.items():
            if value is not None:
                raise ValueError(f"{name}: a study has it in its file; leave out --{name}")
        out = results_folder(options, "results/study")
        print(config.run(options.config, out, store=options.store, mesh=prepare(options)))
        return _written_to(out)
    if options.learner is None:
        raise ValueError("learner: name one that plays on the losses, with --learner NAME")
    out = results_folder(options, "results/run")
    print(run.run(
        options.losses, options.learner, out, epsilons=options.epsilon,
        seeds=100 if options.seeds is None else options.seeds, horizon=options.horizon,
        seed=0 if options.seed is None else options.seed, store=options.store,
        mesh=prepare(options),
    ))  # fmt: skip
    _written_to(out)


def _audit(options) -> None:
    if bool(options.learner) == options.all:
        raise ValueError("audit: name learners, or say --all")
    out = results_folder(options, "results/audit")
    names = None if options.all else options.learner
    given = {"epsilon": options.epsilon, "runs": options.runs, "changed": options.changed}
    print(audits.run(names, out, **given))
    _written_to(out)


def _theorem(options) -> None:
    if options.names and options.all:
        raise ValueError("theorem: name some, or say --all")
    if not options.names and not options.all:
        print(theorem.listing())
        return
    out = results_folder(options, "results/theorem")
    sizes = {"horizon": options.horizon, "trials": options.trials}
    words = None if options.all else options.names
    print(theorem.run(words, out, epsilons=options.epsilon, **sizes))
    _written_to(out)


def _trial(options) -> None:
    out = results_folder(options, "results/trial")
    print(trial.run(
        options.data, out, delta=options.delta, epsilons=options.epsilon, model=options.model,
        horizon=options.horizon, trials=options.trials,
    ))  # fmt: skip
    _written_to(out)


def _explore(options) -> None:
    out = explore.run(options.path, options.out, overwrite=options.overwrite)
    print(f"Written to {shown(out)}.")


def _compare(options) -> str:
    """Prints the verdicts, and returns what the audit found against a declaration, if anything."""
    out = results_folder(options, "results/compare")
    text, violation = compare.run(
        options.file, out, against=options.against, epsilons=options.epsilon,
        horizon=options.horizon, trials=options.trials, runs=options.runs,
    )  # fmt: skip
    print(text)
    _written_to(out)
    return violation


def _reproduce(options) -> None:
    out = results_folder(options, f"results/{options.paper}")
    mesh = prepare(options)
    paper = getattr(papers, options.paper.replace("-", "_"))
    sizes = {"horizon": paper.QUICK_HORIZON, "trials": paper.QUICK_TRIALS} if options.quick else {}
    with kept_in(options.store), on_devices(mesh):
        print(paper.reproduce(out, **sizes))
    _written_to(out)
