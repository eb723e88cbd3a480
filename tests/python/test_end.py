# SPDX-License-Identifier: Apache-2.0
"""How processes end: without close, forked, orphaned, in every order of what Python takes down.

Each way to end is a script that rank 1 runs, in a process of its own; rank 0 waits for it and
prints its error, and how long after rank 1 had begun to end. Nothing may crash or hang, ever.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time

import pytest
import sparkring
from ranks import DEADLINE, LIMIT, launch, open_comm, run, wait_for

HEAD = """
import atexit, faulthandler, gc, os, signal, sys, threading, time
import numpy as np, sparkring

faulthandler.enable()
comm = sparkring.init(timeout=30, call_timeout=20)
comm.barrier()
print(time.monotonic(), flush=True)
"""

THREAD = (
    "threading.Thread(target=comm.allreduce, args=(1.0,), daemon=True).start()\ntime.sleep(0.2)\n"
)

# What rank 1 does, and its exit code. Rank 0 gets its error from the process that ends it, or finds
# the link closed.
WAYS = {
    "at the end of the script": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "sys.exit in a block": ("with comm:\n    sys.exit(3)", 3),
    "an error": ("raise LookupError", 1),
    "an error in a block": ("with comm:\n    raise LookupError", 1),
    "os._exit": ("os._exit(4)", 4),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "SIGTERM in a wait": (
        "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()\ncomm.allreduce(1.0)",
        -signal.SIGTERM,
    ),
    "abort at exit": ("atexit.register(comm.abort, 'at exit')", 0),
    "a request that nobody waits for": ("request = comm.allreduce_start(1.0)", 0),
    "requests in a cycle": (
        "cycle = [comm.allreduce_start(1.0), comm]\ncycle.append(cycle)\ndel comm",
        0,
    ),
    "an error in a request's block": ("with comm.allreduce_start(1.0):\n    comm.abort()", 1),
    "a daemon thread in a call": (THREAD, 0),
    "a daemon thread that waits for a request": (
        "request = comm.allreduce_start(1.0)\n"
        "threading.Thread(target=request.wait, daemon=True).start()\ntime.sleep(0.2)",
        0,
    ),
    "a daemon thread in a call, and abort at exit": (
        THREAD + "atexit.register(comm.abort)",
        0,
    ),
    "an object that closes it as the modules go": (
        "class Late:\n"
        "    def __init__(self): self.comm, self.request = comm, comm.allreduce_start(1.0)\n"
        "    def __del__(self): self.comm.abort('late')\n"
        "sys.modules['late'] = late = Late()",
        0,
    ),
    "a result that outlives everything": (
        "sys.kept = comm.empty(100_000)\nsys.modules['sparkring'] = None\n"
        "del sys.modules['sparkring._core']",
        0,
    ),
    "an exec": ("os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(5)'])", 5),
}


def fail_with_rank_1(gate):
    """Be rank 0, which waits for rank 1, or rank 2, for which both wait; return the error."""
    comm = open_comm()
    with pytest.raises(sparkring.RingError) as caught:
        comm.barrier()  # the end of rank 1 may be reported here already
        if comm.rank == 2:
            wait_for(gate)
        comm.allreduce(1.0)
    raised_at = time.monotonic()
    if comm.rank == 0:
        gate.touch()
    comm.abort()
    return raised_at, caught.type.__name__, caught.value.rank


def end_in_each_way(ways, folder):
    """Ranks 0 and 2 stay; rank 1 is another process each time, which this one waits for."""
    results = []
    for number, way in enumerate(ways):
        if os.environ["SPARKRING_RANK"] != "1":
            results.append(fail_with_rank_1(folder / str(number)))
            continue
        command = [sys.executable, "-c", HEAD + WAYS[way][0]]
        options = {"capture_output": True, "text": True, "timeout": DEADLINE, "check": False}
        if "daemon" in way:  # Python stops the thread, and what that has is not freed
            leaks = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
            options["env"] = {**os.environ, "ASAN_OPTIONS": leaks}
        ended = subprocess.run(command, **options)
        results.append((ended.returncode, ended.stdout, ended.stderr))
    return results


@pytest.mark.parametrize("shared", ["1", "0"])
@pytest.mark.parametrize("part", range(3))
def test_every_end(part, shared, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKRING_SHARED_MEMORY", shared)
    ways = list(WAYS)[part::3]
    first, ends, _ = run(3, end_in_each_way, ways, tmp_path)
    for way, (raised_at, error, rank), (code, stdout, stderr) in zip(ways, first, ends):
        script, right_code = WAYS[way]
        assert code == right_code, (way, code, stderr)
        assert "Fatal Python error" not in stderr, (way, stderr)
        assert error in ("AbortedError", "PeerLostError"), (way, error)
        assert rank == 1, way
        assert raised_at - float(stdout) < LIMIT + ("0.2" in script), way


# ---- Processes that were forked

USES = {
    "every method": """
