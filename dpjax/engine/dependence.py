"""Reads off a program, without running it, which outputs depend on given inputs."""

from dpjax.engine import walk


def depends(closed, flags) -> list[bool]:
    """Which outputs of a program depend on the inputs that are flagged."""
    return walk.evaluate(closed, flags, of_equation, constant=lambda array: False)


def of_equation(eqn, flags) -> list[bool]:
    """Which outputs of an equation depend on its operands that are flagged."""
    name, inner = eqn.primitive.name, walk.called(eqn)
    if not any(flags):
        return [False] * len(eqn.outvars)
    if inner is not None:
        return depends(inner, flags)
    if name == "cond":
        return of_cond(eqn, flags)
    if name == "scan":
        carried, rows = of_scan(eqn, flags)
        return [*carried, *rows]
    if name == "while":
        carried, _ = of_while(eqn, flags)
        return carried
    return [True] * len(eqn.outvars)


def of_cond(eqn, flags) -> list[bool]:
    """Which outputs of a condition depend on its operands that are flagged."""
    index, *flags = flags
    if index:
        return [True] * len(eqn.outvars)
    branches = [depends(branch, flags) for branch in eqn.params["branches"]]
    return [any(column) for column in zip(*branches, strict=True)]


def of_scan(eqn, flags) -> tuple[list[bool], list[bool]]:
    """Which carried values and which rows that come out of a scan depend on flagged operands."""
    step, start, rows = walk.scan_parts(eqn, flags, depends)
    carried = _fixed_point(lambda carry: step(carry, rows)[0], start)
    return carried, step(carried, rows)[1]


def of_while(eqn, flags) -> tuple[list[bool], bool]:
    """Which carried values of a while loop depend on flagged operands, and whether its length does.

    Where the number of its rounds depends on them, so does all that is carried.
    """
    going, step, start = walk.while_parts(eqn, flags, depends, depends)
    carried = _fixed_point(step, start)
    rounds = going(carried)
    return [rounds or flag for flag in carried], rounds


def _fixed_point(step, flags) -> list[bool]:
    """The least flags, at least those given, that a loop's body keeps."""
    while True:
        grown = [a or b for a, b in zip(flags, step(flags), strict=True)]
        if grown == flags:
            return flags
        flags = grown
