# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls, allow-untyped-decorators
"""Collectives on tensors of TensorFlow, at once and in a ``tf.function``, with gradients.

The gradient is that of the sum of the losses of all ranks. Arguments are what
``tf.convert_to_tensor`` takes. Within a ``tf.function`` the operations run in the order of the
program, which is the same on all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sparkring._horovod import operations
from sparkring._horovod.context import group
from sparkring._horovod.host import Compression, Compressor, Reduction
from sparkring._horovod.ops import Average, ReduceOp, Sum, choose
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring.tensorflow._gradients import reduce_gradients
from sparkring.tensorflow._host import any_rows, on_host, same_as


def _gradient_of(name: str | None) -> str | None:
    """Name the operation of a gradient, where the operation has a name."""
    return None if name is None else f"{name}.gradient"


def _part_of(name: str | None, part: int) -> str | None:
    """Name a part of a group, where the group has a name."""
    return None if name is None else f"{name}.{part}"


def allreduce(
    tensor: Any,
    average: bool | None = None,
    compression: Compressor = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    sparse_as_dense: bool = False,
) -> Any:
    """Combine a tensor of all ranks; the average by default.

    Parameters
    ----------
    tensor : tensor or tf.IndexedSlices
        For tf.IndexedSlices the slices of all ranks are gathered, unless ``sparse_as_dense``.
    average : bool
        True for ``op=Average``, False for ``op=Sum``.
    compression : Compression.none, Compression.fp16 or Compression.bf16
        The dtype in which the tensor travels.
    op : Average, Sum, Adasum, Min, Max or Product
    prescale_factor, postscale_factor : float
        Multiply floating-point elements before and after.
    name : str
        The same on all ranks; by default the number of the operation.
    process_set : ProcessSet

    Returns
    -------
    tf.Tensor or tf.IndexedSlices
    """
    if isinstance(tensor, tf.IndexedSlices):
        chosen = choose(op, average)
        reduction = Reduction(name, chosen, prescale_factor, postscale_factor, process_set)
        return reduce_gradients([tensor], reduction, compression, sparse_as_dense)[0]
    return grouped_allreduce(
        [tensor], average, compression, op, prescale_factor, postscale_factor, name, process_set
    )[0]


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    compression: Compressor = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Combine several tensors of all ranks as one operation, as `allreduce` does."""
    chosen = choose(op, average)
    reduction = Reduction(name, chosen, prescale_factor, postscale_factor, process_set)

    @tf.custom_gradient
    def run(*xs: Any) -> Any:
        def gradient(*upstream: Any) -> Any:
            if chosen not in (Average, Sum):
                raise NotImplementedError(f"the gradient of allreduce with op={chosen} is unknown")
            back = reduction._replace(name=_gradient_of(name))
            return reduce_gradients(upstream, back, compression)

        return reduce_gradients(xs, reduction, compression), gradient

    return list(run(*[tf.convert_to_tensor(x) for x in tensors]))


def allgather(
    tensor: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Concatenate a tensor of all ranks along the first dimension, which may differ."""
    members = group(process_set)

    def rows_of(count: Any) -> list[Any]:
        return [operations.allgather(count, None, process_set).wait()]

    @tf.custom_gradient
    def run(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            count = tf.shape(x, tf.int64)[:1]
            rows = on_host(rows_of, [count], [(tf.int64, [members.size])])[0]
            total = Reduction(_gradient_of(name), Sum, process_set=process_set)
            summed = reduce_gradients([upstream], total, Compression.none)[0]
            return tf.split(summed, rows, num=members.size)[members.comm.rank]

        def call(array: Any) -> list[Any]:
            return [operations.allgather(array, name, process_set).wait()]

        return on_host(call, [x], [any_rows(x)])[0], gradient

    return run(tf.convert_to_tensor(tensor))


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Gather several tensors, as `allgather` does."""
    return [allgather(x, _part_of(name, i), process_set) for i, x in enumerate(tensors)]


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the tensor of a global rank on all ranks."""
    members = group(process_set)
    is_root = members.index(root_rank) == members.comm.rank

    @tf.custom_gradient
    def run(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            total = Reduction(_gradient_of(name), Sum, process_set=process_set)
            summed = reduce_gradients([upstream], total, Compression.none)[0]
            return summed if is_root else tf.zeros_like(summed)

        def call(array: Any) -> list[Any]:
            return [operations.broadcast(array, root_rank, name, process_set).wait()]

        return on_host(call, [x], same_as([x]))[0], gradient

    return run(tf.convert_to_tensor(tensor))


def reducescatter(
    tensor: Any,
    compression: Compressor = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Combine a tensor of all ranks and return the rows of this rank.

    The first ranks get one row more where the rows cannot be shared equally. The gradient gathers
    the gradients of all ranks.
    """
    members = group(process_set)
    average = 1.0 / members.size if op is Average else 1.0

    @tf.custom_gradient
    def run(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            factor = average * prescale_factor * postscale_factor
            return allgather(upstream, _gradient_of(name), process_set) * tf.cast(factor, x.dtype)

        def call(array: Any) -> list[Any]:
            factors = (prescale_factor, postscale_factor)
            return [operations.reducescatter(array, name, op, *factors, process_set).wait()]

        sent = tf.cast(x, compression.wire_dtype(x.dtype.name))
        return tf.cast(on_host(call, [sent], [any_rows(sent)])[0], x.dtype), gradient

    return run(tf.convert_to_tensor(tensor))


def grouped_reducescatter(
    tensors: Sequence[Any],
    compression: Compressor = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Combine and scatter several tensors, as `reducescatter` does."""
    return [
        reducescatter(x, compression, op, _part_of(name, i), process_set)
        for i, x in enumerate(tensors)
    ]


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send ``splits[r]`` rows to each rank ``r``; equal parts without splits.

    Returns
    -------
    tf.Tensor or (tf.Tensor, tf.Tensor)
        The received rows; with splits also the number of rows from each rank, as int32.
    """
    members = group(process_set)

    def call(array: Any, parts: Any) -> list[Any]:
        given = None if splits is None else parts
        started = operations.alltoall(array, given, name, process_set)
        return [started.wait(), np.array(started.rows, "int32")]

    @tf.custom_gradient
    def run(x: Any) -> Any:
        parts = tf.cast([] if splits is None else splits, tf.int32)
        specs = [any_rows(x), (tf.int32, [members.size])]
        received, rows = on_host(call, [x, parts], specs)

        def gradient(upstream: Any, _rows: Any = None) -> Any:
            return alltoall(upstream, rows, _gradient_of(name), process_set)[0]

        return (received, rows), gradient

    received, rows = run(tf.convert_to_tensor(tensor))
    return received if splits is None else (received, rows)


def size_op(process_set: ProcessSet = global_process_set, name: str | None = None) -> Any:
    """Return the number of ranks as a tensor."""
    return tf.constant(group(process_set).size, tf.int32, name=name)


def rank_op(name: str | None = None) -> Any:
    """Return the rank of this process as a tensor."""
    return tf.constant(group().comm.rank, tf.int32, name=name)
