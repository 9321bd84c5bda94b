"""Several processes share a study: each plays its part into one store."""

import numpy as np
import pytest

import dpjax
from dpjax.study import watched
from tests.engine.test_devices import free_port, run_children
from tests.study.shared_play import study


def test_two_processes_play_what_one_plays(tmp_path, monkeypatch):
    store, port = tmp_path / "store", free_port()
    command = ["-m", "tests.study.shared_play", store, "--port", port, "--process"]
    outputs = run_children([[*command, process] for process in range(2)], 240)
    assert all(output.rstrip().endswith("shared") for output in outputs)
    whole = study().run(progress=False)

    def read_only(plan, blocks):
        assert not list(blocks), "a block is played again"
        yield from ()

    monkeypatch.setattr(watched, "compute", read_only)
    opened = dpjax.open(store)
    read = study().run(store, progress=False)
    assert opened.identical(read)
    for name in whole.data_vars:
        np.testing.assert_array_equal(read[name], whole[name])
    with pytest.raises(AssertionError, match="played again"):
        study().run(tmp_path / "another", progress=False)
