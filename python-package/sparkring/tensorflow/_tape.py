# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""A tf.GradientTape whose gradients are combined over all ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sparkring._horovod.arguments import check_compression, check_type
from sparkring._horovod.host import Compression, Compressor
from sparkring._horovod.ops import Average, ReduceOp
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.reduction import Reduction
from sparkring.tensorflow._gradients import combine_gradients


class _Distributed:
    """The part of the class of a distributed tape that is ours."""

    _sparkring: tuple[Any, ...]

    def gradient(self, target: Any, sources: Any, *arguments: Any, **keywords: Any) -> Any:
        """Return the gradients, combined over all ranks, in the structure of the sources."""
        mine = super().gradient(target, sources, *arguments, **keywords)  # type: ignore[misc]
        flat = tf.nest.flatten(mine, expand_composites=False)
        combined = combine_gradients(flat, *self._sparkring)
        return tf.nest.pack_sequence_as(mine, combined, expand_composites=False)


def DistributedGradientTape(  # noqa: N802 (Horovod's name)
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    name: str = "tape",
) -> Any:
    """Return a tape with the recording of another one; it combines gradients over all ranks.

    Parameters
    ----------
    gradtape : tf.GradientTape
    device_dense, device_sparse : str
        Ignored; Horovod has them.
    compression : Compression.none, Compression.fp16 or Compression.bf16
        The dtype in which gradients travel.
    sparse_as_dense : bool
        Whether tf.IndexedSlices become dense tensors; else the slices of all ranks are gathered.
    op : Average, Sum, Adasum, Min, Max or Product
    gradient_predivide_factor : float
        The part of the division of an average that comes before the sum.
    process_set : ProcessSet
        The ranks whose gradients are combined; other ranks keep their own.
    name : str
        Names the operations. Tapes whose operations are under way at once have different names.

    Returns
    -------
    tf.GradientTape
    """
    check_type("gradtape", gradtape, tf.GradientTape, "a tf.GradientTape")
    check_compression(compression)
    base = type(gradtape)
    made: Any = object.__new__(type(base.__name__, (_Distributed, base), {}))
    made.__dict__ = gradtape.__dict__
    reduction = Reduction.predivided(
        f"tensorflow.{name}", op, gradient_predivide_factor, process_set
    )
    made._sparkring = (reduction, compression, sparse_as_dense)
    return made
