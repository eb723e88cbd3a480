# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Checks of collectives whose tensor on one side has the parts of all ranks."""

from __future__ import annotations

import torch


def check_all_gather(output: torch.Tensor, inp: torch.Tensor, size: int) -> None:
    """Refuse an output that does not hold the tensors of all ranks."""
    if output.numel() != inp.numel() * size or output.dtype != inp.dtype:
        raise ValueError(
            f"all_gather needs an output of {inp.numel() * size} elements of {inp.dtype}, not"
            f" {output.numel()} of {output.dtype}"
        )


def check_reduce_scatter(output: torch.Tensor, inp: torch.Tensor, size: int) -> None:
    """Refuse an input that has not a part like the output for each rank."""
    if inp.numel() != output.numel() * size or inp.dtype != output.dtype:
        raise ValueError(
            f"reduce_scatter takes {output.numel() * size} elements of {output.dtype} for an"
            f" output of {output.numel()}, not {inp.numel()} of {inp.dtype}"
        )
