# SPDX-License-Identifier: Apache-2.0
"""The codec of objects: an envelope is the bytes of an object that is sent to another rank.

An envelope has four parts: a pickle; the buffers of large arrays, which the pickle leaves out, and
which are copied once when they are sent and not when they are received; the places of the buffers;
and the trailer of core/bindings/envelope.h, which R's envelopes have, too.
"""

from __future__ import annotations

import io
import pickle
import struct
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sparkring import _core
from sparkring._core import InvalidError
from sparkring._objects.pickler import dump

_PLACE = struct.Struct("<qq")  # from where to where in the envelope
_TRAILER_BYTES = len(_core.envelope_trailer(0))
_LEFT_OUT = 4096  # bytes from which on a buffer is left out of the pickle
_ALIGNMENT = 16  # of envelopes and buffers; no number of NumPy's needs more


class Envelopes(NamedTuple):
    """Concatenated envelopes, their lengths, and the error of an object that cannot be packed."""

    memory: memoryview
    counts: list[int]
    failure: Exception | None = None


# ---- Packing -------------------------------------------------------------------------------------


def _align(file: io.BytesIO) -> int:
    file.write(bytes(-file.tell() % _ALIGNMENT))
    return file.tell()


def _write_object(file: io.BytesIO, x: object) -> None:
    start = file.tell()
    places = []
    for buffer in dump(file, x, _LEFT_OUT):
        first = _align(file)
        places.append((first - start, first - start + file.write(buffer)))
    table = _align(file) - start
    places.append((table, table + _PLACE.size * len(places)))  # the table itself
    for place in places:
        file.write(_PLACE.pack(*place))
    file.write(_core.envelope_trailer(file.tell() - start))


def _describe(error: Exception) -> str:
    return traceback.format_exception_only(type(error), error)[0].strip()  # any __str__


def pack(xs: Iterable[object], count: int) -> Envelopes:
    """Pack `count` objects or, when one cannot be packed, `count` envelopes with the error."""
    file = io.BytesIO()
    ends = [0]
    failure = None
    try:
        for x in _check_objects(xs, count):
            _write_object(file, x)
            ends.append(file.tell())
    except Exception as error:
        failure = error
        file = io.BytesIO()
        ends = [0]
        for _ in range(count):
            file.write(_core.envelope_failure(_describe(error).encode(errors="backslashreplace")))
            ends.append(file.tell())
    counts = [end - start for start, end in zip(ends, ends[1:])]
    return Envelopes(file.getbuffer(), counts, failure)


def _check_objects(xs: Iterable[object], count: int) -> list[object]:
    if not isinstance(xs, Iterable):
        raise InvalidError(
            f"xs is of type {type(xs).__name__}: pass a list with one object for each rank"
        )
    objects = list(xs)
    if len(objects) != count:
        raise InvalidError(
            f"xs has {len(objects)} objects and there are {count} ranks: pass one for each rank"
        )
    return objects


# ---- Opening -------------------------------------------------------------------------------------


def _error(rank: int, text: str) -> InvalidError:
    error = InvalidError(text)
    error.rank = rank
    return error


def _split(received: memoryview, count: int) -> list[memoryview]:
    """Cut envelopes apart."""
    starts = _core.envelope_split(received, count)
    if starts is None:
        raise InvalidError(
            "other ranks sent bytes that are no objects: all ranks must call the same method"
        )
    return [received[start:end] for start, end in zip(starts, starts[1:])]


def _open(envelope: memoryview, rank: int) -> Any:
    refusal = _core.envelope_check(envelope, rank)
    if refusal is not None:
        raise _error(rank, refusal)
    body = envelope[:-_TRAILER_BYTES]
    try:
        first, last = _PLACE.unpack_from(body, len(body) - _PLACE.size)
        places = _PLACE.iter_unpack(body[first:last])
        return pickle.loads(body, buffers=[body[start:end] for start, end in places])
    except Exception as error:
        raise _error(
            rank, f"the object of rank {rank} cannot be unpickled here: {_describe(error)}"
        ) from error


def unpack(received: Any, ranks: Sequence[int], failure: Exception | None = None) -> list[Any]:
    """Open the envelopes of `ranks`, or raise the error of this rank's own packing."""
    if failure is not None:
        raise failure
    envelopes = _split(memoryview(received), len(ranks))
    return [_open(envelope, rank) for envelope, rank in zip(envelopes, ranks)]