names = [name for name in dir(comm) if not name.startswith("_")]
arguments = {
    "broadcast": (X,), "barrier": (), "barrier_start": (), "close": (), "split": (0,),
    "grow": (), "shrink": (),
    "send": (X, 1), "recv": (X, 1),
    "send_object": (X, 1), "recv_object": (1,), "scatterv": (X, [1, 2]), "alltoallv": (X, [1, 2]),
    "scatterv_start": (X, [1, 2]), "alltoallv_start": (X, [1, 2]), "recv_object": (1,),
    "reduce_scatterv": (X, [1, 2]), "reduce_scatterv_start": (X, [1, 2]),
    **{f"{name}_group{start}": ([np.ones(2)],) for start in ("", "_start")
       for name in ("allreduce", "reduce_scatter", "allgather", "broadcast")},
    "alltoall_object": ([1, 2],),
    "scatter_object": ([1, 2],), "port_reserve": (), "gpus": (), "tf_config": (), "torch_env": (),
    "jax_config": (), "xgboost_config": (), "lightgbm_config": (), "nccl_id": (), "ray_config": (),
    "reducer": (), "messages": (), "mpi_run": (["true"],), "mpi_init": (), "torch_group": (),
    "device": (), "raft_handle": (),
}
local = {"abort", "counters", "link", "explain", "empty", "port_release", "progress"}
local.add("stop_timeline")
calls = [name for name in names if callable(getattr(comm, name)) and name not in local]
assert len(calls) == 73, len(calls)
for name in calls:
    whole = name.replace("_start", "") in ("reduce_scatter", "scatter", "alltoall")
    given = np.ones(2) if whole else X
    try:
        made = getattr(comm, name)(*arguments.get(name, (given,)))
        if name in ("mpi_init", "raft_handle"):
            made.__enter__()
        raise AssertionError(name)
    except sparkring.InvalidError as error:
        assert "belongs to the process that forked this one" in str(error), (name, error)
assert not comm.usable and comm.size == 2
comm.counters(), comm.link(1), comm.hosts, repr(comm)
""",
    "the request": """
for use in (request.wait, request.test):
    try:
        use()
        raise AssertionError
    except sparkring.InvalidError as error:
        assert "belongs to the process that forked this one" in str(error), error
repr(request)
""",
    "abort": "comm.abort('in the child')",
    "collect": "del comm, request; gc.collect()",
    "nothing": "",
}
"""Each is followed by each of the ends below."""
ENDS = {
    "os._exit": "os._exit(7)",
    "sys.exit": "sys.exit(7)",
    "an own communicator": """
with sparkring.init(rank=0, addresses=["localhost"]) as own:
    assert own.allreduce(1) == 1
sys.exit(7)
""",
}
FORKS = """
import os, gc, sys, threading, time, multiprocessing, concurrent.futures
import faulthandler, numpy as np, sparkring

faulthandler.enable()
X = np.ones(3)
uses, ends = eval(sys.argv[1])
comm = sparkring.init(timeout=30, call_timeout=20)
large = comm.allreduce(np.ones(100_000))
for round, (use, end) in enumerate((use, end) for use in uses for end in ends):
    request = comm.allreduce_start(X) if comm.rank == 0 else None  # under way at the fork
    child = os.fork() if comm.rank == 0 else None
    if child == 0:
        exec(use)
        exec(end)
    if child is not None:
        until = time.monotonic() + 20
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
            time.sleep(0.001)
        assert os.waitstatus_to_exitcode(ended[1]) == 7 and ended[0] == child, (use, end, ended)
        open(f"{sys.argv[2]}/{round}", "w").close()
    else:
        while not os.path.exists(f"{sys.argv[2]}/{round}"):
            time.sleep(0.001)
        request = comm.allreduce_start(X)
    assert (request.wait() == 2).all()
    assert (comm.allreduce(X) == 2).all() and (large == 2).all()
comm.close()
print("rounds", round + 1)
"""


@pytest.mark.forks
@pytest.mark.parametrize("shared", ["1", "0"])
def test_forked_children_may_do_nothing_and_harm_nothing(shared, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKRING_SHARED_MEMORY", shared)
    table = repr((list(USES.values()), list(ENDS.values())))
    job = launch(2, sys.executable, "-c", FORKS, table, str(tmp_path), text=True)
    assert job.returncode == 0, job.stdout + job.stderr
    assert job.stdout.count(f"rounds {len(USES) * len(ENDS)}\n") == 2
    assert "Fatal Python error" not in job.stderr


WORKERS = """
import multiprocessing, sparkring
import numpy as np

