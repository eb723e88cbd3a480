# SPDX-License-Identifier: Apache-2.0
"""Functions, results and exceptions as bytes, between the driver and the ranks.

The codec is cloudpickle, which takes lambdas and definitions of a notebook. PySpark brings a
cloudpickle. Both ends use the same codec, so a class of a notebook is the same class after the
return, and ``except`` catches it.
"""

from __future__ import annotations

import functools
import inspect
import io
import os
import pickle
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sparkring._core import InvalidError
from sparkring._objects.pickler import find_cloudpickle
from sparkring.spark import _script as script
from sparkring.spark import _sources as sources

NAMELESS = "<dynamic-code>"  # the file name of code in cloudpickle 3.1.3, with the code's lines


def dumps(value: Any) -> bytes:
    """Pickle a value."""
    return bytes(find_cloudpickle().dumps(value))


def loads(data: bytes | bytearray) -> Any:
    """Read a pickle."""
    return pickle.loads(data)


def dumps_noting(value: Any) -> tuple[bytes, sources.Notes]:
    """Pickle a value, and note the modules and the code that the pickle names."""
    module, notes = find_cloudpickle(), sources.Notes()

    class Pickler(getattr(module, "CloudPickler", pickle.Pickler)):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            notes.take(value)
            if isinstance(value, types.CodeType) and types.CodeType in self.dispatch_table:
                make, parts = self.dispatch_table[types.CodeType](value)
                return make, tuple(
                    value.co_filename if part == NAMELESS else part for part in parts
                )
            inherited = getattr(super(), "reducer_override", None)
            return NotImplemented if inherited is None else inherited(value)

    with io.BytesIO() as file:
        Pickler(file).dump(value)
        return file.getvalue(), notes


@dataclass(frozen=True)
class Work:
    """The function of the ranks, pickled, with its sources."""

    data: bytes = field(repr=False)  # (f, args, kwargs)
    sources: sources.Sources

    def here(self) -> Work:
        """Leave out the modules that processes of this machine find by themselves."""
        return replace(self, sources=replace(self.sources, archive=None))


def dumps_work(f: Any, args: Any, kwargs: Any, *, rows: bool = False) -> Work:
    """Pickle a function with its arguments, or raise an error with the reason.

    With `rows` the function gets the rows of its rank as its second argument.
    """
    path = None
    if isinstance(f, (str, os.PathLike)):
        if rows:
            raise InvalidError("f is a script, which takes no rows: pass a function, or no frame")
        f = script.find(f, args, kwargs)
        path = Path(f.path)
    if not callable(f):
        raise InvalidError(
            f"f is of type {type(f).__name__}: pass a function of the communicator, or the path of"
            " a script"
        )
    check_kind(f)
    check_arguments(args, kwargs)
    args, kwargs = tuple(args), dict(kwargs or {})
    check_call(f, args, kwargs, rows=rows)
    try:
        data, notes = dumps_noting((f, args, kwargs))
        if find_cloudpickle() is pickle and "__main__" in notes.modules:
            raise pickle.PicklingError("what a script or notebook defines stays in its process")
    except Exception as error:
        advice = (
            "Make objects that cannot be pickled (sessions, locks, open files) in f, or pass the"
            " data to make them"
        )
        if find_cloudpickle() is pickle:
            advice = (
                "Install cloudpickle, or pyspark, which brings one, for lambdas and what a script"
                " or notebook defines; or import f from a module"
            )
        raise InvalidError(
            f"f or its arguments cannot be sent to the ranks: {type(error).__name__}:"
            f" {str(error).rstrip('.')}. {advice}"
        ) from error
    return Work(data, sources.collect(notes, path))


def check_kind(f: Any) -> None:
    """Refuse a generator or coroutine function: a call does not run its body."""
    while isinstance(f, functools.partial):
        f = f.func
    call = getattr(type(f), "__call__", None)  # noqa: B004 (of an object of a class of the user)
    for asked in (f, call):
        if inspect.isgeneratorfunction(asked):
            kind, instead = "a generator function (it has yield)", "return a list"
        elif inspect.iscoroutinefunction(asked):
            kind, instead = "a coroutine function (async def)", "call asyncio.run() in f"
        elif inspect.isasyncgenfunction(asked):
            kind, instead = "an async generator function", "return a list from asyncio.run() in f"
        else:
            continue
        name = getattr(f, "__name__", type(f).__name__)
        raise InvalidError(f"f, {name}, is {kind}: calling it runs nothing of it; {instead}")


def check_arguments(args: Any, kwargs: Any) -> None:
    """Refuse args that are no sequence or a string, and kwargs without names."""
    if isinstance(args, (str, bytes)):
        raise InvalidError(f"args is one string: pass a tuple, as in args=({args!r},)")
    if not isinstance(args, Sequence):
        raise InvalidError(
            f"args is of type {type(args).__name__}: pass a tuple, as in args=(value,) for one"
            " argument"
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidError(
            f"kwargs is of type {type(kwargs).__name__}: pass a dictionary, as in"
            ' kwargs={"rate": 0.5}'
        )
    for name in kwargs or ():
        if not isinstance(name, str):
            raise InvalidError(f"kwargs has the name {name!r}, which is no string")


def check_call(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, rows: bool) -> None:
    """Refuse a function whose signature does not fit the arguments."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # some functions in C have no signature
        return
    try:
        signature.bind(*[object()] * (1 + rows), *args, **kwargs)
    except TypeError as error:
        name = getattr(f, "__name__", type(f).__name__)
        first = (
            "parameters are the communicator and the rows"
            if rows
            else ("parameter is the communicator")
        )
        raise InvalidError(
            f"f is called as f(comm, {'rows, ' * rows}*args, **kwargs), which {name}{signature}"
            f" does not take: {error}. The first {first}, and args and kwargs follow"
        ) from None


def dumps_value(value: Any, rank: int) -> bytes:
    """Pickle the return value of a rank, or raise an error with the reason."""
    try:
        return dumps(value)
    except Exception as error:
        raise TypeError(
            f"f returned a value on rank {rank}, of type {type(value).__name__}, that cannot be"
            f" sent to the driver: {type(error).__name__}: {error}. Return what can be pickled,"
            " such as numbers, arrays, and lists and dictionaries of them"
        ) from error


def dumps_error(error: BaseException) -> bytes | None:
    """Pickle an exception, if it can be unpickled again."""
    try:
        data = dumps(error)
        return data if isinstance(loads(data), type(error)) else None
    except Exception:
        return None


def loads_error(data: bytes | None) -> Exception | None:
    """Unpickle an exception; None for one that is unknown or must not be raised here."""
    try:
        error = None if data is None else loads(data)
    except Exception:
        return None
    return error if isinstance(error, Exception) else None
