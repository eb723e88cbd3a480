# SPDX-License-Identifier: Apache-2.0
"""The codec of objects: an envelope is the bytes of an object that is sent to another rank.

An envelope has four parts: a pickle; the buffers of large arrays, which the pickle leaves out; the
places of the buffers; and a trailer with kind and length. A buffer is copied once by the sender,
and not by the receiver. The trailer is at the end, because pickle does not read there. R's
envelopes end in the same trailer, so each language recognises the envelopes of the other.

A rank that cannot pickle its object sends an envelope with the error. The calls of all ranks stay
in step, and the receivers of the object raise the error.
"""

from __future__ import annotations

import io
import pickle
import struct
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sparkring._core import InvalidError

_TRAILER = struct.Struct("<8sd")  # kind, and length of the envelope as a double, which R has, too
_PLACE = struct.Struct("<qq")  # begin and end of a buffer in the envelope
_PICKLE = b"ring-py5"
_FAILURE = b"ring-err"  # kind of an envelope with an error: text in UTF-8, and zeros
_FROM_R = b"ring-R"
_LEFT_OUT = 4096  # least bytes of a buffer that is left out of the pickle
_ALIGNMENT = 16  # of envelopes and buffers; enough for every number of NumPy


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
    buffers: list[memoryview] = []

    def stays_in_pickle(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LEFT_OUT:
            return True
        buffers.append(raw)
        return False

    pickle.Pickler(file, 5, buffer_callback=stays_in_pickle).dump(x)
    places = []
    for buffer in buffers:
        first = _align(file)
        places.append((first - start, first - start + file.write(buffer)))
    table = _align(file) - start
    places.append((table, table + _PLACE.size * len(places)))  # the table itself
    for place in places:
        file.write(_PLACE.pack(*place))
    _write_trailer(file, start, _PICKLE)


def _describe(error: Exception) -> str:
    return traceback.format_exception_only(type(error), error)[0].strip()  # any __str__


def _write_failure(file: io.BytesIO, error: Exception) -> None:
    start = file.tell()
    file.write(_describe(error)[:500].encode(errors="backslashreplace"))
    _align(file)
    _write_trailer(file, start, _FAILURE)


def _write_trailer(file: io.BytesIO, start: int, kind: bytes) -> None:
    file.write(_TRAILER.pack(kind, file.tell() + _TRAILER.size - start))


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
            _write_failure(file, error)
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
    """Split envelopes, from the last to the first."""
    envelopes = []
    end = len(received)
    for _ in range(count):
        kind, length = b"", 0.0
        if end >= _TRAILER.size:
            kind, length = _TRAILER.unpack_from(received, end - _TRAILER.size)
        if not kind.startswith(b"ring-") or not _TRAILER.size <= length <= end:
            break
        start = end - int(length)
        envelopes.append(received[start:end])
        end = start
    if len(envelopes) < count or end > 0:
        raise InvalidError(
            "other ranks sent bytes that are no objects: all ranks must call the same method"
        )
    return envelopes[::-1]


def _open(envelope: memoryview, rank: int) -> Any:
    body = envelope[: -_TRAILER.size]
    kind = bytes(envelope[len(body) :][:8])
    if kind == _FAILURE:
        text = bytes(body).rstrip(b"\0").decode(errors="replace")
        raise _error(rank, f"rank {rank} could not send its object: {text}")
    if kind != _PICKLE:
        source = "R" if kind.startswith(_FROM_R) else "another version of sparkring"
        raise _error(
            rank,
            f"the object of rank {rank} comes from {source}, and Python cannot read it: send arrays"
            " instead, which both can",
        )
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
