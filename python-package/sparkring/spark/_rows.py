# SPDX-License-Identifier: Apache-2.0
"""The rows of a rank: from Spark's worker, which receives them, to its child, which is the rank.

The child cannot read Spark's socket itself, because the worker has read ahead, and speaks with
Spark on it at the end. So a thread of the worker copies the batches to the child, as a stream of
Arrow. Both ends hold one batch at a time.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sparkring.spark import _arrow as arrow

KINDS = ("pandas", "arrow", "batches")
STREAM, NOTHING, COMPLETE = b"S", b"N", b"C"
END = 1.0  # seconds for the thread to end with its rank; it may wait for Spark


@dataclass(frozen=True)
class Rows:
    """The rows as a function gets them.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    schema : bytes
        Arrow's schema, for a rank without rows.
    zone : str
        The time zone of the session, of timestamps in pandas.
    """

    kind: str
    schema: bytes = field(repr=False)
    zone: str

    def of(self, batches: Iterator[Any], agree: Callable[[Any], Any]) -> Any:
        """Make the argument of the function. `agree` joins the bits of all ranks, for pandas."""
        batches = arrow.with_names(batches, self.schema)
        if self.kind == "batches":
            return batches
        table = arrow.table_of(batches, self.schema)
        return table if self.kind == "arrow" else arrow.to_pandas(table, self.zone, agree)


class Feed:
    """Carries the batches of a partition from the worker to its child.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        The argument that Spark passes to the function of ``mapInArrow``.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self.given = batches
        self.error: BaseException | None = None  # of Spark
        self.task_end, self.rank_end = socket.socketpair()
        self.thread = threading.Thread(target=self.work, name="sparkring rows", daemon=True)

    # ---- In Spark's worker

    def start(self) -> None:
        """Start to send; call it when the child has started."""
        self.rank_end.close()
        self.thread.start()

    def close(self) -> None:
        """Stop when the child has ended, or was not started. `error` is Spark's from now on."""
        with contextlib.suppress(OSError):
            self.task_end.shutdown(socket.SHUT_RDWR)
        if self.thread.ident is None:
            self.task_end.close()
            self.rank_end.close()
        else:
            self.thread.join(END)

    def work(self) -> None:
        """Send the batches."""
        with self.task_end, contextlib.suppress(OSError):  # the rank has ended
            batches = self.received()
            first = next(batches, None)
            with self.task_end.makefile("wb") as file:
                file.write(NOTHING if first is None else STREAM)
                if first is not None:
                    arrow.write_stream(file, first, batches)
                if self.error is None:
                    file.write(COMPLETE)

    def received(self) -> Iterator[Any]:
        """Yield the batches of Spark. An error ends them, and is kept for `close`."""
        try:
            yield from self.given
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error

    # ---- In the child

    def open(self) -> None:
        """Leave the worker's end to the worker."""
        self.task_end.close()

    def read(self) -> Iterator[Any]:
        """Yield the batches."""
        with self.rank_end, self.rank_end.makefile("rb") as file:
            if file.read(1) == STREAM:
                yield from arrow.read_stream(file)
            if file.read(1) != COMPLETE:
                raise ConnectionError("Spark has ended the rows of this rank early")
