# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The collectives that move bytes: broadcast, allgather, gather, scatter, all-to-all, barrier."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sparkring.torch import _tensor_view as view
from sparkring.torch._calls import Calls
from sparkring.torch._sizes import check_all_gather
from sparkring.torch._work import Work

Tensors = list[torch.Tensor]


class Moves(Calls):
    """Collectives of a group, under the names by which PyTorch calls them."""

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Work:
        """Give every rank the tensor of the root."""
        (tensor,) = tensors
        target = view.plain(tensor)
        octets = view.octets(target)
        root = 0 if opts is None else opts.rootRank
        after = None if target is tensor else lambda: _write(tensor, target)
        return self._call(opts, "broadcast", octets, root, out=octets, result=tensors, after=after)

    def all_gather_single(self, output: torch.Tensor, inp: torch.Tensor, opts: Any = None) -> Work:
        """Give every rank the tensors of all, as one tensor."""
        size = self._comm.size
        check_all_gather(output, inp, size)
        target = _target(output)
        return self._call(
            opts,
            "allgather",
            view.octets(view.plain(inp)),
            out=view.octet_rows(target, size),
            result=[output],
            after=None if target is output else lambda: _write(output, target),
        )

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Work:
        """Gather several tensors."""
        pairs = zip(outputs, inputs)
        return self._all([self.all_gather_single(o, i, opts) for o, i in pairs], outputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather(self, output_lists: list[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        """Give every rank the tensors of all, as a list; they may differ in size."""
        (outputs,), (tensor,) = output_lists, inputs
        mine = view.octets(view.plain(tensor))
        if len({output.numel() for output in outputs}) > 1:

            def gather() -> None:
                everything = _flat(self._comm.allgatherv(mine), tensor.dtype)
                view.deal(everything, outputs)

            return self._now(output_lists, gather)
        rows = tensor.new_empty((len(outputs), tensor.numel()))
        return self._call(
            opts,
            "allgather",
            mine,
            out=view.octet_rows(rows, len(outputs)),
            result=output_lists,
            after=lambda: view.deal(rows.view(-1), outputs),
        )

    def allgather_coalesced(
        self, output_lists: list[Tensors], inputs: Tensors, opts: Any = None
    ) -> Work:
        """Gather several tensors.

        Parameters
        ----------
        output_lists : list of list of Tensor
            For each rank, tensors that get those of the rank.
        inputs : list of Tensor
            The tensors of this rank.
        opts : torch.distributed.AllgatherOptions, optional
            Ignored, but for ``asyncOp``.

        Returns
        -------
        torch.distributed.Work
        """
        works = [
            self.allgather([[outputs[index] for outputs in output_lists]], [tensor], opts)
            for index, tensor in enumerate(inputs)
        ]
        return self._all(works, output_lists)

    def gather(self, output_lists: list[Tensors], inputs: Tensors, opts: Any) -> Work:
        """Give the root the tensors of all ranks."""
        (tensor,) = inputs
        mine, root = view.octets(view.plain(tensor)), opts.rootRank
        if root != self._comm.rank:
            return self._call(opts, "gather", mine, root, result=[])
        (outputs,) = output_lists
        rows = tensor.new_empty((len(outputs), tensor.numel()))
        return self._call(
            opts,
            "gather",
            mine,
            root,
            out=view.octet_rows(rows, len(outputs)),
            result=output_lists,
            after=lambda: view.deal(rows.view(-1), outputs),
        )

    def scatter(self, outputs: Tensors, input_lists: list[Tensors], opts: Any) -> Work:
        """Give every rank its tensor of the root's list."""
        (output,) = outputs
        size, target = self._comm.size, _target(output)
        if opts.rootRank == self._comm.rank:
            parts = view.octet_rows(view.join(input_lists[0]), size)
        else:  # only its shape counts
            parts = np.empty((size, output.numel() * output.element_size()), "uint8")
        return self._call(
            opts,
            "scatter",
            parts,
            opts.rootRank,
            out=view.octets(target),
            result=outputs,
            after=None if target is output else lambda: _write(output, target),
        )

    def all_to_all_single(
        self,
        output: torch.Tensor,
        inp: torch.Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> Work:
        """Send a part of the first dimension to every rank, and receive as many."""
        size, source, target = self._comm.size, view.plain(inp), _target(output)
        after = None if target is output else lambda: _write(output, target)
        if not output_splits and not input_splits:
            parts, rooms = view.octet_rows(source, size), view.octet_rows(target, size)
            return self._call(opts, "alltoall", parts, out=rooms, result=[output], after=after)
        row = inp.element_size() * int(np.prod(inp.shape[1:]))
        counts = np.array(input_splits or [inp.shape[0] // size] * size) * row
        room = view.octets(target)

        def exchange() -> None:
            np.copyto(room, self._comm.alltoallv(view.octets(source), counts))
            if after is not None:
                after()

        return self._now([output], exchange)

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """Send a tensor to every rank, and receive one from every rank."""
        source = view.octets(view.join(inputs))
        counts = np.array([tensor.numel() * tensor.element_size() for tensor in inputs])

        def exchange() -> None:
            received = self._comm.alltoallv(source, counts)
            view.deal(_flat(received, outputs[0].dtype), outputs)

        return self._now(outputs, exchange)

    def barrier(self, opts: Any = None) -> Work:
        """Wait for all ranks.

        Parameters
        ----------
        opts : torch.distributed.BarrierOptions, optional
            Ignored, but for ``asyncOp``.

        Returns
        -------
        torch.distributed.Work
        """
        return self._call(opts, "barrier", result=[])


def _target(output: torch.Tensor) -> torch.Tensor:
    """Return a plain tensor to receive into: the output, or one of its size."""
    view.check(output)
    return output if output.is_contiguous() else output.new_empty(output.shape)


def _write(tensor: torch.Tensor, plain: torch.Tensor) -> None:
    """Copy a result into the caller's tensor, which is not plain."""
    tensor.detach().copy_(plain)


def _flat(octets: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return received bytes as elements."""
    received = torch.from_numpy(np.asarray(octets))
    return received.view(dtype) if received.numel() else torch.empty(0, dtype=dtype)
