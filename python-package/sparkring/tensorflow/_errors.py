# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any
"""Errors of operations at once, which scripts for Horovod catch as errors of TensorFlow.

In a ``tf.function`` TensorFlow makes the errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from sparkring._core import MismatchError
from sparkring._horovod.errors import ArgumentError, HorovodInternalError


def _message(message: str | None, *of_keras: Any) -> str | None:
    """Return the message; Keras makes an error anew of its node, operation, message and code."""
    return of_keras[1] if of_keras else message


class DifferenceError(HorovodInternalError, tf.errors.FailedPreconditionError):
    """The tensors of the ranks differ; ``__cause__`` is the `RingError`."""

    def __init__(self, message: str | None, *of_keras: Any) -> None:
        tf.errors.FailedPreconditionError.__init__(self, None, None, _message(message, *of_keras))


class TensorError(ArgumentError, tf.errors.InvalidArgumentError):
    """A tensor or an argument is wrong on this rank."""

    def __init__(self, message: str | None, *of_keras: Any) -> None:
        tf.errors.InvalidArgumentError.__init__(self, None, None, _message(message, *of_keras))


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
