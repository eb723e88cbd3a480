# SPDX-License-Identifier: Apache-2.0
"""What outsiders do to the ports of a job: each attack is a function that goes on until its end.

An attack gets the addresses of the job's hosts, the ports that the job may use, and a Notebook,
where it counts its connections and keeps what it received.
"""

import contextlib
import itertools
import os
import random
import resource
import select
import socket
import struct
import threading
import time

import sparkring
from handshake import wire
from jobs import FORK

MANY = 10_000
RECEIVED_BYTES = 1 << 20
HELLO = struct.pack("<8sHBB", b"sparkrng", wire("WIRE_VERSION"), 2, 0).ljust(
    wire("HELLO_BYTES"), b"x"
)


class Notebook:
    """The connections of an outsider and the bytes that it received; shared with the test."""

    def __init__(self):
        self.connections = FORK.Value("q", 0)
        self.length = FORK.Value("q", 0)
        self.bytes = FORK.RawArray("c", RECEIVED_BYTES)

    def connected(self, count=1):
        with self.connections.get_lock():
            self.connections.value += count

    def received(self, piece):
        with self.length.get_lock():
            at = self.length.value
            piece = piece[: RECEIVED_BYTES - at]
            self.bytes[at : at + len(piece)] = piece
            self.length.value = at + len(piece)

    def text(self):
        return self.bytes[: self.length.value]


def endpoints(addresses, ports):
    return [(address, port) for address in addresses for port in range(ports[0], ports[1] + 1)]


def receive(connection, notebook):
    """Receive what there is; false when the other side has closed."""
    try:
        piece = connection.recv(4096)
    except BlockingIOError:
        return True
    except OSError:
        return False
    notebook.received(piece)
    return bool(piece)


def send(port, notebook, message):
    """Connect to a port, send `message`, and receive the answer to its end."""
    with contextlib.suppress(OSError), socket.create_connection(port, 0.2) as connection:
        notebook.connected()
        connection.sendall(message)
        connection.settimeout(0.05)
        while piece := connection.recv(4096):
            notebook.received(piece)


def send_to_all(addresses, ports, notebook, message):
    """Send a message to every port, again and again, eight at a time."""

    def go_round():
        while True:
            for port in random.sample(targets, len(targets)):
                send(port, notebook, message())

    targets = endpoints(addresses, ports)
    threads = [threading.Thread(target=go_round) for _ in range(8)]
    for thread in threads:
        thread.start()
    threads[0].join()


def garbage(addresses, ports, notebook):
    send_to_all(addresses, ports, notebook, lambda: os.urandom(random.randrange(1, 5000)))


def greet(addresses, ports, notebook):
    """Send HELLO as a rank does, and then many bytes that prove nothing."""
    send_to_all(addresses, ports, notebook, lambda: HELLO + b"\xff" * 100_000)


def hold(addresses, ports, notebook, count, opening=b"", word=b""):
    """Hold so many connections open, as far as they come about.

    Each sends `opening` first, and `word` every second.
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
    held, poller, sent_at = {}, select.epoll(), time.monotonic()
    targets = endpoints(addresses, ports)
    while True:
        for _ in range(min(200, count - len(held))):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(random.choice(targets))
            held[connection.fileno()] = [connection, False]
            poller.register(connection, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        for number, _ in poller.poll(0.01):
            connection, open_before = held[number]
            failed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
            if failed or not receive(connection, notebook):
                del held[number]
                connection.close()
            elif not open_before:
                held[number][1] = True
                notebook.connected()
                with contextlib.suppress(OSError):
                    connection.send(opening)
        if word and time.monotonic() - sent_at > 1:
            sent_at = time.monotonic()
            for connection, is_open in list(held.values()):
                with contextlib.suppress(OSError):
                    is_open and connection.send(word)


def be_silent(addresses, ports, notebook):
    """Ten thousand connections that are held open and never send a byte."""
    hold(addresses, ports, notebook, MANY)


def dribble(addresses, ports, notebook):
    """Three hundred that send one byte a second, as if more would come."""
    hold(addresses, ports, notebook, 300, word=b"s")


def scan(addresses, ports, notebook):
    """Connect to thousands of ports, one after the other, and go on."""
    while True:
        for address in addresses:
            for first in range(ports[0] - 2000, ports[1] + 2000, 500):
                sockets = [socket.socket() for _ in range(500)]
                for port, connection in enumerate(sockets, first):
                    connection.setblocking(False)
                    connection.connect_ex((address, port))
                notebook.connected(len(sockets))
                time.sleep(0.005)
                for connection in sockets:
                    connection.close()


def half_open(addresses, ports, notebook):
    """Send the first packet of connections and never the third, from addresses that nobody has."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    targets = endpoints(addresses, ports)
    while True:
        for address, port in targets:
            source = f"10.77.0.{random.randrange(100, 200)}"
            raw.sendto(first_packet(source, address, port), (address, 0))
            notebook.connected()
        time.sleep(0.005)


def first_packet(source, target, port):
    """Make the SYN that begins a connection; the kernel fills in the check of the IP header."""
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    own_port, number = random.randrange(1024, 65536), random.getrandbits(32)
    tcp = struct.pack(">HHIIBBHHH", own_port, port, number, 0, 5 << 4, 2, 65535, 0, 0)
    words = struct.unpack(">16H", ends + struct.pack(">HH", socket.IPPROTO_TCP, len(tcp)) + tcp)
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    check = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    tcp = tcp[:16] + struct.pack(">H", check) + tcp[18:]
    return struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0) + ends + tcp


def replay(addresses, ports, notebook, recorded):
    """Send what ranks of this job have sent before, byte for byte."""
    messages = itertools.cycle(recorded)
    send_to_all(addresses, ports, notebook, lambda: next(messages))


def be_rank(notebook, options):
    """Be a rank that lacks the key, and come again."""
    while True:
        with contextlib.suppress(sparkring.TimeoutError):
            sparkring.init(**options)
            notebook.received(b"WELCOME")
        notebook.connected()
