# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls, allow-subclassing-any
"""Steps and predictions with Keras 3, on any of its backends.

The optimizer averages the gradients of the ranks. So the loss of a rank is multiplied by the number
of ranks and divided by the rows of all ranks, which the weights of the rows do. Regularization is
averaged, and stays as it is. All batches are full, since a new shape costs TensorFlow and JAX a
compilation.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._communicator import Communicator
from sparkring._core import InvalidError
from sparkring.spark.ml import _output as output_of

if TYPE_CHECKING:
    from sparkring.spark.ml._batch import Batch
    from sparkring.spark.ml._plan import Plan

WEIGHTS = "model.keras"


class Learner:
    """A network of Keras that all ranks train.

    A function for the Param ``trainStep`` gets it.

    Attributes
    ----------
    comm : Communicator
        The communicator of the ranks.
    model : keras.Model
        The compiled network. Its optimizer averages the gradients of all ranks.
    optimizer : keras.optimizers.Optimizer
        The optimizer.
    params : dict
        The Param ``modelParams``.
    """

    pads = True

    def __init__(self, comm: Communicator, plan: Plan, sample: list[Any]) -> None:
        keras = import_keras(plan)
        import sparkring.keras as hvd

        hvd.init(comm)
        self.comm, self.plan, self.params = comm, plan, plan.modelParams
        self._saved = make_model(plan)  # is saved, without the optimizer
        keras.utils.set_random_seed(plan.seed)
        self.model = make_model(plan)
        output = self.model(inputs_of(sample), training=False)  # which makes the weights
        self.outputs = output_of.describe(
            output_of.arrays(output, plan.postprocess, plan.outputCols)
        )
        self.optimizer = hvd.DistributedOptimizer(
            plan.optimizer(plan.modelParams), compression=getattr(hvd.Compression, plan.compression)
        )
        self.model.compile(
            optimizer=self.optimizer,
            loss=_checked(plan.loss(plan.modelParams)),
            weighted_metrics=plan.metrics(plan.modelParams) if plan.metrics else None,
        )
        self.optimizer.build(self.model.trainable_variables)
        _assign(self.model.variables, comm.broadcast_object(_values(self.model.variables)))
        self._take_step = plan.trainStep or take_step
        self.callbacks = keras.callbacks.CallbackList(
            plan.callbacks(plan.modelParams) if plan.callbacks else [],
            model=self.model,
            epochs=plan.epochs,
        )

    # ---- Steps

    def begin_epoch(self, epoch: int, step: int) -> None:
        """Seed the random numbers of this process and of layers, which differ between ranks."""
        seed = np.random.SeedSequence((self.plan.seed, epoch, step, self.comm.rank))
        np.random.seed(int(seed.generate_state(1)[0]))
        states = [each for each in self.model.variables if each.name == "seed_generator_state"]
        for state, numbers in zip(states, seed.generate_state(2 * len(states)).reshape(-1, 2)):
            state.assign(numbers >> 1)  # of 32 bits, with or without a sign

    def train(self, batch: Batch) -> dict[str, Any]:
        """Take a step; return sums over the rows."""
        self.model.reset_metrics()
        # Statistics, such as those of batch normalization, are not those of padding.
        statistics = [] if batch.rows else self.model.non_trainable_variables
        values = _values(statistics)
        found: dict[str, Any] = self._take_step(self, batch)
        _assign(statistics, values)
        return found

    def evaluate(self, batch: Batch) -> dict[str, Any]:
        """Return sums over the rows."""
        self.model.reset_metrics()
        logs = self.model.test_on_batch(
            inputs_of(batch.inputs),
            batch.label,
            sample_weight=self.sample_weight(batch),
            return_dict=True,
        )
        return self.sums(logs, batch)

    def sample_weight(self, batch: Batch) -> Any:
        """Return weights with which the mean loss of the ranks is that of all rows."""
        rows = len(batch.weight)
        return (batch.weight * (rows * self.comm.size / batch.total)).astype(np.float32)

    def sums(self, logs: dict[str, Any], batch: Batch) -> dict[str, Any]:
        """Return the loss and the metrics, summed over the rows with their weights."""
        weight = float(batch.weight.sum())
        found = {name: float(number) * weight for name, number in logs.items()}
        found["loss"] = float(logs["loss"]) * batch.total / self.comm.size
        return found

    # ---- State

    def close(self) -> None:
        """End the reductions. A collective."""
        import sparkring.keras as hvd

        hvd.shutdown()

    def synchronize(self) -> None:
        """Average the statistics of the ranks, such as those of batch normalization."""
        found = [
            each
            for each in self.model.non_trainable_variables
            if str(each.dtype).startswith("float")
        ]
        if self.comm.size > 1 and found:
            _assign(found, [self.comm.allreduce(each, op="avg") for each in _values(found)])

    def learning_rate(self) -> float:
        """Return the learning rate."""
        return float(_array(self.optimizer.learning_rate))

    def is_stopped(self) -> bool:
        """Tell whether a callback ends the training."""
        return bool(self.model.stop_training)

    def weights(self) -> bytes:
        """Write the network with its weights, as ``model.save`` does."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / WEIGHTS
            self._saved.set_weights(self.model.get_weights())
            self._saved.save(path)
            return path.read_bytes()

    def state(self) -> dict[str, Any]:
        """Return what `restore` takes."""
        return {
            "model": _values(self.model.variables),
            "optimizer": _values(self.optimizer.variables),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
        _assign(self.model.variables, state["model"])
        _assign(self.optimizer.variables, state["optimizer"])


def take_step(training: Learner, batch: Batch) -> dict[str, Any]:
    """Take a step; the Param ``trainStep`` replaces it."""
    logs = training.model.train_on_batch(
        inputs_of(batch.inputs),
        batch.label,
        sample_weight=training.sample_weight(batch),
        return_dict=True,
    )
    return training.sums(logs, batch)


def inputs_of(inputs: list[Any]) -> Any:
    """Return what a network of Keras takes: an array, or a list of arrays."""
    return inputs[0] if len(inputs) == 1 else inputs


def _checked(loss: Any) -> Any:
    """Refuse a loss that is no mean over the rows."""
    reduction = getattr(loss, "reduction", "sum_over_batch_size")
    if reduction != "sum_over_batch_size":
        raise InvalidError(
            f"loss has reduction={reduction!r}: leave it out, because the rows of all ranks are"
            " averaged, with their weights"
        )
    return loss


def _array(value: Any) -> Any:
    import keras

    return np.array(keras.ops.convert_to_numpy(value))


def _values(variables: list[Any]) -> list[Any]:
    return [_array(each) for each in variables]


def _assign(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values):
        variable.assign(value)


# ---- Predictions ---------------------------------------------------------------------------------


class Predictor:
    """A network of Keras that predicts."""

    def __init__(self, plan: Plan, weights: bytes) -> None:
        import_keras(plan)
        self.plan = plan
        self.model = make_model(plan)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / WEIGHTS
            path.write_bytes(weights)
            self.model.load_weights(path)

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Return the outputs of some rows."""
        output = self.model.predict_on_batch(inputs_of(inputs))
        return output_of.arrays(output, self.plan.postprocess, self.plan.outputCols)


def import_keras(plan: Plan) -> Any:
    """Import Keras with the backend of the settings. Later children of this process choose anew."""
    before = os.environ.get("KERAS_BACKEND")
    if plan.backend is not None:
        os.environ["KERAS_BACKEND"] = plan.backend
    try:
        import keras
    finally:
        os.environ.pop("KERAS_BACKEND", None)
        if before is not None:
            os.environ["KERAS_BACKEND"] = before

    if plan.backend not in (None, keras.backend.backend()):
        raise InvalidError(
            f"backend is {plan.backend!r}, and this process has imported Keras with"
            f" {keras.backend.backend()!r} already: use one backend in a session of Spark"
        )
    return keras


def make_model(plan: Plan) -> Any:
    """Make the network."""
    import keras

    model = plan.model(plan.modelParams)
    if not isinstance(model, keras.Model):
        raise InvalidError(
            f"model returned an object of type {type(model).__name__}: return a keras.Model"
        )
    if not model.built:
        raise InvalidError(
            "model returned a network without weights, into which no weights can be loaded: begin"
            " it with keras.Input(shape), or call model.build((None, ...))"
        )
    return model
