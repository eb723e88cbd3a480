# SPDX-License-Identifier: Apache-2.0
"""A rank as a child process of Spark's Python worker, which waits for the exit status of the child.

PySpark's daemon ignores the exit status of its workers, so only the worker can distinguish SIGKILL
from ``os._exit()``. The child uses the memory, so the kernel kills the child when memory is short,
and the worker survives. Linux ends the child with the worker.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from typing import IO, NoReturn, TypeVar

from sparkring._launch.child_process import end_with_parent
from sparkring._launch.nameless_file import nameless_file
from sparkring.spark._stdio_redirect import flush

T = TypeVar("T")


def call(work: Callable[[], T], meanwhile: Callable[[int], None]) -> T | int:
    """Call a function in a child process. Return its result, or the wait status without a result.

    This process calls `meanwhile` with the number of the child. The result is in a file, because a
    pipe would stay open in processes that the child leaves behind.
    """
    flush()
    with nameless_file("sparkring") as file:
        parent = os.getpid()
        process = os.fork()
        if process == 0:
            be_child(work, file, parent)
        meanwhile(process)
        _, status = os.waitpid(process, 0)
        file.seek(0)
        if status:
            return status
        with contextlib.suppress(EOFError):  # the child called os._exit(0)
            result: T = pickle.load(file)
            return result
    return status


def be_child(work: Callable[[], T], file: IO[bytes], parent: int) -> NoReturn:
    """Write the result, and exit without the exit handlers of the worker."""
    code = 1
    try:
        end_with_parent(signal.SIGKILL)
        if os.getppid() == parent:
            pickle.dump(work(), file)
            file.flush()
            code = 0
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        flush()
        os._exit(code)
