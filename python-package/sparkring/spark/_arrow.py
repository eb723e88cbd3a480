# SPDX-License-Identifier: Apache-2.0
"""Rows of Spark in Arrow: streams of batches, tables and pandas, in both directions.

Timestamps of pandas are in the time zone of the session and have no zone, as those of ``toPandas``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import IO, Any

from sparkring.spark._abilities import has_large_types

BATCH = 10_000  # rows of a batch of a result
NAIVE = re.compile(r"timestamp\[\w+\]")  # in the name of a type: a timestamp without a zone


def schema_of(spark_schema: Any, names: Sequence[str], *, large: bool = False) -> bytes:
    """Convert a schema of Spark, with other names."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Spark 4 has offsets of 64 bits where spark.sql.execution.arrow.useLargeVarTypes is set.
    options = {"prefers_large_types": large} if has_large_types(to_arrow_schema) else {}
    found = to_arrow_schema(spark_schema, **options)
    data: bytes = renamed(found, names).serialize().to_pybytes()
    return data


def renamed(schema: Any, names: Sequence[str]) -> Any:
    """Give the columns of a schema other names."""
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return pyarrow.schema([field.with_name(name) for field, name in zip(schema, names)])


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


def with_names(batches: Iterable[Any], schema: bytes) -> Iterator[Any]:
    """Yield the batches with the names of a schema."""
    import pyarrow

    names = read_schema(schema).names
    for batch in batches:
        wanted = renamed(batch.schema, names)
        yield pyarrow.RecordBatch.from_arrays(batch.columns, schema=wanted)


def table_of(batches: Iterable[Any], schema: bytes) -> Any:
    """Make a table of batches with this schema on each rank, as ``toArrow`` does.

    The batches may differ from the schema in time zones, and in columns that cannot be null.
    """
    import pyarrow

    wanted = read_schema(schema)
    found = list(batches)
    return pyarrow.Table.from_batches(found).cast(wanted) if found else wanted.empty_table()


def to_pandas(table: Any, zone: str, agree: Callable[[Any], Any]) -> Any:
    """Convert a table to pandas as ``toPandas`` does, by PySpark's own converters.

    The dtypes are those of the rows of all ranks, of which `agree` joins the `traits`.
    """
    import numpy as np
    import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from pyspark.sql.pandas.types import from_arrow_schema

    found = [_series(column) for column in table.columns]
    traits = agree(np.array([traits for _, traits in found], np.uint8))
    kinds = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    columns = [
        _converted(series, kind.dataType, int(bits), zone)
        for (series, _), kind, bits in zip(found, kinds, traits)
    ]
    frame = pandas.concat(columns, axis="columns")
    frame.columns = table.column_names
    return frame


# Traits, which decide the dtype of a column beside its type: nulls, times outside 1677 to 2262.
NULLS, WIDE = 1, 2


def _series(column: Any) -> tuple[Any, int]:
    """Convert a column to pandas; return its traits, too."""
    import pyarrow

    traits = NULLS * (column.null_count > 0)
    if int(pyarrow.__version__.partition(".")[0]) < 13:  # always nanoseconds
        return column.to_pandas(date_as_object=True), traits
    try:
        series = column.to_pandas(date_as_object=True, coerce_temporal_nanoseconds=True)
    except pyarrow.ArrowInvalid:  # out of bounds
        return column.to_pandas(date_as_object=True), traits | WIDE
    return series, traits


def _converted(series: Any, kind: Any, traits: int, zone: str) -> Any:
    """Convert a column to the dtype of its type and traits."""
    from pyspark.sql.pandas.types import _create_converter_to_pandas
    from pyspark.sql.types import BooleanType, IntegralType

    if traits & NULLS and isinstance(kind, IntegralType):
        return series.astype("float64")
    if traits & NULLS and isinstance(kind, BooleanType):
        return series.astype(object)
    if traits & WIDE and series.dtype.kind == "M":
        series = series.dt.as_unit("us")
        return series if series.dt.tz is None else series.dt.tz_convert(zone).dt.tz_localize(None)
    converter: Any = _create_converter_to_pandas(kind, True, timezone=zone, struct_in_pandas="dict")
    return converter(series)


# ---- Rows of a result ----------------------------------------------------------------------------


def pack(result: Any, schema: bytes, zone: str, rank: int) -> bytes:
    """Convert the value of a function to a stream of Arrow with this schema."""
    import pyarrow

    wanted = read_schema(schema)
    try:
        parts = result if isinstance(result, (list, tuple)) else [result]
        tables = [_fit(part, wanted, zone) for part in parts if part is not None]
        table = pyarrow.concat_tables(tables) if tables else wanted.empty_table()
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
        names, columns = part.column_names, part.column
    elif hasattr(part, "columns") and hasattr(part, "to_numpy"):
        names, columns = list(part.columns), part.__getitem__
    else:
        raise TypeError(f"they are of type {type(part).__name__}")
    missing = [name for name in wanted.names if name not in names]
    if missing:
        raise ValueError(f"there is no column {missing[0]!r}, only {', '.join(map(repr, names))}")
    twice = [name for name in wanted.names if names.count(name) > 1]
    if twice:
        raise ValueError(f"there are several columns {twice[0]!r}")
    arrays = [_column(columns(field.name), field, zone) for field in wanted]
    return pyarrow.Table.from_arrays(arrays, schema=wanted)


def _column(values: Any, field: Any, zone: str) -> Any:
    """Convert a column, as ``mapInPandas`` does. Times without a zone are in that of the session.

    Times in objects are, too, which ``mapInPandas`` takes for UTC.
    """
    import pyarrow
    from pyarrow import compute, types

    timed = types.is_timestamp(field.type) and field.type.tz is not None
    if not isinstance(values, pyarrow.ChunkedArray):
        values = _without_vectors(values, field.type)
        values = _from_pandas(values, None if timed else field.type, zone)
    if timed and getattr(values.type, "tz", None) is None:
        unit = values.type.unit if types.is_timestamp(values.type) else field.type.unit
        values = values.cast(pyarrow.timestamp(unit))
        values = compute.assume_timezone(values, zone, ambiguous="latest")
    elif len(NAIVE.findall(str(values.type))) > len(NAIVE.findall(str(field.type))):
        raise TypeError(
            f"column {field.name!r} is of type {values.type}, in which times have no zone: cast it"
            f" to {field.type}"
        )
    return values.cast(field.type)


def _without_vectors(values: Any, kind: Any) -> Any:
    """Make arrays of vectors of MLlib, of which Arrow knows nothing."""
    import pyarrow

    if not pyarrow.types.is_list(kind) or not any(hasattr(v, "toArray") for v in values):
        return values
    return values.map(lambda v: v.toArray() if hasattr(v, "toArray") else v)


def _from_pandas(series: Any, kind: Any, zone: str) -> Any:
    """Convert a column of pandas; without a kind to the type of its values."""
    import pyarrow
    from pyspark.sql.pandas.types import _create_converter_from_pandas, from_arrow_type

    if kind is not None and pyarrow.types.is_nested(kind):
        series = _create_converter_from_pandas(
            from_arrow_type(kind, prefer_timestamp_ntz=True),
            timezone=zone,
            error_on_duplicated_field_names=False,
            ignore_unexpected_complex_type_values=True,
        )(series)
    return pyarrow.Array.from_pandas(series, type=kind)
