# SPDX-License-Identifier: Apache-2.0
"""The network a run sees: private namespaces, removed afterwards whatever happens.

For loopback it is one namespace with nothing but ``lo``, which all ranks share. For a shaped link
every rank has a namespace of its own, with a veth pair to a bridge in one more namespace; tbf
limits both directions. TCP uses reno everywhere, for all libraries: congestion control belongs to
a namespace, so the host's own stays as it is.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
from pathlib import Path

SHAPED = {"1gbit": "1gbit", "10gbit": "10gbit"}
SWITCHED = "switched"  # as a shaped link, but as fast as it goes
CONGESTION_CONTROL = "reno"
CLONE_NEWNET = 0x40000000


def _ip(*words):
    subprocess.run(["ip", *words], check=True, timeout=10)


def inside(name, *command):
    """Run a command in a namespace."""
    subprocess.run(["ip", "netns", "exec", name, *command], check=True, timeout=10)


def enter(namespace):
    """Move the calling thread into a namespace: a name, or a path that begins with a slash."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(Path("/run/netns") / namespace, "rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


def remove_leftovers(purpose):
    """Remove the namespaces of runs that are no more."""
    for name in Path("/run/netns").glob(f"sparkring-{purpose}-*"):
        pid = int(name.name.split("-")[2])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 0)
            continue
        subprocess.run(["ip", "netns", "del", name.name], check=False, timeout=10)


class Network:
    """Namespaces for `ranks` ranks over one kind of link; a context manager."""

    def __init__(self, link, ranks, purpose="bench"):
        self.rate = SHAPED.get(link)
        self.apart = link in SHAPED or link == SWITCHED
        self.ranks = ranks
        self.name = f"sparkring-{purpose}-{os.getpid()}"
        self.switch = f"{self.name}-switch"
        self.made = []

    @property
    def addresses(self):
        """One address a rank."""
        return [f"10.77.0.{rank + 1}" if self.apart else "127.0.0.1" for rank in range(self.ranks)]

    @property
    def subnet(self):
        """The network that Open MPI stays in."""
        return "10.77.0.0/24" if self.apart else "127.0.0.0/8"

    def namespace(self, rank):
        """Name the namespace of a rank."""
        return f"{self.name}-{rank if self.apart else 0}"

    def enter(self, rank):
        """Give the words that go before a command to run it in a rank's namespace."""
        return ["ip", "netns", "exec", self.namespace(rank)]

    def __enter__(self):
        try:
            for rank in range(self.ranks if self.apart else 1):
                self._add(self.namespace(rank))
            if self.apart:
                self._connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.clear()
        for name in self.made:
            with contextlib.suppress(subprocess.SubprocessError):
                _ip("netns", "del", name)
        self.made = []

    def clear(self):
        """Kill what still runs inside: all of it was started by us."""
        for name in self.made:
            listed = subprocess.run(
                ["ip", "netns", "pids", name], capture_output=True, text=True, timeout=10
            )
            for pid in listed.stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    def _add(self, name):
        _ip("netns", "add", name)
        self.made.append(name)
        inside(name, "ip", "link", "set", "lo", "up")
        setting = f"net.ipv4.tcp_congestion_control={CONGESTION_CONTROL}"
        inside(name, "sysctl", "-qw", setting)

    def _connect(self):
        switch = self.switch
        self._add(switch)
        inside(switch, "ip", "link", "add", "bridge", "type", "bridge")
        inside(switch, "ip", "link", "set", "bridge", "up")
        for rank, address in enumerate(self.addresses):
            host, port = self.namespace(rank), f"port{rank}"
            inside(host, *f"ip link add eth0 type veth peer {port} netns {switch}".split())
            inside(host, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            inside(host, "ip", "link", "set", "eth0", "up")
            inside(switch, "ip", "link", "set", port, "master", "bridge", "up")
            if self.rate:
                self._shape(host, "eth0")
                self._shape(switch, port)

    # The least burst that reaches the rate; shorter messages than it may go faster.
    def _shape(self, namespace, device):
        burst = "68kb" if self.rate == "1gbit" else "256kb"
        words = f"tc qdisc add dev {device} root tbf rate {self.rate} burst {burst} latency 10ms"
        inside(namespace, *words.split())
