# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Optimizers of tf_keras and of TensorFlow 1 that combine gradients over all ranks."""

from __future__ import annotations

import itertools
from typing import Any

import tensorflow as tf

from sparkring._horovod.arguments import check_compression
from sparkring._horovod.host import Compression, Compressor
from sparkring._horovod.ops import Average, ReduceOp
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.reduction import Reduction
from sparkring.tensorflow._gradients import combine_gradients

_numbers = itertools.count(1)


class _Distributed:
    """The common part of the two subclasses."""

    _sparkring: tuple[Any, ...]

    def _combine(self, grads_and_vars: Any) -> list[tuple[Any, Any]]:
        pairs = list(grads_and_vars)
        combined = combine_gradients([gradient for gradient, _ in pairs], *self._sparkring)
        return [(gradient, variable) for gradient, (_, variable) in zip(combined, pairs)]


class _OfKeras(_Distributed):
    """The part of an optimizer of tf_keras that is ours."""

    def apply_gradients(self, grads_and_vars: Any, *arguments: Any, **keywords: Any) -> Any:
        """Combine the gradients of all ranks, and update the variables."""
        combined = self._combine(grads_and_vars)
        return super().apply_gradients(combined, *arguments, **keywords)  # type: ignore[misc]


class _OfTensorFlow1(_Distributed):
    """The part of an optimizer of tf.compat.v1.train that is ours."""

    def compute_gradients(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the gradients of all ranks, combined, with their variables."""
        return self._combine(super().compute_gradients(*arguments, **keywords))  # type: ignore[misc]


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Compressor = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    **of_keras: Any,
) -> Any:
    """Let an optimizer combine its gradients over all ranks.

    The optimizer itself becomes distributed and is returned.

    Parameters
    ----------
    optimizer
        Of Keras 3 (see `sparkring.keras`), of tf_keras or of ``tf.compat.v1.train``.
    name : str
        Names the operations; the same on all ranks. By default the number of the optimizer.
    device_dense, device_sparse : str
        Ignored; Horovod has them.
    compression, sparse_as_dense, op, gradient_predivide_factor, process_set
        As for `DistributedGradientTape`.
    **of_keras
        Further arguments for an optimizer of Keras 3, such as backward_passes_per_step.

    Returns
    -------
    optimizer
    """
    check_compression(compression)
    given: dict[str, Any] = {
        "compression": compression,
        "sparse_as_dense": sparse_as_dense,
        "op": op,
        "gradient_predivide_factor": gradient_predivide_factor,
        "process_set": process_set,
    }
    first = isinstance(optimizer, tf.compat.v1.train.Optimizer)
    if not first and _is_keras_3(optimizer):
        from sparkring.keras import _optimizer

        return _optimizer.DistributedOptimizer(optimizer, name, **given, **of_keras)
    if of_keras:
        raise TypeError(
            f"{next(iter(of_keras))} is not an argument for an optimizer of type"
            f" {type(optimizer).__name__}: those of Keras 3 alone take more than the signature has"
        )
    if not first and not hasattr(optimizer, "apply_gradients"):
        raise ValueError(
            f"optimizer is of type {type(optimizer).__name__}: pass one of Keras 3, tf_keras or"
            " tf.compat.v1.train"
        )
    number = name or next(_numbers)
    reduction = Reduction.predivided(
        f"tensorflow.optimizer.{number}", op, gradient_predivide_factor, process_set
    )
    base = type(optimizer)
    if isinstance(optimizer, _Distributed):
        raise ValueError(
            "the optimizer is distributed already: pass it to DistributedOptimizer once"
        )
    optimizer._sparkring = (reduction, compression, sparse_as_dense)
    ours = _OfTensorFlow1 if first else _OfKeras
    optimizer.__class__ = type(base.__name__, (ours, base), {"__module__": base.__module__})
    return optimizer


def _is_keras_3(optimizer: Any) -> bool:
    return any(base.__module__.startswith("keras.src.") for base in type(optimizer).__mro__)
