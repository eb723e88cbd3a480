# SPDX-License-Identifier: Apache-2.0
"""sparkring.spark.run without Spark: a negative num_proc. Spark itself is in tests/spark."""

from __future__ import annotations

import functools
import math
import operator
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest
import sparkring
from sparkring.spark import Checkpoint, RankError, run


@pytest.fixture
def output(capsys):
    """What run() shows."""
    return lambda: capsys.readouterr().out.splitlines()


def scale(comm, factor, plus=0):
    print(f"rank {comm.rank} works")
    return comm.rank, comm.size, comm.attempt, float(comm.allreduce(factor * comm.rank + plus))


def test_results_and_output(output):
    assert run(scale, args=(2.0,), kwargs={"plus": 1.0}, num_proc=-3) == [
        (rank, 3, 0, 9.0) for rank in range(3)
    ]
    assert sorted(output()) == [f"[{rank}] rank {rank} works" for rank in range(3)]
    assert run(lambda comm: comm.size, num_proc=-1, verbose=0) == [1]


def test_objects_of_the_script():
    script = {"__name__": "__main__"}
    exec("import enum\nclass Color(enum.Enum):\n    RED = 1\n", script)
    color = script["Color"]

    def swap(comm):
        colors = comm.allgather_object(color.RED)
        increase = comm.broadcast_object((lambda x: x + 1) if comm.rank == 0 else None)
        return [found is color.RED for found in colors], increase(1)

    assert run(swap, num_proc=-2, verbose=0) == [([True, True], 2)] * 2


def fail(comm, how):
    print(f"rank {comm.rank} was here")
    comm.barrier()
    if comm.rank == 1:
        if how == "raise":
            raise ArithmeticError("out of paper")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)
    comm.barrier()


def test_exception_of_the_rank_at_fault(output):
    with pytest.raises(ArithmeticError, match="out of paper") as caught:
        run(fail, args=("raise",), num_proc=-3)
    cause = caught.value.__cause__
    assert isinstance(cause, RankError)
    assert (cause.rank, cause.attempt, cause.log) == (1, 0, ["rank 1 was here"])
    assert cause.host
    assert "in fail" in cause.remote_traceback


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("kill", r"was killed by SIGKILL \(probably out of memory: start fewer ranks"),
        ("exit", "ended without a result, with exit code 0"),
    ],
)
def test_a_rank_that_leaves_no_result(how, text):
    with pytest.raises(RankError, match=f"^rank 1 on {socket.gethostname()} {text}") as caught:
        run(fail, args=(how,), num_proc=-2, verbose=0)
    assert (caught.value.rank, caught.value.log) == (1, ["rank 1 was here"])


def hang(comm):
    comm.barrier()
    if comm.rank == 0:
        raise ArithmeticError
    time.sleep(1000)


def test_ranks_that_do_not_notice_are_ended():
    with pytest.raises(ArithmeticError):
        run(hang, num_proc=-2, verbose=0)


def resume(comm, folder):
    checkpoint = Checkpoint(comm, folder)
    state = checkpoint.restore(default=[])
    state.append(comm.attempt)
    checkpoint.save(state)
    comm.barrier()
    if comm.attempt < 2:
        raise ArithmeticError
    return state


def test_restarts(tmp_path, output):
    assert run(resume, args=(tmp_path / "states",), num_proc=-2, max_restarts=3) == [[0, 1, 2]] * 2
    assert [line for line in output() if "again" in line][1].endswith("again (2 of 3 times)")
    with pytest.raises(ArithmeticError) as caught:
        run(fail_always, num_proc=-2, max_restarts=1, verbose=0)
    assert caught.value.__cause__.attempt == 1


def test_relative_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(resume, args=("states",), num_proc=-1, max_restarts=2, verbose=0) == [[0, 1, 2]]
    assert (tmp_path / "states").is_dir()


def fail_always(comm):
    raise ArithmeticError


