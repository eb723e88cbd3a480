# SPDX-License-Identifier: Apache-2.0
"""The codec of objects: an envelope is an object on its way to another rank, as bytes.

An envelope has four parts: a pickle; the buffers of large arrays, which the pickle leaves out, and
which are copied once when they are sent and not when they are received; the places of the buffers;
and a trailer with kind and length. The trailer is at the end, because pickle does not read there.
R's envelopes end in the same trailer, so neither language takes the other's for its own.

A rank that cannot pickle its object sends an envelope with the error. The calls of all ranks stay
in step, and the receivers of the object raise that error.
"""

from __future__ import annotations

import io
import pickle
import struct
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sparkring._core import InvalidError

_TRAILER = struct.Struct("<8sd")  # kind, and length of the whole as a number that R has, too
_PLACE = struct.Struct("<qq")  # from where to where in the envelope
_PICKLE = b"ring-py5"
_FAILURE = b"ring-err"  # the rest is text in UTF-8, and zeros
_FROM_R = b"ring-R"
_LEFT_OUT = 4096  # bytes from which on a buffer is left out of the pickle
_ALIGNMENT = 16  # of envelopes and buffers; no number of NumPy's needs more


class Envelopes(NamedTuple):
    """Envelopes concatenated, their lengths, and the error of one that could not be packed."""

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
    places.append((table, table + _PLACE.size * len(places)))  # the last is that of the others
    for place in places:
        file.write(_PLACE.pack(*place))
    _write_trailer(file, start, _PICKLE)


def _describe(error: Exception) -> str:
    return traceback.format_exception_only(type(error), error)[0].strip()  # whatever its __str__


def _write_failure(file: io.BytesIO, error: Exception) -> None:
    start = file.tell()
    file.write(_describe(error)[:500].encode(errors="backslashreplace"))
    _align(file)
    _write_trailer(file, start, _FAILURE)


def _write_trailer(file: io.BytesIO, start: int, kind: bytes) -> None:
    file.write(_TRAILER.pack(kind, file.tell() + _TRAILER.size - start))


def pack(xs: Iterable[object], count: int) -> Envelopes:
    """Pack `count` objects or, when one cannot be packed, as many envelopes that say why."""
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
    """Cut envelopes apart, from the last to the first."""
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
            "what other ranks sent is not all objects: all ranks must call the same method"
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
    """Open the envelopes of these ranks; or raise why this rank has packed no object itself."""
    if failure is not None:
        raise failure
    envelopes = _split(memoryview(received), len(ranks))
    return [_open(envelope, rank) for envelope, rank in zip(envelopes, ranks)]
