# SPDX-License-Identifier: Apache-2.0
"""Named tensors, which ranks submit in any order and from any thread."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sparkring import _core
from sparkring import _options as options
from sparkring._closing import Closing
from sparkring._core import ReducerHandle
from sparkring._explanation import DeviceExplanation
from sparkring._submission import Submission

if TYPE_CHECKING:
    from sparkring._communicator import Communicator


class Reducer(Closing):
    """Runs a collective on a named array when all ranks have submitted the name.

    `Communicator.reducer` opens one. Each operation returns a `Submission`; its ``wait()`` returns
    the result. Arrays must not be used until then. All ranks pass the same name, shape, dtype, op,
    root and factors, else ``wait()`` raises `MismatchError` for that name on all ranks; later
    submissions work. For a name that some ranks do not submit it raises `TimeoutError` after
    ``stall_timeout``. Any thread may submit.

    Arrays may be on a GPU of each rank, in `allreduce`, `allreduce_group` and `broadcast`; the
    other operations take arrays of the host. The first such operation opens a device of the
    reducer. A device reads an array after the work that is on its stream at the submission. When
    ``wait()`` returns, the GPU has written the result.

    Examples
    --------
    >>> with comm.reducer() as reducer:
    ...     started = {name: reducer.allreduce(name, x, "avg") for name, x in gradients.items()}
    ...     averages = {name: submission.wait() for name, submission in started.items()}
    """

    def __init__(self, handle: ReducerHandle) -> None:
        self._handle = handle

    def _submit(
        self,
        kind: str,
        name: str,
        x: Any,
        *,
        out: Any = None,
        op: str = "sum",
        root: int = 0,
        dtype: str | list[str | None] | None = None,
        factors: tuple[float, float] = (1.0, 1.0),
        splits: Iterable[int] | None = None,
        note: str | None = None,
    ) -> Submission:
        options.check_text("name", name)
        parts = None if splits is None else list(splits)
        return self._handle.submit(
            Submission, kind, name, x, out, op, root, dtype, *factors, parts, note
        )

    def allreduce(
        self,
        name: str,
        x: Any,
        op: str = "sum",
        out: Any = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
        note: str | None = None,
    ) -> Submission:
        """Combine the arrays of all ranks, element by element.

        Parameters
        ----------
        name : str
            Not in flight on this rank already.
        x : array, buffer or number
        op : str
            As for `Communicator.allreduce`.
        out : array
            Gets the result; may be ``x``.
        dtype : str
            As for `Communicator.allreduce`.
        prescale, postscale : float
            Multiply floating-point elements before and after.
        note : str, optional
            As for `allreduce_group`.

        Returns
        -------
        Submission
            Of an array like ``x``, or of ``out``.

        Raises
        ------
        InvalidError
            For invalid arguments, and for a name that is in flight on this rank.
        """
        factors = (prescale, postscale)
        return self._submit(
            "allreduce", name, x, out=out, op=op, dtype=dtype, factors=factors, note=note
        )

    def allreduce_group(
        self,
        name: str,
        xs: Iterable[Any],
        op: str = "sum",
        out: Iterable[Any] | None = None,
        dtype: str | Sequence[str | None] | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
        note: str | None = None,
    ) -> Submission:
        """Combine several arrays as one operation: all of them or none.

        Ranks whose arrays differ in shape get `MismatchError`, also where the counts agree.

        Parameters
        ----------
        name : str
            Not in flight on this rank already.
        xs : iterable of array
            As many on all ranks.
        op : str
            As for `Communicator.allreduce`.
        out : iterable of array, optional
            Get the results; may be the arrays themselves.
        dtype : str or sequence of str, optional
            That of all arrays, or of each.
        prescale, postscale : float
            Multiply floating-point elements before and after.
        note : str, optional
            What ranks pass alike besides; `MismatchError` shows it.

        Returns
        -------
        Submission
            Of a list of arrays.

        Raises
        ------
        InvalidError
            As for `allreduce`.
        """
        arrays, outputs = list(xs), None if out is None else list(out)
        names = dtype if dtype is None or isinstance(dtype, str) else list(dtype)
        factors, notes = (prescale, postscale), _with_shapes(note, arrays)
        return self._submit(
            "allreduce_group",
            name,
            arrays,
            out=outputs,
            op=op,
            dtype=names,
            factors=factors,
            note=notes,
        )

    def reduce_scatter(
        self,
        name: str,
        x: Any,
        op: str = "sum",
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
        note: str | None = None,
    ) -> Submission:
        """Combine the arrays of all ranks and give each rank rows of the result.

        The first ranks get one row more if the rows cannot be shared equally.

        Parameters
        ----------
        name, op, dtype, prescale, postscale
            As for `allreduce`.
        x : array
            Of one dimension or more, with the same shape on all ranks.
        note : str, optional
            As for `allreduce_group`.

        Returns
        -------
        Submission
            Of an array of shape (own rows, ...).

        Raises
        ------
        InvalidError
            As for `allreduce`.
        """
        factors = (prescale, postscale)
        return self._submit(
            "reduce_scatter", name, x, op=op, dtype=dtype, factors=factors, note=note
        )

    def broadcast(
        self, name: str, x: Any, root: int = 0, out: Any = None, dtype: str | None = None
    ) -> Submission:
        """Send the array of the root to all ranks.

        Parameters
        ----------
        name, out, dtype
            As for `allreduce`.
        x : array, buffer or number
            With the same shape on all ranks; only the values of the root count.
        root : int
            The rank that sends.

        Returns
        -------
        Submission
            Of an array like ``x``, or of ``out``.

        Raises
        ------
        InvalidError
            As for `allreduce`.
        """
        return self._submit("broadcast", name, x, out=out, root=root, dtype=dtype)

    def allgather(
        self, name: str, x: Any, dtype: str | None = None, note: str | None = None
    ) -> Submission:
        """Concatenate the arrays of all ranks along the first dimension, which may differ.

        Parameters
        ----------
        name, dtype
            As for `allreduce`.
        x : array
            With the same shape, but for the first dimension, on all ranks.
        note : str, optional
            As for `allreduce_group`.

        Returns
        -------
        Submission
            Of an array of shape (rows of all ranks, ...). ``rows`` has the number of each rank.

        Raises
        ------
        InvalidError
            As for `allreduce`.
        """
        return self._submit("allgather", name, x, dtype=dtype, note=note)

    def alltoall(
        self, name: str, x: Any, splits: Iterable[int] | None = None, dtype: str | None = None
    ) -> Submission:
        """Send ``splits[r]`` rows to each rank ``r``, equal parts by default.

        Parameters
        ----------
        name, dtype
            As for `allreduce`.
        x : array
            With the same shape, but for the first dimension, on all ranks.
        splits : iterable of int, optional
            A number of rows for each rank.

        Returns
        -------
        Submission
            Of an array of shape (received rows, ...), in the order of ranks. ``rows`` has the
            number from each rank.

        Raises
        ------
        InvalidError
            As for `allreduce`.
        """
        return self._submit("alltoall", name, x, splits=splits, dtype=dtype)

    def barrier(self, name: str, note: str | None = None) -> Submission:
        """Complete when all ranks have submitted the name.

        Parameters
        ----------
        name : str
            Not in flight on this rank already.
        note : str, optional
            As for `allreduce_group`.

        Returns
        -------
        Submission
            Of None.
        """
        return self._submit("barrier", name, None, note=note)

    def join(self) -> int:
        """Give zeros to the operations of the other ranks until all ranks have joined.

        Returns
        -------
        int
            The rank that joined last.

        Raises
        ------
        PeerLostError, TimeoutError, AbortedError
            When a rank dies, hangs or aborts.
        """
        return self._handle.join()

    def counters(self) -> dict[str, Any]:
        """Return counts of cycles, negotiations, operations and runs, and the settings in use.

        ``gpu_runs`` counts the runs on arrays on GPUs.

        Returns
        -------
        dict
            Numbers by name, since the reducer was opened.
        """
        return self._handle.counters()

    def explain_device(self) -> DeviceExplanation | None:
        """Explain how operations on arrays on GPUs are carried out, and why.

        Returns
        -------
        DeviceExplanation or None
            None before the first such operation.
        """
        told = self._handle.explain_device()
        return None if told is None else DeviceExplanation(*told)

    def leave(self) -> None:
        """Announce that this rank submits nothing more; `close` follows.

        Submissions of other ranks that wait for this rank raise `MismatchError`. A rank with
        several reducers leaves all of them before it closes the first.
        """
        self._handle.leave()

    def close(self) -> None:
        """Wait for the submissions of this rank, then until all ranks have closed. Collective.

        Raises
        ------
        PeerLostError, TimeoutError, AbortedError
            When a rank dies, hangs or aborts.
        """
        self._handle.close()

    def abort(self, reason: str | None = None) -> None:
        """End the reducer from this rank alone: submissions of all ranks raise `AbortedError`.

        Parameters
        ----------
        reason : str, optional
            Text for the errors of all ranks.
        """
        self._handle.abort(reason)


def _with_shapes(note: str | None, arrays: Sequence[Any]) -> str | None:
    """Add the shapes of a group's arrays to its note: the core compares their counts."""
    shapes = [getattr(x, "shape", ()) for x in arrays]
    if all(len(shape) < 2 for shape in shapes):
        return note
    text = "shapes " + ", ".join(str(list(shape)) for shape in shapes)
    return text if note is None else f"{note}, {text}"


