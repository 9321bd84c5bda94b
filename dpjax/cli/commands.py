"""The command line: ``dpjax list``, ``run``, ``reproduce`` and ``audit``."""

import argparse
import inspect
import io
import os
import sys
import warnings
from contextlib import contextmanager

import jax
import numpy as np
from jax.sharding import Mesh

from dpjax import __version__, _check, environments, learners, mechanisms, papers, store
from dpjax.analysis.output import FigureWarning, refuse_to_overwrite, shown
from dpjax.cli import audits, config, run, theorem
from dpjax.papers.sweeps import kept_in, on_devices

# The most devices that --devices makes. Each device that is made of a CPU has its own threads.
DEVICES = 1024


def main(arguments=None) -> int:
    """Runs a command.

    Returns:
      The exit status. It is 0 where all went well. Otherwise a sentence on stderr says what is
      wrong, and the status is 1 where everything but a figure was written, 130 where the command
      was interrupted, and 2 elsewhere.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the encoding of the stream lacks is written as an escape.
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    try:
        with _failed_figures() as failed:
            options.command(options)
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
    for figure in failed:
        _complain(figure)
    return 1 if failed else 0


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


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {shown(message)} ({self.prog} --help shows the usage)\n")

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            known = ", ".join(action.choices)
            meant = _check.nearest(value, action.choices)
            raise argparse.ArgumentError(action, f"there is no {value!r}{meant}; known are {known}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
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
    reproduce.add_argument("--quick", action="store_true", help="shorter, with fewer trials")
    _add_output(reproduce, "results/PAPER")
    _add_scale(
        reproduce, "a folder or URL for Zarr stores, one a sweep, that keep results chunk by chunk"
    )

    _add_theorem(commands)

    audit = commands.add_parser("audit", help="replay and attack a learner's calibration")
    audit.set_defaults(command=_audit)
    audit.add_argument("learner", nargs="*", metavar="NAME", help="as dpjax list shows them")
    audit.add_argument("--all", action="store_true", help="every learner")
    audit.add_argument("--epsilon", type=float, default=1.0, metavar="E", help="default 1")
    audit.add_argument(
        "--runs", type=int, default=audits.RUNS, metavar="N",
        help=f"counted runs of each sequence (default {audits.RUNS})",
    )  # fmt: skip
    _add_output(audit, "results/audit")
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
        "--epsilon", type=_epsilons, metavar="E,E,...",
        help="privacy levels, inf for none (default 0.1,1,10,inf)",
    )  # fmt: skip
    run.add_argument("--seeds", type=int, metavar="N", help="default 100")
    run.add_argument("--horizon", type=int, metavar="T", help="default: all rows")
    run.add_argument("--seed", type=int, help="of the random key (default 0)")
    _add_output(run, "results/run")
    _add_scale(run, "a folder or URL for a Zarr store that keeps results chunk by chunk")


def _add_theorem(commands) -> None:
    theorem = commands.add_parser("theorem", help="measure regret beside the bound of a theorem")
    theorem.set_defaults(command=_theorem)
    theorem.add_argument(
        "names", nargs="*", metavar="NAME",
        help="theorems, learners or papers; without any, all are listed",
    )  # fmt: skip
    theorem.add_argument("--all", action="store_true", help="every theorem")
    theorem.add_argument(
        "--epsilon", type=_epsilons, metavar="E,E,...",
        help="privacy levels, inf for none (default 0.1,1,10,inf)",
    )  # fmt: skip
    theorem.add_argument(
        "--horizon", type=int, default=2**14, metavar="T",
        help="the longest of three horizons, each a quarter of the next (default 16384)",
    )  # fmt: skip
    theorem.add_argument("--trials", type=int, default=200, metavar="N", help="default 200")
    _add_output(theorem, "results/theorem")


def _add_output(command, default) -> None:
    command.add_argument("--out", metavar="DIR", help=f"default {default}")
    command.add_argument(
        "--overwrite", action="store_true", help="replace the results of an earlier run in DIR"
    )


def _add_scale(command, stored) -> None:
    command.add_argument("--store", metavar="PATH", help=stored)
    command.add_argument("--resume", action="store_true", help="go on with what PATH has")
    command.add_argument(
        "--devices", type=int, metavar="N", help="share the work among N devices (or CPU cores)"
    )


def _output(options, default) -> str:
    """The folder for results.

    Raises:
      ValueError: it holds results, and nobody asked to replace them.
    """
    out = default if options.out is None else options.out
    if not out:
        raise ValueError("out: must name a folder, got ''")
    if not options.overwrite:
        refuse_to_overwrite(out)
    return out


def _prepare(options) -> Mesh | None:
    """Makes the devices and checks the store, which must precede JAX's first computation.

    Returns:
      A mesh of the devices that were asked for; None where none were.

    Raises:
      ValueError: there are fewer devices, or the store cannot be used as it was asked for.
    """
    mesh = None
    if options.devices is not None:
        _check.between(1, DEVICES, devices=options.devices)
        jax.config.update("jax_num_cpu_devices", options.devices)
        if jax.device_count() < options.devices:
            raise ValueError(
                f"devices: {options.devices} were asked for, but there are {jax.device_count()}"
            )
        mesh = Mesh(np.array(jax.devices()[: options.devices]), ("devices",))
    if options.store is None:
        if options.resume:
            raise ValueError("resume: there is nothing to go on with; say --store PATH")
    elif not options.store:
        raise ValueError("store: must name a folder or URL, got ''")
    elif os.path.exists(options.store) and not os.path.isdir(options.store):
        raise ValueError(f"store: {options.store} is no folder")
    elif not _is_empty(options.store) and not options.resume:
        raise ValueError(
            f"store: {options.store} is not empty; say --resume to go on with it, or name another"
        )
    return mesh


def _is_empty(url) -> bool:
    """Whether there is nothing in a store.

    Raises:
      ValueError: the URL cannot be opened. Many libraries open URLs, and the message quotes theirs.
    """
    try:
        return store.is_empty(url)
    except (ValueError, OSError, ImportError) as error:
        raise ValueError(f"store: {url} cannot be opened: {error}") from None


def _epsilons(text) -> tuple[float, ...]:
    try:
        found = tuple(float(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be numbers separated by commas, got {text[:80]!r}"
        ) from None
    if np.inf in found and "inf" not in text.lower():
        raise argparse.ArgumentTypeError(
            f"has a number beyond what a float holds; inf is for no noise, got {text[:80]!r}"
        )
    return found


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
        out = _output(options, "results/study")
        print(config.run(options.config, out, store=options.store, mesh=_prepare(options)))
        return _written_to(out)
    if options.learner is None:
        raise ValueError("learner: name one that plays on the losses, with --learner NAME")
    out = _output(options, "results/run")
    with on_devices(_prepare(options)):
        text = run.run(
            options.losses,
            options.learner,
            out,
            epsilons=options.epsilon,
            seeds=100 if options.seeds is None else options.seeds,
            horizon=options.horizon,
            seed=0 if options.seed is None else options.seed,
            store=options.store,
        )
    print(text)
    _written_to(out)


def _audit(options) -> None:
    if bool(options.learner) == options.all:
        raise ValueError("audit: name learners, or say --all")
    out = _output(options, "results/audit")
    names = None if options.all else options.learner
    print(audits.run(names, out, epsilon=options.epsilon, runs=options.runs))
    _written_to(out)


def _theorem(options) -> None:
    if options.names and options.all:
        raise ValueError("theorem: name some, or say --all")
    if not options.names and not options.all:
        print(theorem.listing())
        return
    out = _output(options, "results/theorem")
    sizes = {"horizon": options.horizon, "trials": options.trials}
    words = None if options.all else options.names
    print(theorem.run(words, out, epsilons=options.epsilon, **sizes))
    _written_to(out)


def _reproduce(options) -> None:
    out = _output(options, f"results/{options.paper}")
    mesh = _prepare(options)
    paper = getattr(papers, options.paper.replace("-", "_"))
    sizes = {"horizon": paper.QUICK_HORIZON, "trials": paper.QUICK_TRIALS} if options.quick else {}
    with kept_in(options.store), on_devices(mesh):
        print(paper.reproduce(out, **sizes))
    _written_to(out)
