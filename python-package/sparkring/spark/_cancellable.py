# SPDX-License-Identifier: Apache-2.0
"""A long call of Spark in a thread of its own, which Ctrl-C cancels.

In the calling thread the signal would raise inside of Py4J, which makes an error of its own of it
that ``except Exception`` catches. Here the caller only waits. KeyboardInterrupt reaches it after
the call was cancelled and has ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

SLICE = 1.0  # seconds; signals are looked at sooner
ENDING = 15.0  # seconds for a cancelled call to end


def run_cancellable(call: Callable[[], T], cancel: Callable[[], Any]) -> T:
    """Call, with the local properties of this thread, and wait; cancel when this is interrupted."""
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
