# SPDX-License-Identifier: Apache-2.0
"""Whoever can read everything on the switch: a raw socket there, and what it saw as one text."""

import mmap
import socket
import time

from jobs import FORK, end, process
from packets import ETH_P_ALL, PACKET_IGNORE_OUTGOING, SOL_PACKET

MOST_BYTES = 64 << 20
SO_RCVBUFFORCE = 33


class Capture:
    """Reads all packets while it is entered; afterwards `text` is what they held, one by one.

    A packet is seen where it comes in, so each is there once.
    """

    def __init__(self, hosts):
        self.hosts = hosts
        self.memory = mmap.mmap(-1, MOST_BYTES)
        self.length = FORK.Value("q", 0)
        self.ready = FORK.Event()

    def __enter__(self):
        self.reader = process(self.hosts.enter_switch, self.read)
        assert self.ready.wait(10), "the capture has not begun"
        return self

    def __exit__(self, *_):
        before = -1
        while before != self.length.value:  # what is still in the socket
            before = self.length.value
            time.sleep(1)
        end([self.reader])

    def read(self):
        reader = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        reader.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        reader.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, MOST_BYTES)
        self.ready.set()
        while True:
            packet = reader.recv(1 << 17)
            at = self.length.value
            assert at + len(packet) <= MOST_BYTES, "more packets than there is room for"
            self.memory[at : at + len(packet)] = packet
            self.length.value = at + len(packet)

    @property
    def text(self):
        return self.memory[: self.length.value]
