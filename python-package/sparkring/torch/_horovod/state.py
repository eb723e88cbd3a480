# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""States of models, optimizers and samplers for elastic training."""

from __future__ import annotations

import copy
from typing import Any

import torch

from sparkring._horovod.elastic import ObjectState
from sparkring._horovod.objects import allgather_object, broadcast_object
from sparkring.torch._horovod.parameters import broadcast_optimizer_state, broadcast_parameters
from sparkring.torch._horovod.sampler import ElasticSampler
from sparkring.torch._horovod.shared_state import load_in_place


class TorchState(ObjectState):
    """The state of models, optimizers, samplers and plain objects.

    Parameters
    ----------
    model : Module
    optimizer : Optimizer
    **kwargs
        Further attributes and their first values. Modules, optimizers, schedulers and samplers, or
        whatever has ``state_dict`` and ``load_state_dict``, are saved by these methods.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        given = {"model": model, "optimizer": optimizer, **kwargs}
        self._stateful = {
            name: value for name, value in given.items() if hasattr(value, "load_state_dict")
        }
        for name, value in self._stateful.items():
            setattr(self, name, value)
        self._dicts: dict[str, Any] = {}
        super().__init__(
            **{name: value for name, value in kwargs.items() if name not in self._stateful}
        )

    def _keep(self) -> None:
        super()._keep()
        self._dicts = {
            name: copy.deepcopy(value.state_dict()) for name, value in self._stateful.items()
        }

    def _go_back(self) -> None:
        super()._go_back()
        for name, saved in self._dicts.items():
            value, copied = self._stateful[name], copy.deepcopy(saved)
            if isinstance(value, torch.optim.Optimizer):
                load_in_place(value, value.load_state_dict, copied)
            else:
                value.load_state_dict(copied)

    def sync(self) -> None:
        """Give all ranks the state of rank 0, or of one that lives if a rank was replaced.

        Samplers join what all ranks have processed.
        """
        super().sync()
        for name, value in self._stateful.items():
            self._sync_one(name, value)
        self._keep()

    def _sync_one(self, name: str, value: Any) -> None:
        if isinstance(value, torch.nn.Module):
            broadcast_parameters(value.state_dict(), self._root)
        elif isinstance(value, torch.optim.Optimizer):
            broadcast_optimizer_state(value, self._root)
        elif isinstance(value, ElasticSampler):
            states = allgather_object(value.state_dict(), f"elastic.{name}")
            value.load_state_dict(ElasticSampler.merge(states))
        else:
            value.load_state_dict(
                broadcast_object(value.state_dict(), self._root, f"elastic.{name}")
            )

    def reset(self) -> None:
        """Deal the samples that are left out to the ranks."""
        for value in self._stateful.values():
            if isinstance(value, ElasticSampler):
                value.reset()

    def commit(self) -> None:
        """Save the state, in memory and in the checkpoint of `run`.

        With a sampler and a checkpoint all ranks call it at the same step: rank 0 writes the
        samples that all ranks have processed.
        """
        super().commit()

    def dump(self) -> Any:
        """Return the last copy. Collective if the state has a sampler.

        Returns
        -------
        dict
            Plain objects, and the dictionaries of states by name.
        """
        dicts = dict(self._dicts)
        for name, value in self._stateful.items():
            if isinstance(value, ElasticSampler):
                states = allgather_object(value.state_dict(), f"elastic.{name}")
                dicts[name] = ElasticSampler.merge(states)
        return {"objects": self._saved, "dicts": dicts}

    def load(self, saved: Any) -> None:
        """Take a copy out of a checkpoint for the last one, and go back to it.

        Parameters
        ----------
        saved : dict
            What `dump` has returned.
        """
        self._dicts.update(saved["dicts"])
        super().load(saved["objects"])
