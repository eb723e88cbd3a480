# SPDX-License-Identifier: Apache-2.0
"""Whether Spark's configuration asks for encrypted traffic.

Jobs of data frames have Spark's settings as properties, which `_barrier_task` reads. In other
jobs a worker has no settings, but an ancestor of its process has: Spark starts executors
(standalone, YARN, Kubernetes) with ``-Dspark.network...=...``. A driver that runs tasks in its own
threads is started with ``--conf``. So this file reads the command lines of the ancestors in
``/proc``, up to the first that runs a class of Spark. R's spark-encryption.R does the same.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable

# spark.io.encryption.enabled concerns files on disk, and the other spark.ssl.* web pages.
SETTINGS = (
    "spark.network.crypto.enabled",
    "spark.ssl.rpc.enabled",
    "spark.authenticate.enableSaslEncryption",
)
_ASKS = re.compile(rb"(-D)?(%s)=(?i:true)" % "|".join(map(re.escape, SETTINGS)).encode())
_GENERATIONS = 16


def asked(setting: Callable[[str], Any]) -> bool:
    """Return whether a setting of Spark asks for encryption."""
    return any(str(setting(name)).lower() == "true" for name in SETTINGS)


def by_default(task_asks: bool) -> bool:
    """Return whether a rank encrypts because Spark does, where its caller does not choose."""
    return "SPARKRING_ENCRYPTION" not in os.environ and (task_asks or asked_of_ancestors())


def asked_of_ancestors(process: int | None = None, proc: Path = Path("/proc")) -> bool:
    """Return whether an encrypting Spark started this process; false without /proc."""
    process = os.getpid() if process is None else process
    try:
        for _ in range(_GENERATIONS):
            if process <= 0:
                break
            arguments = (proc / str(process) / "cmdline").read_bytes().split(b"\0")
            if any(argument.startswith(b"org.apache.spark.") for argument in arguments):
                return any(_ASKS.fullmatch(argument) for argument in arguments)
            # The state and the parent follow the name. The name may hold any character.
            stat = (proc / str(process) / "stat").read_bytes()
            process = int(stat.rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return False


def check_token(token: bytes | None, ranks: int) -> None:
    """Return why ranks need a token although their caller has not asked for encryption."""
    if token is None and ranks > 1:
        raise InvalidError(
            "Spark encrypts its traffic here, so links are encrypted, which needs a token: give all"
            " ranks the same token of at least 16 random bytes, or pass encryption=False"
        )
