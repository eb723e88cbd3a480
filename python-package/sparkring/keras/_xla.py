# SPDX-License-Identifier: Apache-2.0
"""No XLA for models whose distributed optimizer runs in TensorFlow.

A program that XLA compiles for TensorFlow cannot call Python. Keras decides on XLA in ``compile``,
by a function that answers for a model. The train step raises an error that
names jit_compile=False with a release of Keras that has no such function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_kept: list[Any] = []


def keep_from_xla(applies: Callable[[Any], bool]) -> None:
    """Let Keras compile models without XLA when ``applies`` to their optimizer."""
    try:
        from keras.src.trainers import trainer
    except ImportError:
        return
    supports = getattr(trainer, "model_supports_jit", None)
    if supports is None or supports in _kept:
        return

    def model_supports_jit(model: Any) -> bool:
        return not applies(getattr(model, "optimizer", None)) and bool(supports(model))

    _kept.append(model_supports_jit)
    trainer.model_supports_jit = model_supports_jit