def unpicklable(comm):
    return (value for value in ())


def test_result_that_cannot_be_sent():
    with pytest.raises(
        TypeError, match=r"f returned a value on rank 0, of type generator, that"
    ) as e:
        run(unpicklable, num_proc=-1, verbose=0)
    assert e.value.__cause__.rank == 0


def of_a_module_that_only_ranks_have(comm):
    module = types.ModuleType("only_there")
    exec("class Value: pass", module.__dict__)
    sys.modules["only_there"] = module
    return module.Value() if comm.rank == 1 else 0


def test_result_that_cannot_be_read():
    with pytest.raises(
        RankError, match=r"^rank 1 on .* a value of type Value that.*only_there"
    ) as e:
        run(of_a_module_that_only_ranks_have, num_proc=-2, verbose=0)
    assert e.value.rank == 1
    assert isinstance(e.value.__cause__, ModuleNotFoundError)


def train(rate):
    return rate


def generate(comm):
    yield comm.rank


async def work(comm):
    return comm.rank


async def stream(comm):
    yield comm.rank


class Worker:
    async def __call__(self, comm):
        return comm.rank


@pytest.mark.parametrize(
    ("f", "given", "text"),
    [
        (3, {}, "f is of type int"),
        (generate, {}, r"f, generate, is a generator function \(it has yield\).*; return a list"),
        (functools.partial(work), {}, r"f, work, is a coroutine function.*asyncio\.run\(\)"),
        (stream, {}, "is an async generator function"),
        (Worker(), {}, "f, Worker, is a coroutine function"),
        (Worker().__call__, {}, "f, __call__, is a coroutine function"),
        (scale, {"args": "abc"}, r"args=\('abc',\)"),
        (scale, {"args": 5}, r"args is of type int: pass a tuple, as in args=\(value,\)"),
        (scale, {"args": np.zeros(1)}, "args is of type ndarray: pass a tuple"),
        (scale, {"kwargs": [1]}, "kwargs is of type list: pass a dictionary"),
        (scale, {"kwargs": {1: 1}}, "kwargs has the name 1, which is no string"),
        (
            scale,
            {"args": (threading.Lock(),)},
            r"cannot be sent to the ranks: .*[^.]\. Make objects that",
        ),
        (train, {"args": (0.5,)}, r"f\(comm, .* train\(rate\) does not take: too many positional"),
        (lambda: 0, {}, r"which <lambda>\(\) does not take"),
        (scale, {}, "does not take: missing a required argument: 'factor'"),
        (scale, {"args": (1,), "kwargs": {"minus": 1}}, "unexpected keyword argument 'minus'"),
        (scale, {"num_proc": 0}, "num_proc is 0"),
        (scale, {"num_proc": True}, "num_proc is True: pass a whole number"),
        (scale, {"num_proc": 2.0}, r"num_proc is 2\.0: pass a whole number"),
        (scale, {"max_restarts": -1}, "max_restarts is -1"),
        (scale, {"max_restarts": None}, "max_restarts is None: pass a whole number"),
        (scale, {"timeout": 0}, "timeout is 0: it must be a positive, finite number"),
        (scale, {"timeout": None}, "timeout is None: it must be"),
        (scale, {"timeout": math.inf}, "timeout is inf: it must be"),
        (scale, {"call_timeout": math.inf}, "call_timeout is inf: it must be"),
        (train, {"resources": object()}, "resources is for Spark"),
    ],
)
def test_arguments(f, given, text):
    with pytest.raises(sparkring.InvalidError, match=text):
        run(f, **{"num_proc": -1, "verbose": 0, **given})


@pytest.mark.parametrize("name", ["token", "connection"])
def test_unknown_arguments(name):
    with pytest.raises(TypeError, match=f"no argument '{name}'"):
        run(scale, num_proc=-2, **{name: "x"})


