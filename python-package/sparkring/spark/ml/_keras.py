# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any
"""`KerasEstimator` and `KerasModel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.ml.param import Param, Params

from sparkring.spark.ml._estimator import NetworkEstimator
from sparkring.spark.ml._methods import BackendMethods
from sparkring.spark.ml._model import NetworkModel
from sparkring.spark.ml._settings import Settings, one_of

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from sparkring.spark.ml._methods import KerasModelParams, KerasParams


class _HasBackend(BackendMethods, Settings):
    backend = Param(
        Params._dummy(),
        "backend",
        "backend of Keras: 'tensorflow', 'jax' or 'torch'; by default that of KERAS_BACKEND or of"
        " the configuration of Keras",
        one_of("tensorflow", "jax", "torch"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(backend=None)


class KerasModel(NetworkModel, _HasBackend):
    """A network of Keras that `KerasEstimator` has trained.

    ``transform`` appends ``outputCols``. Spark computes them when they are asked for, and a Python
    worker makes the network once.

    Parameters
    ----------
    **params : object
        Values of Params, which choose the outputs; ``explainParams()`` describes them.
    """

    __module__ = "sparkring.spark.ml"
    _framework = "keras"

    if TYPE_CHECKING:

        def __init__(self, **params: Unpack[KerasModelParams]) -> None: ...

        def setParams(self, **params: Unpack[KerasModelParams]) -> Self: ...  # noqa: N802


class KerasEstimator(NetworkEstimator[KerasModel], _HasBackend):
    """Trains a network of Keras 3 on the ranks of a barrier stage, with any backend of Keras.

    Parameters are those of `TorchEstimator`, and ``backend``. These differ:

    Parameters
    ----------
    model : function or str
        ``model(modelParams)`` returns a ``keras.Model``, which need not be compiled, but must be
        built: begin it with ``keras.Input``, or call ``build``. It is called with an array, or with
        a list of arrays where there are several ``inputCols``.
    loss : function or str
        ``loss(modelParams)`` returns a loss of Keras, its name, or ``f(label, output)``.
    optimizer : function or str
        ``optimizer(modelParams)`` returns a ``keras.optimizers.Optimizer``.
    metrics : function or str
        ``metrics(modelParams)`` returns a list of metrics of Keras or their names. The history has
        the mean of the values of all steps and ranks.
    callbacks : function or str
        ``callbacks(modelParams)`` returns a list of ``keras.callbacks.Callback``. Every rank calls
        them. The numbers of an epoch are those of all ranks, and the numbers of a batch those of
        the rank. A restart makes callbacks anew: their counters begin again.
    trainStep : function or str
        ``trainStep(training, batch)`` takes a step: ``batch`` has ``inputs``, ``label``,
        ``weight``, ``rows`` and ``total``. Return ``training.sums(logs, batch)`` of the logs of
        ``training.model.train_on_batch(..., sample_weight=training.sample_weight(batch))``.

    Examples
    --------
    >>> from sparkring.spark.ml import KerasEstimator
    >>> estimator = KerasEstimator(
    ...     model="nets:make", loss="nets:loss", optimizer="nets:adam", backend="jax",
    ...     inputCols=["features"], labelCol="label", batchSize=64, epochs=10, validation=0.2,
    ... )
    >>> model = estimator.fit(frame)
    >>> model.transform(frame).select("prediction")

    In ``nets.py``:

    >>> def make(params):
    ...     return keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    >>> def loss(params):
    ...     return "mse"
    >>> def adam(params):
    ...     return keras.optimizers.Adam(0.01)
    """

    __module__ = "sparkring.spark.ml"
    _framework = "keras"
    _model_type = KerasModel

    if TYPE_CHECKING:

        def __init__(self, **params: Unpack[KerasParams]) -> None: ...

        def setParams(self, **params: Unpack[KerasParams]) -> Self: ...  # noqa: N802
