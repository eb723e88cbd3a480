# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls, allow-subclassing-any
"""Steps and predictions with PyTorch."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import sparkring.torch as hvd
from sparkring._communicator import Communicator
from sparkring._core import InvalidError
from sparkring.data._batch import tensor
from sparkring.spark.ml import _output as output_of

if TYPE_CHECKING:
    from sparkring.spark.ml._batch import Batch
    from sparkring.spark.ml._plan import Plan


class Learner:
    """A network of PyTorch that all ranks train.

    A function for the Param ``trainStep`` gets it.

    Attributes
    ----------
    comm : Communicator
        The communicator of the ranks.
    model : torch.nn.Module
        The network.
    optimizer : torch.optim.Optimizer
        The optimizer. Its ``step()`` adds up the gradients of all ranks first.
    params : dict
        The Param ``modelParams``.
    """

    pads = False

    def __init__(self, comm: Communicator, plan: Plan, sample: list[Any]) -> None:
        hvd.init(comm)
        self.comm, self.plan, self.params = comm, plan, plan.modelParams
        torch.manual_seed(plan.seed)
        self.model = make_model(plan)
        self.device = device_of(self.model)
        self.outputs = output_of.describe(predict(self.model, sample, plan))
        self._loss = _without_reduction(plan.loss(plan.modelParams))
        self.metrics = plan.metrics(plan.modelParams) if plan.metrics else {}
        self.optimizer = hvd.DistributedOptimizer(
            plan.optimizer(plan.modelParams, self.model.parameters()),
            self.model.named_parameters(),
            op=hvd.Sum,
            compression=getattr(hvd.Compression, plan.compression),
        )
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        self._take_step = plan.trainStep or take_step
        self.callbacks = Callbacks(self, plan.callbacks(plan.modelParams) if plan.callbacks else [])

    def loss(self, output: Any, batch: Batch) -> Any:
        """Return the loss of the rows of this rank, a sum with their weights.

        Divide it by ``batch.total`` before ``backward()``.
        """
        values = self._loss(output_of.squeeze(output, batch.label.ndim), batch.label)
        return (self._rows(values, "loss") * batch.weight).sum()

    # ---- Steps

    def begin_epoch(self, epoch: int, step: int) -> None:
        """Seed the random numbers of the network, which differ between ranks."""
        seed = np.random.SeedSequence((self.plan.seed, epoch, step, self.comm.rank))
        torch.manual_seed(int(seed.generate_state(1)[0]))

    def train(self, batch: Batch) -> dict[str, Any]:
        """Take a step; return sums over the rows."""
        self._to_tensors(batch)
        self.model.train()
        # Statistics, such as those of batch normalization, are not those of padding.
        buffers = [] if batch.rows else [(each, each.clone()) for each in self.model.buffers()]
        found: dict[str, Any] = self._take_step(self, batch)
        for buffer, value in buffers:
            buffer.copy_(value)
        return found

    def evaluate(self, batch: Batch) -> dict[str, Any]:
        """Return sums over the rows."""
        self._to_tensors(batch)
        self.model.eval()
        with torch.no_grad():
            output = self.model(*batch.inputs)
            return self.sums(output, batch, self.loss(output, batch))

    def sums(self, output: Any, batch: Batch, loss: Any) -> dict[str, Any]:
        """Return the loss and the metrics, summed over the rows with their weights."""
        found = {"loss": loss.item()}
        output = output_of.squeeze(output, batch.label.ndim)
        for name, metric in self.metrics.items():
            rows = self._rows(metric(output, batch.label), name)
            found[name] = (rows * batch.weight).sum().item()
        return found

    def _rows(self, values: Any, name: str) -> Any:
        rows = len(self._labels)
        if not torch.is_tensor(values) or values.ndim == 0 or len(values) != rows:
            shape = tuple(values.shape) if torch.is_tensor(values) else type(values).__name__
            raise InvalidError(
                f"{name} returned {shape} for {rows} rows: it must return a value for each row, as"
                " with reduction='none', so that rows can have weights"
            )
        return values.reshape(rows, -1).to(torch.get_default_dtype()).mean(1)

    def _to_tensors(self, batch: Batch) -> None:
        batch.inputs = [tensor(values).to(self.device) for values in batch.inputs]
        batch.label = self._labels = tensor(batch.label).to(self.device)
        batch.weight = tensor(batch.weight).to(self.device)

    # ---- State

    def close(self) -> None:
        """End the reductions. A collective."""
        hvd.shutdown()

    def synchronize(self) -> None:
        """Average the statistics of the ranks, such as those of batch normalization."""
        buffers = [each for each in self.model.buffers() if each.is_floating_point()]
        if self.comm.size > 1 and buffers:
            hvd.grouped_allreduce_(buffers, op=hvd.Average)

    def learning_rate(self) -> float:
        """Return the learning rate."""
        return float(self.optimizer.param_groups[0]["lr"])

    def is_stopped(self) -> bool:
        """Tell whether a callback ends the training."""
        return self.callbacks.is_stopped

    def weights(self) -> bytes:
        """Write the weights, as ``torch.save`` does."""
        return _written({name: each.cpu() for name, each in self.model.state_dict().items()})

    def state(self) -> dict[str, Any]:
        """Return what `restore` takes."""
        return {
            "weights": self.weights(),
            "optimizer": _written(self.optimizer.state_dict()),
            "callbacks": self.callbacks.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was called."""
        load_weights(self.model, state["weights"])
        file = io.BytesIO(state["optimizer"])
        self.optimizer.load_state_dict(torch.load(file, map_location="cpu", weights_only=False))
        self.callbacks.restore(state["callbacks"])


