# SPDX-License-Identifier: Apache-2.0
"""A Ray cluster of the ranks: its head and another node, with a task on each, and nothing after."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from ranks import DEADLINE, open_comm, run

SMALL = ("--num-cpus=1", "--object-store-memory=100000000")


@contextlib.contextmanager
def node_of(comm, config, folder):
    """Have this rank's node, the others' after the head's."""
    place = [] if comm.rank else [f"--temp-dir={folder}"]
    command = [*config["start"], *SMALL, *place, f'--resources={{"rank{comm.rank}": 1}}']
    with open(f"{folder}-{comm.rank}.log", "w") as log:
        if comm.rank:
            comm.barrier()
        node = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            if comm.rank == 0:
                comm.barrier()
            yield
        finally:
            node.terminate()
            node.wait(DEADLINE)


def work(folder):
    with open_comm(call_timeout=DEADLINE) as comm:
        config = comm.ray_config()
        import ray

        with node_of(comm, config, folder):
            ray.init(log_to_driver=False)
            try:
                places = [ray.get(ask(ray, rank)) for rank in range(comm.size)]
                comm.barrier()
            finally:
                ray.shutdown()
        return config["address"], places, os.environ["RAY_AUTH_TOKEN"]


def ask(ray, rank):
    """Run a task on a rank's node, which waits until there is one."""

    def where():
        return ray.get_runtime_context().get_node_id(), os.environ["RAY_AUTH_MODE"]

    return ray.remote(where).options(resources={f"rank{rank}": 0.5}, num_cpus=0.5).remote()


def knows(token):
    """List the processes that have Ray's token, as all of the cluster do."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if token.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes())
    return found


def test_ranks_are_one_cluster():
    folder = tempfile.mkdtemp(prefix="ring-", dir="/tmp")  # short: names of sockets are
    try:
        (address, first, token), (same, second, also) = run(2, work, folder)
        assert (address, token) == (same, also)
        assert first == second
        assert len({node for node, _ in first}) == 2
        assert {mode for _, mode in first} == {"token"}
        until = time.monotonic() + DEADLINE
        while knows(token) and time.monotonic() < until:
            time.sleep(0.1)
        assert knows(token) == []
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for log in Path("/tmp").glob(f"{Path(folder).name}-*.log"):
            log.unlink()
