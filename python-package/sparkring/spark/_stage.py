# SPDX-License-Identifier: Apache-2.0
"""A barrier stage of DataFrames: the ranks are the tasks of ``mapInArrow(barrier=True)``.

The results of the ranks return as binary cells, cut into pieces, because the server of Spark
Connect sends rows in messages of few megabytes. With ``schema=`` the rows of a rank follow, in
columns of their own, and stay in Spark.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from sparkring._core import InvalidError, UnsupportedError
from sparkring.spark import _abilities as abilities
from sparkring.spark import _arrow as arrow
from sparkring.spark import _task_main as task_main
from sparkring.spark._dataframe import ROW, deal_rows, is_vector, with_nulls
from sparkring.spark._rank_result import RankResult

PIECE = 1 << 20  # bytes of a cell
RANK, DATA = "_sparkring_rank", "_sparkring_data"
COLUMNS = {RANK: "int", ROW: "bigint", DATA: "binary"}


def plan(frame: Any, attempt: task_main.Attempt, resources: Any) -> Any:
    """Make the DataFrame of the stage. Nothing runs yet."""

    def ranks(batches: Iterable[Any]) -> Iterator[Any]:
        return task(attempt, batches)

    if resources is not None and not abilities.has_resources(frame):
        raise UnsupportedError(
            "resources with frame= needs Spark 4.0: set the resources of tasks in the configuration"
        )
    with_profile = {} if resources is None else {"profile": resources}
    return frame.mapInArrow(ranks, schema_of(attempt), barrier=True, **with_profile)


def schema_of(attempt: task_main.Attempt) -> Any:
    """Return the schema of the stage, for Spark."""
    from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

    types = [IntegerType(), LongType(), BinaryType()]
    fields = [StructField(name, kind) for name, kind in zip(COLUMNS, types)]
    if attempt.table is not None:
        given = enumerate(attempt.table.fields)
        fields += [StructField(own_name(place), f.dataType) for place, f in given]
    return StructType(fields)


def own_name(place: int) -> str:
    """Name a column of the result, whose own name may have a dot."""
    return f"_sparkring_{place}"


def result_of(schema: Any, zone: str) -> task_main.Table:
    """Read the argument ``schema``."""
    from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType

    names = schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidError(f"schema has several columns {twice!r}: rename them")
    vectors = frozenset(place for place, f in enumerate(schema) if is_vector(f.dataType))
    types = [ArrayType(DoubleType()) if is_vector(f.dataType) else f.dataType for f in schema]
    fields = [StructField(name, with_nulls(kind)) for name, kind in zip(names, types)]
    for f in fields:
        if has_class(f.dataType):
            raise InvalidError(
                f"schema has a class of Spark's own in the column {f.name!r}, and Arrow has no type"
                " for it: return its parts, and make it of them in Spark"
            )
    return task_main.Table(tuple(fields), arrow.schema_of(StructType(fields), names), vectors, zone)


def has_class(kind: Any) -> bool:
    """Return whether a type has a user-defined type in it, such as a matrix of MLlib."""
    from pyspark.sql.types import UserDefinedType

    parts = [getattr(kind, name, None) for name in ("elementType", "keyType", "valueType")]
    parts += [field.dataType for field in getattr(kind, "fields", ())]
    return isinstance(kind, UserDefinedType) or any(
        has_class(part) for part in parts if part is not None
    )


# ---- In a task -----------------------------------------------------------------------------------


def task(attempt: task_main.Attempt, batches: Iterable[Any]) -> Iterator[Any]:
    """Run the rank of this Spark task; for ``mapInArrow``."""
    for rank_result in task_main.task(attempt, batches):
        rows, rank_result = rank_result.rows, replace(rank_result, rows=None)
        schema = arrow_schema(attempt)
        for piece, data in enumerate(cut(pickle.dumps(rank_result))):
            yield batch(schema, {RANK: [rank_result.rank], ROW: [piece], DATA: [data]}, 1)
        start = 0
        for some in arrow.read_stream(rows) if rows else ():
            places = range(start, start + some.num_rows)
            columns = {RANK: [rank_result.rank] * some.num_rows, ROW: places}
            columns.update((own_name(place), values) for place, values in enumerate(some.columns))
            yield batch(schema, columns, some.num_rows)
            start += some.num_rows


def arrow_schema(attempt: task_main.Attempt) -> Any:
    """Return the schema of the stage, for Arrow."""
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    types = [pyarrow.int32(), pyarrow.int64(), pyarrow.binary()]
    fields = [pyarrow.field(name, kind) for name, kind in zip(COLUMNS, types)]
    if attempt.table is not None:
        given = enumerate(arrow.read_schema(attempt.table.schema))
        fields += [f.with_nullable(True).with_name(own_name(place)) for place, f in given]
    return pyarrow.schema(fields)


def batch(schema: Any, columns: dict[str, Any], rows: int) -> Any:
    """Make a batch; columns that are not given are null."""
    import pyarrow

    arrays = []
    for column in schema:
        values = columns.get(column.name)
        if values is None:
            arrays.append(pyarrow.nulls(rows, column.type))
        elif isinstance(values, pyarrow.Array):
            arrays.append(values)
        else:
            arrays.append(pyarrow.array(values, column.type))
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def cut(data: bytes) -> list[bytes]:
    """Cut bytes into pieces."""
    return [data[start : start + PIECE] for start in range(0, len(data), PIECE)]


# ---- On the driver -------------------------------------------------------------------------------


def assemble(rows: Iterable[Any]) -> list[RankResult]:
    """Read the results of the ranks, in rank order."""
    pieces: dict[int, list[tuple[int, bytes]]] = {}
    for number, piece, data in rows:
        pieces.setdefault(number, []).append((piece, bytes(data)))
    return [
        pickle.loads(b"".join(data for _, data in sorted(pieces[number])))
        for number in sorted(pieces)
    ]


def collect(stage: Any, attempt: task_main.Attempt) -> tuple[list[RankResult], Any]:
    """Run a stage. Return the results of the ranks, and what Spark keeps of it, if anything.

    Spark keeps the rows of all ranks in its executors, so that f does not run again.
    """
    if attempt.table is None:
        return assemble(stage.collect()), None
    kept = stage.localCheckpoint(eager=True)
    found = kept.where(f"{DATA} IS NOT NULL").select(*COLUMNS)
    return assemble(found.collect()), kept


def table_of(kept: Any, table: task_main.Table, size: int) -> Any:
    """Make the DataFrame of the rows of all ranks, in rank order.

    Spark runs every stage on top of a barrier stage as a barrier stage, too, without head() and
    union(). So the rows go through a shuffle, and are kept again.
    """
    from pyspark.sql import functions

    columns = [functions.col(own_name(place)) for place in range(len(table.fields))]
    for place in table.vectors:
        from pyspark.ml.functions import array_to_vector

        array = columns[place]
        columns[place] = functions.when(array.isNotNull(), array_to_vector(array))
    rows = deal_rows(kept.where(f"{DATA} IS NULL"), RANK, size).select(*columns)
    return rows.toDF(*(column.name for column in table.fields)).localCheckpoint(eager=True)
