# SPDX-License-Identifier: Apache-2.0
"""The operations: each submits named arrays and returns a `Pending`.

Arrays are those of `Communicator.allreduce`: NumPy's, tensors of the CPU, and others. A result is
of the library of its argument. ``dtype`` names a type that NumPy lacks, for arrays of its bits.
Raise ValueError for arguments that are wrong on this rank, and HorovodInternalError for errors of
the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sparkring._horovod import ops
from sparkring._horovod.adasum import adasum
from sparkring._horovod.context import context, group
from sparkring._horovod.errors import internal_errors
from sparkring._horovod.group import Group
from sparkring._horovod.pending import Pending
from sparkring._horovod.process_sets import ProcessSet, global_process_set

_LAST_INT32 = 2**31 - 1


def allreduce(
    x: Any,
    name: str | None = None,
    op: ops.ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    out: Any = None,
    dtype: str | None = None,
) -> Pending:
    """Combine the arrays of all ranks. ``out`` may be ``x``. Factors multiply floats alone."""
    members, chosen = group(process_set), ops.choose(op)
    named = members.name("allreduce", name)
    if chosen is ops.Adasum:
        return _adasum(members, named, x, out, prescale_factor, postscale_factor)
    with internal_errors():
        return Pending(
            members.reducer.allreduce(
                named, x, chosen.core, out, dtype, prescale_factor, postscale_factor
            )
        )


def _adasum(
    members: Group, named: str, x: Any, out: Any, prescale_factor: float, postscale_factor: float
) -> Pending:
    """Gather the arrays, and combine them on each rank in the same order."""
    array = np.asarray(x)
    if array.dtype.kind != "f":
        raise ValueError(f"Adasum combines floating-point arrays, and x has {array.dtype}")
    with internal_errors():
        gathered = members.reducer.allgather(named, array.reshape(1, -1) * prescale_factor)

    def finish(rows: Any) -> Any:
        result = (adasum(rows) * postscale_factor).astype(array.dtype).reshape(array.shape)
        if out is None:
            return result
        np.copyto(np.asarray(out), result)
        return out

    return Pending(gathered, finish)


def grouped_allreduce(
    xs: Sequence[Any],
    name: str | None = None,
    op: ops.ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    outs: Sequence[Any] | None = None,
    dtypes: Sequence[str | None] | None = None,
) -> Pending:
    """Combine lists of arrays, of any dtypes; arrays of one dtype travel together."""
    members, chosen = group(process_set), ops.choose(op)
    named = members.name("grouped_allreduce", name)
    kinds = list(dtypes) if dtypes is not None else [None] * len(xs)
    if chosen is ops.Adasum:
        targets: Sequence[Any] = outs if outs is not None else [None] * len(xs)
        factors = (prescale_factor, postscale_factor)
        works = [
            _adasum(members, f"{named}.{i}", x, targets[i], *factors) for i, x in enumerate(xs)
        ]
        return Pending(works)
    alike: dict[str, list[int]] = {}
    for i, x in enumerate(xs):
        alike.setdefault(kinds[i] or str(x.dtype), []).append(i)
    with internal_errors():
        submissions = [
            members.reducer.allreduce_group(
                f"{named}.{kind}",
                [xs[i] for i in places],
                chosen.core,
                None if outs is None else [outs[i] for i in places],
                kinds[places[0]],
                prescale_factor,
                postscale_factor,
            )
            for kind, places in alike.items()
        ]

    def finish(results: list[list[Any]]) -> list[Any]:
        ordered: list[Any] = [None] * len(xs)
        for places, arrays in zip(alike.values(), results):
            for place, array in zip(places, arrays):
                ordered[place] = array
        return ordered

    return Pending(submissions, finish)


def allgather(
    x: Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    dtype: str | None = None,
) -> Pending:
    """Concatenate the arrays along the first dimension, which may differ between ranks."""
    members = group(process_set)
    with internal_errors():
        return Pending(members.reducer.allgather(members.name("allgather", name), x, dtype))


def reducescatter(
    x: Any,
    name: str | None = None,
    op: ops.ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    dtype: str | None = None,
) -> Pending:
    """Combine the arrays, and give each rank rows; the first ``rows % size`` ranks get one more."""
    members, chosen = group(process_set), ops.choose(op)
    if chosen not in (ops.Average, ops.Sum):
        raise ValueError(f"op is {chosen!r}: reducescatter takes Average and Sum")
    if np.ndim(x) == 0:
        raise ValueError("x is a number: reducescatter takes arrays of one dimension or more")
    with internal_errors():
        return Pending(
            members.reducer.reduce_scatter(
                members.name("reducescatter", name),
                x,
                chosen.core,
                dtype,
                prescale_factor,
                postscale_factor,
            )
        )


def alltoall(
    x: Any,
    splits: Iterable[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    dtype: str | None = None,
) -> Pending:
    """Send ``splits[r]`` rows to each rank; ``rows`` of the result are the received numbers."""
    members = group(process_set)
    if np.ndim(x) == 0:
        raise ValueError("x is a number: alltoall takes arrays of one dimension or more")
    rows, parts = len(x), None
    if splits is not None:
        parts = check_splits(splits, members.size, rows)
        x = x[: sum(parts)]
    elif rows % members.size:
        raise ValueError(
            f"x has {rows} rows, which {members.size} ranks cannot share equally: pass splits"
        )
    with internal_errors():
        return Pending(members.reducer.alltoall(members.name("alltoall", name), x, parts, dtype))


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
    dtype: str | None = None,
) -> Pending:
    """Send the array of the root, a global rank, to all ranks. ``out`` may be ``x``."""
    members = group(process_set)
    root = members.index(root_rank)
    with internal_errors():
        return Pending(
            members.reducer.broadcast(members.name("broadcast", name), x, root, out, dtype)
        )


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all ranks of the process set have called it."""
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
    """
    context()
    return global_process_set.group().join()
