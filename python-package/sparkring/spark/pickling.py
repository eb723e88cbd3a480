# SPDX-License-Identifier: Apache-2.0
"""Functions, results and exceptions as bytes, between the driver and the ranks.

By cloudpickle, which takes lambdas and what was defined in a notebook; PySpark brings one. Both
ends use the same, so a class of a notebook that comes back is the class that went out, and
``except`` finds it.
"""

from __future__ import annotations

import contextlib
import importlib
import pickle
import sys
from typing import Any

from sparkring._core import InvalidError


def _pickler() -> Any:
    """Find a cloudpickle; where there is none, pickle has to do."""
    names = ["cloudpickle", "pyspark.cloudpickle"]  # without Spark, PySpark would take long
    for name in reversed(names) if "pyspark" in sys.modules else names:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return pickle


def dumps(value: Any) -> bytes:
    """Pickle a value."""
    return bytes(_pickler().dumps(value))


def loads(data: bytes) -> Any:
    """Read a pickle."""
    return pickle.loads(data)


def dumps_work(f: Any, args: Any, kwargs: Any) -> bytes:
    """Pickle a function with its arguments, or say what is wrong with it."""
    if not callable(f):
        raise InvalidError(f"f is of type {type(f).__name__}: pass a function of the communicator")
    if isinstance(args, (str, bytes)):
        raise InvalidError(f"args is one text: pass a tuple, as in args=({args!r},)")
    try:
        return dumps((f, tuple(args), dict(kwargs or {})))
    except Exception as error:
        raise InvalidError(
            f"f or its arguments cannot be sent to the ranks: {type(error).__name__}: {error}."
            " Make in f what cannot be pickled (sessions, locks, open files), or pass what it is"
            " made of"
        ) from error


def dumps_error(error: BaseException) -> bytes | None:
    """Pickle an exception, if it comes out of its pickle again."""
    try:
        data = dumps(error)
        return data if isinstance(loads(data), type(error)) else None
    except Exception:
        return None


def loads_error(data: bytes | None) -> Exception | None:
    """Read the pickle of an exception; None for what must not be raised here, or is unknown."""
    try:
        error = None if data is None else loads(data)
    except Exception:
        return None
    return error if isinstance(error, Exception) else None
