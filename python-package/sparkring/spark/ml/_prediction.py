# SPDX-License-Identifier: Apache-2.0
"""Predictions in Spark's Python workers.

A worker makes the network once, and keeps it as for ``predict_batch_udf``. That function copies
arrays row by row, which takes more time than a small network. Modules of the user's functions that
are not installed are sent with the network, as `run` sends them to the ranks.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import sys
import uuid
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring.spark import _closure_codec as closure_codec
from sparkring.spark import _sources as sources
from sparkring.spark._dataframe import quoted
from sparkring.spark.ml import _columns as columns_of
from sparkring.spark.ml._feed import apply

if TYPE_CHECKING:
    from sparkring.spark.ml._output import Output
    from sparkring.spark.ml._plan import Plan

STRUCT = "_sparkring_prediction"
VECTOR = "vector"

# Received modules: the directories, which stay as long as the worker, by the names and checksums of
# their files; and the files that were installed last.
_paths: dict[frozenset[tuple[str, int]], str] = {}
_directories = contextlib.ExitStack()
_current: frozenset[tuple[str, int]] = frozenset()


class Worker:
    """Predicts in the workers.

    Parameters
    ----------
    plan : Plan
        The settings.
    weights : bytes
        The weights of the network.
    shapes : list of list of int
        The shape of a row of each input column.
    dtypes : list of str or None
        The dtype of each input column; None for bytes and strings.
    """

    def __init__(
        self, plan: Plan, weights: bytes, shapes: list[list[int]], dtypes: list[str | None]
    ) -> None:
        self._plan, notes = closure_codec.dumps_noting(plan)
        self._sources = sources.collect(notes)
        self._weights, self._shapes, self._dtypes = weights, shapes, dtypes
        self._key = uuid.uuid4()  # of the network, which a worker keeps

    def predict(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Predict batches: a Series of pandas, or a tuple with a Series for each column."""
        from pyspark.ml.model_cache import ModelCache

        network = ModelCache.get(self._key)
        if network is None:
            network = self._make()
            ModelCache.add(self._key, network)
        for batch in batches:
            columns = batch if isinstance(batch, tuple) else (batch,)
            yield from network(list(map(self._array, columns, self._shapes, self._dtypes)))

    def _make(self) -> Any:
        """Make the network, and return the function that predicts."""
        _install(self._sources)
        plan = closure_codec.loads(self._plan)
        predictor = plan.module.Predictor(plan, self._weights)

        def predict(arrays: list[Any]) -> Iterator[Any]:
            rows = len(arrays[0])
            for start in range(0, rows, plan.predictBatchSize):
                part = [values[start : start + plan.predictBatchSize] for values in arrays]
                inputs, others = part[: len(plan.inputCols)], part[len(plan.inputCols) :]
                found = predictor(apply(plan.transformation, plan.inputCols, inputs), *others)
                yield _series(dict(zip(plan.outputCols, found)), len(part[0]))

        return predict

    @staticmethod
    def _array(series: Any, shape: list[int], dtype: str | None) -> Any:
        values = series.to_numpy()
        if dtype is None:
            return values
        if shape and len(values):
            values = _stacked(values, shape).reshape((len(values), *shape))
        return values.astype(dtype, copy=False)


def _stacked(rows: Any, shape: list[int]) -> Any:
    """Make a matrix of the rows of a column. Those from Arrow lie in one array: it is a view."""
    width = math.prod(shape)
    other = next((len(row) for row in rows if len(row) != width), None)
    if other is not None:
        raise InvalidError(
            f"an array or a vector has {other} numbers, and those that the network was trained"
            f" with have {width} (shape {shape}): pass rows of one length"
        )
    first, last = rows[0], rows[-1]
    is_together = last.ctypes.data - first.ctypes.data == (len(rows) - 1) * width * first.itemsize
    if is_together and first.base is not None and first.base is last.base:
        base = first.base.reshape(-1)
        start = (first.ctypes.data - base.ctypes.data) // first.itemsize
        return base[start : start + len(rows) * width].reshape(len(rows), width)
    return np.stack(rows)


