# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Optimizers of Keras 3 that combine gradients over all ranks before they apply them.

All backends apply gradients by the method `apply`: eagerly (PyTorch), in a ``tf.function``
(TensorFlow), in ``jax.jit`` by ``stateless_apply`` (JAX). So a subclass with another `apply` serves
them all. An optimizer that accumulates the gradients of several passes calls `_clip_gradients` with
their sum: there they are combined once an update. The optimizer gets such a subclass as its class:
it keeps its state, and the name of the class stays, so a saved model does not need sparkring to be
loaded.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from sparkring._horovod.arguments import check_compression, describe
from sparkring._horovod.host import Compression, Compressor
from sparkring._horovod.ops import Average, ReduceOp
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.reduction import Reduction
from sparkring.keras._gradients import reduce_gradients

_numbers = itertools.count(1)
_classes: dict[type, type] = {}


class _Settings(NamedTuple):
    """How an optimizer combines its gradients."""

    reduction: Reduction
    compression: Compressor
    sparse_as_dense: bool


class _Distributed:
    """The part of the class of a distributed optimizer that is ours."""

    _sparkring: _Settings
    gradient_accumulation_steps: int | None
    _iterations: Any

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        """Combine the gradients of all ranks, and update the variables."""
        if not self.gradient_accumulation_steps:
            grads = reduce_gradients(grads, *self._sparkring)
        return super().apply(grads, trainable_variables)  # type: ignore[misc]

    def _clip_gradients(self, grads: Sequence[Any]) -> Any:
        if self.gradient_accumulation_steps:
            grads = self._combine_sums(grads)
        return super()._clip_gradients(grads)  # type: ignore[misc]

    def _combine_sums(self, grads: Sequence[Any]) -> Sequence[Any]:
        """Combine the gradients of several passes; JAX asks in each pass, the others when due."""
        if keras.backend.backend() != "jax":
            return reduce_gradients(grads, *self._sparkring)
        from jax.lax import cond

        due = (self._iterations + 1) % self.gradient_accumulation_steps == 0
        combined: Sequence[Any] = cond(
            due, lambda: reduce_gradients(grads, *self._sparkring), lambda: list(grads)
        )
        return combined


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: Any,
    name: str | None = None,
    compression: Compressor = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Let an optimizer of Keras combine its gradients over all ranks.

    The optimizer itself becomes distributed and is returned. All ranks make their distributed
    optimizers in the same order. In ``model.fit`` the loss is that of this rank: with the mean over
    a batch, the average of the gradients is the gradient of the mean over the batches of all ranks.

    With the backend TensorFlow, ``compile`` does not use XLA for a model with this optimizer, since
    a program of XLA cannot call a collective.

    Parameters
    ----------
    optimizer : keras.optimizers.Optimizer
    name : str
        Names the operations; the same on all ranks. By default the number of the optimizer.
    compression : Compression.none, Compression.fp16 or Compression.bf16
        The dtype in which gradients travel.
    sparse_as_dense : bool
        Whether tf.IndexedSlices become dense tensors; else the slices of all ranks are gathered.
    gradient_predivide_factor : float
        The part of the division of an average that comes before the sum.
    op : Average, Sum, Adasum, Min, Max or Product
    backward_passes_per_step : int
        Number of batches whose gradients make one update, as gradient_accumulation_steps of Keras.
        They are combined once.
    average_aggregated_gradients : bool
        Whether the gradients of these batches are averaged; else they are added up.
    process_set : ProcessSet

    Returns
    -------
    keras.optimizers.Optimizer
        ``optimizer``.

    Raises
    ------
    ValueError
        When ``optimizer`` is no optimizer of Keras 3 or is distributed already.
    """
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ValueError(
            f"optimizer is of type {type(optimizer).__name__}: pass an optimizer of Keras 3"
        )
    check_compression(compression)
    if isinstance(optimizer, _Distributed):
        raise ValueError(
            "the optimizer is distributed already: pass it to DistributedOptimizer once"
        )
    reduction = Reduction.predivided(
        f"keras.{name or next(_numbers)}", op, gradient_predivide_factor, process_set
    )
    if backward_passes_per_step > 1:
        _accumulate(optimizer, backward_passes_per_step)
        if not average_aggregated_gradients:
            factor = reduction.postscale * backward_passes_per_step
            reduction = reduction._replace(postscale=factor)
    passes = describe(backward_passes_per_step=optimizer.gradient_accumulation_steps)
    reduction = reduction._replace(note=passes or None)
    if optimizer.gradient_accumulation_steps and not hasattr(optimizer, "_clip_gradients"):
        raise ValueError(
            f"sparkring cannot combine accumulated gradients with Keras {keras.__version__}: pass"
            " backward_passes_per_step=1 and no gradient_accumulation_steps"
        )
    optimizer._sparkring = _Settings(reduction, compression, sparse_as_dense)
    optimizer.__class__ = _class_of(type(optimizer))
    if keras.backend.backend() == "tensorflow":
        from sparkring.keras._xla import keep_from_xla

        keep_from_xla(is_distributed)
    return optimizer


def is_distributed(optimizer: Any) -> bool:
    """Tell whether an optimizer combines gradients over ranks."""
    return isinstance(optimizer, _Distributed)


def _accumulate(optimizer: Any, passes: int) -> None:
    if optimizer.built or optimizer.gradient_accumulation_steps not in (None, passes):
        raise ValueError(
            "backward_passes_per_step needs a new optimizer without gradient_accumulation_steps:"
            " pass one that has not been used, or backward_passes_per_step=1"
        )
    optimizer.gradient_accumulation_steps = passes


def _class_of(base: type) -> type:
    """Return the distributed subclass of a class of optimizers, which has its name."""
    if base not in _classes:
        members = {"__module__": base.__module__, "__doc__": base.__doc__}
        _classes[base] = type(base.__name__, (_Distributed, base), members)
    return _classes[base]
