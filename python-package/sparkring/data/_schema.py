# SPDX-License-Identifier: Apache-2.0
"""The schema of a batch: name, dtype and shape of a row of each array, agreed by all ranks.

A rank reads its fields from its first chunk. A rank with an empty partition gets the fields from
the other ranks. In one exchange, before the first batch, the ranks send three things: their fields;
the errors of their first chunks, so that all ranks raise the same error; and their settings,
because ranks with different settings would take different numbers of steps. Ranks send JSON, which
needs no token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring._communicator import Communicator
from sparkring._core import InvalidError, MismatchError
from sparkring._tables import number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._tables.source import Chunk, Name


class Field(NamedTuple):
    """One array of a batch."""

    name: Name
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def empty(self, rows: int) -> NDArray[Any]:
        """Make an uninitialized array for rows."""
        return np.empty((rows, *self.shape), self.dtype)


class Report(NamedTuple):
    """The message of a rank to all ranks."""

    settings: dict[str, Any]
    fields: list[Field] | None  # None for an empty partition
    rows: int  # of the first chunk
    failure: str | None


def fields_of(chunk: Chunk, dtype: Any) -> list[Field]:
    """List the fields of a chunk, with dtypes that replace its own."""
    unknown = [name for name in dtype if name not in chunk] if isinstance(dtype, Mapping) else []
    if unknown:
        raise InvalidError(f"dtype names {unknown}, and the arrays of a batch are {list(chunk)}")
    return [
        Field(name, _asked(name, dtype) or values.dtype, values.shape[1:])
        for name, values in chunk.items()
    ]


def _asked(name: Name, dtype: Any) -> np.dtype[Any] | None:
    asked: np.dtype[Any] | None = dtype.get(name) if isinstance(dtype, Mapping) else dtype
    return asked


def exchange(comm: Communicator, mine: Report) -> list[Report]:
    """Send the reports of all ranks to every rank, in rank order."""
    columns = [[name, dtype.str, shape] for name, dtype, shape in mine.fields or ()]
    text = json.dumps([mine.settings, columns, mine.rows, mine.failure]).encode()
    lengths = comm.allgather(np.array([len(text)])).ravel()
    texts = comm.allgatherv(np.frombuffer(text, np.uint8)).tobytes()
    ends = np.cumsum(lengths)
    return [_report(texts[end - length : end]) for length, end in zip(lengths, ends)]


def _report(text: bytes) -> Report:
    settings, columns, rows, failure = json.loads(text)
    fields = [Field(name, np.dtype(dtype), tuple(at)) for name, dtype, at in columns]
    return Report(settings, fields or None, rows, failure)


def agree(reports: list[Report]) -> list[Field]:
    """Find fields that hold the values of all ranks; none when all partitions are empty."""
    for rank, report in enumerate(reports):
        if report.failure is not None:
            raise error_of(rank, report.failure)
        for name, value in report.settings.items():
            if value != reports[0].settings[name]:
                error = MismatchError(
                    f"rank {rank} has {name}={value!r} and rank 0 has"
                    f" {name}={reports[0].settings[name]!r}: pass the same on every rank"
                )
                error.rank = rank
                raise error
    agreed: list[Field] | None = None
    for rank, report in enumerate(reports):
        if report.fields is not None:
            agreed = report.fields if agreed is None else _join(rank, agreed, report.fields)
    return agreed or []


def _join(rank: int, agreed: list[Field], fields: list[Field]) -> list[Field]:
    names = [field.name for field in agreed]
    if [field.name for field in fields] != names:
        raise error_of(
            rank,
            f"it has the columns {[field.name for field in fields]}, and ranks before it have"
            f" {names}: name the columns to take, with columns=",
        )
    for one, other in zip(agreed, fields):
        if one.shape != other.shape:
            raise error_of(rank, _unlike(one, other.shape))
    return [
        one._replace(dtype=np.result_type(one.dtype, other.dtype))
        for one, other in zip(agreed, fields)
    ]


def _unlike(field: Field, shape: tuple[int, ...]) -> str:
    return (
        f"column {field.name!r}: a row of it has shape {shape}, and rows before it or on other"
        f" ranks have {field.shape}. {number.ALIKE}"
    )


def error_of(rank: int, text: str) -> InvalidError:
    """Make the error of a rank."""
    error = InvalidError(f"rank {rank}: {text}")
    error.rank = rank
    return error


def fit(chunk: Chunk, fields: list[Field]) -> Chunk:
    """Convert a chunk to the agreed dtypes; its arrays are contiguous then."""
    if list(chunk) != [field.name for field in fields]:
        raise InvalidError(
            f"the columns are {list(chunk)}, and were {[field.name for field in fields]} before:"
            " name the columns to take, with columns="
        )
    return {field.name: _fit(chunk[field.name], field) for field in fields}


def _fit(values: NDArray[Any], field: Field) -> NDArray[Any]:
    if values.shape[1:] != field.shape:
        raise InvalidError(_unlike(field, values.shape[1:]))
    if values.dtype == field.dtype:
        return np.ascontiguousarray(values)
    with np.errstate(invalid="ignore"):
        cast = np.ascontiguousarray(values, field.dtype)
    is_rounded = field.dtype.kind == "f" and np.can_cast(values.dtype, field.dtype, "same_kind")
    if is_rounded or np.can_cast(values.dtype, field.dtype) or np.array_equal(cast, values):
        return cast
    raise InvalidError(
        f"column {field.name!r}: it has {values.dtype} that {field.dtype} cannot hold. Pass"
        f' another dtype=, such as {{{field.name!r}: "{values.dtype}"}}'
    )
