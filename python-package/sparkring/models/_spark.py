# SPDX-License-Identifier: Apache-2.0
"""Estimators on DataFrames of Spark: the fit is a barrier stage, predictions are lazy columns."""

from __future__ import annotations

import copy
import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring.models._alike import brief
from sparkring.models._sklearn import not_fitted, warn_of_convergence
from sparkring.models._table import names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sparkring._communicator import Communicator
    from sparkring.models._base import Estimator


DECIMAL = re.compile(r"decimal\(\d+,\d+\)(?=>*$)")  # or of the elements of an array


def is_frame(x: Any) -> bool:
    """Return whether this is a DataFrame of Spark."""
    return hasattr(x, "mapInArrow") and hasattr(x, "sparkSession")


def fit(
    estimator: Any,
    frame: Any,
    roles: dict[str, Any],
    features: Sequence[str] | None,
    options: dict[str, Any],
) -> None:
    """Fit on ranks that have the partitions of the frame; this process gets the results."""
    from sparkring.spark import run

    given = {name: role for name, role in roles.items() if role is not None}
    for name, role in given.items():
        if not names_of(role):
            raise InvalidError(f"{name} must be the name of a column of the DataFrame of Spark")
    used = [column for role in given.values() for column in names_of(role)]
    chosen = list(features) if features is not None else [c for c in frame.columns if c not in used]
    if not chosen:
        raise InvalidError("there are no features: name columns of the DataFrame in features")
    wanted = list(dict.fromkeys([*chosen, *used]))
    selected = frame.select(*numbers(frame, wanted))
    options = {"verbose": 0, **options}
    arguments = (copy.copy(estimator), given, chosen)
    estimator._forget()
    found = run(fit_rank, args=arguments, frame=selected, rows="arrow", **options)
    vars(estimator).update(found[0][0])
    repeat_warnings([texts for _, texts in found])


def fit_rank(
    comm: Communicator, table: Any, estimator: Estimator, roles: dict[str, str], features: list[str]
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Fit on a rank. Return the warnings; and on rank 0 the results, without those of its rows."""
    estimator.comm = comm
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        estimator._fit_rows(table, roles, features, {})
    texts = [(part.category.__name__, str(part.message)) for part in caught]
    if comm.rank != 0:
        return {}, texts
    state = estimator.__getstate__()
    state.pop("labels_", None)
    return {name: value for name, value in state.items() if name not in estimator._names()}, texts


def repeat_warnings(of_ranks: list[list[tuple[str, str]]]) -> None:
    """Warn once of what ranks have warned of, with the ranks if not all have."""
    for kind, text in dict.fromkeys(pair for pairs in of_ranks for pair in pairs):
        ranks = [rank for rank, pairs in enumerate(of_ranks) if (kind, text) in pairs]
        where = "" if len(ranks) == len(of_ranks) else f" (on rank {', '.join(map(str, ranks))})"
        if kind == "ConvergenceWarning":
            warn_of_convergence(text + where)
        else:
            warnings.warn(text + where, RuntimeWarning, stacklevel=4)


def apply(estimator: Estimator, frame: Any, method: str, output: str) -> Any:
    """Append a column that a method of the estimator computes in Spark's Python workers."""
    import pyspark.sql.functions

    functions: Any = pyspark.sql.functions  # its overloads know no types that are made here
    if not estimator.__sklearn_is_fitted__():
        raise not_fitted(type(estimator).__name__)
    columns = getattr(estimator, "_columns", None)
    if columns is None:
        raise InvalidError(
            f"this {type(estimator).__name__} was not fitted to a table, so the columns of its"
            " features have no names: fit it to a DataFrame of Spark or pandas"
        )
    if output.lower() in map(str.lower, frame.columns):  # Spark ignores case
        raise InvalidError(f"the DataFrame has a column {output!r} already: drop or rename it")
    struct = functions.struct(*numbers(frame, columns))
    kind = output_type(estimator, output)
    function = functions.pandas_udf(predictor(estimator, method), kind)
    return frame.withColumn(output, function(struct))


def numbers(frame: Any, names: Sequence[str]) -> list[Any]:
    """Select columns: vectors become arrays, and decimals doubles."""
    import pyspark.sql.functions

    from sparkring.spark._dataframe import is_vector, quoted

    functions: Any = pyspark.sql.functions  # its overloads know no types that are made here
    given = list(frame.columns)
    kinds = {field.name: field.dataType for field in frame.schema}

    def column(name: str) -> Any:
        count = given.count(name)
        if count == 0:
            raise InvalidError(f"there is no column {name!r}: the DataFrame has {brief(given)}")
        if count > 1:
            raise InvalidError(f"the DataFrame has {count} columns {name!r}: rename or drop one")
        found, kind = functions.col(quoted(name)), kinds[name]
        if is_vector(kind):
            from pyspark.ml.functions import vector_to_array

            return vector_to_array(found).alias(name)
        double = DECIMAL.sub("double", kind.simpleString())
        return found if double == kind.simpleString() else found.cast(double).alias(name)

    return [column(name) for name in names]


def output_type(estimator: Any, output: str) -> str:
    """Name the type of Spark of the column."""
    if output != "prediction":
        return "array<double>"
    if estimator._kind == "clusterer":
        return "int"
    kind = np.asarray(getattr(estimator, "classes_", 0.0)).dtype.kind
    return {"U": "string", "O": "string", "i": "bigint", "u": "bigint", "b": "boolean"}.get(
        kind, "double"
    )


def predictor(estimator: Any, method: str) -> Any:
    """Make the function of the workers, on the batches of a partition."""
    import pandas  # type: ignore[import-untyped, unused-ignore]

    def predict(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            found = np.asarray(getattr(estimator, method)(estimator._matrix(batch, complete=False)))
            yield pandas.Series(list(found) if found.ndim > 1 else found)

    # pandas_udf reads the kind of the function from the types.
    from collections.abc import Iterator as Batches

    predict.__annotations__ = {
        "batches": Batches[pandas.DataFrame],
        "return": Batches[pandas.Series],
    }
    return predict
