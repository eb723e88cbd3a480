# SPDX-License-Identifier: Apache-2.0
"""The libraries that are compared: what each needs, over which links it goes, how it is started.

Ours and Gloo are started as one process a rank, with the variables of sparkring-run; what is built
on MPI by mpirun. `ours` names the library of ours that a peer is compared with: the one of the same
language. `memcpy` is no library but the floor of an allreduce in shared memory. `encrypted` and
`unchecked` are ours once more, with TLS and without the check of every frame: for what each costs.
"""

import os
import secrets
import subprocess
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from network import SHAPED

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
BUILD = ROOT / "build" / "bench"
OUR_PYTHON = str(ROOT / ".venv" / "bin" / "python")
PEER_PYTHON = str(BUILD / "venv" / "bin" / "python")
LINKS = ("tcp", "shm", *SHAPED)
COLLECTIVES = ("allreduce", "broadcast", "allgather", "alltoall")

# ob1 is Open MPI's own engine over the named transports; UCX would choose for itself.
PLACEMENT = ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
MPIRUN = ("mpirun", *PLACEMENT, "--mca", "pml", "ob1", "--mca", "btl")


@dataclass(frozen=True)
class Library:
    """One row of the comparison."""

    name: str
    ours: str
    driver: tuple  # the command, without the driver's arguments
    probe: tuple  # a command that succeeds where the library is installed
    hint: str  # how to install it
    links: tuple = LINKS
    mpi: bool = False
    collectives: tuple = COLLECTIVES
    ranks: tuple = ()  # any number unless named
    least: int = 0  # bytes from which on it is measured
    variables: tuple = ()  # (name, value) pairs

    def missing(self):
        """Say in a line what is missing, or return None."""
        try:
            done = subprocess.run(self.probe, capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            done = None
        if done and done.returncode == 0:
            return None
        return f"{self.name}: not installed: {self.hint}"

    def part_of(self, options, link, ranks):
        """Return the options with what it serves of them, or None when that is nothing."""
        own = copy(options)
        own.bytes = [size for size in options.bytes if size >= self.least]
        own.collective = [name for name in options.collective if name in self.collectives]
        served = link in self.links and (not self.ranks or ranks in self.ranks)
        return own if served and own.bytes and own.collective else None

    def commands(self, network, link, folder):
        """Give the (words, environment) of every process that the runner has to start."""
        driver = [*self.driver, str(folder / "ranks"), link]
        if self.mpi:
            return [([*network.enter(0), *self._mpirun(network, link, folder), *driver], {})]
        shared = {
            "SPARKRING_SIZE": str(network.ranks),
            "SPARKRING_ADDRESSES": ",".join(network.addresses),
            "SPARKRING_TOKEN": secrets.token_hex(16),
            "SPARKRING_SHARED_MEMORY": "1" if link == "shm" else "0",
            "GLOO_SOCKET_IFNAME": "eth0" if network.rate else "lo",
            **dict(self.variables),
        }
        return [
            ([*network.enter(rank), *driver], {**shared, "SPARKRING_RANK": str(rank)})
            for rank in range(network.ranks)
        ]

    def _mpirun(self, network, link, folder):
        size = ["-n", str(network.ranks)]
        if link == "shm":
            return [*MPIRUN, "vader,self", *size]
        subnet = ["--mca", "btl_tcp_if_include", network.subnet]
        words = [*MPIRUN, "tcp,self", *subnet, "--mca", "oob_tcp_if_include", network.subnet, *size]
        return [*words, *self._hosts(network, folder)] if network.rate else words

    def _hosts(self, network, folder):
        """Make mpirun reach the other namespaces, where it would use ssh between machines."""
        agent = folder / "agent"
        prefix = network.namespace(0)[:-1]
        agent.write_text(
            "#!/bin/sh\n"
            "# mpirun calls this in place of ssh: HOST COMMAND...; a host name of its own makes\n"
            "# each namespace a machine.\n"
            "host=$1 rank=$((${1##*.} - 1)) && shift\n"
            f'exec ip netns exec {prefix}$rank unshare --uts sh -c \'hostname "rank$0"; eval "$1"\''
            ' "$rank" "$*"\n'
        )
        agent.chmod(0o755)
        hosts = ",".join(f"{address}:1" for address in network.addresses)
        words = ["--host", hosts, "--mca", "plm_rsh_agent", str(agent)]
        # With one rank a machine mpirun cannot see that they share our processors; were it told
        # the truth, as on loopback, waiting ranks would yield.
        crowded = network.ranks > len(os.sched_getaffinity(0))
        return [*words, "--mca", "mpi_yield_when_idle", "1"] if crowded else words


def _compiled(name, hint, driver=None, **more):
    program = str(BUILD / "drivers" / (driver or name))
    return Library(name, "sparkring", (program,), ("test", "-x", program), hint, **more)


def _python(name, python, module, hint, **more):
    driver = (python, str(BENCH / "driver.py"), name)
    probe = (python, "-c", f"import {module}")
    return Library(name, "sparkring-python", driver, probe, hint, **more)


def _r(name, package, hint, **more):
    driver = ("Rscript", "--vanilla", str(BENCH / "driver.R"), name)
    return Library(name, "sparkring-r", driver, ("Rscript", "-e", _find(package)), hint, **more)


def _find(package):
    return f"quit(status = !nzchar(system.file(package = '{package}')))"


OVER_TCP = {"links": ("tcp", *SHAPED)}
TLS = {"variables": (("SPARKRING_ENCRYPTION", "1"),)}
FLOOR = {"links": ("shm",), "collectives": ("allreduce",), "ranks": (2,), "least": 1 << 20}
LIBRARIES = (
    _compiled("sparkring", "scripts/bench builds it"),
    _compiled("encrypted", "scripts/bench builds it", driver="sparkring", **OVER_TCP, **TLS),
    _compiled("unchecked", "scripts/bench builds it", **OVER_TCP),
    _compiled("openmpi", "apt-get install libopenmpi-dev openmpi-bin", mpi=True),
    _compiled("gloo", "apt-get install libgloo-dev", **OVER_TCP),
    _compiled("memcpy", "scripts/bench builds it", **FLOOR),
    _python("sparkring-python", OUR_PYTHON, "sparkring", "scripts/setup", links=("tcp", "shm")),
    _python("mpi4py", PEER_PYTHON, "mpi4py.MPI", "pip install mpi4py", mpi=True),
    _python("torch-gloo", PEER_PYTHON, "torch", "pip install torch==2.13.0", links=("tcp",)),
    _r("sparkring-r", "sparkring", "scripts/setup", links=("tcp", "shm")),
    _r("rmpi", "Rmpi", "apt-get install r-cran-rmpi", mpi=True),
)
COMPILED = ("sparkring", "encrypted", "openmpi", "gloo", "memcpy")


def environment():
    """Everything the processes inherit, beside their own variables."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