def _check_cycle(seconds: float | None) -> float:
    """Return the core's number: 0 for its default, negative for no time."""
    if seconds is None:
        return 0.0
    return -1.0 if seconds == 0 else options.check_seconds("cycle_time", seconds)


def reducer(
    self: Communicator,
    *,
    threshold: int | None = None,
    cycle_time: float | None = None,
    cache_capacity: int | None = None,
    stall_timeout: float | None = None,
    autotune: bool = False,
    autotune_log: str | os.PathLike[str] | None = None,
) -> Reducer:
    """Open a reducer of all ranks, for named arrays in any order. Collective.

    Arrays on GPUs take the path of the communicator's `device`, if it is open; else they go by
    NCCL where every rank can use it, and through the host otherwise.

    Parameters
    ----------
    threshold : int
        Most bytes that travel as one operation, 128 MiB by default; 1 for no fusion.
    cycle_time : float
        Seconds, up to 0.005, in which submissions gather while no thread waits, 0.001 by default.
    cache_capacity : int
        Names that stay agreed on, 1024 by default.
    stall_timeout : float
        Seconds after which a name that some ranks miss fails with `TimeoutError`, the
        ``call_timeout`` of the communicator by default; ``math.inf`` for never.
    autotune : bool
        Whether rank 0 tries other values of ``threshold`` and ``cycle_time`` while the same names
        come again, for about 150 steps, and keeps the fastest. That of rank 0 counts.
    autotune_log : path
        A file to which rank 0 appends what it has tried, as CSV: threshold, cycle_time,
        bytes_per_second, chosen.

    Returns
    -------
    Reducer
        A context manager that closes it.

    Raises
    ------
    InvalidError
        For settings out of range.
    MismatchError
        When ranks pass another threshold or cache_capacity.
    OSError
        When rank 0 cannot write autotune_log.
    PeerLostError, TimeoutError, AbortedError
        When a rank dies, hangs or aborts.
    """
    device = self._device_get()
    handle = _core.reducer_open(
        self,
        options.check_count("threshold", threshold),
        _check_cycle(cycle_time),
        options.check_count("cache_capacity", cache_capacity),
        -1.0
        if stall_timeout == math.inf
        else options.check_seconds("stall_timeout", stall_timeout),
        options.check_flag("autotune", autotune) or autotune_log is not None,
        None if autotune_log is None else os.fspath(autotune_log),
        "auto" if device is None else device.path,
        *self._device_libraries(),
    )
    return Reducer(handle)
