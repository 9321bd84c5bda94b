"""The commands of the command line: their options, output and exit status."""

import functools
import inspect
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from click import argument, option

from dpjax import papers
from dpjax._garbage import rarely_collected
from dpjax.cli.arguments import (
    COLUMNS,
    EPSILONS,
    LEVELS,
    NAMES,
    Part,
    prepare,
    results_folder,
)


class Command(click.Command):
    """A command whose function returns (exit status, reason), or None for success."""

    def invoke(self, ctx: click.Context) -> int:
        if ctx.obj:
            from dpjax.engine.settings import keep_compiled

            keep_compiled()
        try:
            with _failed_figures() as failed:
                status, reason = super().invoke(ctx) or (0, "")
        except KeyboardInterrupt as interrupt:
            store = ctx.params.get("store")
            rest = f"{store} has the finished part: pass --resume" if store else (
                "nothing was written")  # fmt: skip
            _complain(f"dpjax: interrupted; {interrupt if interrupt.args else rest}")
            return 130
        for complaint in [*failed, *([reason] if status else [])]:
            _complain(f"dpjax: {complaint}")
        return status or int(bool(failed))


class Commands(click.Group):
    """All commands."""

    command_class = Command


@rarely_collected()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
      arguments: the words after ``dpjax``; None for those of this process, which then caches
        compiled programs on disk (:func:`dpjax.keep_compiled`).

    Returns:
      The exit status. It is 0 on success. It is 1 if an audit or comparison found a violation of a
      declaration, and 3 if it could not decide. It is 1 if the results were written but a figure
      was not. It is 130 if the command was interrupted or terminated, and 2 after any other error.
      If it is not 0, a sentence on stderr gives the reason.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the stream cannot encode are written as escapes.
            stream.reconfigure(errors="backslashreplace")
    of_process = arguments is None
    if of_process:
        # Clusters end a job with SIGTERM. Like Ctrl-C, it leaves nothing half written.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with commands.make_context("dpjax", words, obj=of_process) as context:
            status = commands.invoke(context)
        sys.stdout.flush()
        return status
    except click.exceptions.Exit as end:  # of --help and --version
        return end.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "dpjax"
        _complain(f"{command}: {error.format_message()} ({command} --help shows the usage)")
    except BrokenPipeError:  # The reader, such as head, has read enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ImportError) as error:
        _complain(f"dpjax: {error}")
    except MemoryError as error:
        _complain(f"dpjax: there is not enough memory ({error})")
    return 2


def _complain(sentence: str) -> None:
    from dpjax.report.output import shown

    print(shown(sentence), file=sys.stderr)


@contextmanager
def _failed_figures() -> Iterator[list]:
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


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        from dpjax.core._version import __version__

        print(f"dpjax {__version__}")
        context.exit()


@click.group(cls=Commands, no_args_is_help=False)
@option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version,
        help="Show the version.")  # fmt: skip
def commands() -> None:
    """Simulates differentially private online learning and bandits."""


number = functools.partial(option, show_default=True)
flag = functools.partial(option, is_flag=True)


def several(*options: Callable) -> Callable:
    """Several options as one decorator."""
    return lambda function: functools.reduce(lambda f, add: add(f), reversed(options), function)


def output(default: str | None, words: str = "the folder of the results") -> Callable:
    """The options of the folder of results."""
    return several(
        number("--out", default=default, metavar="DIR", help=words),
        flag("--overwrite", help="replace the results of an earlier run in DIR"),
    )


def levels(default: tuple[float, ...] | None = None) -> Callable:
    """The privacy levels; without a default these are 0.1, 1, 10 and inf."""
    words = "privacy levels, inf for no privacy  [default: 0.1,1,10,inf]"
    return option("--epsilon", "epsilons", type=LEVELS, default=default, help=words)


SCALE = several(
    option("--store", metavar="PATH", help="a folder or URL for Zarr stores, to which results are "
           "written chunk by chunk"),
    flag("--resume", help="continue from the store in PATH"),
    option("--devices", type=int, metavar="N", help="share the work among N devices or CPU cores"),
)  # fmt: skip
NO_ATTACK = flag("--no-attack", help="replay only, which is faster")
STATUS = """Exit status: 0 if no violation was found, 1 if one was found, 2 after an error, and 3 if
the audit cannot decide: the learner cannot be replayed, it releases more than is needed, no
release was reached, or the attack was stopped."""


