# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""A sampler that goes on in the middle of an epoch, on another number of ranks, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import Sampler

from sparkring._horovod import context, ranks


class ElasticSampler(Sampler):
    """Deals samples to the ranks, and leaves out those that were processed in this epoch.

    All ranks get the same number of samples: the last ones are repeated where they cannot be dealt
    equally.

    Parameters
    ----------
    dataset : Dataset
        With a length.
    shuffle : bool
        Whether each epoch has an order of its own.
    seed : int
        Of the order, the same on all ranks.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_num = 0  # samples that all ranks have processed, as this rank estimates
        self.processed_indices: set[int] = set()
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch, in which no sample was processed.

        Parameters
        ----------
        epoch : int
            The number of the epoch, which with ``seed`` gives the order.
        """
        self.epoch, self.processed_num = epoch, 0
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Count the samples of a batch of this rank as processed.

        Parameters
        ----------
        batch_idx : int
            The number of the batch since samples were dealt last: by `set_epoch`, by `reset` or by
            `load_state_dict`.
        batch_size : int
            The samples of each batch.
        """
        self.record_indices(self.indices[batch_idx * batch_size : (batch_idx + 1) * batch_size])

    def record_indices(self, indices: Iterable[int]) -> None:
        """Count samples as processed, by their places in the data set.

        Parameters
        ----------
        indices : iterable of int
            Places in the data set.
        """
        added = set(indices) - self.processed_indices
        self.processed_num += len(added) * self.num_replicas
        self.processed_indices |= added

    def reset(self) -> None:
        """Deal the samples that are left to the ranks."""
        known = context.is_initialized()
        self.rank, self.num_replicas = (ranks.rank(), ranks.size()) if known else (0, 1)
        count = len(self.dataset)
        order: Any = range(count)
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            order = torch.randperm(count, generator=generator).tolist()
        left = [index for index in order if index not in self.processed_indices]
        missing = -len(left) % self.num_replicas if left else 0
        while missing > 0:
            more = left[:missing]
            left += more
            missing -= len(more)
        self.indices = left[self.rank :: self.num_replicas]

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and the processed samples of this rank.

        Returns
        -------
        dict
            ``epoch``, ``processed_num`` and ``processed_indices``.
        """
        return {
            "epoch": self.epoch,
            "processed_num": self.processed_num,
            "processed_indices": set(self.processed_indices),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue an epoch: deal its samples that were not processed.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` or `merge` has returned.
        """
        self.epoch = state_dict["epoch"]
        self.processed_indices = set(state_dict["processed_indices"])
        self.processed_num = state_dict.get("processed_num", len(self.processed_indices))
        self.reset()

    @staticmethod
    def merge(states: list[dict[str, Any]]) -> dict[str, Any]:
        """Join the processed samples of several ranks, in the epoch of rank 0.

        Parameters
        ----------
        states : list of dict
            What `state_dict` has returned on each rank. States of other epochs than that of the
            first are left out.

        Returns
        -------
        dict
            A state for `load_state_dict`.
        """
        epoch = states[0]["epoch"]
        alike = [each["processed_indices"] for each in states if each["epoch"] == epoch]
        union = set().union(*alike)
        return {"epoch": epoch, "processed_num": len(union), "processed_indices": union}

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)
