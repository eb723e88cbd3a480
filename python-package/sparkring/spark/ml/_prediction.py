# SPDX-License-Identifier: Apache-2.0
"""Predictions in Spark's Python workers, by ``predict_batch_udf``.

A worker makes the network once. Modules of the user's functions that are not installed are sent
with the network, as `run` sends them to the ranks.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring.spark import _closure_codec as closure_codec
from sparkring.spark import _sources as sources
from sparkring.spark._frame import quoted
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


class Predict:
    """Makes the function that predicts, in a worker.

    Parameters
    ----------
    plan : Plan
        The settings.
    weights : bytes
        The weights of the network.
    dtypes : list of str or None
        The dtype of each input column; None for bytes and strings.
    outputs : list of Output
        The outputs of the network.
    """

    def __init__(
        self, plan: Plan, weights: bytes, dtypes: list[str | None], outputs: list[Output]
    ) -> None:
        self._plan, notes = closure_codec.dumps_noting(plan)
        self._sources = sources.collect(notes)
        self._weights, self._dtypes, self._outputs = weights, dtypes, outputs

    def __call__(self) -> Any:
        """Make the function, which ``predict_batch_udf`` keeps."""
        _install(self._sources)
        plan = closure_codec.loads(self._plan)
        predictor = plan.module.Predictor(plan, self._weights)

        def predict(*columns: Any) -> Any:
            given = [
                values if dtype is None else values.astype(dtype, copy=False)
                for values, dtype in zip(columns, self._dtypes)
            ]
            found = predictor(apply(plan.transformation, plan.inputCols, given))
            return self._columns(dict(zip(plan.outputCols, found)))

        # predict_batch_udf asks for the number of parameters.
        parameters = [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
            for name in columns_of.names_of(len(plan.inputCols))
        ]
        predict.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return predict

    def _columns(self, found: dict[str, Any]) -> Any:
        """Convert booleans, which predict_batch_udf refuses. One output is an array."""
        for output, (name, values) in zip(self._outputs, found.items()):
            if output.element == "boolean":
                found[name] = values.astype(np.int8)
        return found if len(found) > 1 else next(iter(found.values()))


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
    from pyspark.ml.functions import predict_batch_udf

    is_transformed = plan.transformation is not None
    columns = [
        columns_of.convert(frame, name, plan.dtype, is_transformed, flat=True)
        for name in plan.inputCols
    ]
    fields = frame.select(*columns).schema
    columns = list(map(columns_of.without_nulls, columns, plan.inputCols, fields))
    dtypes = [columns_of.dtype_of(frame, name, plan.dtype) for name in plan.inputCols]
    predict = predict_batch_udf(
        Predict(plan, weights, dtypes, outputs),
        return_type=_type(frame, dict(zip(plan.outputCols, outputs))),
        batch_size=plan.predictBatchSize,
        input_tensor_shapes={place: list(at) for place, at in enumerate(shapes) if at} or None,
    )
    return predict(*columns)


def _type(frame: Any, outputs: dict[str, Output]) -> Any:
    """Return the type of the function's result, which has no booleans."""
    fields = [
        f"{quoted(name)} {output.sql.replace('boolean', 'tinyint')}"
        for name, output in outputs.items()
    ]
    schema = frame.sparkSession.createDataFrame([], ", ".join(fields)).schema
    return schema if len(fields) > 1 else schema[0].dataType


def _cast(column: Any, sql: str) -> Any:
    if sql != VECTOR:
        return column.cast(sql)
    from pyspark.ml.functions import array_to_vector

    return array_to_vector(column.cast("array<double>"))
