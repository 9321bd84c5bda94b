"""The commands of the command line: their arguments, output and exit status."""

import argparse
import inspect
import io
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from dpjax import papers
from dpjax.cli.alive import alive
from dpjax.cli.arguments import (
    EPSILONS,
    MINUTES,
    PRIVATE_EPSILONS,
    RUNS,
    Parser,
    add_epsilon,
    add_number,
    add_output,
    add_scale,
    name_list,
    part_of,
    prepare,
    results_folder,
)

# Each command imports its modules when it runs, so that help and usage errors appear at once.


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
      arguments: the words after ``dpjax``; None for those of this process, which then caches
        compiled programs on disk (:func:`dpjax.keep_compiled`).

    Returns:
      The exit status. It is 0 on success. It is 1 if an audit or comparison found a violation of a
      declaration, and 3 if it could not decide. It is 1 if the results were written but a figure
      was not. It is 130 if the command was interrupted, and 2 after any other error. If it is not
      0, a sentence on stderr gives the reason.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the stream cannot encode are written as escapes.
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    if arguments is None:
        from dpjax.engine.settings import keep_compiled

        keep_compiled()
    try:
        name = getattr(options.command, "__name__", "").strip("_")
        with _failed_figures() as failed, alive(f"dpjax {name}"):
            status, sentence = options.command(options) or (0, "")
        sys.stdout.flush()
    except BrokenPipeError:  # The reader, such as head, has read enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ImportError) as error:
        _complain(error)
        return 2
    except MemoryError as error:
        _complain(f"there is not enough memory ({error})")
        return 2
    except KeyboardInterrupt as interrupt:
        kept = getattr(options, "store", None)
        rest = f"{kept} has the finished part: pass --resume" if kept else "nothing was written"
        _complain(f"interrupted; {interrupt if interrupt.args else rest}")
        return 130
    for complaint in [*failed, *([sentence] if status else [])]:
        _complain(complaint)
    return status or int(bool(failed))


def _complain(what) -> None:
    from dpjax.report.output import shown

    print(f"dpjax: {shown(what)}", file=sys.stderr)


