# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Compression: tensors travel in a smaller type."""

from __future__ import annotations

from typing import Any

import torch


class NoneCompressor:
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor to send, and what `decompress` needs."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Return the received tensor in its first type."""
        return tensor


def _narrow(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, Any]:
    wide = tensor.dtype.is_floating_point and tensor.dtype.itemsize > dtype.itemsize
    return (tensor.to(dtype), tensor.dtype) if wide else (tensor, None)


def _widen(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
    return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor:
    """Sends floating-point tensors as float16."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor to send, and what `decompress` needs."""
        return _narrow(tensor, torch.float16)

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Return the received tensor in its first type."""
        return _widen(tensor, ctx)


class BF16Compressor:
    """Sends floating-point tensors as bfloat16."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor to send, and what `decompress` needs."""
        return _narrow(tensor, torch.bfloat16)

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Return the received tensor in its first type."""
        return _widen(tensor, ctx)


class Compression:
    """The compressions: ``none``, ``fp16`` and ``bf16``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