def take_step(training: Learner, batch: Batch) -> dict[str, Any]:
    """Take a step; the Param ``trainStep`` replaces it."""
    training.optimizer.zero_grad()
    output = training.model(*batch.inputs)
    loss = training.loss(output, batch)
    (loss / batch.total).backward()
    training.optimizer.step()
    return training.sums(output, batch, loss)


def _written(value: Any) -> bytes:
    """Write tensors, of a GPU too, so that a process without PyTorch or GPU can pass them on."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _without_reduction(loss: Any) -> Any:
    if hasattr(loss, "reduction"):
        loss.reduction = "none"
    return loss


class Callbacks:
    """The callbacks of the user."""

    def __init__(self, training: Learner, callbacks: list[Any]) -> None:
        self._callbacks = list(callbacks)
        for each in self._callbacks:
            each.training = training

    @property
    def is_stopped(self) -> bool:
        """Whether a callback ends the training."""
        return any(getattr(each, "stop", False) for each in self._callbacks)

    def __getattr__(self, event: str) -> Any:
        """Return the call of all callbacks for an event, such as ``on_epoch_end``."""
        if not event.startswith("on_"):
            raise AttributeError(event)

        def call(*arguments: Any) -> None:
            for each in self._callbacks:
                if hasattr(each, event):
                    getattr(each, event)(*arguments)

        return call

    def state(self) -> list[Any]:
        """Return the states of callbacks that have one."""
        return [
            each.state_dict() if hasattr(each, "state_dict") else None for each in self._callbacks
        ]

    def restore(self, states: list[Any]) -> None:
        """Restore the states of callbacks."""
        for each, state in zip(self._callbacks, states):
            if state is not None:
                each.load_state_dict(state)


# ---- Predictions ---------------------------------------------------------------------------------


class Predictor:
    """A network of PyTorch that predicts."""

    def __init__(self, plan: Plan, weights: bytes) -> None:
        self.plan = plan
        self.model = make_model(plan)
        load_weights(self.model, weights)

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Return the outputs of some rows."""
        return predict(self.model, inputs, self.plan)


def make_model(plan: Plan) -> Any:
    """Make the network."""
    model = plan.model(plan.modelParams)
    if not isinstance(model, torch.nn.Module):
        raise InvalidError(
            f"model returned an object of type {type(model).__name__}: return a torch.nn.Module"
        )
    return model


def load_weights(model: Any, weights: bytes) -> None:
    """Load weights."""
    loaded = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    model.load_state_dict(loaded)


def device_of(model: Any) -> Any:
    """Return the device of the network, to which its function may have moved it."""
    return next((each.device for each in model.parameters()), torch.device("cpu"))


def predict(model: Any, inputs: list[Any], plan: Plan) -> list[Any]:
    """Return the outputs of some rows."""
    model.eval()
    device = device_of(model)
    with torch.no_grad():
        output = model(*(tensor(values).to(device) for values in inputs))
    return output_of.arrays(output, plan.postprocess, plan.outputCols)
