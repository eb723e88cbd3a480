# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Reductions on tensors of GPUs; those on tensors of the CPU go to the base."""

from __future__ import annotations

from typing import Any

import torch

from sparkring.torch._gpu_calls import GpuCalls, Spans, Tensors, write
from sparkring.torch._reduction import Reduction
from sparkring.torch._reductions import Reductions
from sparkring.torch._sizes import check_reduce_scatter


class GpuReductions(GpuCalls, Reductions):
    """Reductions of a group, under the names by which PyTorch calls them."""

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Any:
        """Reduce a tensor over all ranks, in place.

        Parameters
        ----------
        tensors : list of one Tensor
            Is overwritten with the result. A sparse tensor is added up.
        opts : torch.distributed.AllreduceOptions, optional
            The reduction, ``reduceOp``; the sum by default.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(tensors):
            return super().allreduce(tensors, opts)
        (tensor,) = tensors
        if tensor.is_sparse:
            return self._staged(super().allreduce, tensors, opts)
        how = Reduction.asked(opts, tensor.dtype)

        def body(on: Spans) -> None:
            target = tensor.detach().contiguous()
            source = how.scaled(target)
            self._comm.allreduce(on(source), how.name, out=on(target))
            write(tensor, target)

        return self._run(tensors, tensors, body)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Any:
        """Reduce tensors over all ranks, in place; short ones travel together.

        Parameters
        ----------
        tensors : list of Tensor
            Are overwritten with the results.
        opts : torch.distributed.AllreduceCoalescedOptions, optional
            The reduction, ``reduceOp``; the sum by default.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(tensors):
            return super().allreduce_coalesced(tensors, opts)
        how = Reduction.asked(opts, tensors[0].dtype)

        def body(on: Spans) -> None:
            targets = [tensor.detach().contiguous() for tensor in tensors]
            sources = [how.scaled(target) for target in targets]
            self._comm.allreduce_group(
                [on(source) for source in sources], how.name, out=[on(t) for t in targets]
            )
            for tensor, target in zip(tensors, targets):
                write(tensor, target)

        return self._run(tensors, tensors, body)

    def reduce(self, tensors: Tensors, opts: Any) -> Any:
        """Reduce a tensor over all ranks; the root gets the result.

        Parameters
        ----------
        tensors : list of one Tensor
            Is overwritten on the root.
        opts : torch.distributed.ReduceOptions
            The reduction and the root: ``reduceOp`` and ``rootRank``.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(tensors):
            return super().reduce(tensors, opts)
        (tensor,) = tensors
        how = Reduction.asked(opts, tensor.dtype)
        is_root = opts.rootRank == self._comm.rank

        def body(on: Spans) -> None:
            target = tensor.detach().contiguous()
            source = how.scaled(target)
            out = on(target) if is_root else None
            self._comm.reduce(on(source), how.name, opts.rootRank, out=out)
            if is_root:
                write(tensor, target)

        return self._run(tensors, tensors, body)

    def reduce_scatter_single(
        self, output: torch.Tensor, inp: torch.Tensor, opts: Any = None
    ) -> Any:
        """Reduce a tensor over all ranks; each rank gets its part.

        Parameters
        ----------
        output : Tensor
            Gets the part of this rank.
        inp : Tensor
            Has ``size`` times the elements of ``output``.
        opts : torch.distributed.ReduceScatterOptions, optional
            The reduction, ``reduceOp``; the sum by default.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(output, inp):
            return super().reduce_scatter_single(output, inp, opts)
        check_reduce_scatter(output, inp, self._comm.size)
        how = Reduction.asked(opts, inp.dtype)

        def body(on: Spans) -> None:
            source, target = how.scaled(inp.detach().contiguous()), output.detach().contiguous()
            self._comm.reduce_scatter(on(source), how.name, out=on(target))
            write(output, target)

        return self._run([inp, output], [output], body)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Any:
        """Reduce and scatter several tensors.

        Parameters
        ----------
        outputs, inputs : list of Tensor
            Pairs of tensors, each as for `reduce_scatter_single`.
        opts : torch.distributed.ReduceScatterOptions, optional
            The reduction, ``reduceOp``; the sum by default.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(outputs):
            return super().reduce_scatter_single_coalesced(outputs, inputs, opts)
        return self._last(outputs, zip(outputs, inputs), self.reduce_scatter_single, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce_scatter(self, outputs: Tensors, inputs: list[Tensors], opts: Any = None) -> Any:
        """Reduce a list of tensors over all ranks; each rank gets its own.

        Parameters
        ----------
        outputs : list of one Tensor
            Gets the reduced tensor of this rank.
        inputs : list of one list of Tensor
            A tensor for each rank.
        opts : torch.distributed.ReduceScatterOptions, optional
            The reduction, ``reduceOp``; the sum by default.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(outputs):
            return super().reduce_scatter(outputs, inputs, opts)
        (output,), (parts,) = outputs, inputs
        if any(part.numel() != output.numel() for part in parts):
            return self._staged(super().reduce_scatter, outputs, inputs, opts)
        joined = torch.cat([part.detach().reshape(-1) for part in parts])
        return self.reduce_scatter_single(output, joined, opts)
