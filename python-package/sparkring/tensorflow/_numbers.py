# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls, allow-untyped-decorators
"""Numbers of the ranks as operations, which a ``tf.function`` asks for each time it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from sparkring._horovod.context import process_set_of
from sparkring._horovod.ranks import local_rank, local_size, rank
from sparkring.tensorflow._host import refuse_xla


def _number(value: Callable[[], int], name: str | None) -> Any:
    """Return a number that a program asks for each time it runs."""
    if tf.executing_eagerly():
        return tf.constant(value(), tf.int32, name=name)
    refuse_xla()
    made = tf.numpy_function(lambda: np.int32(value()), [], tf.int32, name=name)
    made.set_shape([])
    return made


def size_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """Return the number of ranks of a process set as a tensor.

    Parameters
    ----------
    name : str, optional
        The name of the operation in TensorFlow's graph.
    process_set_id : int
        The number of a process set; 0 for all ranks.

    Returns
    -------
    tf.Tensor of int32
        A number, which a ``tf.function`` asks for each time it runs.

    Raises
    ------
    ValueError
        When no process set in use has the number.
    """
    return _number(lambda: process_set_of(process_set_id).size(), name)


def rank_op(name: str | None = None) -> Any:
    """Return the rank of this process as a tensor.

    Parameters
    ----------
    name : str, optional
        The name of the operation in TensorFlow's graph.

    Returns
    -------
    tf.Tensor of int32
    """
    return _number(rank, name)


def local_rank_op(name: str | None = None) -> Any:
    """Return the rank of this process among those of its host as a tensor.

    Parameters
    ----------
    name : str, optional
        The name of the operation in TensorFlow's graph.

    Returns
    -------
    tf.Tensor of int32
    """
    return _number(local_rank, name)


def local_size_op(name: str | None = None) -> Any:
    """Return the number of ranks of this host as a tensor.

    Parameters
    ----------
    name : str, optional
        The name of the operation in TensorFlow's graph.

    Returns
    -------
    tf.Tensor of int32
    """
    return _number(local_size, name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """Return as a tensor 1 if this rank is in a process set, 0 if not.

    Parameters
    ----------
    name : str, optional
        The name of the operation in TensorFlow's graph.
    process_set_id : int
        The number of a process set; 0 for all ranks.

    Returns
    -------
    tf.Tensor of int32

    Raises
    ------
    ValueError
        When no process set in use has the number.
    """
    return _number(lambda: int(process_set_of(process_set_id).included()), name)
