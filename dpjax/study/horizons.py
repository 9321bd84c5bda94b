"""Lets the programs of a study that differ only in their horizon be compiled once."""

import warnings
from contextlib import suppress
from typing import Any

import numpy as np

from dpjax.engine import programs, settings
from dpjax.engine.blocks import Plan
from dpjax.study.programs import Program


class Horizons:
    """Finds the numbers that depend on the horizon, which become arguments of compiled programs.

    A game is traced at a second horizon too, and the numbers in which the two programs differ are
    such numbers. The second horizon follows from the first one and from the number of checkpoints
    alone. So a trial has the same bits in every study.
    """

    def __init__(self) -> None:
        self.traced: dict[Any, programs.Traced | None] = {}

    def lifted(self, program: Program, plan: Plan) -> Plan:
        """The plan of a program, in which these numbers are arguments.

        A short horizon serves most learners. If the program has other shapes there, such as those
        of a tree, it is compared with one halfway between the powers of two around its horizon,
        whose tree is as high. If that has other shapes too, all numbers stay. Either is traced once
        for many horizons of a study.
        """
        if "horizon" not in program.fixed:
            return plan
        own, short = program.values["horizon"], 4 * len(plan.rounds) + 1
        halfway = 3 << (own - 1).bit_length() >> 2
        for horizon in (short, halfway - (halfway == own)):
            other = self._at(program, plan, horizon) if horizon != own else None
            if other is not None and other.text == plan.traced.text:
                return plan._replace(traced=plan.traced.compared(other))
        return plan

    def _at(self, program, plan, horizon) -> programs.Traced | None:
        """The program as it is traced at a horizon, with as many checkpoints; None if it fails."""
        fixed = {**program.fixed, "horizon": None}
        place = id(program.part), program.learner, program.environment, *fixed.items(), horizon
        if place not in self.traced:
            self.traced[place] = None
            rounds = np.arange(1, len(plan.rounds) + 1) * horizon // len(plan.rounds)
            # A factory may refuse the horizon.
            with settings.own(), warnings.catch_warnings(), suppress(Exception):
                warnings.simplefilter("ignore")
                self.traced[place] = programs.trace(
                    program.game(horizon=horizon), plan.play, rounds, plan.points, plan.key.dtype
                )
        return self.traced[place]