def fork(comm, how):
    child = os.fork()
    if child == 0:
        if how == "raise":
            raise ArithmeticError("of the child")
        if how == "exit":
            sys.exit(3)
        return "child"
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), float(comm.allreduce(1.0))


@pytest.mark.parametrize(("how", "code"), [("return", 0), ("raise", 1), ("exit", 3)])
def test_a_forked_process_that_comes_out_of_f(how, code, output):
    assert run(fork, args=(how,), num_proc=-2) == [(code, 2.0)] * 2
    assert ("[1] ArithmeticError: of the child" in output()) == (how == "raise")


def return_rank(comm):
    return comm.rank


def return_main(comm):
    return comm.size


@pytest.mark.parametrize("f", [lambda comm: comm.rank, return_main])
def test_without_cloudpickle(monkeypatch, f):
    """It brings lambdas, and what was defined where the call is."""
    for name in ("cloudpickle", "pyspark.cloudpickle", "pyspark"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "pyspark")
    assert run(return_rank, num_proc=-2, verbose=0) == [0, 1]
    monkeypatch.setattr(return_main, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "return_main", return_main, raising=False)
    with pytest.raises(sparkring.InvalidError, match="Install cloudpickle, or pyspark, which"):
        run(f, num_proc=-2, verbose=0)


def return_early(comm):
    return comm.allreduce(1.0) if comm.rank else None


def test_a_rank_that_returns_early_is_reported_at_once():
    begin = time.monotonic()
    with pytest.raises(sparkring.MismatchError, match=r"called close\(\) .* has returned$"):
        run(return_early, num_proc=-3, verbose=0, call_timeout=300)
    assert time.monotonic() - begin < 100


def return_late(comm):
    with comm.split(int(comm.rank > 0)) as rest:
        for _ in range(8 if comm.rank else 0):
            rest.barrier()
            time.sleep(0.5)


def test_ranks_may_end_later_than_the_call_timeout():
    assert run(return_late, num_proc=-3, verbose=0, call_timeout=2) == [None] * 3


def test_functions_of_all_kinds():
    partial = functools.partial(scale, factor=1.0)
    assert run(partial, num_proc=-1, verbose=0) == [(0, 1, 0, 0.0)]
    assert run(operator.attrgetter("size"), num_proc=-1, verbose=0) == [1]  # has no signature


def report(comm):
    for step in range(4):
        comm.progress(step + 1, 4, loss=1 / (step + 1))
        comm.barrier()
    with pytest.raises(sparkring.InvalidError, match="loss is of type str: progress takes numbers"):
        comm.progress(4, 4, loss="much")


def test_progress_without_tqdm(output, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    run(report, num_proc=-2)
    shown = output()
    assert shown[0].startswith("sparkring: step 1 of 4")
    assert shown[-1].startswith("sparkring: step 4 of 4")


def test_progress_bar(capsys):
    run(report, num_proc=-2)
    bar = capsys.readouterr().err
    assert "4/4" in bar
    assert "loss=0.25" in bar


def test_progress_elsewhere():
    with sparkring.init() as comm:
        comm.progress(1, 2)
        assert comm.attempt == 0


DRIVER = """
import signal, sys
from sparkring.spark import run

def play(comm):
    comm.barrier()
    print("ready")
    signal.pause()

run(play, num_proc=-2)
"""


def test_a_killed_driver_leaves_no_file(tmp_path):
    """Nor does a kill of its process group."""
    for kill in (os.kill, os.killpg):
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        with driver.stdout as lines:
            assert lines.readline().endswith(b"ready\n")
            assert list(tmp_path.glob("sparkring-*/process-*"))
            kill(driver.pid, signal.SIGKILL)
            driver.wait()
            deadline = time.monotonic() + 60
            while list(tmp_path.iterdir()) and time.monotonic() < deadline:
                time.sleep(0.05)
        assert not list(tmp_path.iterdir())