@contextmanager
def _failed_figures():
    """Yield a list that collects warnings of figures that fail. Other warnings are shown."""
    from dpjax.report.output import FigureWarning

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
    parser.add_argument("--version", action="version", help="show the version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name, function, words, **more):
        command = commands.add_parser(name, help=words, **more)
        command.set_defaults(command=function)
        return command

    add("list", _list, "list learners, mechanisms, environments and papers")

    run = add("run", _run, "play learners on your own data, or a study")
    what = run.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--losses", metavar="FILE",
        help="(T, K) losses in [0, 1], a row for each round: .csv, .npy or .npz; with --features "
        "or --label, a .csv file that has these columns too",
    )  # fmt: skip
    what.add_argument("--config", metavar="FILE", help="a TOML file that describes a whole study")
    run.add_argument(
        "--learner", metavar="NAME,NAME,...", action="extend", type=name_list,
        help="as dpjax list shows them; may be given several times",
    )  # fmt: skip
    run.add_argument(
        "--features", type=name_list, metavar="COLUMN,...",
        help="columns that learners observe before they choose; the others are losses",
    )  # fmt: skip
    run.add_argument(
        "--label", metavar="COLUMN",
        help="the column of labels: each row is a case, and each arm is a guess of its label",
    )  # fmt: skip
    add_epsilon(run)
    run.add_argument("--seeds", type=int, metavar="N", help="default 100")
    run.add_argument("--horizon", type=int, metavar="T", help="default: all rows")
    run.add_argument("--seed", type=int, help="of the random key (default 0)")
    add_output(run, "results/run")
    add_scale(run, "a folder or URL for Zarr stores, to which results are written chunk by chunk")
    run.add_argument(
        "--part", type=part_of, metavar="I/N",
        help="play the I-th of N parts into --store, as in an array of jobs; then run the command "
        "with --resume instead of --part to read them all",
    )  # fmt: skip

    reproduce = add("reproduce", _reproduce, "rebuild a paper's figure and table")
    known = [name.replace("_", "-") for name in papers.__all__]
    reproduce.add_argument("paper", choices=known)
    reproduce.add_argument(
        "--quick", action="store_true", help="only the main table, of short games with few settings"
    )
    add_output(reproduce, "results/PAPER")
    add_scale(reproduce, "a folder or URL for Zarr stores, one per sweep, written chunk by chunk")

    theorem = add("theorem", _theorem, "compare measured regret with the bound of a theorem")
    theorem.add_argument(
        "names", nargs="*", metavar="NAME",
        help="theorems, learners or papers; by default all theorems are listed",
    )  # fmt: skip
    theorem.add_argument("--all", action="store_true", help="every theorem")
    theorem.add_argument(
        "--search", action="store_true",
        help="search for the worst environments instead of playing fixed ones",
    )  # fmt: skip
    theorem.add_argument(
        "--environment", metavar="FILE[:NAME]", action="append", default=[], dest="files",
        help="play your own environment instead: a Python file, which is run, and a name in it; "
        "may be given several times",
    )  # fmt: skip
    add_epsilon(theorem)
    add_number(theorem, "horizon", 2**14, "T", "longest of three, each a quarter of the next")
    add_number(theorem, "trials", 200, "N")
    add_output(theorem, "results/theorem", merged="theorems")

    words = "compare your own learner with the built-in ones"
    comparison = add(
        "compare", _compare, words,
        description=f"{words[0].upper()}{words[1:]}, and audit it. FILE is run as a Python "
        "program: pass only files that you would run. Without NAME, the factory is the only public "
        "function in it that requires horizon and returns a Learner.",
        epilog="Exit status: that of dpjax audit (dpjax audit --help).",
    )  # fmt: skip
    comparison.add_argument("file", metavar="FILE[:NAME]", help="a Python file, and a name in it")
    comparison.add_argument(
        "--against", type=name_list, metavar="NAME,NAME,...",
        help="as dpjax list shows them (default: all with the same actions and feedback)",
    )  # fmt: skip
    add_epsilon(comparison, EPSILONS)
    add_number(comparison, "horizon", 10**5, "T")
    add_number(comparison, "trials", 200, "N")
    add_number(comparison, "runs", 2**14, "N", "counted runs of each sequence in the attack")
    comparison.add_argument("--no-attack", action="store_true", help="replay only, which is faster")
    comparison.add_argument(
        "--search", action="store_true",
        help="also search for the worst instance of your learner and of its nearest competitors, "
        "and play these learners at 16 gaps",
    )  # fmt: skip
    add_output(comparison, "results/compare")

    patients = add(
        "trial", _trial, "estimate how many patients a private trial takes, on your own outcomes"
    )
    patients.add_argument(
        "--data", required=True, metavar="FILE",
        help="a CSV file with the columns treatment and outcome (0 or 1), a row for each patient",
    )  # fmt: skip
    words = "the allowed probability of a wrong recommendation"
    add_number(patients, "delta", 0.01, "P", words)
    add_epsilon(patients, PRIVATE_EPSILONS)
    patients.add_argument(
        "--model", choices=["central", "local"], default="central",
        help="the trust model for the outcomes (default central)",
    )  # fmt: skip
    add_number(patients, "horizon", 10**8, "T", "the largest number of patients")
    add_number(patients, "trials", 1000, "N")
    add_output(patients, "results/trial")

    page = add("explore", _explore, "make an interactive page of results, readable offline")
    page.add_argument(
        "path", metavar="STORE|FOLDER|data.nc",
        help="a store (a folder or URL), or the results of dpjax run",
    )  # fmt: skip
    page.add_argument("--out", metavar="FILE", help="default: next to the input, as .html")
    page.add_argument("--overwrite", action="store_true", help="replace FILE")

    words = "replay and attack a learner's calibration"
    audit = add(
        "audit", _audit, words,
        description=f"{words[0].upper()}{words[1:]}.", epilog="Exit status: 0 if no violation was "
        "found, 1 if one was found, 2 after an error, and 3 if the audit cannot decide: the "
        "learner cannot be replayed, it releases more than is needed, no release was reached, or "
        "the attack was stopped.",
    )  # fmt: skip
    audit.add_argument(
        "learner", nargs="*", metavar="NAME|FILE[:NAME]",
        help="as dpjax list shows them, or a Python file, which is run, and a name in it",
    )  # fmt: skip
    audit.add_argument("--all", action="store_true", help="every learner")
    add_number(audit, "epsilon", 1.0, "E")
    audit.add_argument(
        "--horizon", type=int, metavar="T",
        help="rounds of each game (default 16, or more if nothing is released in 16); later "
        "rounds are not audited",
    )  # fmt: skip
    add_number(audit, "runs", RUNS, "N", "counted runs of each sequence")
    add_number(audit, "minutes", MINUTES, "M", "time limit of the attack of a learner")
    audit.add_argument("--no-attack", action="store_true", help="replay only, which is faster")
    add_number(audit, "changed", 1, "K", "audit the privacy loss of a group of K changed rounds")
    add_output(audit, "results/audit", merged="learners")
    return parser


