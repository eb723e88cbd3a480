# SPDX-License-Identifier: Apache-2.0
"""The DataFrame of `run`, in as many partitions as there are ranks.

Without ``num_proc`` a rank has the rows of a partition, in their order. With ``num_proc`` the rows
are distributed evenly, in their order. R's spark-batches.R has the same rules.

Spark chooses the partition of a row by the hash of a key. So rows get a key whose hash chooses the
partition of their rank. Within a partition rows are sorted by their place in the table.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError, UnsupportedError
from sparkring.spark import _abilities as abilities
from sparkring.spark import _arrow as arrow
from sparkring.spark._rows import KINDS, Rows

if TYPE_CHECKING:
    from sparkring._core import RingError
    from sparkring.spark._session import Spark

KEY, ROW = "_sparkring_key", "_sparkring_row"
PARTITION, PLACE = f"shiftright({ROW}, 33)", f"({ROW} & 8589934591L)"
ZONE = "spark.sql.session.timeZone"
LARGE = "spark.sql.execution.arrow.useLargeVarTypes"


class PartedDataFrame:
    """A DataFrame whose partitions are the rows of the ranks.

    Parameters
    ----------
    spark : sparkring.spark._session.Spark
        The Spark of the DataFrame.
    given : pyspark.sql.DataFrame
        The user's.
    kind : str
        One of `KINDS`.
    num_proc : int or None
        The number of ranks; None for one rank a partition.
    """

    def __init__(self, spark: Spark, given: Any, kind: str, num_proc: int | None) -> None:
        self.spark, self.session = spark, given.sparkSession
        # Names of its own: Spark finds no column by a name with a dot, or of two columns.
        places = given.toDF(*(f"c{place}" for place in range(len(given.columns))))
        large = self.session.conf.get(LARGE, "false") == "true"
        self.given, schema = in_arrow(places, given.columns, large=large)
        self.rows = Rows(kind, schema, self.zone)
        self.dealt = num_proc is not None
        self.prepared: Any = None
        self.shuffled = False
        if num_proc is None:
            self.prepared = spark.pin(self.given)
            num_proc = spark.partitions(self.prepared)
            if num_proc == 0:  # of a table without rows
                num_proc, self.prepared = 1, self.without_rows(1)
        self.size = num_proc

    @property
    def zone(self) -> str:
        """The time zone of the session."""
        return str(self.session.conf.get(ZONE))

    def prepare(self) -> Any:
        """Return the DataFrame with a partition for each rank. Rows to deal out are counted."""
        if self.prepared is None:
            self.prepared = self.deal()
        return self.prepared

    def shuffle(self, error: RingError) -> bool:
        """Shuffle partitions that Spark refuses in a barrier stage, such as those of a union.

        Return whether the error is of that kind, so that the ranks can be launched again.
        """
        if self.shuffled or self.dealt or "SPARK-24820" not in str(error):
            return False
        self.shuffled = True
        rank = f"pmod({PARTITION}, {self.size})"
        if self.prepared.isEmpty():  # of its shuffle Spark would leave no partition
            self.prepared = self.without_rows(self.size)
        else:
            self.prepared = self.spark.pin(self.keyed(self.prepared, rank))
        return True

    def deal(self) -> Any:
        """Distribute the rows evenly, in their order. R's batches_deal_sql() does the same.

        Rows that were not counted go to the last rank of the counted rows of their partition, or
        to the first rank of the next.
        """
        given = self.spark.pin(self.given)
        counts = counts_of(given)
        total = sum(counts)
        if total == 0:
            return self.without_rows(self.size)
        ends = [0, *itertools.accumulate(counts), total]
        partition = f"cast(least(1 + {PARTITION}, {len(counts) + 1}) AS int)"
        before, after = (
            f"element_at(array({', '.join(f'{end}L' for end in some)}), {partition})"
            for some in (ends[:-1], ends[1:])
        )
        row = f"least({before} + {PLACE}, {after})"
        rank = f"least({self.size - 1}L, {row} * {self.size}L div {total}L)"
        return self.spark.pin(self.keyed(given, rank))

    def keyed(self, frame: Any, rank: str) -> Any:
        """Put each row on the partition of its rank, an expression of SQL of `ROW`."""
        from pyspark.sql import functions

        rows = frame.withColumn(ROW, functions.monotonically_increasing_id())
        return deal_rows(rows, rank, self.size).drop(ROW)

    def without_rows(self, size: int) -> Any:
        """Make a DataFrame with partitions, but without rows: Spark drops plans without rows."""
        from pyspark.sql import functions

        columns = [
            functions.lit(None).cast(column.dataType).alias(column.name)
            for column in self.given.schema
        ]
        return self.session.range(0, size, 1, size).where("id < 0").select(*columns)


def counts_of(frame: Any) -> list[int]:
    """Count the rows of each partition, up to the last partition that has rows.

    On Spark Connect the hash keeps Spark from leaving columns out, so that it chooses the same
    partitions as later. If it chooses others, as for a table in random order, the order of the
    rows is still right, but the parts are uneven.
    """
    from pyspark.sql import functions

    columns = [
        functions.to_json(functions.col(quoted(column.name)))  # a map has no hash
        if "map<" in column.dataType.simpleString()
        else functions.col(quoted(column.name))
        for column in frame.schema
    ]
    rows = frame.select(
        functions.spark_partition_id().alias("part"), functions.hash(*columns).alias("hash")
    )
    found = rows.groupBy("part").agg(
        functions.count("*").alias("rows"), functions.expr("bit_xor(hash)").alias("hash")
    )
    counts = {row["part"]: int(row["rows"]) for row in found.collect()}
    return [counts.get(part, 0) for part in range(max(counts, default=-1) + 1)]


def quoted(name: str) -> str:
    """Quote the name of a column."""
    return "`" + name.replace("`", "``") + "`"


def in_arrow(frame: Any, names: list[str], *, large: bool) -> tuple[Any, bytes]:
    """Return a DataFrame that Arrow can hold, and its schema. The error names the column."""
    from pyspark.errors import PySparkException

    try:
        held = without_vectors(frame)
        return held, arrow.schema_of(with_nulls(held.schema), names, large=large)
    except PySparkException as error:
        if len(names) == 1:
            raise InvalidError(
                f"column {names[0]!r} has a type that Arrow does not have: cast it in Spark, or"
                f" drop it ({error})"
            ) from error
        for column, name in zip(frame.columns, names):
            in_arrow(frame.select(column), [name], large=large)
        raise


def without_vectors(frame: Any) -> Any:
    """Make arrays of doubles of MLlib's vectors, of which Arrow has only the parts."""
    names = [column.name for column in frame.schema if is_vector(column.dataType)]
    if not names:
        return frame
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql import functions

    arrays = {}
    for name in names:
        vector = functions.col(quoted(name))
        arrays[name] = functions.when(vector.isNotNull(), vector_to_array(vector))
    return frame.withColumns(arrays)


