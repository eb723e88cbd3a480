# SPDX-License-Identifier: Apache-2.0
"""The functions of the estimators in ml, which are saved by their import paths."""

from __future__ import annotations

import os
import signal

import numpy as np


def dense(params):
    """Make two layers."""
    from torch import nn

    width = params.get("width", 8)
    first = nn.Linear(params.get("inputs", 3), width)
    return nn.Sequential(first, nn.Tanh(), nn.Linear(width, params.get("outputs", 1)))


def counting(params):
    """Make a network with a statistic: the number of rows that it has seen."""
    import torch

    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = dense(params)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            if self.training:
                self.seen += len(x)
            return self.layers(x)

    return Counting()


def square(params):
    from torch import nn

    return nn.MSELoss()


def entropy(params):
    from torch import nn

    return nn.CrossEntropyLoss()


def sgd(params, parameters):
    import torch

    return torch.optim.SGD(parameters, lr=params.get("rate", 0.1), momentum=0.9)


def adam(params, parameters):
    import torch

    return torch.optim.Adam(parameters, lr=params.get("rate", 0.01))


# ---- Inputs and outputs of several types


def several(params):
    """Take a number, a whole number, a matrix and an image."""
    import torch

    class Several(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(5, 2)
            self.last = torch.nn.Linear(1 + 2 + 6 + 4, 3)

        def forward(self, number, code, matrix, image):
            assert code.dtype == torch.int64
            assert matrix.shape[1:] == (2, 3)
            parts = [number[:, None], self.embedding(code), matrix.flatten(1), image.flatten(1)]
            return self.last(torch.cat(parts, 1))

    return Several()


def pixels(arrays):
    """Decode images of 2 x 2 bytes."""
    image = np.stack([np.frombuffer(each, np.uint8) for each in arrays["image"]])
    return {**arrays, "image": (image / 255).astype(np.float32).reshape(-1, 2, 2)}


def scores(output):
    """Return a column of each type."""
    return {
        "class": output.argmax(1),
        "top": output.max(1),
        "scores": output,
        "vector": output.astype(np.float64),
        "sure": output.max(1) > 0,
        "name": np.array(["a", "b", "c"])[output.argmax(1)],
    }


# ---- Keras


def keras_dense(params):
    import keras

    layers = [
        keras.layers.Dense(8, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01)),
        keras.layers.GaussianNoise(1e-30),  # too little to matter
        keras.layers.Dense(params.get("outputs", 1)),
    ]
    return keras.Sequential([keras.Input((3,)), *layers])


def keras_unbuilt(params):
    import keras

    return keras.Sequential([keras.layers.Dense(1)])


def keras_square(params):
    return "mse"


def keras_sgd(params):
    import keras

    return keras.optimizers.SGD(params.get("rate", 0.1), momentum=0.9)


def keras_error(params):
    import keras

    return [keras.metrics.MeanAbsoluteError(name="error")]


# ---- Callbacks and steps of one's own


class Spoil:
    """Adds 10 to all outputs in epochs 2 and 3, without learning any more."""

    def on_epoch_begin(self, epoch):
        if epoch >= 2:
            *_, bias = self.training.model.parameters()
            bias.data += 10
            for group in self.training.optimizer.param_groups:
                group["lr"] = 0.0


def spoil(params):
    return [Spoil()]


class Record:
    """Writes the calls of rank 0 to a file, and ends the training after an epoch."""

    def __init__(self, params):
        self.path, self.last = params["record"], params["last"]

    def note(self, *words):
        if self.training.comm.rank == 0:
            with open(self.path, "a") as file:
                print(*words, file=file)

    def on_train_begin(self):
        self.note("begin")

    def on_train_batch_end(self, step, logs):
        self.note("step", step, sorted(logs))

    def on_epoch_end(self, epoch, logs):
        self.note("epoch", epoch, sorted(logs))
        self.stop = epoch == self.last

    def on_train_end(self):
        self.note("end")


def record(params):
    return [Record(params)]


def absolute(params):
    return {"error": lambda output, label: (output - label).abs()}


def clipped_step(training, batch):
    """Take a step with gradients that are cut off after their sum over the ranks."""
    import torch

    training.optimizer.zero_grad()
    loss = training.loss(training.model(*batch.inputs), batch)
    (loss / batch.total).backward()
    training.optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(training.model.parameters(), training.params["most"])
    with training.optimizer.skip_synchronize():
        training.optimizer.step()
    return {"loss": loss.item(), "own": len(batch.label)}


def kill_in_step(training):
    """Kill an executor in the sixth step of the first attempt. Rank 0 counts steps in a file."""
    comm = training.comm
    if comm.rank == 0 and "record" in training.params:
        with open(training.params["record"], "a") as file:
            print(comm.attempt, file=file)
    training.steps = getattr(training, "steps", 0) + 1
    if comm.attempt == 0 and comm.rank == 1 and training.steps == 6:
        kill_executor()


def kill_executor():
    process = os.getpid()
    while "java" not in os.readlink(f"/proc/{process}/exe"):
        with open(f"/proc/{process}/stat") as file:
            process = int(file.read().rpartition(")")[2].split()[1])
    os.kill(process, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)  # before the rank takes another step


def fatal_step(training, batch):
    from sparkring.spark.ml._torch_learner import take_step

    kill_in_step(training)
    return take_step(training, batch)


def keras_stop(params):
    """Halve the learning rate after each epoch, and end the training after the third."""
    import keras

    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            assert {"loss", "error", "val_loss"} <= set(logs)
            self.model.optimizer.learning_rate = self.model.optimizer.learning_rate / 2
            self.model.stop_training = epoch == 2

    return [Stop()]


def keras_fatal_step(training, batch):
    from sparkring.spark.ml._keras_learner import take_step

    if not hasattr(training, "steps"):
        (state,) = (v for v in training.model.variables if v.name == "seed_generator_state")
        states = training.comm.allgather_object(np.array(state.numpy()).tolist())
        assert len(set(map(tuple, states))) == training.comm.size  # other noise on each rank
    kill_in_step(training)
    return take_step(training, batch)


class Schedule:
    """Halves the learning rate after each epoch; kills an executor in epoch 1 of attempt 1."""

    def on_train_begin(self):
        import torch

        self.schedule = torch.optim.lr_scheduler.StepLR(self.training.optimizer, 1, 0.5)

    def on_epoch_end(self, epoch, logs):
        self.schedule.step()
        if epoch == self.training.comm.attempt == self.training.comm.rank == 1:
            kill_executor()

    def state_dict(self):
        return self.schedule.state_dict()

    def load_state_dict(self, state):
        self.schedule.load_state_dict(state)


def fatal_schedule(params):
    return [Schedule()]


def likeliest(scores):
    return scores.argmax(1)


def column(arrays):
    """Make a matrix of one column."""
    return {"x": arrays["x"][:, None]}
