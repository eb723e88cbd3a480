# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls, allow-untyped-decorators
"""Collectives on tensors of TensorFlow, at once and in a ``tf.function``, with gradients.

The gradients of ranks are averaged where each rank's loss counts alike, as Horovod does: those of
`allgather` and `broadcast`. `allreduce` combines them with its own op. Arguments are what
``tf.convert_to_tensor`` takes. Within a ``tf.function`` the operations run in the order of the
program, which is the same on all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sparkring._horovod import operations
from sparkring._horovod.arguments import check_compression, part_of
from sparkring._horovod.context import group
from sparkring._horovod.host import Compression, Compressor
from sparkring._horovod.ops import Average, ReduceOp, Sum
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.reduction import Reduction
from sparkring.tensorflow._gradients import reduce_gradients
from sparkring.tensorflow._host import any_rows, check_name, on_host, same_as


def _average(upstream: Any, name: str | None, process_set: ProcessSet) -> Any:
    """Average the gradients of the result of an operation."""
    reduction = Reduction(part_of(name, "gradient"), process_set=process_set)
    return reduce_gradients([upstream], reduction, Compression.none)[0]


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    sparse_as_dense: bool = False,
) -> Any:
    """Combine a tensor of all ranks; the average by default.

    Parameters
    ----------
    tensor : tensor or tf.IndexedSlices
        The slices of tf.IndexedSlices of all ranks are gathered, unless ``sparse_as_dense``.
    average : bool
        True for ``op=Average``, False for ``op=Sum``.
    device_dense, device_sparse, ignore_name_scope
        Ignored; Horovod has them, here and in the other operations.
    compression : Compression.none, Compression.fp16 or Compression.bf16
        The dtype in which the tensor travels.
    op : Average, Sum, Adasum, Min, Max or Product
    prescale_factor, postscale_factor : float
        Multiply elements before and after. Products of integers are made in float64 and truncate.
    name : str
        The same on all ranks; by default the number of the operation. A session of TensorFlow 1 and
        a function of tf.data need one.
    process_set : ProcessSet
        The ranks that take part; all by default.
    sparse_as_dense : bool
        Whether tf.IndexedSlices are reduced as a dense tensor.

    Returns
    -------
    tf.Tensor or tf.IndexedSlices

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different arrays under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    how = Reduction.asked(name, op, average, prescale_factor, postscale_factor, process_set)
    return _combine([tensor], how, compression, sparse_as_dense)[0]


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> list[Any]:
    """Combine several tensors of all ranks as one operation, as `allreduce` does.

    The slices of tf.IndexedSlices are gathered.

    Parameters
    ----------
    tensors : sequence of tensor or tf.IndexedSlices
        As many on all ranks.
    average, compression, op, prescale_factor, postscale_factor, name, process_set
        As for `allreduce`.
    device_dense, device_sparse, ignore_name_scope
        Ignored.

    Returns
    -------
    list of tf.Tensor or tf.IndexedSlices

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different arrays under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    how = Reduction.asked(name, op, average, prescale_factor, postscale_factor, process_set)
    return _combine(tensors, how, compression)


def _combine(
    tensors: Sequence[Any], how: Reduction, compression: Compressor, sparse_as_dense: bool = False
) -> list[Any]:
    """Combine tensors of all ranks; the gradient is the same reduction of the gradients."""
    group(how.process_set)  # refuses a rank outside
    check_name(how.name)
    check_compression(compression)
    if any(isinstance(x, tf.IndexedSlices) for x in tensors):
        return reduce_gradients(tensors, how, compression, sparse_as_dense)

    @tf.custom_gradient
    def run(*xs: Any) -> Any:
        def gradient(*upstream: Any) -> Any:
            if how.op not in (Average, Sum):
                raise NotImplementedError(f"the gradient of allreduce with op={how.op} is unknown")
            back = how._replace(name=part_of(how.name, "gradient"))
            return reduce_gradients(upstream, back, compression)

        return reduce_gradients(xs, how, compression), gradient

    return list(run(*[tf.convert_to_tensor(x) for x in tensors]))


def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Concatenate a tensor of all ranks along the first dimension, which may differ.

    Parameters
    ----------
    tensor : tensor
        With the same shape, but for the first dimension, on all ranks.
    name, process_set
        As for `allreduce`.
    ignore_name_scope
        Ignored.

    Returns
    -------
    tf.Tensor
        The rows of all ranks, in the order of ranks.

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different arrays under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    members = group(process_set)
    check_name(name)

    def rows_of(count: Any) -> list[Any]:
        return [operations.allgather(count, part_of(name, "rows"), process_set).wait()]

    @tf.custom_gradient
    def run(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            count = tf.shape(x, tf.int64)[:1]
            rows = on_host(rows_of, [count], [(tf.int64, [members.size])])[0]
            mean = _average(upstream, name, process_set)
            return tf.split(mean, rows, num=members.size)[members.comm.rank]

        def call(array: Any) -> list[Any]:
            return [operations.allgather(array, name, process_set).wait()]

        return on_host(call, [x], [any_rows(x)])[0], gradient

    return run(tf.convert_to_tensor(tensor))


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Gather several tensors, as `allgather` does.

    Parameters
    ----------
    tensors : sequence of tensor
        As many on all ranks.
    name, ignore_name_scope, process_set
        As for `allgather`.

    Returns
    -------
    list of tf.Tensor
    """
    return [allgather(x, part_of(name, i), process_set=process_set) for i, x in enumerate(tensors)]


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the tensor of a global rank on all ranks.

    Parameters
    ----------
    tensor : tensor
        With the same shape on all ranks; only the values of the root count.
    root_rank : int
        The global rank that sends.
    name, process_set
        As for `allreduce`.
    ignore_name_scope
        Ignored.

    Returns
    -------
    tf.Tensor

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different arrays under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    members = group(process_set)
    check_name(name)
    is_root = members.index(root_rank) == members.comm.rank

    @tf.custom_gradient
    def run(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            mean = _average(upstream, name, process_set)
            return mean if is_root else tf.zeros_like(mean)

        def call(array: Any) -> list[Any]:
            return [operations.broadcast(array, root_rank, name, process_set).wait()]

        return on_host(call, [x], same_as([x]))[0], gradient

    return run(tf.convert_to_tensor(tensor))


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Compressor = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Combine a tensor of all ranks and return the rows of this rank.

    The first ranks get one row more if the rows cannot be shared equally. The gradient gathers
    the gradients of all ranks; those of a sum count once for each rank, as in `allreduce`.

    Parameters
    ----------
    tensor : tensor
        Of one dimension or more, with the same shape on all ranks.
    op : Average or Sum
    compression, name, process_set, prescale_factor, postscale_factor
        As for `allreduce`.
    device_dense, ignore_name_scope
        Ignored.

    Returns
    -------
    tf.Tensor of shape (own rows, ...)

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different arrays under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    members = group(process_set)
    check_name(name)
    how = Reduction.asked(name, op, None, prescale_factor, postscale_factor, process_set)
    times = members.size if op is Sum else 1

    @tf.custom_gradient
    def run(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            factor = tf.cast(times * prescale_factor * postscale_factor, upstream.dtype)
            return allgather(upstream * factor, part_of(name, "gradient"), process_set=process_set)

        def call(array: Any) -> list[Any]:
            return [operations.reducescatter(array, how).wait()]

        sent, ctx = compression.compress(x)
        received = on_host(call, [sent], [any_rows(sent)])[0]
        return compression.decompress(received, ctx), gradient

    return run(tf.convert_to_tensor(tensor))


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Compressor = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """Combine and scatter several tensors, as `reducescatter` does.

    Parameters
    ----------
    tensors : sequence of tensor
        As many on all ranks.
    device_dense, compression, op, name, process_set, ignore_name_scope
        As for `reducescatter`.
    prescale_factor, postscale_factor
        As for `reducescatter`.

    Returns
    -------
    list of tf.Tensor
    """
    return [
        reducescatter(
            x,
            compression=compression,
            op=op,
            name=part_of(name, i),
            process_set=process_set,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
        for i, x in enumerate(tensors)
    ]


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send ``splits[r]`` rows to each rank ``r``; equal parts without splits.

    Parameters
    ----------
    tensor : tensor
        With the same shape, but for the first dimension, on all ranks.
    splits : sequence of int, or tensor of integers, optional
        A number of rows for each rank.
    name, process_set
        As for `allreduce`.
    ignore_name_scope
        Ignored.

    Returns
    -------
    tf.Tensor or (tf.Tensor, tf.Tensor)
        The received rows; with splits also the number of rows from each rank, as int32.

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different arrays under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    members = group(process_set)
    check_name(name)

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
            return alltoall(upstream, rows, part_of(name, "gradient"), process_set=process_set)[0]

        return (received, rows), gradient

    received, rows = run(tf.convert_to_tensor(tensor))
    return received if splits is None else (received, rows)