def _series(found: dict[str, Any], rows: int) -> Any:
    """Make a Series of an output, or a DataFrame of several outputs."""
    import pandas  # type: ignore[import-untyped, unused-ignore]

    columns = {}
    for name, values in found.items():
        if len(values) != rows:
            raise InvalidError(
                f"there are {len(values)} predictions of {name!r} for {rows} rows: return a row for"
                " each row"
            )
        columns[name] = pandas.Series(list(values) if values.ndim > 1 else values)
    return pandas.DataFrame(columns) if len(columns) > 1 else columns.popitem()[1]


def _install(received: sources.Sources) -> None:
    """Install modules in this worker, which may have other versions of them."""
    global _current
    if not received.archive:
        received.install()
        return
    with zipfile.ZipFile(io.BytesIO(received.archive)) as archive:
        files = frozenset((file.filename, file.CRC) for file in archive.infolist())
    if files == _current:
        return
    packages = {re.split(r"[/.]", name)[0] for name, _ in files}
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]
    if files in _paths:
        sys.path.remove(_paths[files])
        sys.path.insert(0, _paths[files])
    else:
        _directories.enter_context(received.directory())
        received.install()
        _paths[files] = sys.path[0]
    _current = files


# ---- On the driver -------------------------------------------------------------------------------


def append(
    frame: Any, plan: Plan, weights: bytes, shapes: list[list[int]], outputs: list[Output]
) -> Any:
    """Append the columns of the predictions. They are computed when they are asked for."""
    from pyspark.sql import functions

    wanted = plan.outputTypes or [output.sql for output in outputs]
    _check(frame, plan, wanted)
    found = _predicted(frame, plan, weights, shapes, outputs)
    if len(wanted) == 1:
        return frame.withColumn(plan.outputCols[0], _cast(found, wanted[0]))
    frame = frame.withColumn(STRUCT, found)
    for name, sql in zip(plan.outputCols, wanted):
        frame = frame.withColumn(name, _cast(functions.col(STRUCT)[name], sql))
    return frame.drop(STRUCT)


def _check(frame: Any, plan: Plan, types: list[str]) -> None:
    taken = {name.lower() for name in frame.columns}  # Spark ignores case
    for name in plan.outputCols:
        if name.lower() in taken:
            raise InvalidError(
                f"outputCols has {name!r}, and the table has a column of this name: drop it, or"
                " name another one"
            )
    if len(types) != len(plan.outputCols):
        raise InvalidError(
            f"outputTypes has {len(types)} types for {len(plan.outputCols)} columns of outputCols"
        )


def _predicted(
    frame: Any, plan: Plan, weights: bytes, shapes: list[list[int]], outputs: list[Output]
) -> Any:
    """Return the column of the predictions, a struct where there are several outputs."""
    trees = "baseMarginCol" in plan.settings
    margin = plan.settings.get("baseMarginCol")
    names = plan.inputCols if margin is None else [*plan.inputCols, margin]
    is_transformed = plan.transformation is not None
    columns = [
        columns_of.convert(frame, name, plan.dtype, is_transformed, flat=True, trees=trees)
        for name in names
    ]
    fields = frame.select(*columns).schema
    columns = [
        columns_of.without_nulls(column, name, field, trees=trees and name != margin)
        for column, name, field in zip(columns, names, fields)
    ]
    dtypes = [columns_of.dtype_of(frame, name, plan.dtype, trees=trees) for name in names]
    return _function(Worker(plan, weights, shapes, dtypes), plan, outputs)(*columns)


def _function(worker: Worker, plan: Plan, outputs: list[Output]) -> Any:
    """Make the function of Spark."""
    import pandas  # type: ignore[import-untyped, unused-ignore]
    import pyspark.sql.functions

    functions: Any = pyspark.sql.functions  # its overloads know no types that are made here

    def predict(batches: Any) -> Any:
        return worker.predict(batches)

    # pandas_udf reads the kind of the function from the types.
    one, several = Iterator[pandas.Series], Iterator[pandas.DataFrame]
    predict.__annotations__ = {
        "batches": Iterator[tuple[pandas.Series, ...]],
        "return": several if len(outputs) > 1 else one,
    }
    fields = [f"{quoted(name)} {each.sql}" for name, each in zip(plan.outputCols, outputs)]
    return functions.pandas_udf(predict, ", ".join(fields) if len(outputs) > 1 else outputs[0].sql)


def _cast(column: Any, sql: str) -> Any:
    if sql != VECTOR:
        return column.cast(sql)
    from pyspark.ml.functions import array_to_vector

    return array_to_vector(column.cast("array<double>"))
