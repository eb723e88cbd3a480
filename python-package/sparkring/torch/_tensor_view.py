# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Tensors as NumPy arrays that share their memory.

Collectives that move data see bytes, so they serve every type of element. Reductions see elements.
"""

from __future__ import annotations

from typing import Any

import torch

# Types that the core reduces and NumPy has.
NATIVE = frozenset(
    (
        torch.bool,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    )
)


def check(tensor: torch.Tensor) -> None:
    """Refuse a tensor whose memory the core cannot reach."""
    if not tensor.is_cpu or tensor.layout is not torch.strided:
        raise ValueError(
            f"sparkring moves dense tensors of the CPU and of NVIDIA's GPUs, and this tensor is"
            f" {tensor.layout} on {tensor.device}: move it, or use a backend for its device"
        )


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a copy of it whose elements lie one after the other."""
    check(tensor)
    if tensor.is_complex():
        tensor = tensor.resolve_conj()
    return tensor.contiguous()


def is_plain(tensor: torch.Tensor) -> bool:
    """Tell whether the core can use a tensor itself: `plain` returns it, without a gradient."""
    return (
        tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not (tensor.requires_grad or tensor.is_complex())
    )


def elements(tensor: torch.Tensor) -> tuple[Any, str | None]:
    """Return the array of a plain tensor, and the name of its type where NumPy lacks the type."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.uint16).numpy(), "bfloat16"
    return tensor.numpy(), None


def octets(tensor: torch.Tensor) -> Any:
    """Return the bytes of a plain tensor, one after the other."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor.reshape(-1).view(torch.uint8).numpy()


def octet_rows(tensor: torch.Tensor, rows: int) -> Any:
    """Return the bytes of a plain tensor as rows of the same length."""
    return octets(tensor).reshape(rows, tensor.numel() * tensor.element_size() // rows)


def join(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Concatenate tensors of the same type, without their shapes."""
    return torch.cat([plain(tensor).detach().reshape(-1) for tensor in tensors])


def deal(flat: torch.Tensor, tensors: list[torch.Tensor]) -> None:
    """Copy a flat tensor into tensors, in their order; the counterpart of `join`."""
    sizes = [tensor.numel() for tensor in tensors]
    for tensor, part in zip(tensors, flat.split(sizes)):
        tensor.detach().copy_(part.view(tensor.shape))
