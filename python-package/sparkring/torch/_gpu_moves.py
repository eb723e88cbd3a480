# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Collectives that move tensors of GPUs; those on tensors of the CPU go to the base."""

from __future__ import annotations

from typing import Any

import torch

from sparkring.torch._gpu_calls import GpuCalls, Spans, Tensors, octets, write
from sparkring.torch._moves import Moves
from sparkring.torch._sizes import check_all_gather


class GpuMoves(GpuCalls, Moves):
    """Collectives of a group that move tensors, under the names by which PyTorch calls them."""

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Any:
        """Give every rank the tensor of the root.

        Parameters
        ----------
        tensors : list of one Tensor
            Is overwritten, except on the root.
        opts : torch.distributed.BroadcastOptions, optional
            The root, ``rootRank``; 0 by default.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(tensors):
            return super().broadcast(tensors, opts)
        (tensor,), root = tensors, 0 if opts is None else opts.rootRank

        def body(on: Spans) -> None:
            target = tensor.detach().contiguous()
            memory = on.octets(target)
            self._comm.broadcast(memory, root, out=memory)
            write(tensor, target)

        return self._run(tensors, tensors, body)

    def all_gather_single(self, output: torch.Tensor, inp: torch.Tensor, opts: Any = None) -> Any:
        """Give every rank the tensors of all, as one tensor.

        Parameters
        ----------
        output : Tensor
            Gets the tensors of all ranks, in the order of ranks.
        inp : Tensor
            Of the same size on all ranks.
        opts : torch.distributed.AllgatherOptions, optional
            Ignored, but for ``asyncOp``.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(output, inp):
            return super().all_gather_single(output, inp, opts)
        check_all_gather(output, inp, self._comm.size)

        def body(on: Spans) -> None:
            source, target = inp.detach().contiguous(), output.detach().contiguous()
            self._comm.allgather(on.octets(source), out=on.octets(target))
            write(output, target)

        return self._run([inp, output], [output], body)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Any:
        """Gather several tensors.

        Parameters
        ----------
        outputs, inputs : list of Tensor
            Pairs of tensors, each as for `all_gather_single`.
        opts : torch.distributed.AllgatherOptions, optional
            Ignored, but for ``asyncOp``.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(outputs):
            return super().all_gather_single_coalesced(outputs, inputs, opts)
        return self._last(outputs, zip(outputs, inputs), self.all_gather_single, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather(self, output_lists: list[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        """Give every rank the tensors of all, as a list; they may differ in size.

        Parameters
        ----------
        output_lists : list of one list of Tensor
            Tensors that get those of each rank.
        inputs : list of one Tensor
            The tensor of this rank.
        opts : torch.distributed.AllgatherOptions, optional
            Ignored, but for ``asyncOp``.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(inputs):
            return super().allgather(output_lists, inputs, opts)
        (outputs,), (tensor,) = output_lists, inputs
        if len({output.numel() for output in outputs}) > 1:
            return self._staged(super().allgather, output_lists, inputs, opts)

        def body(on: Spans) -> None:
            source = tensor.detach().contiguous()
            rows = torch.empty(
                (len(outputs), source.numel()), dtype=tensor.dtype, device=tensor.device
            )
            self._comm.allgather(on.octets(source), out=on.octets(rows))
            for output, row in zip(outputs, rows):
                output.detach().copy_(row.view(output.shape))

        return self._run([tensor, *outputs], output_lists, body)

    def gather(self, output_lists: list[Tensors], inputs: Tensors, opts: Any) -> Any:
        """Give the root the tensors of all ranks, through the host.

        Parameters
        ----------
        output_lists : list of one list of Tensor
            On the root: tensors that get those of each rank. Elsewhere ignored.
        inputs : list of one Tensor
            The tensor of this rank.
        opts : torch.distributed.GatherOptions
            The root, ``rootRank``.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(inputs):
            return super().gather(output_lists, inputs, opts)
        return self._staged(super().gather, output_lists, inputs, opts)

    def scatter(self, outputs: Tensors, input_lists: list[Tensors], opts: Any) -> Any:
        """Give every rank its tensor of the root's list, through the host.

        Parameters
        ----------
        outputs : list of one Tensor
            Gets the tensor for this rank.
        input_lists : list of one list of Tensor
            On the root: a tensor for each rank. Elsewhere ignored.
        opts : torch.distributed.ScatterOptions
            The root, ``rootRank``.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(outputs):
            return super().scatter(outputs, input_lists, opts)
        return self._staged(super().scatter, outputs, input_lists, opts)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        inp: torch.Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> Any:
        """Send a part of the first dimension to every rank, and receive as many.

        Parameters
        ----------
        output : Tensor
            Gets the received rows, in the order of ranks.
        inp : Tensor
            The rows to send, in the order of ranks.
        output_splits, input_splits : list of int
            The rows from and for each rank; empty for equal parts.
        opts : torch.distributed.AllToAllOptions, optional
            Ignored, but for ``asyncOp``.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(output, inp):
            return super().all_to_all_single(output, inp, output_splits, input_splits, opts)
        size = self._comm.size

        def body(on: Spans) -> None:
            source, target = inp.detach().contiguous(), output.detach().contiguous()
            sends, receives = (
                _split(source, input_splits, size),
                _split(target, output_splits, size),
            )
            on.exchange(source, sends, target, receives)
            write(output, target)

        return self._run([inp, output], [output], body)

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        """Send a tensor to every rank, and receive one from every rank.

        Parameters
        ----------
        outputs, inputs : list of Tensor
            A tensor from and a tensor for each rank.
        opts : torch.distributed.AllToAllOptions, optional
            Ignored, but for ``asyncOp``.

        Returns
        -------
        torch.distributed.Work
        """
        if not self._here(outputs, inputs):
            return super().alltoall(outputs, inputs, opts)

        def body(on: Spans) -> None:
            source = torch.cat([tensor.detach().reshape(-1) for tensor in inputs])
            target = torch.cat([tensor.detach().reshape(-1) for tensor in outputs])
            sends, receives = (tuple(map(octets, parts)) for parts in (inputs, outputs))
            on.exchange(source, sends, target, receives)
            for output, part in zip(outputs, target.split([o.numel() for o in outputs])):
                output.detach().copy_(part.view(output.shape))

        return self._run([*inputs, *outputs], outputs, body)


def _split(tensor: torch.Tensor, splits: list[int], size: int) -> tuple[int, ...]:
    """Return the bytes of the parts of a tensor, equal ones without splits."""
    if not splits:
        return (octets(tensor) // size,) * size
    row = octets(tensor) // max(int(tensor.shape[0]), 1)
    return tuple(part * row for part in splits)
