# SPDX-License-Identifier: Apache-2.0
"""Lost ranks that get new processes, on real Spark. Without Spark: tests/python."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import sparkring
from conftest import BOTH
from pyspark import cloudpickle
from sparkring.spark import run

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have this file


def rebuild(comm, path, deaths):
    """Twenty steps, which lost ranks and a failure of the new process of one do not undo."""
    Path(path, f"process-{comm.rank}-{os.getpid()}").touch()
    step, total = 0, np.zeros(3)
    while True:
        try:
            farthest = int(comm.allgather(np.array(step)).argmax())
            step, total = comm.broadcast_object((step, total), farthest)
            while step < 20:
                for died in (
                    Path(path, f"{comm.rank}-{life}") for life in range(deaths[comm.rank])
                ):
                    if step >= 10 and not died.exists():
                        died.touch()
                        os.kill(os.getpid(), signal.SIGKILL)
                total = 0.9 * total + comm.allreduce(np.arange(3) / (1 + comm.rank + step))
                step += 1
            return comm.attempt, total.tobytes()
        except sparkring.RingError:
            comm = comm.grow()


@BOTH
def test_lost_ranks_are_replaced(spark, tmp_path, capfd):
    """Two are lost at once, one of them twice; the other two keep their processes."""
    options = {"num_proc": 4, "max_restarts": 2, "recovery": "replace"}
    well, lost = tmp_path / "well", tmp_path / "lost"
    well.mkdir(), lost.mkdir()
    undisturbed = run(rebuild, args=(str(well), [0] * 4), verbose=0, **options)
    ended = run(rebuild, args=(str(lost), [0, 1, 2, 0]), **options)
    assert ended == undisturbed
    assert {attempt for attempt, _ in ended} == {0}
    assert [len(list(lost.glob(f"process-{rank}-*"))) for rank in range(4)] == [1, 2, 3, 1]
    output = capfd.readouterr().out
    for rank, times in ((1, "1"), (2, "1"), (2, "2")):
        assert f"[{rank}] rank {rank} was killed by SIGKILL" in output
        assert f"it is started again ({times} of 2 times)" in output
    assert run(lambda comm: comm.size, num_proc=4, verbose=0) == [4] * 4  # no slot is taken
