# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any
"""Errors of operations at once, which scripts for Horovod catch as errors of TensorFlow.

In a ``tf.function`` TensorFlow makes the errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from sparkring._core import MismatchError
from sparkring._horovod.errors import ArgumentError, HorovodInternalError


class DifferenceError(HorovodInternalError, tf.errors.FailedPreconditionError):
    """The tensors of the ranks differ; ``__cause__`` is the `RingError`."""

    def __init__(self, message: str) -> None:
        tf.errors.FailedPreconditionError.__init__(self, None, None, message)


class TensorError(ArgumentError, tf.errors.InvalidArgumentError):
    """A tensor or an argument is wrong on this rank."""

    def __init__(self, message: str) -> None:
        tf.errors.InvalidArgumentError.__init__(self, None, None, message)


@contextmanager
def errors_of_tensorflow() -> Iterator[None]:
    """Raise an error of Horovod's API as the error of TensorFlow that Horovod raises, too."""
    try:
        yield
    except HorovodInternalError as error:
        if not isinstance(error.__cause__, MismatchError):
            raise
        raise DifferenceError(str(error)) from error.__cause__
    except ValueError as error:
        raise TensorError(str(error)) from error