def with_nulls(kind: Any) -> Any:
    """Let all parts of a type of Spark be null: a null struct has null fields in Arrow."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, ArrayType):
        return ArrayType(with_nulls(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(with_nulls(kind.keyType), with_nulls(kind.valueType))
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, with_nulls(f.dataType)) for f in kind])
    return kind


def is_vector(kind: Any) -> bool:
    """Return whether a type of Spark is MLlib's vector."""
    return type(kind).__name__ == "VectorUDT"


def deal_rows(rows: Any, rank: str, size: int) -> Any:
    """Put each row on the partition of a rank, an expression of SQL, in the order of `ROW`."""
    from pyspark.sql import functions

    keys = ", ".join(map(str, keys_of(rows.sparkSession, size)))
    key = functions.expr(f"element_at(array({keys}), cast(1 + {rank} AS int))")
    return rows.withColumn(KEY, key).repartition(size, KEY).sortWithinPartitions(ROW).drop(KEY)


def keys_of(session: Any, size: int) -> list[int]:
    """Find for each partition a number whose hash chooses the partition. Spark runs no job."""
    sql = (
        f"SELECT transform(sequence(0, {64 * size}), x -> pmod(hash(cast(x AS int)), {size})) AS p"
    )
    parts = list(session.sql(sql).first()["p"])
    return [parts.index(part) for part in range(size)]


def columns_of(frame: Any) -> list[str]:
    """List the columns. PySpark cannot for some types, as make_interval() of SQL returns."""
    from pyspark.errors import PySparkException

    try:
        return list(frame.columns)
    except PySparkException as error:
        raise InvalidError(
            f"frame has a column of a type that PySpark does not have: cast it in Spark, or drop it"
            f" ({error})"
        ) from error


def check(frame: Any, rows: str, num_proc: int | None) -> None:
    """Refuse invalid arguments, before anything starts."""
    if rows not in KINDS:
        raise InvalidError(
            f"rows is {rows!r}: pass {', '.join(map(repr, KINDS[:-1]))} or 'batches'"
        )
    if not hasattr(frame, "mapInArrow"):
        advice = ""
        if hasattr(frame, "to_numpy"):
            pandas_on_spark = hasattr(frame, "to_spark")
            made = "frame.to_spark()" if pandas_on_spark else "spark.createDataFrame(frame)"
            advice = f", as from {made}"
        raise InvalidError(
            f"frame is of type {type(frame).__module__}.{type(frame).__name__}: pass a DataFrame of"
            f" Spark{advice}"
        )
    if not abilities.has_barrier(frame):
        raise UnsupportedError("frame= needs Spark 3.5: barrier stages of DataFrames came with it")
    if not columns_of(frame):
        raise InvalidError("frame has no columns: select one")
    if frame.isStreaming:
        raise InvalidError("frame is a stream: call run() in foreachBatch, with each batch")
    if num_proc is not None and num_proc < 0:
        raise InvalidError(
            "frame is a table of Spark, but num_proc is negative, which is without Spark: leave one"
            " out"
        )
