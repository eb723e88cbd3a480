# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any
"""`TorchEstimator` and `TorchModel`."""

from __future__ import annotations

from sparkring.spark.ml._estimator import NetworkEstimator
from sparkring.spark.ml._model import NetworkModel


class TorchModel(NetworkModel):
    """A network of PyTorch that `TorchEstimator` has trained.

    ``transform`` appends ``outputCols``. Spark computes them when they are asked for, and a Python
    worker makes the network once.

    Parameters
    ----------
    **params : object
        Values of Params, which choose the outputs; ``explainParams()`` describes them.
    """

    __module__ = "sparkring.spark.ml"
    _framework = "torch"


class TorchEstimator(NetworkEstimator[TorchModel]):
    """Trains a network of PyTorch on the ranks of a barrier stage.

    Parameters are those of Spark ML: ``TorchEstimator(epochs=3)``, ``setEpochs(3)``,
    ``fit(frame, {estimator.epochs: 3})``; ``explainParams()`` describes all of them. Use import
    paths in grids of functions, so that the tuned model can be saved.

    Any number of ranks trains the same network, up to rounding, with ``data="spill"``. Exceptions
    are layers that use the batch or random numbers of a rank: batch normalization (use
    ``sparkring.torch.SyncBatchNorm``) and dropout.

    Some Params need more words:

    Parameters
    ----------
    model : function or str
        ``model(modelParams)`` returns a ``torch.nn.Module``. It is called with a tensor for each
        column of ``inputCols``: of shape (rows,) for numbers, (rows, n) for vectors and arrays.
        Use VectorAssembler where the network takes a matrix.
    loss : function or str
        ``loss(modelParams)`` returns ``f(output, label)``. The value of a row counts with its
        weight, so ``f`` returns a value for each row. A loss of PyTorch is set to
        ``reduction="none"``. Values of a row that are an array are averaged. The label has the type
        of ``labelCol``: ``dtype`` for fractions, ``int64`` for whole numbers. Cast the column in
        Spark: to int for ``CrossEntropyLoss``, to double for ``MSELoss``. The outputs of a network
        with one output get the shape of the label, (rows,).
    optimizer : function or str
        ``optimizer(modelParams, parameters)`` returns a ``torch.optim.Optimizer``.
    metrics : function or str
        ``metrics(modelParams)`` returns a dict of names and ``f(output, label)``, with a value for
        each row.
    callbacks : function or str
        ``callbacks(modelParams)`` returns a list of objects, which may have ``on_train_begin()``,
        ``on_epoch_begin(epoch)``, ``on_train_batch_begin(step)``,
        ``on_train_batch_end(step, logs)``, ``on_epoch_end(epoch, logs)`` and ``on_train_end()``.
        Each object gets the attribute ``training``, with ``comm``, ``model``, ``optimizer`` and
        ``params``. The numbers of an epoch are those of all ranks, and the numbers of a batch those
        of the rank. A callback that sets its ``stop`` to True ends the training after the epoch.
        Checkpoints keep ``state_dict()``, where there is one, and ``load_state_dict(state)`` is
        called after ``on_train_begin()``.
    trainStep : function or str
        ``trainStep(training, batch)`` takes a step: ``batch`` has ``inputs``, ``label``,
        ``weight``, ``rows`` and ``total``. ``training.loss(output, batch)`` is the sum over the
        rows of the rank. Divide it by ``batch.total``, because ``optimizer.step()`` adds up the
        gradients of the ranks. Return ``training.sums(output, batch, loss)``, or a dict with the
        sum ``"loss"``.

    Examples
    --------
    >>> from sparkring.spark.ml import TorchEstimator
    >>> estimator = TorchEstimator(
    ...     model="nets:make", loss="nets:loss", optimizer="nets:adam", modelParams={"width": 32},
    ...     inputCols=["features"], labelCol="label", batchSize=64, epochs=10, validation=0.2,
    ... )
    >>> model = estimator.fit(frame)
    >>> model.transform(frame).select("prediction")

    In ``nets.py``:

    >>> def make(params):
    ...     return torch.nn.Sequential(torch.nn.Linear(8, params["width"]), torch.nn.ReLU(),
    ...                                torch.nn.Linear(params["width"], 1))
    >>> def loss(params):
    ...     return torch.nn.MSELoss()
    >>> def adam(params, parameters):
    ...     return torch.optim.Adam(parameters, lr=0.01)
    """

    __module__ = "sparkring.spark.ml"
    _framework = "torch"
    _model_type = TorchModel
