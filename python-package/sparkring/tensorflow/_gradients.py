# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Reduction of a list of gradients of TensorFlow, dense ones and tf.IndexedSlices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sparkring._horovod import operations
from sparkring._horovod.host import Compressor, Reduction, wait_for_all
from sparkring._horovod.ops import Average, Sum
from sparkring.tensorflow._host import any_rows, on_host, same_as


def reduce_gradients(
    gradients: Sequence[Any],
    reduction: Reduction,
    compression: Compressor,
    sparse_as_dense: bool = False,
) -> list[Any]:
    """Return the gradients combined over all ranks; None stays None."""
    results = list(gradients)
    if sparse_as_dense:
        results = [tf.convert_to_tensor(x) if _is_sparse(x) else x for x in results]
    dense = [i for i, x in enumerate(results) if x is not None and not _is_sparse(x)]
    if dense:
        tensors = [tf.convert_to_tensor(results[i]) for i in dense]
        for i, x in zip(dense, _reduce_dense(tensors, reduction, compression)):
            results[i] = x
    for i, x in enumerate(results):
        if _is_sparse(x):
            named = None if reduction.name is None else f"{reduction.name}.{i}"
            results[i] = _reduce_sparse(x, reduction._replace(name=named))
    return results


def _is_sparse(x: Any) -> bool:
    return isinstance(x, tf.IndexedSlices)


def _reduce_dense(
    tensors: Sequence[Any], reduction: Reduction, compression: Compressor
) -> list[Any]:
    sent = [tf.cast(x, compression.wire_dtype(x.dtype.name)) for x in tensors]
    received = on_host(reduction.of, sent, same_as(sent))
    return [tf.cast(y, x.dtype) for x, y in zip(tensors, received)]


def _reduce_sparse(x: Any, reduction: Reduction) -> Any:
    """Gather the slices of all ranks: a variable adds up slices with the same index."""
    if reduction.op not in (Average, Sum):
        raise ValueError(
            f"op={reduction.op} has no meaning for tf.IndexedSlices: pass sparse_as_dense=True"
        )

    def run(*arrays: Any) -> list[Any]:
        parts = zip(arrays, ("values", "indices"))
        name, members = reduction.name, reduction.process_set
        named = [(x, None if name is None else f"{name}.{part}") for x, part in parts]
        return wait_for_all([operations.allgather(x, name, members) for x, name in named])

    parts = [x.values, x.indices]
    values, indices = on_host(run, parts, [any_rows(part) for part in parts])
    factor = reduction.prescale * reduction.postscale
    if reduction.op is Average:
        factor /= reduction.process_set.size()
    if factor != 1.0:
        values = values * tf.cast(factor, values.dtype)
    return tf.IndexedSlices(values, indices, x.dense_shape)
