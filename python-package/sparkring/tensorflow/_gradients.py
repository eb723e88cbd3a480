# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Reduction of a list of gradients of TensorFlow, dense ones and tf.IndexedSlices.

The dense gradients are one operation, whose note says of each gradient what it is. So ranks whose
gradients are of other kinds get an error, before slices are gathered.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sparkring._horovod import operations
from sparkring._horovod.arguments import join_texts, part_of
from sparkring._horovod.host import Compressor, reduced, wait_for_all
from sparkring._horovod.ops import Average, Sum
from sparkring._horovod.reduction import Reduction
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
    if reduction.op not in (Average, Sum) and any(_is_sparse(x) for x in results):
        raise NotImplementedError(
            f"op={reduction.op} has no meaning for tf.IndexedSlices: pass sparse_as_dense=True"
        )
    dense = [i for i, x in enumerate(results) if x is not None and not _is_sparse(x)]
    tensors = [tf.convert_to_tensor(results[i]) for i in dense]
    if len(dense) < len(results):
        reduction = reduction._replace(note=join_texts(reduction.note, _kinds(results)))
        tensors = tensors or [tf.zeros([0])]
    if tensors:
        for i, x in zip(dense, _reduce_dense(tensors, reduction, compression)):
            results[i] = x
    for i, x in enumerate(results):
        if _is_sparse(x):
            named = reduction._replace(name=part_of(reduction.name, i))
            results[i] = _reduce_sparse(x, named)
    return results


def combine_gradients(gradients: Sequence[Any], reduction: Reduction, *options: Any) -> list[Any]:
    """Return what `reduce_gradients` does; outside the process set the gradients themselves."""
    if not reduction.process_set.included():
        return list(gradients)
    return reduce_gradients(gradients, reduction, *options)


def _is_sparse(x: Any) -> bool:
    return isinstance(x, tf.IndexedSlices)


def _kinds(gradients: Sequence[Any]) -> str:
    """Return a text such as "gradients dense, 2 none, sparse"."""
    runs: list[tuple[str, int]] = []
    for x in gradients:
        kind = "none" if x is None else "sparse" if _is_sparse(x) else "dense"
        if runs and runs[-1][0] == kind:
            runs[-1] = kind, runs[-1][1] + 1
        else:
            runs.append((kind, 1))
    return "gradients " + ", ".join(kind if n == 1 else f"{n} {kind}" for kind, n in runs)


def _reduce_dense(
    tensors: Sequence[Any], reduction: Reduction, compression: Compressor
) -> list[Any]:
    packed = [compression.compress(x) for x in tensors]
    sent = [x for x, _ in packed]
    received = on_host(functools.partial(reduced, reduction), sent, same_as(sent))
    return [compression.decompress(y, ctx) for y, (_, ctx) in zip(received, packed)]


def _reduce_sparse(x: Any, reduction: Reduction) -> Any:
    """Gather the slices of all ranks: a variable adds up slices with the same index."""

    def run(values: Any, indices: Any, *shape: Any) -> list[Any]:
        note = _describe_slices(reduction, *shape)
        return wait_for_all(
            [
                operations.allgather(x, part_of(reduction.name, part), reduction.process_set, note)
                for x, part in ((values, "values"), (indices, "indices"))
            ]
        )

    parts = [x.values, x.indices]
    shape = [] if x.dense_shape is None else [x.dense_shape]
    values, indices = on_host(run, [*parts, *shape], [any_rows(part) for part in parts])
    factor = reduction.prescale * reduction.postscale
    if reduction.op is Average:
        factor /= reduction.process_set.size()
    if factor != 1.0 and values.dtype.is_integer:
        return _scale_whole(values, indices, factor, x.dense_shape)
    if factor != 1.0:
        values = values * tf.cast(factor, values.dtype)
    return tf.IndexedSlices(values, indices, x.dense_shape)


def _describe_slices(reduction: Reduction, shape: Any = None) -> str:
    """Return what ranks pass alike of slices besides the dtypes."""
    dense = None if shape is None else shape.tolist()
    return join_texts(f"slices of dense_shape {dense}, op={reduction.op}", reduction.factors())


def _scale_whole(values: Any, indices: Any, factor: float, shape: Any) -> Any:
    """Add up integers of the same index, and multiply the sums: they truncate towards zero.

    So the result is that of the dense tensor.
    """
    places, segments = tf.unique(indices)
    sums = tf.math.unsorted_segment_sum(values, segments, tf.size(places))
    scaled = tf.cast(tf.cast(sums, tf.float64) * factor, values.dtype)
    return tf.IndexedSlices(scaled, places, shape)