def _list(options) -> None:
    del options
    from dpjax import environments, learners, mechanisms

    for title, package in [
        ("learners", learners),
        ("mechanisms", mechanisms),
        ("environments", environments),
        ("papers", papers),
    ]:
        print(f"{title}:")
        width = max(map(len, package.__all__))
        for name in package.__all__:
            # On the command line the names of papers have hyphens.
            word = name.replace("_", "-") if package is papers else name
            first, *_ = (inspect.getdoc(getattr(package, name)) or "").splitlines() or [""]
            print(f"  {word:{width}}  {first}")


def _written_to(out) -> None:
    from dpjax.report.output import shown

    print(f"\nWritten to {shown(out)}.")


def _run(options) -> None:
    from dpjax.cli import config, run
    from dpjax.report.output import shown

    module: Any
    names = ("learner", "features", "label", "epsilon", "seeds", "horizon", "seed")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.part is not None and options.store is None:
        raise ValueError("part: its results go into a store; pass --store PATH")
    if options.config is not None:
        for name in given:
            raise ValueError(f"{name}: set it in the file of the study; leave out --{name}")
        module, path, folder = config, options.config, "results/study"
    elif options.learner is None:
        raise ValueError("learner: name one that plays the losses, with --learner NAME")
    else:
        given["names"], given["epsilons"] = given.pop("learner"), given.pop("epsilon", None)
        module, path, folder = run, options.losses, "results/run"
    if options.part is not None:
        mesh = prepare(options)
        module.read_study(path, **given)[0].run(options.store, mesh=mesh, part=options.part)
        print(f"Part {options.part[0]} of {options.part[1]} is in {shown(options.store)}.")
    else:
        out = results_folder(options, folder)
        print(module.run(path, out=out, store=options.store, mesh=prepare(options), **given))
        _written_to(out)


def _audit(options) -> tuple[int, str]:
    """Print the table, and return the exit status and its reason."""
    from dpjax.cli import audits

    if bool(options.learner) == options.all:
        raise ValueError("audit: name learners, or pass --all")
    out = results_folder(options, "results/audit")
    names = None if options.all else options.learner
    runs = None if options.no_attack else options.runs
    given = {name: getattr(options, name) for name in ("epsilon", "horizon", "minutes", "changed")}
    text, status, sentence = audits.run(names, out, runs=runs, merge=options.merge, **given)
    print(text)
    if not status:
        print(sentence)
    _written_to(out)
    return status, sentence


def _theorem(options) -> None:
    from dpjax.cli import theorem

    if options.names and options.all:
        raise ValueError("theorem: name some, or pass --all")
    if not options.names and not options.all:
        print(theorem.listing())
        return
    out = results_folder(options, "results/theorem")
    sizes = {"horizon": options.horizon, "trials": options.trials}
    sizes |= {"epsilons": options.epsilon, "search": options.search, "files": options.files}
    words = None if options.all else options.names
    print(theorem.run(words, out, merge=options.merge, **sizes))
    _written_to(out)


def _trial(options) -> None:
    from dpjax.cli import trial

    out = results_folder(options, "results/trial")
    print(trial.run(
        options.data, out, delta=options.delta, epsilons=options.epsilon, model=options.model,
        horizon=options.horizon, trials=options.trials,
    ))  # fmt: skip
    _written_to(out)


def _explore(options) -> None:
    from dpjax.cli import explore
    from dpjax.report.output import shown

    out = explore.run(options.path, options.out, overwrite=options.overwrite)
    print(f"Written to {shown(out)}.")


def _compare(options) -> tuple[int, str]:
    """Print the verdicts, and return the exit status and its reason."""
    from dpjax.cli import compare

    out = results_folder(options, "results/compare")
    text, status, sentence = compare.run(
        options.file, out, against=options.against, epsilons=options.epsilon,
        horizon=options.horizon, trials=options.trials, search=options.search,
        runs=None if options.no_attack else options.runs,
    )  # fmt: skip
    print(text)
    _written_to(out)
    return status, sentence


def _reproduce(options) -> None:
    from dpjax.papers.sweeps import kept_in, on_devices

    out = results_folder(options, f"results/{options.paper}")
    mesh = prepare(options)
    paper = getattr(papers, options.paper.replace("-", "_"))
    quick = {"horizon": paper.QUICK_HORIZON, "trials": paper.QUICK_TRIALS, "main_only": True}
    with kept_in(options.store), on_devices(mesh):
        print(paper.reproduce(out, **quick if options.quick else {}))
    _written_to(out)
