# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Collectives on arrays of any library, outside of compiled programs, with Horovod's signatures.

The result is of the library of the argument. In a ``tf.function`` use `sparkring.tensorflow`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkring._horovod import operations
from sparkring._horovod.ops import Average, ReduceOp
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.reduction import Reduction


def _array_of(value: Any) -> Any:
    """Return an array as it is, the value of a variable of Keras, or a number as an array."""
    value = getattr(value, "value", value)
    return value if hasattr(value, "dtype") else np.asarray(value)


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: ReduceOp | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combine the values of all ranks; the average by default.

    Parameters
    ----------
    value : array, keras.Variable or number
    name : str
        The same on all ranks; by default the number of the operation.
    average : bool
        True for ``op=Average``, False for ``op=Sum``.
    prescale_factor, postscale_factor : float
        Multiply elements before and after. Products of integers are made in float64 and truncate.
    op : Average, Sum, Adasum, Min, Max or Product
    process_set : ProcessSet

    Returns
    -------
    array
        Of the library of ``value``.

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different arrays under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    how = Reduction.asked(name, op, average, prescale_factor, postscale_factor, process_set)
    return operations.allreduce(_array_of(value), how).wait()


def allgather(
    value: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Concatenate the arrays of all ranks along the first dimension, which may differ.

    Parameters
    ----------
    value : array, keras.Variable or number
        With the same shape, but for the first dimension, on all ranks.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    array
        The rows of all ranks, in the order of ranks, of the library of ``value``.

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different arrays under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    return operations.allgather(_array_of(value), name, process_set).wait()


def broadcast(
    value: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the value of a global rank on all ranks.

    Parameters
    ----------
    value : array, keras.Variable or number
        With the same shape on all ranks; only the values of the root count.
    root_rank : int
        The global rank that sends.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    array
        Of the library of ``value``.

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different arrays under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    return operations.broadcast(_array_of(value), root_rank, name, process_set).wait()


def reducescatter(
    value: Any,
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Combine the arrays of all ranks and return the rows of this rank.

    The first ranks get one row more if the rows cannot be shared equally.

    Parameters
    ----------
    value : array or keras.Variable
        Of one dimension or more, with the same shape on all ranks.
    op : Average or Sum
    name, process_set, prescale_factor, postscale_factor
        As for `allreduce`.

    Returns
    -------
    array of shape (own rows, ...)
        Of the library of ``value``.

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different arrays under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    how = Reduction.asked(name, op, None, prescale_factor, postscale_factor, process_set)
    return operations.reducescatter(_array_of(value), how).wait()


def alltoall(
    value: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send ``splits[r]`` rows to each rank ``r``; equal parts without splits.

    Parameters
    ----------
    value : array or keras.Variable
        With the same shape, but for the first dimension, on all ranks.
    splits : sequence of int, optional
        A number of rows for each rank.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    array or (array, list of int)
        The received rows; with splits also the number of rows from each rank.

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different arrays under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    started = operations.alltoall(_array_of(value), splits, name, process_set)
    received = started.wait()
    return received if splits is None else (received, started.rows)
