# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The collectives that reduce: allreduce, reduce, reduce_scatter and their variants."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from sparkring.torch import _reduction as reduction
from sparkring.torch import _sparse as sparse
from sparkring.torch import _tensor_view as view
from sparkring.torch._calls import After, Calls
from sparkring.torch._reduction import Reduction
from sparkring.torch._sizes import check_reduce_scatter
from sparkring.torch._work import Work

Tensors = list[torch.Tensor]


class Reductions(Calls):
    """Collectives of a group, under the names by which PyTorch calls them."""

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Work:
        """Reduce a tensor over all ranks, in place."""
        (tensor,) = tensors
        how = Reduction.asked(opts, tensor.dtype)
        if tensor.is_sparse:
            return self._allreduce_sparse(tensor, how)
        source = target = view.plain(tensor)
        source = how.scaled(source)
        after = None if target is tensor else lambda: _write(tensor, target)
        return self._reduce("allreduce", how, source, target, opts, tensors, after)

    def _allreduce_sparse(self, tensor: torch.Tensor, how: Reduction) -> Work:
        if how.name != "sum" or how.factor is not None:
            raise RuntimeError("sparkring adds sparse tensors, and has no other reduction of them")
        return self._now([tensor], lambda: tensor.copy_(sparse.allreduce(self._comm, tensor)))

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        """Reduce tensors of one type over all ranks, in place, as one call."""
        how = Reduction.asked(opts, tensors[0].dtype)
        if how.factor is not None or len({t.dtype for t in tensors}) > 1:
            single = _single(opts)
            return self._all([self.allreduce([tensor], single) for tensor in tensors], tensors)
        targets = [view.plain(tensor) for tensor in tensors]
        arrays, dtype = reduction.arrays(*targets)

        def after() -> None:
            for tensor, target in zip(tensors, targets):
                if tensor is not target:
                    _write(tensor, target)

        return self._call(
            opts,
            "allreduce_group",
            arrays,
            how.name,
            out=arrays,
            dtype=dtype,
            result=tensors,
            after=after,
        )

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        """Reduce a tensor over all ranks; the root gets the result."""
        (tensor,) = tensors
        how = Reduction.asked(opts, tensor.dtype)
        source = view.plain(tensor)
        is_root = opts.rootRank == self._comm.rank
        target = source if is_root else torch.empty_like(source)
        after = (lambda: _write(tensor, target)) if is_root and target is not tensor else None
        return self._reduce(
            "reduce", how, how.scaled(source), target, opts, tensors, after, opts.rootRank
        )

    def reduce_scatter_single(
        self, output: torch.Tensor, inp: torch.Tensor, opts: Any = None
    ) -> Work:
        """Reduce a tensor over all ranks; each rank gets its part."""
        how = Reduction.asked(opts, inp.dtype)
        size = self._comm.size
        check_reduce_scatter(output, inp, size)
        source = how.scaled(view.plain(inp)).view(size, -1)
        target = view.plain(output)
        after = None if target is output else lambda: _write(output, target)
        return self._reduce("reduce_scatter", how, source, target.view(-1), opts, [output], after)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Work:
        """Reduce and scatter several tensors."""
        pairs = zip(outputs, inputs)
        return self._all([self.reduce_scatter_single(o, i, opts) for o, i in pairs], outputs)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce_scatter(self, outputs: Tensors, inputs: list[Tensors], opts: Any = None) -> Work:
        """Reduce a list of tensors over all ranks; each rank gets its own."""
        (output,), (parts,) = outputs, inputs
        joined = view.join(parts)
        if all(part.numel() == output.numel() for part in parts):
            return self.reduce_scatter_single(output, joined, opts)
        start = sum(part.numel() for part in parts[: self._comm.rank])
        mine = joined[start : start + output.numel()]
        whole = self.allreduce([joined], _single(opts))
        whole.wait()
        output.detach().copy_(mine.view(output.shape))
        return Work(self._completions, outputs)

    def _reduce(
        self,
        name: str,
        how: Reduction,
        source: torch.Tensor,
        target: torch.Tensor,
        opts: Any,
        result: Tensors,
        after: After | None,
        *root: int,
    ) -> Work:
        """Reduce plain tensors."""
        (given, made), dtype = reduction.arrays(source, target)
        return self._call(
            opts,
            name,
            given,
            how.name,
            *root,
            out=made,
            dtype=dtype,
            result=result,
            after=after,
        )


def _write(tensor: torch.Tensor, plain: torch.Tensor) -> None:
    """Copy a result into the caller's tensor, which is not plain."""
    tensor.detach().copy_(plain)


def _single(opts: Any) -> Any:
    """Return options of one allreduce with the operation of other options."""
    options = dist.AllreduceOptions()
    if opts is not None:
        options.reduceOp = opts.reduceOp
    return options
