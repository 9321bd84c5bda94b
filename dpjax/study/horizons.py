"""Share a compiled program among programs of a study that differ only in their horizon."""

import logging
import warnings
from typing import Any

import numpy as np

from dpjax._garbage import rarely_collected
from dpjax.engine import executables, programs, settings
from dpjax.engine.blocks import Plan
from dpjax.mechanisms.prefix import rows
from dpjax.study.programs import StudyProgram
from dpjax.study.traces import trace

_log = logging.getLogger(__name__)


class Horizons:
    """Find the constants that depend on the horizon, and make them arguments of the program.

    Each game is also traced at a second horizon. The constants in which the two programs differ
    become arguments. The second horizon depends only on the first one and on the number of
    checkpoints, so a trial has the same bits in every study. If no trace
    failed, these constants are kept on disk, by the digest of the played program. Whichever
    constants are arguments, the program computes the same function.
    """

    def __init__(self) -> None:
        self.traced: dict[Any, programs.Traced | None] = {}

    def lifted(self, program: StudyProgram, plan: Plan) -> Plan:
        """The plan of a program, with the constants that depend on the horizon as arguments.

        A short second horizon is enough for most learners. At that horizon a tree may have another
        shape. Then a horizon is tried at which a tree has another height and as many rows, and then
        one with the same height. If shapes still differ, all constants stay in the program. Each
        second horizon is traced once and reused for other horizons of the study.
        """
        if "horizon" not in program.fixed:
            return plan
        played, checkpoints = program.values["horizon"], len(plan.rounds)
        height = (played - 1).bit_length()
        tallest = min(rows(height), 31)
        other, same = (3 << levels >> 2 for levels in (tallest - 4 * (height == tallest), height))
        others = [4 * checkpoints + 1, other, same - (same == played)]
        others = [horizon for horizon in others if checkpoints <= horizon != played]
        path = executables.path_of_differences(plan.traced, others)
        differences = executables.read(path) if path else None
        if differences is None:
            differences, lasting = self._differences(program, plan, others)
            if path and lasting:
                executables.write(path, lambda: differences)
        return plan._replace(traced=plan.traced.compared(differences))

    def _differences(self, program, plan, horizons) -> tuple[dict[int, np.ndarray], bool]:
        """The numbers that differ at the first horizon that gives the text of the program.

        And whether no trace failed. A failure may have another cause than the horizon.
        """
        lasting = True
        for horizon in horizons:
            other = self._at(program, plan, horizon)
            if other is not None and other.text == plan.traced.text:
                return plan.traced.differences(other), lasting
            lasting &= other is not None
        _log.info("%s is compiled for its horizon alone: no other gives this program", program)
        return {}, lasting

    @rarely_collected()
    def _at(self, program, plan, horizon) -> programs.Traced | None:
        """The program traced at a horizon with the same number of checkpoints; None if it fails."""
        fixed = {**program.fixed, "horizon": None}
        place = id(program.part), program.learner, program.environment, *fixed.items(), horizon
        if place not in self.traced:
            self.traced[place] = None
            rounds = np.arange(1, len(plan.rounds) + 1) * horizon // len(plan.rounds)
            try:
                with settings.of_sweep(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self.traced[place] = trace(
                        program.game(horizon=horizon), plan.play, rounds, plan.points,
                        plan.key.dtype,
                    )  # fmt: skip
            except Exception as reason:  # factories may refuse a horizon with any error
                _log.info("%s cannot be traced at horizon %d: %s", program, horizon, reason)
        return self.traced[place]
