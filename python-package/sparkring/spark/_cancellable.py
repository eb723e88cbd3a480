# SPDX-License-Identifier: Apache-2.0
"""A long call of Spark in a thread of its own, which Ctrl-C cancels.

In the calling thread the signal would raise inside Py4J. Py4J would convert it to an error of its
own, which ``except Exception`` catches. Here the caller only waits, and raises KeyboardInterrupt
after the call was cancelled and has ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

SLICE = 1.0  # seconds; signals interrupt the wait
ENDING = 15.0  # seconds for a cancelled call to end


def run_cancellable(call: Callable[[], T], cancel: Callable[[], Any]) -> T:
    """Call with the local properties of this thread, and wait. Cancel the call on an interrupt."""
    from pyspark import InheritableThread

    values: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            values.append(call())
        except BaseException as error:
            errors.append(error)

    thread = InheritableThread(target=work, name="sparkring job", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(SLICE)
    except BaseException:
        with contextlib.suppress(Exception):
            cancel()
        thread.join(ENDING)
        raise
    if errors:
        raise errors[0]
    return values[0]
