# SPDX-License-Identifier: Apache-2.0
"""Lost ranks are replaced, and the others keep their memory. On real Spark: tests/spark."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import sparkring
from sparkring.spark import RankError, run

STEPS = 12


def once(folder: Path, name: str) -> bool:
    """Return whether this is the first call with this name, of any process."""
    try:
        (folder / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def end(how: str = "kill") -> None:
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


def sum_up(comm, folder, deaths, at_start=()):
    """Add up over all ranks. `deaths` has pairs of a rank and the step at which it dies once."""
    folder = Path(folder)
    step, total, grown = 0, np.zeros(3), 0
    for rank, name in at_start:
        if comm.rank == rank and (folder / f"{rank}-died").exists() and once(folder, name):
            end()
    while True:
        try:
            farthest = int(comm.allgather(np.array(step)).argmax())
            step, total = comm.broadcast_object((step, total), farthest)
            while step < STEPS:
                for rank, last in deaths:
                    if comm.rank == rank and step == last and once(folder, f"{rank}-died"):
                        end("exit" if last % 2 else "kill")
                total = total + comm.allreduce(np.arange(3.0) / (1 + comm.rank + step))
                step += 1
            return grown, comm.attempt, total.tobytes()
        except sparkring.RingError:
            comm = comm.grow()
            grown += 1


def expected(size):
    total = np.zeros(3)
    for step in range(STEPS):
        total = total + sum(np.arange(3.0) / (1 + rank + step) for rank in range(size))
    return total


def check(results, lost, size):
    """All have one sum, from the first attempt, and those that lived formed the ring again."""
    assert len({total for *_, total in results}) == 1
    assert np.allclose(np.frombuffer(results[0][-1]), expected(size))
    assert [attempt for _, attempt, _ in results] == [0] * size
    for rank, (grown, _, _) in enumerate(results):
        assert rank in lost or grown >= 1, (rank, grown)


@pytest.mark.parametrize(
    ("size", "deaths"), [(3, [(1, 4)]), (4, [(0, 3), (3, 3), (1, 8)]), (1, [(0, 1)])]
)
def test_sum_goes_on(tmp_path, size, deaths, capsys):
    results = run(
        sum_up,
        args=(str(tmp_path), deaths),
        num_proc=-size,
        max_restarts=1,
        recovery="replace",
    )
    check(results, {rank for rank, _ in deaths}, size)
    output = capsys.readouterr().out
    for rank, last in deaths:
        how = "failed with exit code 3" if last % 2 else "killed by SIGKILL"
        assert f"[{rank}] rank {rank} " in output and how in output and "1 of 1" in output


def test_another_rank_is_lost_meanwhile(tmp_path):
    """The new process of rank 1 dies at once, and the next one, too."""
    results = run(
        sum_up,
        args=(str(tmp_path), [(1, 4)], [(1, "again"), (1, "once more")]),
        num_proc=-3,
        max_restarts=3,
        recovery="replace",
        verbose=0,
    )
    check(results, {1}, 3)


def test_a_rank_that_is_lost_too_often(tmp_path):
    """The others do not wait for it; all are launched again, and fail by the same rank."""
    deaths = [(1, "again"), (1, "once more"), (1, "and again"), (1, "at last")]
    with pytest.raises(RankError, match=r"rank 1 .*SIGKILL"):
        run(
            sum_up,
            args=(str(tmp_path), [(1, 4)], deaths),
            num_proc=-3,
            max_restarts=1,
            recovery="replace",
            verbose=0,
        )
    assert (tmp_path / "and again").exists()


def give_up(comm, folder):
    """Rank 1 dies in the first attempt, and nobody calls grow()."""
    if comm.attempt == 0 and comm.rank == 1:
        end()
    comm.barrier()
    return comm.attempt


def test_without_grow_all_are_launched_again(tmp_path):
    results = run(
        give_up,
        args=(str(tmp_path),),
        num_proc=-3,
        max_restarts=1,
        recovery="replace",
        verbose=0,
    )
    assert results == [1, 1, 1]


def fail(comm):
    comm.barrier()
    if comm.rank == 1:
        raise ArithmeticError("out of paper")
    try:
        comm.barrier()
    except sparkring.RingError:
        comm.grow()


def test_an_exception_is_the_error_of_the_run():
    with pytest.raises(ArithmeticError, match="out of paper") as caught:
        run(fail, num_proc=-3, max_restarts=0, recovery="replace", verbose=0)
    assert caught.value.__cause__.rank == 1


def test_arguments():
    with pytest.raises(sparkring.InvalidError, match="'relaunch' or 'replace'"):
        run(fail, num_proc=-2, recovery="restart")
    with pytest.raises(sparkring.UnsupportedError, match="rows that a lost one has read"):
        run(fail, frame=object(), recovery="replace")


def grow_wrongly(comm):
    with comm.split(0) as half, pytest.raises(sparkring.InvalidError, match="last communicator"):
        half.grow()
    again = comm.grow()
    assert not comm.usable and again.allreduce(1) == 2
    with pytest.raises(sparkring.InvalidError, match="last communicator"):
        comm.grow()
    return again.rank


def test_grow_without_a_loss():
    """It is collective, for the communicator of init() alone; a run closes the new one."""
    assert run(grow_wrongly, num_proc=-2, recovery="replace", verbose=0) == [0, 1]


def grow_in_vain(comm, works):
    if comm.rank == 1 and not works:
        raise ArithmeticError("out of paper")
    try:
        comm.barrier()
    finally:
        comm.grow()


def test_grow_where_nobody_is_replaced():
    """It does not hide the failure of the communicator."""
    with pytest.raises(ArithmeticError, match="out of paper"):
        run(grow_in_vain, args=(False,), num_proc=-2, verbose=0)
    with pytest.raises(sparkring.UnsupportedError, match="recovery='replace'"):
        run(grow_in_vain, args=(True,), num_proc=-2, verbose=0)