@commands.command("list")
def listing() -> None:
    """List learners, mechanisms, environments and papers."""
    from dpjax import environments, learners, mechanisms

    for package in (learners, mechanisms, environments, papers):
        print(f"{package.__name__.rpartition('.')[2]}:")
        width = max(map(len, package.__all__))
        for name in package.__all__:
            # On the command line the names of papers have hyphens.
            word = name.replace("_", "-") if package is papers else name
            first, *_ = (inspect.getdoc(getattr(package, name)) or "").splitlines() or [""]
            print(f"  {word:{width}}  {first}")


@commands.command()
@argument("study", required=False, metavar="[FILE[:NAME]]")
@option("--losses", metavar="FILE", help="instead of a study: (T, K) losses in [0, 1], a row for "
        "each round, as text, .parquet, .feather, .npy or .npz; or labelled rows")  # fmt: skip
@option("--learner", "names", type=NAMES, multiple=True, help="as dpjax list shows them")
@option("--features", type=COLUMNS, help="columns that learners observe before they choose; the "
        "others are losses")  # fmt: skip
@option("--label", metavar="COLUMN", help="the column of labels: each row is a case, and each arm "
        "is a guess of its label")  # fmt: skip
@option("--missing", multiple=True, metavar="WORD", help="a word that means a missing entry")
@option("--keep", multiple=True, metavar="WORD", help="a word that means no missing entry, such as "
        "the label NA")  # fmt: skip
@levels()
@option("--seeds", type=int, metavar="N", help="number of trials  [default: 100]")
@option("--horizon", type=int, metavar="T", help="number of rounds  [default: all rows]")
@option("--seed", type=int, help="of the random key  [default: 0]")
@output(None, "the folder of the results  [default: results/run, or results/study]")
@SCALE
@option("--part", type=Part(), help="play the I-th of N parts into --store, as in an array of "
        "jobs; then run the command with --resume instead of --part to read them all")  # fmt: skip
def run(
    study: str | None, losses: str | None, out: str | None, overwrite: bool, store: str | None,
    resume: bool, devices: int | None, part: tuple[int, int] | None, **options: Any,
) -> None:  # fmt: skip
    """Play a study, or learners on your own losses.

    FILE is run as a Python program that defines a Study.
    """
    from dpjax.cli import run

    options = {name: value for name, value in options.items() if value not in (None, ())}
    options |= {"names": sum(options["names"], ())} if "names" in options else {}
    mesh = prepare(store, resume, devices, part)
    plan = run.plan(study, losses, **options)
    if part:
        plan.study.run(store, mesh=mesh, part=part)
        print(f"Part {part[0]} of {part[1]} is in {store}.")
        return
    out = results_folder(plan.out if out is None else out, overwrite)
    print(run.play(plan, out, store=store, mesh=mesh))
    _written_to(out)


@commands.command()
@argument("paper")
@flag("--quick", help="only the main table, of short games with few settings")
@output(None, "the folder of the results  [default: results/PAPER]")
@SCALE
def reproduce(
    paper: str, quick: bool, out: str | None, overwrite: bool, store: str | None, resume: bool,
    devices: int | None,
) -> None:  # fmt: skip
    """Rebuild a paper's figure and table."""
    from dpjax.core import _check
    from dpjax.papers.sweeps import playing

    names = [name.replace("_", "-") for name in papers.__all__]
    if paper not in names:
        raise ValueError(f"paper: there is no {paper!r}{_check.nearest(paper, names)}; known are "
                         f"{', '.join(names)}")  # fmt: skip
    out = results_folder(f"results/{paper}" if out is None else out, overwrite)
    mesh = prepare(store, resume, devices)
    module = getattr(papers, paper.replace("-", "_"))
    sizes = {"horizon": module.QUICK_HORIZON, "trials": module.QUICK_TRIALS, "main_only": True}
    with playing(stores=store, mesh=mesh):
        print(module.reproduce(out, **sizes if quick else {}))
    _written_to(out)


