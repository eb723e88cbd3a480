# SPDX-License-Identifier: Apache-2.0
"""The settings that frameworks get; tests/frameworks has the frameworks."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import types

import pytest
import sparkring
from ranks import open_comm, outcomes, run
from sparkring.frameworks import _interface as interface
from sparkring.frameworks import _torch as torch
from test_port import is_free

VARIABLES = ("TF_CONFIG", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK")


def call(name, options=None):
    """Call a function of all ranks, the communicator's own."""
    with open_comm() as comm:
        options = options[comm.rank] if options else {}
        result = getattr(comm, name)(**options)
        held = [port for port in ports_in(result) if not is_free(port)]
        comm.barrier()
        variables = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        return result, held, variables


def ports_in(config):
    return [int(port) for port in re.findall(r":(\d{4,5})\b", json.dumps(config))]


def roles(*names):
    return [{"role": name} for name in names]


def test_tf_config_of_workers():
    outcome = run(3, call, "tf_config")
    workers = outcome[0][0]["cluster"]["worker"]
    for rank, (config, held, variables) in enumerate(outcome):
        assert config == {
            "cluster": {"worker": workers},
            "task": {"type": "worker", "index": rank},
        }
        assert json.loads(variables["TF_CONFIG"]) == config
        assert len(held) == 3
    assert len(set(workers)) == 3
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", worker) for worker in workers)


def test_tf_config_with_roles():
    names = ("ps", "worker", "evaluator", "chief", "worker")
    outcome = run(5, call, "tf_config", roles(*names))
    cluster = outcome[0][0]["cluster"]
    assert {role: len(cluster[role]) for role in cluster} == {"ps": 1, "worker": 2, "chief": 1}
    assert all(config["cluster"] == cluster for config, _, _ in outcome)
    tasks = [tuple(config["task"].values()) for config, _, _ in outcome]
    assert tasks == list(zip(names, (0, 0, 0, 0, 1)))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("chief", "worker", "chief"), "ranks 0 and 2 are both chief: only one can be"),
        (("evaluator", "evaluator", "worker"), "ranks 0 and 1 are both evaluator"),
        (("ps", "ps", "evaluator"), "no rank is chief or worker"),
    ],
)
def test_roles_that_cannot_be(names, text):
    for _, error in outcomes(3, call, "tf_config", roles(*names)):
        assert isinstance(error, sparkring.InvalidError)
        assert str(error).startswith(text)


def ask_for_a_wrong_role():
    with open_comm() as comm:
        with pytest.raises(sparkring.InvalidError) as caught:
            comm.tf_config("boss" if comm.rank == 1 else "worker")
        comm.barrier()
        return str(caught.value), caught.value.rank


def test_an_error_of_one_rank_reaches_all():
    results = run(3, ask_for_a_wrong_role)
    why = "role is 'boss': it must be one of chief, worker, ps, evaluator"
    assert results[1] == (why, None)
    assert results[0] == results[2] == (f"rank 1 (127.0.0.1) failed: {why}", 1)


def test_torch_env():
    outcome = run(2, call, "torch_env")
    port = outcome[0][0]["MASTER_PORT"]
    for rank, (result, _, variables) in enumerate(outcome):
        assert result == {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": "2",
            "GROUP_RANK": "0",
            "GROUP_WORLD_SIZE": "1",
            "TORCHELASTIC_RUN_ID": "sparkring",
            "TORCHELASTIC_USE_AGENT_STORE": "False",
        }
        assert variables.items() <= {**result, "TF_CONFIG": ""}.items()


def torch_env_of_two_hosts(token):
    rank = int(os.environ["SPARKRING_RANK"])
    hosts = ["127.0.0.1", "localhost", "127.0.0.1", "localhost"]
    with open_comm(rank=rank, addresses=hosts, token=token) as comm:
        return [int(comm.torch_env()[f"{name}_RANK"]) for name in ("LOCAL", "GROUP")]


def test_torch_env_distinguishes_hosts():
    assert run(4, torch_env_of_two_hosts, "0" * 32) == [[0, 0], [0, 1], [1, 0], [1, 1]]


