# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Calls of functions on NumPy arrays, at once or from the graph of a ``tf.function``.

TensorFlow runs the stateful operations of a ``tf.function`` in the order of the program, so the
calls have the same order on all ranks. Sessions of TensorFlow 1 and functions of tf.data run them
in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sparkring.tensorflow._errors import errors_of_tensorflow

Spec = tuple[Any, Any]  # dtype and shape of a result


def on_host(
    function: Callable[..., Sequence[Any]], tensors: Sequence[Any], specs: Sequence[Spec]
) -> list[Any]:
    """Call a function on the values of tensors, and return its results as tensors.

    Raises
    ------
    RuntimeError
        In a program that XLA compiles.
    tf.errors.FailedPreconditionError
        When the ranks differ, a `HorovodInternalError`, too.
    """
    if tf.executing_eagerly():
        with errors_of_tensorflow():
            results = function(*[x.numpy() for x in tensors])
        return [tf.convert_to_tensor(each) for each in results]
    refuse_xla()
    outputs = tf.numpy_function(function, tensors, [dtype for dtype, _ in specs])
    for output, (_, shape) in zip(outputs, specs):
        output.set_shape(shape)
    return list(outputs)


def refuse_xla() -> None:
    """Raise an error where XLA compiles the graph, for it cannot call Python."""
    from tensorflow.python.ops import control_flow_util

    if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        raise RuntimeError(
            "sparkring's collectives cannot run in a program that XLA compiles: pass"
            " jit_compile=False to compile() or tf.function"
        )


def check_name(name: str | None) -> None:
    """Raise an error for an operation without a name in a program that runs them in any order.

    Operations without a name are numbered as they run, on all ranks in the same order.
    """
    if name is not None or tf.executing_eagerly():
        return
    place = None
    if not tf.compat.v1.executing_eagerly_outside_functions():
        place = "a session of TensorFlow 1"
    graph = tf.compat.v1.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:  # a function's
        if graph.name.startswith("Dataset_"):
            place = "a function of tf.data.Dataset"
        graph = graph.outer_graph
    if place is not None:
        raise RuntimeError(
            f"a collective in {place} needs a name, because its operations run in any order: pass"
            " name=, the same on all ranks"
        )


def same_as(tensors: Sequence[Any]) -> list[Spec]:
    """Return the specs of results that are like the tensors."""
    return [(x.dtype, x.shape) for x in tensors]


def any_rows(x: Any) -> Spec:
    """Return the spec of a result that is like a tensor with any number of rows."""
    return x.dtype, tf.TensorShape([None]).concatenate(x.shape[1:])