@commands.command()
@argument("names", nargs=-1, metavar="[NAME]...")
@flag("--all", "every", help="every theorem")
@flag("--search", help="search for the worst environments instead of playing fixed ones")
@option("--environment", "files", multiple=True, metavar="FILE[:NAME]", help="play your own "
        "environment instead: a Python file, which is run, and a name in it; may be given several "
        "times")  # fmt: skip
@levels()
@number("--horizon", default=2**14, metavar="T", help="longest of three, a quarter apart")
@number("--trials", default=200, metavar="N")
@output("results/theorem")
def theorem(names: Sequence[str], every: bool, out: str, overwrite: bool, **options: Any) -> None:
    """Compare measured regret with the bound of a theorem.

    NAME is a theorem, a learner or a paper. Without a name, all theorems are listed.
    """
    from dpjax.cli import theorem

    if names and every:
        raise ValueError("theorem: name some, or pass --all")
    if not names and not every:
        print(theorem.listing())
        return
    out = results_folder(out, overwrite)
    print(theorem.run(None if every else names, out, **options))
    _written_to(out)


@commands.command(epilog=STATUS)
@argument("file", metavar="FILE[:NAME]")
@option("--against", type=NAMES, help="as dpjax list shows them  [default: all with the same "
        "actions and feedback]")  # fmt: skip
@levels(EPSILONS)
@number("--horizon", default=10**5, metavar="T")
@number("--trials", default=200, metavar="N")
@number("--runs", default=2**14, metavar="N", help="counted runs of each sequence in the attack")
@NO_ATTACK
@output("results/compare")
def compare(
    file: str, runs: int, no_attack: bool, out: str, overwrite: bool, **options: Any
) -> tuple[int, str]:
    """Audit your own learner, and compare it with the built-in ones.

    FILE is run as a Python program: pass only files that you would run. Without NAME, the factory
    is the only public function in it that requires horizon.
    """
    from dpjax.cli import compare

    out = results_folder(out, overwrite)
    text, status, reason = compare.run(file, out, runs=None if no_attack else runs, **options)
    print(text)
    _written_to(out)
    return status, reason


@commands.command()
@argument("path", metavar="STORE|FOLDER|data.nc")
@option("--out", metavar="FILE", help="[default: next to the input, as .html]")
@flag("--overwrite", help="replace FILE")
def explore(path: str, out: str | None, overwrite: bool) -> None:
    """Make an interactive page of results, readable offline.

    The input is a store (a folder or URL), or the results of dpjax run.
    """
    from dpjax.cli import explore

    _written_to(explore.run(path, out, overwrite=overwrite))


@commands.command(epilog=STATUS)
@argument("names", nargs=-1, metavar="[NAME|FILE[:NAME]]...")
@flag("--all", "every", help="every learner")
@number("--epsilon", default=1.0, metavar="E")
@option("--horizon", type=int, metavar="T", help="rounds of each game; later ones are not audited  "
        "[default: 16, or more if nothing is released in 16]")  # fmt: skip
@number("--runs", default=2**17, metavar="N", help="counted runs of each sequence")
@number("--minutes", default=20.0, metavar="M", help="time limit of the attack of a learner")
@NO_ATTACK
@number("--changed", default=1, metavar="K", help="audit the privacy loss of a group of K changed "
        "rounds")  # fmt: skip
@output("results/audit")
def audit(
    names: Sequence[str], every: bool, runs: int, no_attack: bool, out: str, overwrite: bool,
    **options: Any,
) -> tuple[int, str]:  # fmt: skip
    """Replay and attack a learner's calibration.

    NAME is as dpjax list shows it, or FILE is a Python file, which is run, and NAME a name in it.
    """
    from dpjax.cli import audits

    if bool(names) == every:
        raise ValueError("audit: name learners, or pass --all")
    out = results_folder(out, overwrite)
    options["runs"] = None if no_attack else runs
    text, status, reason = audits.run(None if every else names, out, **options)
    print(text if status else f"{text}\n{reason}")
    _written_to(out)
    return status, reason


def _written_to(out) -> None:
    from dpjax.report.output import shown

    print(f"\nWritten to {shown(out)}.")
