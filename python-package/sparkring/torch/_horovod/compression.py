# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Compression: tensors travel in a smaller type."""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class NoneCompressor:
    """Sends tensors as they are."""

    _dtype: ClassVar[torch.dtype | None] = None

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Return the tensor to send, and what `decompress` needs."""
        floating, dtype = tensor.dtype.is_floating_point, cls._dtype
        if dtype is None or not floating or tensor.dtype.itemsize <= dtype.itemsize:
            return tensor, None
        return tensor.to(dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Return the received tensor in its first type."""
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(NoneCompressor):
    """Sends floating-point tensors as float16."""

    _dtype = torch.float16


class BF16Compressor(NoneCompressor):
    """Sends floating-point tensors as bfloat16."""

    _dtype = torch.bfloat16


class Compression:
    """The compressions: ``none``, ``fp16`` and ``bf16``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
