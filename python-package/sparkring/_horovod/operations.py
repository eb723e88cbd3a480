# SPDX-License-Identifier: Apache-2.0
"""The operations: each submits named arrays and returns a `Pending`.

Arrays are those of `Communicator.allreduce`: NumPy's, tensors of the CPU, and others. A result is
of the library of its argument. Raise ValueError for arguments that are wrong on this rank, and
HorovodInternalError for errors of the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sparkring._horovod import ops
from sparkring._horovod.adasum import adasum
from sparkring._horovod.arguments import join_texts
from sparkring._horovod.context import context, group
from sparkring._horovod.errors import ArgumentError, internal_errors
from sparkring._horovod.group import Group
from sparkring._horovod.pending import Pending
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.reduction import AVERAGE, Reduction

_LAST_INT32 = 2**31 - 1


def allreduce(x: Any, how: Reduction = AVERAGE, out: Any = None) -> Pending:
    """Combine the arrays of all ranks. ``out`` may be ``x``."""
    members = group(how.process_set)
    named = members.name("allreduce", how.name)
    if how.op is ops.Adasum:
        summed = _adasum(members, named, [x], how, None if out is None else [out])
        return summed.then(lambda results: results[0])
    with internal_errors():
        return Pending(
            members.reducer.allreduce(
                named, x, how.op.core, out, None, how.prescale, how.postscale, how.note
            )
        )


def grouped_allreduce(
    xs: Sequence[Any], how: Reduction = AVERAGE, outs: Sequence[Any] | None = None
) -> Pending:
    """Combine lists of arrays, of any dtypes; arrays of one dtype travel together."""
    members = group(how.process_set)
    named = members.name("allreduce", how.name)
    if how.op is ops.Adasum and xs:
        return _adasum(members, named, xs, how, outs)
    with internal_errors():
        return Pending(
            members.reducer.allreduce_group(
                named, xs, how.op.core, outs, None, how.prescale, how.postscale, note=how.note
            )
        )


def _adasum(
    members: Group, named: str, xs: Sequence[Any], how: Reduction, outs: Sequence[Any] | None
) -> Pending:
    """Gather the arrays in one operation, and combine them on each rank in the same order."""
    arrays = [np.asarray(x) for x in xs]
    for array in arrays:
        if array.dtype.kind != "f":
            raise ValueError(f"Adasum combines floating-point arrays, and x has {array.dtype}")
    ends = np.cumsum([array.size for array in arrays])[:-1]
    row = np.concatenate([array.ravel() for array in arrays]) * how.prescale
    kinds = [f"{array.dtype} {list(array.shape)}" for array in arrays]
    note = join_texts(f"Adasum of {', '.join(kinds)}", how.factors(), how.note)
    with internal_errors():
        gathered = members.reducer.allgather(named, row.reshape(1, -1), note=note)

    def finish(rows: Any) -> list[Any]:
        parts = zip(*(np.split(each, ends) for each in rows))
        results = [
            (adasum(part) * how.postscale).astype(array.dtype).reshape(array.shape)
            for part, array in zip(parts, arrays)
        ]
        if outs is None:
            return results
        for out, result in zip(outs, results):
            np.copyto(np.asarray(out), result)
        return list(outs)

    return Pending(gathered, finish)


def allgather(
    x: Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    note: str | None = None,
) -> Pending:
    """Concatenate the arrays along the first dimension, which may differ between ranks."""
    members = group(process_set)
    with internal_errors():
        return Pending(members.reducer.allgather(members.name("allgather", name), x, note=note))


def gather_entries(rows: Any, how: Reduction) -> Pending:
    """Gather the packed entries of sparse arrays, for a sum: a reduction to the other ranks.

    So a rank that reduces a dense array under the name gets an error, as this rank does.
    """
    members = group(how.process_set)
    named = members.name("allreduce", how.name)
    with internal_errors():
        return Pending(members.reducer.allgather(named, rows, note=how.note))


def reducescatter(x: Any, how: Reduction = AVERAGE) -> Pending:
    """Combine the arrays, and give each rank rows; the first ``rows % size`` ranks get one more."""
    members = group(how.process_set)
    if how.op not in (ops.Average, ops.Sum):
        raise ArgumentError(f"op is {how.op!r}: reducescatter takes Average and Sum")
    if np.ndim(x) == 0:
        raise ArgumentError("x is a number: reducescatter takes arrays of one dimension or more")
    named = members.name("reducescatter", how.name)
    with internal_errors():
        return Pending(
            members.reducer.reduce_scatter(
                named, x, how.op.core, None, how.prescale, how.postscale, how.note
            )
        )


def alltoall(
    x: Any,
    splits: Iterable[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Pending:
    """Send ``splits[r]`` rows to each rank; ``rows`` of the result are the received numbers."""
    members = group(process_set)
    if np.ndim(x) == 0:
        raise ArgumentError("x is a number: alltoall takes arrays of one dimension or more")
    rows, parts = len(x), None
    if splits is not None:
        parts = check_splits(splits, members.size, rows)
        x = x[: sum(parts)]
    elif rows % members.size:
        raise ValueError(
            f"x has {rows} rows, which {members.size} ranks cannot share equally: pass splits"
        )
    with internal_errors():
        return Pending(members.reducer.alltoall(members.name("alltoall", name), x, parts))


def check_splits(splits: Iterable[int], size: int, rows: int) -> list[int]:
    """Return the numbers of rows for the ranks. Raise ValueError where they cannot be sent."""
    array = np.asarray(splits)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) != size:
        raise ValueError(f"splits are {array!r}: pass one integer for each of {size} ranks")
    if (array < 0).any() or (array > _LAST_INT32).any():
        raise ValueError(f"splits are {array.tolist()}: pass numbers that int32 holds, from 0 on")
    if int(array.sum()) > rows:
        raise ValueError(f"splits add up to {int(array.sum())}, and x has {rows} rows")
    return [int(number) for number in array]


def broadcast(
    x: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: Any = None,
) -> Pending:
    """Send the array of the root, a global rank, to all ranks. ``out`` may be ``x``."""
    members = group(process_set)
    root = members.index(root_rank)
    with internal_errors():
        return Pending(members.reducer.broadcast(members.name("broadcast", name), x, root, out))


def compare(what: str, note: str, process_set: ProcessSet = global_process_set) -> Pending:
    """Compare what ranks have to pass alike: where it differs, each rank gets an error with both.

    ``what`` names it, on all ranks alike.
    """
    members = group(process_set)
    with internal_errors():
        return Pending(members.reducer.barrier(members.name("settings", what), note))


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all ranks of the process set have called it.

    Parameters
    ----------
    process_set : ProcessSet
        The ranks that take part; all by default.

    Raises
    ------
    HorovodInternalError
        When ranks fail.
    ValueError
        On a rank outside the process set, and before `init`.
    """
    members = group(process_set)
    with internal_errors():
        submission = members.reducer.barrier(members.name("barrier", None))
    Pending(submission).wait()


def join() -> int:
    """Give zeros to the operations of the other ranks until all ranks have joined.

    Returns
    -------
    int
        The rank that joined last.

    Raises
    ------
    HorovodInternalError
        When ranks fail.
    """
    context()
    return global_process_set.group().join()
