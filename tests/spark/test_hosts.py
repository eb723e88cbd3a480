# SPDX-License-Identifier: Apache-2.0
"""A standalone cluster of four hosts, each with its own address, joined by 1 Gbit/s."""

import os
import secrets
import signal
import socket
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import sparkring
import tasks
from conftest import FOUR_HOSTS
from pyspark import BarrierTaskContext, cloudpickle
from sparkring.spark import Checkpoint, run

HERE = Path(__file__).parent

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have this file

pytestmark = pytest.mark.parametrize("spark", [FOUR_HOSTS], indirect=True)

STEPS, FATAL_STEP = 20, 10
CALL_TIMEOUT = 10  # seconds after which a silent host is declared lost


# ---- Who is where


def test_ranks_are_on_hosts_of_their_own(spark, four, cluster):
    ranks = four(tasks.describe)
    assert [rank["rank"] for rank in ranks] == [0, 1, 2, 3]
    assert sorted(ranks[0]["hosts"]) == cluster.addresses
    assert {tuple(rank["hosts"]) for rank in ranks} == {tuple(ranks[0]["hosts"])}
    assert {rank["local_size"] for rank in ranks} == {1}


# ---- A worker dies


def kill_executor(comm):
    os.kill(tasks.executor(), signal.SIGKILL)


def descend(comm, path, fail):
    """Twenty steps, each saved. In the middle of the first attempt rank 1 calls `fail`."""
    checkpoint = Checkpoint(comm, path)
    first, weights = checkpoint.restore(default=(0, np.zeros(1000)))
    for step in range(first, STEPS):
        if comm.attempt == 0 and comm.rank == 1 and step == FATAL_STEP and fail:
            fail(comm)
            time.sleep(1000)
        data = np.random.default_rng((step, comm.rank)).normal(size=1000)
        weights = 0.9 * weights + comm.allreduce(data)
        checkpoint.save((step + 1, weights))
    return comm.attempt, first, (comm.hosts, tasks.executor()), weights.tobytes()


def test_killed_executor(spark, tmp_path):
    """It is the only one that the cluster loses: the next attempt finds the other three there."""
    undisturbed = run(descend, args=(str(tmp_path / "a"), None), num_proc=4, verbose=0)
    assert {(attempt, first) for attempt, first, *_ in undisturbed} == {(0, 0)}
    ended = run(
        descend, args=(str(tmp_path / "b"), kill_executor), num_proc=4, max_restarts=1, timeout=100
    )
    assert {(attempt, first) for attempt, first, *_ in ended} == {(1, FATAL_STEP)}
    assert {weights for *_, weights in ended} == {undisturbed[0][3]}
    before, after = ({process for *_, (_, process), _ in each} for each in (undisturbed, ended))
    assert (len(before), len(after), len(before & after)) == (4, 4, 3)


def test_host_that_is_cut_off(spark, cluster, tmp_path):
    """Spark may place a rank of the second attempt there, too, until it has missed the executor."""
    undisturbed = run(descend, args=(str(tmp_path / "a"), None), num_proc=3, verbose=0)
    marker = tmp_path / "marker"
    cut, over = [], threading.Event()

    def pull():
        while not over.wait(0.1):
            if marker.exists() and marker.read_text():
                cut.append(cluster.addresses.index(marker.read_text()))
                cluster.pull_cable(cut[0])
                return

    thread = threading.Thread(target=pull)
    thread.start()
    try:
        ended = run(
            descend,
            args=(str(tmp_path / "b"), lambda comm: marker.write_text(comm.hosts[comm.rank])),
            num_proc=3,
            max_restarts=3,
            call_timeout=CALL_TIMEOUT,
        )
    finally:
        over.set()
        thread.join()
        for host in cut:
            cluster.plug_cable(host)
    assert {first for _, first, *_ in ended} == {FATAL_STEP}
    assert all(attempt > 0 for attempt, *_ in ended)
    assert cluster.addresses[cut[0]] not in ended[0][2][0]
    assert {weights for *_, weights in ended} == {undisturbed[0][3]}
    cluster.wait_for_executors(spark.sparkContext)


# ---- Frameworks get the hosts' addresses


def configure(comm):
    """Return the settings of frameworks; check that another host reaches the ports in them."""
    config = {
        "tensorflow": comm.tf_config()["cluster"]["worker"],
        "torch": comm.torch_env(),
        "jax": comm.jax_config()["coordinator_address"],
        "lightgbm": comm.lightgbm_config()["machines"].split(","),
    }
    for server in (
        *config["tensorflow"],
        config["jax"],
        *config["lightgbm"],
        address_of(config["torch"]),
    ):
        assert crosses(comm, server), server
    return config


def address_of(variables):
    return f"{variables['MASTER_ADDR']}:{variables['MASTER_PORT']}"


def crosses(comm, server):
    """Let the rank whose host that is bind the port, and the next rank reach it."""
    host, port = server.rsplit(":", 1)
    owner = comm.hosts.index(host)
    came = 0.0
    with closing(socket.socket()) as end:
        end.settimeout(30)
        if comm.rank == owner:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            end.bind((host, int(port)))
            end.listen()
        comm.barrier()
        if comm.rank == owner:
            connection, peer = end.accept()
            connection.close()
            came = float(peer[0] == comm.hosts[(owner + 1) % comm.size])
        elif comm.rank == (owner + 1) % comm.size:
            end.connect((host, int(port)))
        return bool(comm.allreduce(np.array(came)))


def check(configs, cluster):
    for rank, each in enumerate(configs):
        hosts = [server.rsplit(":", 1)[0] for server in each["tensorflow"]]
        assert sorted(hosts) == cluster.addresses
        assert [server.rsplit(":", 1)[0] for server in each["lightgbm"]] == hosts
        assert each["jax"].rsplit(":", 1)[0] == each["torch"]["MASTER_ADDR"] == hosts[0]
        places = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
        assert [each["torch"][name] for name in places] == [str(rank), "4", "0", "1", str(rank)]
        assert each["torch"]["GLOO_SOCKET_IFNAME"] == each["torch"]["TP_SOCKET_IFNAME"] == "eth0"
    assert len({address_of(each["torch"]) for each in configs}) == 1
    assert configs[0]["tensorflow"] == configs[3]["tensorflow"]


def test_frameworks_in_run(spark, cluster):
    check(run(configure, num_proc=4), cluster)


def test_frameworks_in_barrier_tasks(spark, four, cluster):
    def work(rows):
        with sparkring.init() as comm:
            yield configure(comm)

    check(four(work), cluster)


def test_frameworks_take_the_barrier_itself(spark, four, cluster):
    def work(rows):
        context = BarrierTaskContext.get()
        yield sparkring.frameworks.torch_env(context)["MASTER_ADDR"]

    first = set(four(work))
    assert len(first) == 1 and first < set(cluster.addresses)


def test_torch_in_r(spark, four):
    spark.sparkContext.addFile(str(HERE / "torch.R"))
    assert four(tasks.r_program("torch.R", secrets.token_hex(32))) == ["eth0 eth0 eth0 mine"] * 4
