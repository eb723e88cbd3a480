# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Loading of a saved model, to go on with its training on all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras

from sparkring._horovod.host import Compression, Compressor
from sparkring.keras._optimizer import DistributedOptimizer, is_distributed


def load_model(
    filepath: Any,
    custom_optimizers: Iterable[type] | None = None,
    custom_objects: dict[str, Any] | None = None,
    compression: Compressor = Compression.none,
    **options: Any,
) -> Any:
    """Load a model of Keras; its optimizer goes on as a distributed one, with its state.

    Parameters
    ----------
    filepath : str or path
        A file that ``model.save`` has written, with a distributed optimizer or another one.
    custom_optimizers : iterable of classes
        Optimizers that Keras does not know.
    custom_objects : dict
        Other classes and functions that Keras does not know, by name.
    compression : Compression.none, Compression.fp16 or Compression.bf16
    **options
        Further arguments of `DistributedOptimizer`.

    Returns
    -------
    keras.Model
    """
    known = {each.__name__: each for each in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not is_distributed(optimizer):
        DistributedOptimizer(optimizer, compression=compression, **options)
    return model
