# SPDX-License-Identifier: Apache-2.0
"""Reductions of NumPy arrays, for frameworks that call them from compiled programs.

A compiled program calls back into Python on a thread of its own. One callback submits all arrays of
its operation and then waits, so it blocks one thread of the framework at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sparkring._horovod import operations
from sparkring._horovod.pending import Pending
from sparkring._horovod.reduction import Reduction


class Compressor(NamedTuple):
    """The dtype in which floating-point numbers of more bits travel; None for their own."""

    dtype: str | None

    def compress(self, tensor: Any) -> tuple[Any, Any]:
        """Return a tensor of TensorFlow as it travels, and what `decompress` needs."""
        import tensorflow as tf

        return tf.cast(tensor, self.wire_dtype(tensor.dtype.name)), tensor.dtype

    def decompress(self, tensor: Any, ctx: Any) -> Any:
        """Return a tensor that has traveled in its first dtype."""
        import tensorflow as tf

        return tf.cast(tensor, ctx)

    def wire_dtype(self, dtype: str) -> str:
        """Return the dtype in which numbers of a dtype travel."""
        return self.dtype if self.dtype and dtype in ("float32", "float64") else dtype


class Compression:
    """Compressors of gradients."""

    none = Compressor(None)
    fp16 = Compressor("float16")
    bf16 = Compressor("bfloat16")


def reduce_into(reduction: Reduction, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    """Combine the arrays of all ranks. Arrays of one dtype are one operation."""
    wait_for_all([operations.grouped_allreduce(inputs, reduction, outputs)])


def reduced(reduction: Reduction, *inputs: Any) -> list[Any]:
    """Return the combined arrays."""
    outputs = [np.empty_like(x) for x in inputs]
    reduce_into(reduction, outputs, inputs)
    return outputs


def wait_for_all(started: Sequence[Pending]) -> list[Any]:
    """Return the results. An error is raised when no array is in use any more."""
    try:
        return [each.wait() for each in started]
    except RuntimeError:
        for each in started:
            each.settle()
        raise
