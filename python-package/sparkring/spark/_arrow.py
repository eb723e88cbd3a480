# SPDX-License-Identifier: Apache-2.0
"""Rows of Spark in Arrow: streams of batches, tables and pandas, in both directions.

Timestamps of pandas are in the time zone of the session and have no zone, as those of ``toPandas``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import IO, Any

BATCH = 10_000  # rows of a batch of a result


def schema_of(spark_schema: Any, *, large: bool = False) -> bytes:
    """Convert a schema of Spark."""
    import inspect

    from pyspark.sql.pandas.types import to_arrow_schema

    # Spark 4 has offsets of 64 bits where spark.sql.execution.arrow.useLargeVarTypes is set.
    known = "prefers_large_types" in inspect.signature(to_arrow_schema).parameters
    options = {"prefers_large_types": large} if known else {}
    data: bytes = to_arrow_schema(spark_schema, **options).serialize().to_pybytes()
    return data


def read_schema(data: bytes) -> Any:
    """Read a schema."""
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return pyarrow.ipc.read_schema(pyarrow.py_buffer(data))


# ---- Streams -------------------------------------------------------------------------------------


def write_stream(file: IO[bytes], first: Any, batches: Iterable[Any]) -> None:
    """Write batches to a file."""
    import pyarrow

    with pyarrow.ipc.new_stream(file, first.schema) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)


def read_stream(file: Any) -> Iterator[Any]:
    """Yield the batches of a file or of bytes."""
    import pyarrow

    with pyarrow.ipc.open_stream(file) as reader:
        yield from reader


# ---- Rows of a rank ------------------------------------------------------------------------------


def table_of(batches: Iterable[Any], schema: bytes) -> Any:
    """Make a table of batches. Without batches it has the schema."""
    import pyarrow

    found = list(batches)
    return pyarrow.Table.from_batches(found, found[0].schema if found else read_schema(schema))


def to_pandas(table: Any, zone: str) -> Any:
    """Convert a table to pandas as ``toPandas`` does."""
    import pyarrow
    from pyarrow import types

    options = {"date_as_object": True}
    if int(pyarrow.__version__.partition(".")[0]) >= 13:  # until then always nanoseconds
        options["coerce_temporal_nanoseconds"] = True
    frame = table.to_pandas(**options)
    for place, column in enumerate(table.schema):
        if types.is_timestamp(column.type) and column.type.tz is not None:
            times = frame.iloc[:, place].dt.tz_convert(zone).dt.tz_localize(None)
            frame.isetitem(place, times)
    return frame


# ---- Rows of a result ----------------------------------------------------------------------------


def pack(result: Any, schema: bytes, zone: str, rank: int) -> bytes:
    """Convert the value of a function to a stream of Arrow with this schema."""
    import pyarrow

    wanted = read_schema(schema)
    try:
        parts = result if isinstance(result, (list, tuple)) else [result]
        tables = [_fit(part, wanted, zone) for part in parts if part is not None]
        table = pyarrow.concat_tables([wanted.empty_table(), *tables])
    except Exception as error:
        raise TypeError(
            f"f returned rows on rank {rank} that do not fit schema=: {error}. Return a DataFrame"
            " of pandas, or a table or record batch of pyarrow, or a list of them, or None"
        ) from error
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, wanted) as writer:
        writer.write_table(table, max_chunksize=BATCH)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _fit(part: Any, wanted: Any, zone: str) -> Any:
    import pyarrow

    if isinstance(part, pyarrow.RecordBatch):
        part = pyarrow.Table.from_batches([part])
    if isinstance(part, pyarrow.Table):
        _check_names(part.column_names, wanted)
        return part.select(wanted.names).cast(wanted)
    if not (hasattr(part, "columns") and hasattr(part, "to_numpy")):
        raise TypeError(f"they are of type {type(part).__name__}")
    _check_names(part.columns, wanted)
    part = part[wanted.names].copy(deep=False)
    for column in wanted:
        if pyarrow.types.is_timestamp(column.type) and column.type.tz is not None:
            part[column.name] = _localized(part[column.name], zone)
    return pyarrow.Table.from_pandas(part, schema=wanted, preserve_index=False)


def _localized(times: Any, zone: str) -> Any:
    if getattr(times.dtype, "kind", "") != "M" or getattr(times.dtype, "tz", None) is not None:
        return times
    return times.dt.tz_localize(zone, ambiguous=False)


def _check_names(names: Any, wanted: Any) -> None:
    missing = [name for name in wanted.names if name not in names]
    if missing:
        raise ValueError(f"there is no column {missing[0]!r}, only {', '.join(map(repr, names))}")
