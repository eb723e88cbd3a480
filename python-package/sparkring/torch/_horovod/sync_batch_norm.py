# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls, allow-untyped-defs
"""Batch normalization by the statistics of the batches of all ranks.

The ranks add up counts and sums, and then squares of differences to the mean. Both sums are
differentiable, so gradients flow through the statistics to every rank.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from sparkring._horovod import ops
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.reduction import Reduction
from sparkring.torch._horovod.autograd import Allreduce


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all ranks, which may differ in length.

    In evaluation it normalizes by its own statistics, as PyTorch's does.

    Parameters
    ----------
    num_features : int
        The length of the second dimension of inputs.
    eps : float
        Is added to the variance.
    momentum : float or None
        The weight of a batch in the running statistics; None for the average of all batches.
    affine : bool
        Whether the module learns a scale and a shift of each feature.
    track_running_stats : bool
        Whether the module keeps running statistics, for evaluation.
    process_set : ProcessSet
        The ranks whose batches are normalized together; all by default.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self._process_set = process_set

    def _check_input_dim(self, input: Any) -> None:  # noqa: A002 (PyTorch's name)
        if input.dim() < 2:
            raise ValueError(f"the input has {input.dim()} dimension: pass two or more")

    def forward(self, input: Any) -> Any:  # noqa: A002 (PyTorch's name)
        """Normalize the input. Collective, except in evaluation by running statistics.

        Parameters
        ----------
        input : Tensor of shape (rows, num_features, ...)

        Returns
        -------
        Tensor
            Of the shape and type of the input.

        Raises
        ------
        ValueError
            For an input of one dimension, and when the batches of all ranks have one value a
            feature.
        """
        self._check_input_dim(input)
        uses_batch = self.training or self.running_mean is None
        if not uses_batch or self._process_set.size() == 1:
            return super().forward(input)
        axes = [axis for axis in range(input.dim()) if axis != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        wide = input.double() if input.dtype is torch.float64 else input.float()
        count = wide.new_full((1,), float(input.numel() // input.size(1)))
        sums = self._add_up(torch.cat([count, wide.sum(axes)]))
        total = sums[0].detach()
        if total.item() < 2:
            raise ValueError("the batches of all ranks have one value a feature: pass more")
        mean = sums[1:] / total
        apart = wide - mean.view(shape)
        variance = self._add_up((apart * apart).sum(axes)) / total
        self._track(mean.detach(), variance.detach() * total / (total - 1))
        scale = (variance + self.eps).rsqrt()
        result = apart * scale.view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(input.dtype)

    def _add_up(self, x: Any) -> Any:
        return Allreduce.apply(x, Reduction(op=ops.Sum, process_set=self._process_set))

    def _track(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        """Move the running statistics towards those of a batch."""
        if not self.training or self.running_mean is None:
            return
        self.num_batches_tracked.add_(1)
        part = self.momentum
        if part is None:
            part = 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), part)
        self.running_var.lerp_(variance.to(self.running_var.dtype), part)
