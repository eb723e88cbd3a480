# SPDX-License-Identifier: Apache-2.0
"""Reserved ports: held against others, shared with servers that ask, and given back."""

from __future__ import annotations

import socket
import threading

import pytest
import sparkring
from ranks import open_comm, run


def serve(port, option=None):
    server = socket.socket()
    if option is not None:
        server.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        server.bind(("0.0.0.0", port))
        server.listen(1)
    except OSError:
        server.close()
        raise
    return server


def is_free(port):
    try:
        serve(port).close()
    except OSError:
        return False
    return True


def alone(**options):
    return sparkring.init(rank=0, addresses=["localhost"], **options)


def test_only_those_who_ask_share_a_port():
    with alone() as comm:
        port = comm.port_reserve()
        assert not is_free(port)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            with serve(port, option):
                socket.create_connection(("127.0.0.1", port)).close()
        comm.port_release(port)
        assert is_free(port)
        with pytest.raises(sparkring.InvalidError, match=f"port {port} is not one that this comm"):
            comm.port_release(port)


def reserve():
    with open_comm() as comm:
        ports = comm.allgather(comm.port_reserve())
        comm.barrier()
        return ports.tolist()


def test_ranks_of_a_host_hold_different_ports():
    ports = run(3, reserve)
    assert ports[0] == ports[1] == ports[2]
    assert len(set(ports[0])) == 3


def test_closing_keeps_ports_and_the_end_gives_them_back():
    with alone() as comm:
        first, second, third = (comm.port_reserve() for _ in range(3))
        comm.port_release(port=first)
    assert (is_free(first), is_free(second), is_free(third)) == (True, False, False)
    with pytest.raises(sparkring.InvalidError, match="the communicator is closed"):
        comm.port_reserve()
    comm.port_release()
    assert is_free(second) and is_free(third)
    comm = alone()
    port = comm.port_reserve()
    comm.abort()
    assert is_free(port)
    comm = alone()
    port = comm.port_reserve()
    comm.close()
    del comm
    assert is_free(port)


def test_a_range_of_ports_is_kept_to():
    with alone() as comm:
        first = comm.port_reserve()
    del comm
    with alone(ports=(first, first)) as comm:
        assert comm.port_reserve() == first
        with pytest.raises(sparkring.SystemCallError, match=f"no free port from {first} to "):
            comm.port_reserve()
        assert comm.usable


def test_ports_that_cannot_be():
    with alone() as comm:
        for port in (0, -1, 65536):
            with pytest.raises(sparkring.InvalidError, match=f"^port is {port}: ports go from 1"):
                comm.port_release(port)
        with pytest.raises(TypeError):
            comm.port_release("80")


def call_beside():
    with open_comm() as comm:
        if comm.rank == 1:
            comm.split(0).recv(0.0, 0)  # which comes when rank 0 has tried
            comm.send(0.0, 0)
            return
        other = comm.split(0)
        thread = threading.Thread(target=comm.recv, args=(0.0, 1))
        thread.start()
        with pytest.raises(sparkring.BusyError):
            while thread.is_alive():
                comm.port_release()
        with pytest.raises(sparkring.BusyError):
            comm.port_reserve()
        other.send(0.0, 1)
        thread.join()
        comm.port_release(comm.port_reserve())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_another_thread_is_refused_while_a_call_runs():
    run(2, call_beside)
