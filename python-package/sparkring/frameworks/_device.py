# SPDX-License-Identifier: Apache-2.0
"""CUDA_VISIBLE_DEVICES, and the GPUs of a Spark task.

Spark assigns a task addresses of GPUs, and the task must use no other GPUs. The addresses count the
GPUs that the executor sees: where CUDA_VISIBLE_DEVICES is set on the executor, they are indexes
into it. The executor's value is kept, because Spark reuses its Python workers, and the addresses of
the next task are indexes into the same value.

CUDA reads the variable once in a process, when CUDA is initialized, and then opens ``nvidia-uvm``.
"""

from __future__ import annotations

import itertools
import operator
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sparkring._core import InvalidError

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
ASKED = "spark.task.resource.gpu.amount"
DEVICES = Path("/dev")
OPEN = Path("/proc/self/fd")


class _Choice(NamedTuple):
    """The last value that was set here, its Spark task, and the value before the first change."""

    task: int | None
    value: str
    before: str | None


_choice: _Choice | None = None


def use_task_gpus() -> None:
    """Use the GPUs of this Spark task, unless the task has chosen already. Not collective."""
    task = find_task()
    if task is None or (
        _choice is not None
        and _choice.task == task.taskAttemptId()
        and _choice.value == os.environ.get(VISIBLE)
    ):
        return
    names = of_task(None)
    if names is not None:
        use(names, warn)


# ---- The GPUs of the task ------------------------------------------------------------------------


def find_task() -> Any:
    """Find the Spark task of this process, if it runs one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import TaskContext  # type: ignore[import-not-found, unused-ignore]

    return TaskContext.get()


def of_task(count: int | None) -> list[str] | None:
    """Return the GPUs that Spark has assigned to this task; None without GPUs."""
    if count is not None and operator.index(count) < 0:
        raise InvalidError(f"count is {count}: it must be 0 or more")
    task = find_task()
    if task is None:
        return None
    resource = task.resources().get("gpu")
    if resource is not None:
        return remap(resource.addresses, inherited())
    asked = float(task.getLocalProperty(ASKED) or 0)
    if asked > 0 and count is None:
        raise InvalidError(
            f"{ASKED} is {asked:g}, but Spark has given this task no GPU: the resource profile of"
            " its stage has none. Give it some or, to share out those that the host has, pass count"
            " to gpus()"
        )
    return None


def remap(addresses: Sequence[str], visible: str | None) -> list[str]:
    """Name the GPUs of addresses where CUDA_VISIBLE_DEVICES has been set to `visible`."""
    if visible is None or visible == ",".join(addresses):  # or set by hand
        return list(addresses)
    names = names_in(visible)
    return [_name(address, names, visible) for address in addresses]


def _name(address: str, names: list[str], visible: str) -> str:
    if not address.isdecimal():  # a UUID
        return address
    if int(address) < len(names):
        return names[int(address)]
    raise InvalidError(
        f"Spark has given this task the GPU {address}, but {VISIBLE} is {visible!r}: of the"
        f" {len(names)} GPUs there the first has the address 0. Let the discovery script count them"
        " so, or leave the variable unset for executors"
    )


def names_in(visible: str | None) -> list[str]:
    """Name all GPUs that a process sees, as CUDA reads the variable."""
    if visible is None:
        return [str(number) for number, _ in enumerate(DEVICES.glob("nvidia[0-9]*"))]
    named = (name.strip() for name in visible.split(","))
    return list(itertools.takewhile(lambda name: name not in ("", "-1", "NoDevFiles"), named))


# ---- The variable --------------------------------------------------------------------------------


def inherited() -> str | None:
    """Return the value before the first change."""
    value = os.environ.get(VISIBLE)
    return _choice.before if _choice is not None and _choice.value == value else value


def use(names: list[str], object_to: Callable[[str], None]) -> list[str]:
    """Set the variable. Call `object_to` where CUDA has read it already."""
    global _choice
    task, value, before = find_task(), ",".join(names), inherited()
    now = os.environ.get(VISIBLE)
    if value != now and _initialised():
        was = "unset" if now is None else repr(now)
        object_to(
            f"CUDA was initialized in this process while {VISIBLE} was {was}, so it will not use"
            f" the GPUs {value!r} of this rank. Call gpus() before anything uses a GPU; where Spark"
            " has used this process for another task, set spark.python.worker.reuse to false"
        )
    if before is None and names and all(name.isdecimal() for name in names):
        os.environ.setdefault(ORDER, "PCI_BUS_ID")  # the order of nvidia-smi
    os.environ[VISIBLE] = value
    _choice = _Choice(None if task is None else task.taskAttemptId(), value, before)
    return names


def _initialised() -> bool:
    """Return whether CUDA has read the variable."""
    if not OPEN.exists():
        return False
    links = (os.path.realpath(entry) for entry in OPEN.iterdir())
    return any(os.path.basename(link) == "nvidia-uvm" for link in links)


def refuse(text: str) -> None:
    """Object by an error."""
    raise InvalidError(text)


def warn(text: str) -> None:
    """Object by a warning."""
    warnings.warn(text, RuntimeWarning, stacklevel=2)
