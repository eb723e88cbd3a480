# SPDX-License-Identifier: Apache-2.0
"""Hosts on one switch: network namespaces, made once and put right again before every test.

They are those of the benchmarks (bench/network.py): a namespace and a veth pair for each host, and
one more namespace with the bridge. Here the network can be made bad: packets lost, rates limited,
a host cut off, ports closed, connections redirected to a relay. All of it lies in the namespaces
and goes with them; those of a run that was killed are removed by the next one.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import packets
from jobs import FORK, end_all, process

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from network import SWITCHED, Network, enter, inside, remove_leftovers

PURPOSE = "net"
LOCAL_PORTS = 32768, 60999  # as Linux has them
RELAY_MARK = 7  # on connections that a relay makes, which are not redirected again


class Hosts(Network):
    """As many hosts as asked for; the last one is the outsider's, where no rank runs."""

    def __init__(self, count):
        super().__init__(SWITCHED, count, PURPOSE)
        self.outsider = count - 1
        self.undo = []  # what makes the network good again

    def __enter__(self):
        remove_leftovers(PURPOSE)
        return super().__enter__()

    def port(self, host):
        """Name the switch's end of a host's cable."""
        return f"port{host}"

    def inside_switch(self, words):
        inside(self.switch, *words.split())

    def enter_switch(self):
        """Move this process into the switch's namespace."""
        enter(self.switch)

    def enter_host(self, host):
        """Move this process into a host's namespace."""
        enter(self.namespace(host))

    # ---- What can be bad

    def lose(self, percent):
        """Let the switch drop this share of all packets, at random."""
        rule = f"numgen random mod 100 < {percent} counter drop"
        self.rules(self.switch, "bridge", "forward", rule)

    def lost(self):
        """Count the packets that were lost so."""
        listed = subprocess.run(
            ["ip", "netns", "exec", self.switch, "nft", "list", "ruleset"],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
        return sum(map(int, re.findall(r"packets (\d+)", listed.stdout)))

    def limit(self, rate):
        """Limit every cable, both ways."""
        for host in range(self.ranks):
            for name, device in ((self.namespace(host), "eth0"), (self.switch, self.port(host))):
                words = f"root tbf rate {rate} burst 6kb latency 200ms".split()
                inside(name, "tc", "qdisc", "add", "dev", device, *words)
                self.later(inside, name, "tc", "qdisc", "del", "dev", device, "root")

    def limited(self):
        """Count how often a packet had to wait for that, and the most bytes that went one way."""
        waits, most = 0, 0
        for host in range(self.ranks):
            for name, device in ((self.namespace(host), "eth0"), (self.switch, self.port(host))):
                command = ["ip", "netns", "exec", name, "tc", "-s", "-j", "qdisc", "show"]
                listed = subprocess.run(
                    [*command, "dev", device], capture_output=True, check=True, timeout=10
                )
                for queue in json.loads(listed.stdout):
                    waits, most = waits + queue["overlimits"], max(most, queue["bytes"])
        return waits, most

    def cut(self, host):
        """Pull a host's cable out of the switch. The host gets no notice: its own link stays up."""
        self.inside_switch(f"ip link set {self.port(host)} nomaster")
        self.later(self.mend, host)

    def mend(self, host):
        self.inside_switch(f"ip link set {self.port(host)} master bridge up")

    def switch_with(self, fate, alter=packets.unaltered):
        """Let a process switch the packets instead of the bridge (packets.py)."""
        for host in range(self.ranks):
            self.cut(host)
        names, ready = [self.port(host) for host in range(self.ranks)], FORK.Event()
        process(self.enter_switch, packets.run_switch, names, fate, alter, ready)
        assert ready.wait(10), "the switch has not begun"

    def allow_ports(self, host, first, last):
        """Drop new connections to all ports but these; a firewall seldom reports a refusal."""
        rule = f'iifname "lo" accept; ct state new tcp dport != {first}-{last} drop'
        self.rules(self.namespace(host), "ip", "input", rule)

    def refuse_host(self, host, other):
        """Drop new connections of one host to another."""
        rule = f"ip saddr {self.addresses[other]} ct state new drop"
        self.rules(self.namespace(host), "ip", "input", rule)

    def use_local_ports(self, host, first, last):
        """Let the system of a host take its ports, where any will do, from this range."""
        setting = "net.ipv4.ip_local_port_range={} {}"
        inside(self.namespace(host), "sysctl", "-qw", setting.format(first, last))
        self.later(inside, self.namespace(host), "sysctl", "-qw", setting.format(*LOCAL_PORTS))

    def redirect(self, host, port):
        """Lead all connections that a host makes to a port of its own."""
        whose = f"meta mark != {RELAY_MARK} ip daddr {self.subnet} tcp dport 1-65535"
        rule = f"{whose} redirect to :{port}"
        self.rules(self.namespace(host), "ip", "output", rule, kind="nat", priority=-100)

    def rules(self, namespace, family, hook, lines, kind="filter", priority=0):
        """Add a chain of nftables rules, one a line or with semicolons between."""
        chain = f"type {kind} hook {hook} priority {priority}; {lines};"
        script = f"table {family} sparkring_{hook} {{\n chain rules {{\n {chain}\n }}\n}}\n"
        command = ["ip", "netns", "exec", namespace, "nft", "-f", "-"]
        subprocess.run(command, input=script, text=True, check=True, timeout=10)
        self.later(inside, namespace, "nft", "delete", "table", family, f"sparkring_{hook}")

    # ---- Making it good again

    def later(self, function, *arguments):
        self.undo.append((function, arguments))

    def reset(self):
        """End all processes that were started here and make the network good again."""
        end_all()
        while self.undo:
            function, arguments = self.undo.pop()
            function(*arguments)
