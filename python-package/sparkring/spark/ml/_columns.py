# SPDX-License-Identifier: Apache-2.0
"""The columns of a DataFrame that estimators and models take, in types that have arrays.

Spark converts: vectors become arrays, fractions the dtype of the settings, whole numbers 64 bits.
The columns for the ranks get names of their own, since a table may have any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError
from sparkring.spark._dataframe import is_vector, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

LABEL, WEIGHT, VALID, QUERY, MARGIN = "label", "weight", "valid", "query", "margin"
BESIDE = {  # columns beside the inputs, and the Params that name them
    LABEL: "labelCol",
    WEIGHT: "weightCol",
    VALID: "validation",
    QUERY: "qidCol",
    MARGIN: "baseMarginCol",
}
PARTS = 1_000_000  # of a fraction
SQL = {"float32": "float", "float64": "double"}
WHOLE = ("byte", "short", "integer", "long", "boolean")
FRACTION = ("float", "double", "decimal")
TEXT = ("binary", "string")


def names_of(count: int) -> list[str]:
    """Name the inputs in the table of the ranks."""
    return [f"input{place}" for place in range(count)]


def prepare(frame: Any, settings: Mapping[str, Any], *, trees: bool = False) -> Any:
    """Select inputs, label, weight and the mark of rows for validation.

    Trees take whole numbers with nulls, as doubles, and also queries and margins.
    """
    from pyspark.sql import functions

    dtype, asked = settings["dtype"], settings["inputCols"]
    if not asked:
        raise InvalidError("inputCols is not set: name the columns that the network takes")
    columns = {
        name: convert(frame, given, dtype, bool(settings["transformation"]), trees=trees)
        for name, given in zip(names_of(len(asked)), asked)
    }
    columns[LABEL] = convert(frame, settings["labelCol"], dtype)
    weight = _weight(frame, settings)
    if weight is not None:
        columns[WEIGHT] = weight.cast("double")
    if settings.get("qidCol") is not None:
        columns[QUERY] = _query(frame, settings["qidCol"])
    if settings.get("baseMarginCol") is not None:
        columns[MARGIN] = convert(frame, settings["baseMarginCol"], dtype, trees=True)
    validation = settings["validation"]
    if isinstance(validation, str):
        columns[VALID] = functions.coalesce(
            _column(frame, validation).cast("boolean"), functions.lit(False)
        )
    elif validation is not None:
        seed = functions.lit(settings["seed"])
        # Of the values before any conversion: no other Param changes the choice.
        values = [_column(frame, name) for name in (*asked, settings["labelCol"])]
        digest = functions.xxhash64(seed, *values)
        columns[VALID] = functions.pmod(digest, functions.lit(PARTS)) < int(validation * PARTS)
    return frame.select(*(column.alias(name) for name, column in columns.items()))


def _weight(frame: Any, settings: Mapping[str, Any]) -> Any:
    """Multiply the weight of a row with that of its class."""
    from pyspark.sql import functions

    column, classes = settings["weightCol"], settings["classWeights"]
    weight = None if column is None else _column(frame, column).cast("double")
    if classes is None:
        return weight
    pairs = classes.items() if isinstance(classes, dict) else enumerate(classes)
    label = _column(frame, settings["labelCol"]).cast("double")
    of_class: Any = functions  # and then one CASE, since nested CASEs exhaust Spark's stack
    for value, number in pairs:
        of_class = of_class.when(label == float(value), number)
    of_class = of_class.otherwise(1.0)
    return of_class if weight is None else weight * of_class


def _query(frame: Any, name: str) -> Any:
    """Make whole numbers of the queries; a hash of 64 bits of a string."""
    from pyspark.sql import functions

    column, kind = _column(frame, name), frame.schema[name].dataType.typeName()
    if kind in WHOLE:
        return column.cast("bigint")
    if kind != "string":
        raise InvalidError(f"qidCol is {name!r} of type {kind}: pass whole numbers or strings")
    return functions.when(column.isNotNull(), functions.xxhash64(column))


def labels_of(frame: Any, settings: Mapping[str, Any]) -> list[tuple[str, list[str] | None]]:
    """Name the inputs, and the parts of vectors that VectorAssembler has named."""
    return [(name, _parts(frame, name)) for name in settings["inputCols"] or ()]


def _parts(frame: Any, name: str) -> list[str] | None:
    fields = [field for field in frame.schema if field.name == name]
    metadata = fields[0].metadata if fields else {}
    groups = (metadata or {}).get("ml_attr", {}).get("attrs", {})
    parts = sorted((part for group in groups.values() for part in group), key=lambda p: p["idx"])
    return [part["name"] for part in parts] if parts and all("name" in p for p in parts) else None


def convert(
    frame: Any,
    name: str,
    dtype: str,
    is_transformed: bool = False,
    *,
    flat: bool = False,
    trees: bool = False,
) -> Any:
    """Convert a column to a type that has an array. With `flat` nested arrays become one array."""
    column, kind = _column(frame, name), frame.schema[name].dataType
    if is_vector(kind):
        from pyspark.ml.functions import vector_to_array

        return vector_to_array(column, dtype)
    depth, element = _element(kind)
    if element in WHOLE + FRACTION:
        sql = SQL[dtype] if element in FRACTION else "double" if trees else "bigint"
        column = column.cast("array<" * depth + sql + ">" * depth)
        return _flatten(column, depth) if flat else column
    if element in TEXT and is_transformed and not depth:
        return column
    advice = "convert it in Spark (cast, StringIndexer, VectorAssembler)"
    if element in TEXT:
        advice += ", or set transformation, a function that makes arrays of numbers"
    raise InvalidError(
        f"the column {name!r} is of type {kind.simpleString()}, and a network takes numbers, arrays"
        f" of numbers and vectors: {advice}"
    )


def without_nulls(column: Any, name: str, field: Any, *, trees: bool = False) -> Any:
    """Make nulls an error when Spark computes the column, since they would become NaN.

    Trees take NaN. Only a null in place of an array is an error for them.
    """
    from pyspark.sql import functions

    advice = f"the column {name!r} has nulls: fill or drop them in Spark (df.na)"
    error = functions.raise_error(functions.lit(advice))
    if trees and not hasattr(field.dataType, "containsNull"):
        return column
    if getattr(field.dataType, "containsNull", False) and not trees:
        has_nulls = functions.exists(column, lambda element: element.isNull())
        column = functions.when(~has_nulls, column).otherwise(error)
    return functions.coalesce(column, error) if field.nullable else column


def dtype_of(frame: Any, name: str, dtype: str, *, trees: bool = False) -> str | None:
    """Return the dtype of a column after `convert`; None for bytes and strings."""
    kind = frame.schema[name].dataType
    element = "float" if is_vector(kind) else _element(kind)[1]
    if element in TEXT:
        return None
    if element in WHOLE:
        return "float64" if trees else "int64"
    return dtype


def _element(kind: Any) -> tuple[int, str]:
    """Count how deep arrays are nested, and find the type of their elements."""
    depth = 0
    while kind.typeName() == "array":
        depth, kind = depth + 1, kind.elementType
    return depth, kind.typeName()


def _flatten(column: Any, depth: int) -> Any:
    from pyspark.sql import functions

    for _ in range(depth - 1):
        column = functions.flatten(column)
    return column


def _column(frame: Any, name: str) -> Any:
    from pyspark.sql import functions

    count = frame.columns.count(name)
    if count == 0:
        raise InvalidError(f"there is no column {name!r}: there are {', '.join(frame.columns)}")
    if count > 1:
        raise InvalidError(f"the table has {count} columns {name!r}: rename or drop one")
    return functions.col(quoted(name))