def work(i):
    return float(large.sum()) + i

if __name__ == "__main__":
    with sparkring.init(timeout=30, call_timeout=20) as comm:
        large = comm.allreduce(np.ones(100_000))
        with multiprocessing.get_context("fork").Pool(2) as pool:
            request = comm.allreduce_start(large)
            print("sums", *pool.map(work, range(3)))
        assert request.wait()[0] == 4 and comm.allreduce(1) == 2
"""


@pytest.mark.forks
def test_pool_of_processes(tmp_path):
    (tmp_path / "work.py").write_text(WORKERS)
    job = launch(2, sys.executable, str(tmp_path / "work.py"), text=True)
    assert job.returncode == 0, job.stdout + job.stderr
    assert job.stdout.count("sums 200000.0 200001.0 200002.0\n") == 2


# Such as a worker of a data loader, which sleeps in its queue.
KILLED = """
import multiprocessing, os, signal, sys, time
import sparkring

rank = int(sys.argv[1])
options = {"rank": rank, "addresses": ["127.0.0.1"] * 2, "token": sys.argv[2]}
comm = sparkring.init(**options, timeout=30, call_timeout=20)
if rank == 1:
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    worker.start()
    print(worker.pid, flush=True)
comm.barrier()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
begun = time.monotonic()
try:
    comm.barrier()
except sparkring.PeerLostError as error:
    print("lost", error.rank, time.monotonic() - begun)
"""


@pytest.mark.forks
@pytest.mark.parametrize("shared", ["1", "0"])
def test_a_killed_rank_is_missed_although_its_child_lives(shared, monkeypatch):
    monkeypatch.setenv("SPARKRING_SHARED_MEMORY", shared)
    run = [sys.executable, "-c", KILLED]
    token = secrets.token_hex(16)
    ranks = [
        subprocess.Popen([*run, str(rank), token], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    worker = int(ranks[1].stdout.readline())  # it has the same standard output
    try:
        output = ranks[0].communicate(timeout=DEADLINE)[0]
        assert ranks[1].wait() == -signal.SIGKILL
        os.kill(worker, 0)
    finally:
        os.kill(worker, signal.SIGKILL)
    assert output.startswith("lost 1 "), output
    assert float(output.split()[2]) < LIMIT


# ---- Orphans

ORPHAN = """
import os, sys, types, time
import sparkring
from sparkring import _barrier_task as barrier_task

# The variables that pyspark would set; rank 1's parent is killed meanwhile.
rank = int(sys.argv[1])
task = barrier_task.BarrierTask(rank, ["127.0.0.1"] * 2, 1, False, None)
barrier_task.find = lambda timeout: task
comm = sparkring.init(token=sys.argv[2], timeout=30, call_timeout=60)
comm.barrier()
if rank == 1:
    os.write(1, b"waits\\n")
    try:
        comm.allreduce(1.0)
    except sparkring.AbortedError as error:
        os.write(1, b"ends: %s\\n" % str(error).encode())
        raise
sys.stdin.read()  # a wait for rank 1 would be another call than its own: MISMATCH
try:
    comm.recv(1.0, 1)
except sparkring.RingError as error:
    print("raised", error.status, error.rank, error)
"""


def wait_until_gone(process):
    until = time.monotonic() + 10
    while time.monotonic() < until:
        os.kill(process, 0)
        time.sleep(0.01)


def test_a_worker_of_spark_ends_without_its_parent():
    run, token = [sys.executable, "-c", ORPHAN], secrets.token_hex()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    other = subprocess.Popen([*run, "0", token], stdin=subprocess.PIPE, **pipes)
    parent = subprocess.Popen(["sh", "-c", '"$@" & echo $!; wait', "sh", *run, "1", token], **pipes)
    worker = int(parent.stdout.readline())
    assert parent.stdout.readline() == "waits\n"
    parent.kill()
    killed = time.monotonic()
    output = parent.stdout.readline()  # the worker has the same standard output
    assert output.startswith("ends: rank 1 was orphaned during allreduce(")
    assert f"the process that started it (pid {parent.pid}) has ended" in output
    assert parent.stdout.read() == ""
    assert time.monotonic() - killed < 2 * LIMIT
    assert other.communicate(timeout=30)[0].startswith("raised ABORTED 1 rank 1 was orphaned")
    parent.wait()
    with pytest.raises(ProcessLookupError):
        wait_until_gone(worker)