# As the kernel of a little-endian machine writes it: the default, 10.77.0.0/16, 10.77.2.0/24, this
# one once more, one host that is refused, and one that is down.
ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
ens3\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t00004D0A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth1\t00024D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth2\t00024D0A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
*\t07024D0A\t00000000\t0205\t0\t0\t0\tFFFFFFFF\t0\t0\t0
eth3\t08024D0A\t00000000\t0000\t0\t0\t0\tFFFFFFFF\t0\t0\t0
"""


@pytest.mark.skipif(sys.byteorder == "big", reason="the table is that of a little-endian machine")
@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("10.77.1.9", "eth0"),
        ("10.77.2.9", "eth1"),
        ("10.77.2.7", "eth1"),
        ("10.77.2.8", "eth1"),
        ("10.78.0.1", "ens3"),
        ("127.0.0.1", None),
    ],
)
def test_interface_to_an_address(address, name):
    assert interface.route(address, ROUTES) == name


def test_no_interface():
    assert interface.route("10.77.1.9", ROUTES.partition("\n")[0]) is None


def test_an_interface_that_is_set_stays(monkeypatch):
    monkeypatch.setattr(os, "environ", {**os.environ, "TP_SOCKET_IFNAME": "mine"})
    monkeypatch.setattr(torch, "interface", lambda comm: "eth7")
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        config = comm.torch_env()
    assert (config["GLOO_SOCKET_IFNAME"], config["TP_SOCKET_IFNAME"]) == ("eth7", "mine")
    assert config.items() <= os.environ.items()


def test_jax_config():
    outcome = run(2, call, "jax_config")
    place = outcome[0][0]["coordinator_address"]
    assert re.fullmatch(r"127\.0\.0\.1:\d+", place)
    for rank, (result, held, _) in enumerate(outcome):
        assert result == {"coordinator_address": place, "num_processes": 2, "process_id": rank}
        assert held == ports_in(result)


def test_ray_config():
    (first, held, _), (second, _, _) = run(2, call_ray_config)
    address = first["address"]
    port = re.fullmatch(r"127\.0\.0\.1:(\d+)", address)[1]
    assert held == [int(port)]
    assert first["start"][1:] == [
        *("start", "--block", "--head", f"--port={port}"),
        *("--include-dashboard=false", "--disable-usage-stats"),
    ]
    assert second["start"][1:] == [
        *("start", "--block", f"--address={address}", "--disable-usage-stats")
    ]
    assert first["env"] == second["env"]
    where, mode, token = first["env"]
    assert (where, mode) == (address, "token")
    assert re.fullmatch("[0-9a-f]{64}", token)


def call_ray_config():
    config, held, variables = call("ray_config")
    names = ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN")
    return {**config, "env": [os.environ[name] for name in names]}, held, variables


def test_ray_on_hosts_with_addresses():
    from sparkring.frameworks import _ray as ray

    def start(host):
        comm = types.SimpleNamespace(rank=1, hosts=["192.0.2.1", host])
        return ray._place(comm, "192.0.2.1:5", 5)

    assert start("192.0.2.2") == ["--address=192.0.2.1:5", "--node-ip-address=192.0.2.2"]
    assert start("2001:db8::2")[1:] == ["--node-ip-address=2001:db8::2"]
    assert start("worker-2") == start("::1") == ["--address=192.0.2.1:5"]


def test_lightgbm_config():
    outcome = run(2, call, "lightgbm_config")
    machines = outcome[0][0]["machines"]
    ports = ports_in(machines)
    assert machines == ",".join(f"127.0.0.1:{port}" for port in ports)
    for (result, _, _), port in zip(outcome, ports):
        assert result == {"machines": machines, "local_listen_port": port, "num_machines": 2}


class Tracker:
    """XGBoost's, for a test without XGBoost: it binds its port without any option."""

    def __init__(self, n_workers, host_ip, port, sortby):
        assert (n_workers, host_ip, sortby) == (2, "127.0.0.1", "task")
        self.socket = socket.socket()
        self.socket.bind((host_ip, port))

    def start(self):
        self.socket.listen(1)

    def worker_args(self):
        return {"dmlc_tracker_port": self.socket.getsockname()[1]}


def call_xgboost_config(there):
    sys.modules["xgboost"] = sys.modules["xgboost.tracker"] = None
    if there:
        sys.modules["xgboost.tracker"] = types.ModuleType("xgboost.tracker")
        sys.modules["xgboost.tracker"].RabitTracker = Tracker
    with open_comm() as comm:
        config = comm.xgboost_config()
        socket.create_connection((config["dmlc_tracker_uri"], config["dmlc_tracker_port"])).close()
        comm.barrier()
    return config


def test_xgboost_config():
    first, second = run(2, call_xgboost_config, True)
    assert first["dmlc_tracker_uri"] == "127.0.0.1"
    assert [first.pop("dmlc_task_id"), second.pop("dmlc_task_id")] == ["00000000", "00000001"]
    assert first == second


def test_xgboost_config_without_xgboost():
    (_, first), (_, second) = outcomes(2, call_xgboost_config, False)
    assert isinstance(first, ImportError)
    assert isinstance(second, sparkring.InvalidError)
    assert str(second) == f"rank 0 (127.0.0.1) failed: {first}"


def call_without_a_communicator():
    config = sparkring.tf_config()
    free = [is_free(port) for port in ports_in(config)]
    with open_comm() as comm:  # so none is open
        comm.barrier()
    again = sparkring.torch_env()
    with open_comm() as comm:
        comm.barrier()
        released = is_free(ports_in(config["cluster"]["worker"][comm.rank])[0])
    return free, again["WORLD_SIZE"], released


def test_without_a_communicator_one_is_made_for_the_moment():
    assert run(2, call_without_a_communicator) == [([False, False], "2", True)] * 2


def test_what_is_no_communicator():
    with pytest.raises(sparkring.InvalidError, match="comm is of type str: pass a Communicator"):
        sparkring.tf_config("worker")
