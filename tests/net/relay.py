# SPDX-License-Identifier: Apache-2.0
"""A relay between ranks: whoever sits on the network and can lead their connections to himself.

The connections that a host makes end at the relay, a process on the same host, which makes one to
where they were meant to go. What it does with the bytes is its own affair: each way of a connection
is a thread that calls `meddle(source, target, sent)`, with `sent` true for the bytes of the host.
"""

import contextlib
import fcntl
import socket
import struct
import threading
import time

from hosts import RELAY_MARK
from jobs import FORK, process

PORT = 9
SO_MARK, SO_ORIGINAL_DST = 36, 80
PIECE = 1 << 16
SIOCOUTQNSD = 0x894B
DATA_SEGS_OUT = 156  # where struct tcp_info has tcpi_data_segs_out


def start(hosts, host, meddle):
    """Lead a host's connections through a relay; it ends with the test, as all that runs there."""
    ready = FORK.Event()
    started = process(lambda: hosts.enter_host(host), run_relay, meddle, ready)
    assert ready.wait(10), "the relay has not begun"
    hosts.redirect(host, PORT)
    return started


def run_relay(meddle, ready):
    listener = socket.create_server(("", PORT), backlog=1000)
    ready.set()
    while True:
        near, _ = listener.accept()
        threading.Thread(target=connect, args=(near, meddle), daemon=True).start()


def connect(near, meddle):
    """Connect to where a connection was going, and carry the bytes of both sides."""
    _, port, address = struct.unpack_from(
        ">HH4s", near.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
    )
    far = socket.socket()
    far.setsockopt(socket.SOL_SOCKET, SO_MARK, RELAY_MARK)
    try:
        far.connect((socket.inet_ntoa(address), port))
    except OSError:
        near.close()
        return
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for ends, sent in (((near, far), True), ((far, near), False)):
        threading.Thread(target=carry, args=(*ends, sent, meddle), daemon=True).start()


def carry(source, target, sent, meddle):
    """Carry one way until it ends; then end the other side."""
    with contextlib.suppress(OSError):
        meddle(source, target, sent)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def pieces(source):
    while piece := source.recv(PIECE):
        yield piece


class Trickle:
    """Carries each byte in a segment of its own, and counts both.

    Linux puts bytes into one segment that wait for the congestion window. So each waits here until
    the one before has left.
    """

    def __init__(self):
        self.bytes, self.segments = FORK.Value("q", 0), FORK.Value("q", 0)

    def __call__(self, source, target, sent):
        left = 0
        for piece in pieces(source):
            for at in range(len(piece)):
                target.sendall(piece[at : at + 1])
                while unsent(target):
                    time.sleep(0)
            before, left = left, data_segments(target)
            with self.bytes.get_lock():
                self.bytes.value += len(piece)
                self.segments.value += left - before


def unsent(connection):
    """Count the bytes that have not left for the first time."""
    (count,) = struct.unpack("i", fcntl.ioctl(connection, SIOCOUTQNSD, b"\0" * 4))
    return count


def data_segments(connection):
    """Count the segments with data that have left, repeated ones, too."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, DATA_SEGS_OUT + 4)
    return struct.unpack_from("I", info, DATA_SEGS_OUT)[0]
