# SPDX-License-Identifier: Apache-2.0
"""The load of other programs: one on a processor makes a spinning library look slow.

The processors' busy time, and what the hypervisor took, less the time of our own children, which
are counted once they have ended.
"""

import os
import resource
import time
from pathlib import Path


def _busy():
    user, nice, system, _idle, _wait, _irq, _soft, steal, *_ = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    return (user + nice + system + steal) / os.sysconf("SC_CLK_TCK")


def _ours():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class OtherLoad:
    """Measures the share of the processors that other programs use while it is entered."""

    share = 0.0

    def __enter__(self):
        self._before = time.monotonic(), _busy() - _ours()
        return self

    def __exit__(self, *_):
        start, busy = self._before
        capacity = (time.monotonic() - start) * os.cpu_count()
        self.share = max(0.0, (_busy() - _ours() - busy) / capacity)
