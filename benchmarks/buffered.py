"""Compute parameters of dpjax.mechanisms.buffered with jax_privacy's optimiser.

    python benchmarks/buffered.py                    # prints dpjax/mechanisms/buffered.csv
    python benchmarks/buffered.py 3000 --buffers 5   # prints one pair to pass as parameters=

It needs jax_privacy (pip install 'dpjax[mf]') and takes a few seconds per number of prefixes.
"""

import argparse
import sys

import jax

SIZES = [2**i for i in range(6, 21)]
BUFFERS = 4


def optimiser():
    """Returns jax_privacy's optimiser, or exits and says how to install it."""
    try:
        from jax_privacy.matrix_factorization.buffered_toeplitz import optimize
    except ModuleNotFoundError as error:
        sys.exit(f"benchmarks/buffered.py needs jax_privacy: pip install 'dpjax[mf]' ({error})")
    # For long streams, the decays are closer to 1 than float32 can represent.
    jax.config.update("jax_enable_x64", True)
    return optimize


def parameters(optimize, prefixes, buffers) -> tuple[list[str], list[str]]:
    """Returns the decays and the scales, with ten digits each."""
    found = optimize(n=prefixes, min_buffers=buffers, max_buffers=buffers, error="max")
    both = found.buf_decay, found.output_scale
    return tuple([f"{float(value):.10g}" for value in values] for values in both)


def at_least(minimum):
    """An argparse type: an integer of at least ``minimum``."""

    def number(text):
        value = int(text)
        if value < minimum:
            raise argparse.ArgumentTypeError(f"must be at least {minimum}, got {value}")
        return value

    return number


def main():
    """Prints the whole table or one pair."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prefixes", nargs="?", type=at_least(2), help="N; default: the whole table")
    parser.add_argument("--buffers", type=at_least(1), help=f"default: {BUFFERS} buffers")
    arguments = parser.parse_args()
    if arguments.prefixes is None and arguments.buffers is not None:
        parser.error(f"--buffers needs a number of prefixes; the table has {BUFFERS} buffers")
    optimize = optimiser()
    if arguments.prefixes is not None:
        decays, scales = parameters(optimize, arguments.prefixes, arguments.buffers or BUFFERS)
        print(f"(({', '.join(decays)},),\n ({', '.join(scales)},))")
        return
    for size in SIZES:
        decays, scales = parameters(optimize, size, BUFFERS)
        print(",".join([str(size), *decays, *scales]), flush=True)


if __name__ == "__main__":
    main()
