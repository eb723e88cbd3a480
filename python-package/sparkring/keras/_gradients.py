# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Reduction of a list of gradients, by the backend of Keras."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras

from sparkring._horovod.host import Compressor, reduce_into
from sparkring._horovod.reduction import Reduction


def reduce_gradients(
    gradients: Sequence[Any],
    reduction: Reduction,
    compression: Compressor,
    sparse_as_dense: bool = False,
) -> list[Any]:
    """Return the gradients combined over all ranks; None stays None.

    Works eagerly and in the compiled train step. A rank outside the process set keeps its own.
    """
    if not reduction.process_set.included():
        return list(gradients)
    backend = keras.backend.backend()
    if backend == "tensorflow":
        from sparkring.tensorflow import _gradients

        return _gradients.reduce_gradients(gradients, reduction, compression, sparse_as_dense)
    places = [i for i, x in enumerate(gradients) if x is not None]
    results = list(gradients)
    if places:
        reduce = _reduce_torch if backend == "torch" else _reduce_jax
        for i, x in zip(places, reduce([results[i] for i in places], reduction, compression)):
            results[i] = x
    return results


def _reduce_jax(arrays: list[Any], reduction: Reduction, compression: Compressor) -> list[Any]:
    from sparkring.keras._jax import on_host

    sent = [x.astype(compression.wire_dtype(x.dtype.name)) for x in arrays]
    return [
        y.astype(x.dtype)
        for x, y in zip(arrays, on_host(functools.partial(reduce_into, reduction), sent))
    ]


def _reduce_torch(tensors: list[Any], reduction: Reduction, compression: Compressor) -> list[Any]:
    import torch

    def run() -> list[Any]:
        sent = []
        for x in tensors:
            wire = compression.wire_dtype(str(x.dtype).replace("torch.", ""))
            sent.append(x.detach().to(getattr(torch, wire)).contiguous())
        reduce_into(reduction, sent, sent)
        return [y.to(x.dtype) for x, y in zip(tensors, sent)]

    outside: Callable[[], list[Any]] = torch.compiler.disable(run)  # of a compiled train step
    return outside()
