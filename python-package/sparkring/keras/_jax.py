# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Calls of functions on NumPy arrays from programs of JAX, also inside ``jax.jit``.

On the CPU the arrays are JAX's own memory: no copy is made, and the callback never asks JAX for a
value, which would wait for the very program that calls. Elsewhere JAX copies arrays to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

Into = Callable[[Sequence[Any], Sequence[Any]], None]


def on_host(into: Into, arrays: Sequence[Any]) -> list[Any]:
    """Call ``into(outputs, inputs)`` on the values; return outputs like the arrays."""
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
    if jax.default_backend() == "cpu" and (call := _buffer_callback()) is not None:

        def on_buffers(_context: Any, outputs: Any, *inputs: Any) -> None:
            into([np.asarray(y) for y in outputs], [np.asarray(x) for x in inputs])

        return list(call(on_buffers, specs, has_side_effect=True)(*arrays))

    def on_copies(*inputs: Any) -> list[Any]:
        outputs = [np.empty(x.shape, x.dtype) for x in inputs]
        into(outputs, [np.asarray(x) for x in inputs])
        return outputs

    from jax.experimental import io_callback

    return list(io_callback(on_copies, specs, *arrays, ordered=True))


def _buffer_callback() -> Any:
    """Return JAX's callback on buffers; None for a JAX without it."""
    try:
        from jax.experimental.buffer_callback import buffer_callback
    except ImportError:
        return None
    return buffer_callback
