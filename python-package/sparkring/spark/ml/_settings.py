# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any
"""The Params of estimators and models."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasInputCols, HasLabelCol, HasOutputCols, HasWeightCol

from sparkring.spark.ml import _factory as factory
from sparkring.spark.ml._methods import ModelMethods, TrainingMethods

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

WAYS = ("spill", "parquet", "stream")


def one_of(*values: Any) -> Any:
    """Make a converter that accepts some values."""

    def convert(value: Any) -> Any:
        if value not in values:
            raise TypeError(f"{value!r} is none of {', '.join(map(repr, values))}")
        return value

    return convert


def whole(least: int, most: float = math.inf) -> Any:
    def convert(value: Any) -> int:
        number = TypeConverters.toInt(value)
        if not least <= number <= most:
            limit = "on" if most == math.inf else f"to {most}"
            raise TypeError(
                f"{number} is out of range: it must be a whole number from {least} {limit}"
            )
        return number

    return convert


def _to_json(value: Any) -> dict[str, Any]:
    try:
        return dict(json.loads(json.dumps(dict(value))))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{value!r} is no dict that JSON can hold ({error}): pass numbers, strings, booleans,"
            " None, and lists and dicts of them"
        ) from error


def _to_weights(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(float(key)): TypeConverters.toFloat(weight) for key, weight in value.items()}
    return TypeConverters.toListFloat(value)


def _to_validation(value: Any) -> Any:
    if isinstance(value, str):
        return value
    fraction = TypeConverters.toFloat(value)
    if not 0 < fraction < 1:
        raise TypeError(f"{value!r} is no fraction between 0 and 1, and no name of a column")
    return fraction


class Settings(Params):
    """The part that all Params share: they are set by name, and have setters and getters."""

    _advice = ""  # of where other parameters go

    def __init_subclass__(cls, **options: Any) -> None:
        """Add ``setEpochs`` and ``getEpochs`` for the Param ``epochs``, and so on."""
        super().__init_subclass__(**options)
        for name in dir(cls):
            if isinstance(getattr(cls, name, None), Param):
                cls._add_methods(name)

    @classmethod
    def _add_methods(cls, name: str) -> None:
        def get(self: Any) -> Any:
            return self.getOrDefault(name)

        def put(self: Any, value: Any) -> Any:
            return self._set(**{name: value})

        for method, prefix in ((get, "get"), (put, "set")):
            method.__name__ = prefix + name[0].upper() + name[1:]
            method.__doc__ = f"{prefix.capitalize()} the Param ``{name}``."
            if not hasattr(cls, method.__name__):
                setattr(cls, method.__name__, method)

    def _set_params(self, params: Mapping[str, Any]) -> Self:
        """Set Params by name."""
        for name in params:
            if not self.hasParam(name):
                known = ", ".join(param.name for param in self.params)
                raise TypeError(
                    f"{type(self).__name__} has no Param {name!r}: it has {known}{self._advice}"
                )
        self._set(**params)
        return self

    def _values(self) -> dict[str, Any]:
        """Return the values of all Params by name; None for those without a value."""
        return {
            param.name: self.getOrDefault(param) if self.isDefined(param) else None
            for param in self.params
        }


class PredictionSettings(ModelMethods, Settings, HasInputCols, HasOutputCols):
    """The Params of a model. The estimator has them, too."""

    model = Param(
        Params._dummy(),
        "model",
        "function f(modelParams) that makes the network: a function, or its import path"
        " 'package.module:name'",
        factory.to_function,
    )
    modelParams = Param(  # noqa: N815 (Spark's style)
        Params._dummy(),
        "modelParams",
        "dict that the functions model, loss, optimizer, metrics and callbacks get; JSON",
        _to_json,
    )
    transformation = Param(
        Params._dummy(),
        "transformation",
        "function f(arrays) of a dict of NumPy arrays, by the names of inputCols, that returns the"
        " dict of the network's inputs, in their order; for images, which come as arrays of bytes",
        factory.to_function,
    )
    postprocess = Param(
        Params._dummy(),
        "postprocess",
        "function f(output) of the network's output, as NumPy arrays, that returns the arrays of"
        " outputCols",
        factory.to_function,
    )
    outputTypes = Param(  # noqa: N815
        Params._dummy(),
        "outputTypes",
        "types of outputCols, as in ['double', 'vector', 'array<float>']; by default those of the"
        " network's output",
        TypeConverters.toListString,
    )
    dtype = Param(
        Params._dummy(),
        "dtype",
        "type of inputs and labels that are no whole numbers, 'float32' or 'float64'",
        one_of("float32", "float64"),
    )
    predictBatchSize = Param(  # noqa: N815
        Params._dummy(), "predictBatchSize", "rows of a prediction at most", whole(1)
    )
    cloudpickle = Param(
        Params._dummy(),
        "cloudpickle",
        "whether functions without an import path are saved as pickles. A pickle runs code when it"
        " is loaded, and needs the Python and the packages of its making",
        TypeConverters.toBoolean,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            modelParams={},
            transformation=None,
            postprocess=None,
            outputCols=["prediction"],
            outputTypes=None,
            dtype="float32",
            predictBatchSize=4096,
            cloudpickle=False,
        )


class TrainingSettings(TrainingMethods, PredictionSettings, HasLabelCol, HasWeightCol):
    """The Params of an estimator."""

    loss = Param(
        Params._dummy(),
        "loss",
        "function f(modelParams) that makes the loss, which has a value for each row",
        factory.to_function,
    )
    optimizer = Param(
        Params._dummy(),
        "optimizer",
        "function that makes the optimizer. Its learning rate is used as it is, with any number of"
        " ranks",
        factory.to_function,
    )
    metrics = Param(
        Params._dummy(),
        "metrics",
        "function f(modelParams) that makes the metrics of the history",
        factory.to_function,
    )
    callbacks = Param(
        Params._dummy(),
        "callbacks",
        "function f(modelParams) that makes the list of callbacks, which every rank calls",
        factory.to_function,
    )
    trainStep = Param(  # noqa: N815
        Params._dummy(),
        "trainStep",
        "function f(training, batch) that takes a step in place of the estimator's, and returns a"
        " dict with the loss, summed over the rows of the rank",
        factory.to_function,
    )
    classWeights = Param(  # noqa: N815
        Params._dummy(),
        "classWeights",
        "weights of rows by their label: a list for the labels 0, 1, ..., or a dict",
        _to_weights,
    )
    validation = Param(
        Params._dummy(),
        "validation",
        "column that is true or not 0 in the rows for validation, or the fraction of such rows,"
        " which are chosen by a hash of their values and of seed",
        _to_validation,
    )
    batchSize = Param(  # noqa: N815
        Params._dummy(), "batchSize", "rows of a step, of all ranks together", whole(1)
    )
    epochs = Param(Params._dummy(), "epochs", "number of epochs at most", whole(1))
    shuffle = Param(
        Params._dummy(),
        "shuffle",
        "whether rows get a new order each epoch. Batches of data='spill' have rows of the whole"
        " table in any case",
        TypeConverters.toBoolean,
    )
    seed = Param(
        Params._dummy(),
        "seed",
        "seed of the network, of the order of rows, and of the rows for validation; 32 bits",
        whole(0, 2**32 - 1),
    )
    monitor = Param(
        Params._dummy(),
        "monitor",
        "number of the history that tells the best epoch; by default val_loss, or loss without"
        " validation",
        TypeConverters.toString,
    )
    monitorMode = Param(  # noqa: N815
        Params._dummy(),
        "monitorMode",
        "whether less or more is better: 'min' or 'max'",
        one_of("min", "max"),
    )
    patience = Param(
        Params._dummy(),
        "patience",
        "epochs without a better value of monitor after which the training ends; by default none",
        whole(1),
    )
    restore = Param(
        Params._dummy(),
        "restore",
        "epoch whose weights the model has: 'best' or 'last'",
        one_of("best", "last"),
    )
    data = Param(
        Params._dummy(),
        "data",
        "way of the rows to the ranks: 'spill' keeps them in files of the ranks' hosts, 'parquet'"
        " writes the table once and reads it each epoch, 'stream' computes the table each epoch,"
        " with a rank for each partition where numProc is not set, and takes no callbacks",
        one_of(*WAYS),
    )
    directory = Param(
        Params._dummy(),
        "directory",
        "directory that all hosts see, or its URL, for checkpoints and for data='parquet'; by"
        " default directories for temporary files, which hosts do not share",
        TypeConverters.toString,
    )
    numProc = Param(  # noqa: N815
        Params._dummy(), "numProc", "number of ranks; by default the number of slots", whole(1)
    )
    maxRestarts = Param(  # noqa: N815
        Params._dummy(),
        "maxRestarts",
        "how often all ranks are launched again after a failure. They go on at the last checkpoint",
        whole(0),
    )
    checkpointSteps = Param(  # noqa: N815
        Params._dummy(),
        "checkpointSteps",
        "steps between checkpoints within an epoch, beside those after each epoch; 0 for none",
        whole(0),
    )
    compression = Param(
        Params._dummy(),
        "compression",
        "type in which gradients travel: 'none', 'fp16' or 'bf16'",
        one_of("none", "fp16", "bf16"),
    )
    timeline = Param(
        Params._dummy(), "timeline", "directory of timelines, as for run()", TypeConverters.toString
    )
    timeout = Param(
        Params._dummy(),
        "timeout",
        "seconds to the start of all tasks, as for run()",
        TypeConverters.toFloat,
    )
    verbose = Param(
        Params._dummy(), "verbose", "output of the ranks and their progress, as for run()", whole(0)
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            loss=None,
            optimizer=None,
            metrics=None,
            callbacks=None,
            trainStep=None,
            weightCol=None,
            classWeights=None,
            validation=None,
            batchSize=32,
            epochs=1,
            shuffle=True,
            seed=0,
            monitor=None,
            monitorMode="min",
            patience=None,
            restore="best",
            data="spill",
            directory=None,
            numProc=None,
            maxRestarts=0,
            checkpointSteps=0,
            compression="none",
            timeline=None,
            timeout=300.0,
            verbose=1,
        )
