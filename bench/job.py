# SPDX-License-Identifier: Apache-2.0
"""One job: the processes of one library, from their start to their samples.

Every job has a deadline. However it ends, nothing of it runs on: each process leads a group of its
own, which is ended by its number, and what mpirun may have left is found in the job's network. All
ranks of a library are in one session, as those of mpirun are: between sessions Linux shares the
processors out (autogroups), so that a rank which yields does not hand its processor to another one.
"""

import contextlib
import os
import signal
import subprocess
import time

import libraries
import results

WRONG_LINK = 3  # a driver's exit status: the library uses another link than it was asked to


class WrongLinkError(Exception):
    """The library cannot use the link."""


class RunError(Exception):
    """A driver failed; the message has the reason."""


def stop(processes):
    """End what still runs: politely first, because mpirun ends its own children then."""
    for sign, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        running = [process for process in processes if process.poll() is None]
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)


def wait(processes, deadline):
    """Return the first non-zero exit status, 0 when all went well, None at the deadline."""
    while time.monotonic() < deadline:
        states = [process.poll() for process in processes]
        bad = [state for state in states if state]
        if bad or None not in states:
            return bad[0] if bad else 0
        time.sleep(0.01)
    return None


def tail(log):
    """Return the end of what the drivers printed, on one line."""
    return " | ".join(log.read_text(errors="replace").split("\n")[-6:]).strip(" |")[-500:]


def run_job(library, link, network, options, folder):
    """Run one library once over all cases; return its medians."""
    (folder / "ranks").mkdir(parents=True)
    log = folder / "log"
    sizes = ",".join(map(str, options.bytes))
    arguments = [str(options.seconds), ",".join(options.collective), sizes]
    base = {**libraries.environment(), "TMPDIR": str(folder)}
    cases = len(options.bytes) * len(options.collective)
    deadline = time.monotonic() + 60 + cases * (5 + 3 * options.seconds)
    processes = []
    try:
        with log.open("w") as output:
            for words, more in library.commands(network, link, folder):
                process = subprocess.Popen(
                    [*words, *arguments],
                    env={**base, **more},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    process_group=0,
                )
                processes.append(process)
            status = wait(processes, deadline)
    finally:
        stop(processes)
        network.clear()
    if status == WRONG_LINK:
        raise WrongLinkError
    if status != 0:
        what = "took too long" if status is None else f"exit status {status}"
        raise RunError(f"{what}: {tail(log)}")
    return results.read_ranks(folder / "ranks", library.name, link, network.ranks)
