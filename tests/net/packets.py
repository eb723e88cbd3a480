# SPDX-License-Identifier: Apache-2.0
"""A switch of the tests' own, for what a bridge cannot do: delay, reorder, repeat, alter.

It takes the place of the bridge: raw sockets on the switch's ends of all cables, and a heap of
packets by the time when they are due. A veth passes on what the sender's TCP left for a network
card to do (large segments, checksums not yet made), so each packet travels with the header for
that (struct virtio_net_hdr). That is also why an altered packet is delivered: its checksum is
taken for one that will be right, as it would be behind a router that computes it anew.
"""

import contextlib
import heapq
import itertools
import random
import select
import socket
import struct
import time

from jobs import FORK

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
ETH_P_ALL = 3
OFFLOAD_BYTES = 10  # struct virtio_net_hdr
BROADCAST = b"\xff" * 6


class Fate:
    """What happens to a packet: seconds to wait, one number for each copy that arrives."""

    def __init__(self, delay=0.0, spread=0.0, repeat=0.0, seed=0):
        self.delay = delay
        self.spread = spread  # further seconds at random, which puts packets out of order
        self.repeat = repeat  # the share of packets that come twice
        self.random = random.Random(seed)
        self.switched, self.repeated, self.overtaken = (FORK.Value("q", 0) for _ in range(3))

    def waits(self):
        copies = 2 if self.random.random() < self.repeat else 1
        self.switched.value += 1
        self.repeated.value += copies - 1
        return [self.delay + self.random.random() * self.spread for _ in range(copies)]


def open_port(name):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    port.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    port.bind((name, ETH_P_ALL))
    port.setblocking(False)
    return port


def run_switch(names, fate, alter, ready):
    """Switch packets between these ports for ever. `alter` may change one, or lose it: None."""
    ports = [open_port(name) for name in names]
    where, due, order = {}, [], itertools.count()  # where: the port of a hardware address
    latest = dict.fromkeys(ports, 0)  # of the packets that have left by each port
    ready.set()
    while True:
        now = time.monotonic()
        while due and due[0][0] <= now:
            _, number, port, packet = heapq.heappop(due)
            send(port, packet)
            fate.overtaken.value += number < latest[port]
            latest[port] = max(latest[port], number)
        left = max(0.0, due[0][0] - now) if due else None
        for port in select.select(ports, [], [], left)[0]:
            for packet in receive(port):
                frame = packet[OFFLOAD_BYTES:]
                where[frame[6:12]] = port
                known = where.get(frame[:6])
                packet = alter(packet)
                if packet is None:
                    continue
                for to in [known] if known else [each for each in ports if each is not port]:
                    for wait in fate.waits():
                        heapq.heappush(due, (time.monotonic() + wait, next(order), to, packet))


def receive(port):
    for _ in range(64):
        try:
            yield port.recv(1 << 17)
        except BlockingIOError:
            return


def send(port, packet):
    """Send; what a full queue does not take is lost, as on any network."""
    with contextlib.suppress(OSError):
        port.send(packet)


def payload(packet):
    """Give where the payload of a TCP packet over IPv4 begins and ends; (0, 0) for any other."""
    frame = packet[OFFLOAD_BYTES:]
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return 0, 0
    start = 14 + (frame[14] & 15) * 4
    start += (frame[start + 12] >> 4) * 4
    end = 14 + struct.unpack_from(">H", frame, 16)[0]
    return OFFLOAD_BYTES + start, OFFLOAD_BYTES + max(start, end)


def unaltered(packet):
    return packet


class Flip:
    """Flips one bit of one packet: the first with a payload this long, once it is armed."""

    def __init__(self, armed, least):
        self.armed = armed
        self.least = least

    def __call__(self, packet):
        start, end = payload(packet)
        if not self.armed.value or end - start < self.least:
            return packet
        self.armed.value = 0
        middle = (start + end) // 2
        return packet[:middle] + bytes([packet[middle] ^ 4]) + packet[middle + 1 :]


class Silence:
    """Loses all packets of a host from `first` to `last` seconds after `since`."""

    def __init__(self, address, since, first, last):
        self.address = socket.inet_aton(address)
        self.since = since
        self.first, self.last = first, last
        self.lost = FORK.Value("q", 0)

    def __call__(self, packet):
        start, end = payload(packet)
        source = packet[OFFLOAD_BYTES:][26:30]
        passed = time.monotonic() - self.since.value
        if end == 0 or source != self.address or not self.first < passed < self.last:
            return packet
        self.lost.value += end > start
        return None
