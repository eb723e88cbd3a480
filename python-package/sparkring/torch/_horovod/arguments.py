# SPDX-License-Identifier: Apache-2.0
"""Checks of tensors, lists of them, optimizers and compressions."""

from __future__ import annotations

from typing import Any

import torch

from sparkring._horovod.arguments import check_compression, check_type
from sparkring._horovod.errors import ArgumentError


def check_tensor(tensor: object) -> None:
    """Accept a tensor."""
    check_type("tensor", tensor, torch.Tensor, "a torch.Tensor")


def check_tensors(tensors: Any) -> None:
    """Accept a list of tensors."""
    if not hasattr(tensors, "__len__"):
        raise ArgumentError(
            f"tensors is of type {type(tensors).__name__}: pass a list of torch.Tensor"
        )
    for tensor in tensors:
        check_tensor(tensor)


def check_optimizer(optimizer: object) -> None:
    """Accept an optimizer of PyTorch."""
    check_type("optimizer", optimizer, torch.optim.Optimizer, "an optimizer of PyTorch")


def compress(compression: Any, tensors: Any) -> list[tuple[torch.Tensor, Any]]:
    """Return each tensor as it travels, and what the decompression needs."""
    check_compression(compression)
    check_tensors(tensors)
    return [compression.compress(tensor) for tensor in tensors]
