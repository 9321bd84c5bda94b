"""Writes what each test took, as a line of a CSV file, when the test ends.

    pytest --times=times.csv

The columns are seconds of CPU time of the test with its fixtures and ended child processes, seconds
on the clock in tracing, lowering and compiling, and in child processes, and the result.
"""

import csv
import resource
import time

import jax
import pytest

COLUMNS = ["test", "cpu", "clock", "tracing", "lowering", "compiling", "children", "result"]
_EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "compiling",
}
_spent = dict.fromkeys(_EVENTS.values(), 0.0)


def _listen(event, seconds, **_):
    if event in _EVENTS:
        _spent[_EVENTS[event]] += seconds


def _children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _now():
    return {
        "cpu": time.process_time(),
        "clock": time.perf_counter(),
        "children": _children(),
        **_spent,
    }


class Times:
    """A plugin of pytest, for the option ``--times``."""

    def __init__(self, config):
        self.file, self.results = config.getoption("--times"), {}
        if hasattr(config, "workerinput"):
            self.file = None
        elif self.file:
            with open(self.file, "w", newline="") as out:
                csv.writer(out).writerow(COLUMNS)
        jax.monitoring.register_event_duration_secs_listener(_listen)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        item.stash[_BEGIN] = _now()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.when == "teardown":
            begin, end = item.stash[_BEGIN], _now()
            taken = {name: end[name] - begin[name] for name in end}
            taken["cpu"] += taken["children"]
            report.times = {name: round(value, 3) for name, value in taken.items()}
        return report

    def pytest_runtest_logreport(self, report):
        if self.file is None:
            return
        before = self.results.get(report.nodeid, "passed")
        self.results[report.nodeid] = before if report.passed else report.outcome
        if report.when == "teardown":
            row = {"test": report.nodeid, **report.times, "result": self.results[report.nodeid]}
            with open(self.file, "a", newline="") as out:
                csv.DictWriter(out, COLUMNS).writerow(row)


_BEGIN = pytest.StashKey[dict]()
