# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The collectives of a group on tensors of GPUs; those on tensors of the CPU go to the base.

The device of the communicator carries the calls out: the first one opens it. What the device has
no call for is staged: copied to the host, carried out there, and copied back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist

from sparkring._core import DeviceHandle, RingError
from sparkring._device.device import opened
from sparkring.torch import _streams as streams
from sparkring.torch._failure import fail
from sparkring.torch._moves import Moves
from sparkring.torch._reduction import Reduction
from sparkring.torch._reductions import Reductions
from sparkring.torch._sizes import check_all_gather, check_reduce_scatter
from sparkring.torch._stream_work import StreamWork
from sparkring.torch._work import Work

Tensors = list[torch.Tensor]
_Body = Callable[[DeviceHandle, int], Any]


def flat(tensors: Any) -> Iterable[torch.Tensor]:
    """Return the tensors of nested lists."""
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    return [tensor for part in tensors for tensor in flat(part)]


class OnGpu(Reductions, Moves):
    """Collectives of a group, under the names by which PyTorch calls them."""

    _streams: dict[Any, streams.Streams]

    def _here(self, *tensors: Any) -> bool:
        return any(streams.is_here(tensor) for tensor in flat(tensors))

    def _own_stream(self, tensor: torch.Tensor) -> streams.Streams:
        if tensor.device not in self._streams:
            self._streams[tensor.device] = streams.Streams(tensor.device)
        return self._streams[tensor.device]

    def _run(self, tensors: Tensors, result: Any, body: _Body) -> StreamWork:
        """Run a call of the device on the stream of the group, after the caller's work."""
        own = self._own_stream(tensors[0])
        try:
            with self._calling:
                handle = opened(self._comm, tensors[0].device.index)
                with own.enter(tensors):
                    body(handle, own.address)
        except RingError as error:
            fail(self._completions.where, error)
        return StreamWork(self._completions, handle, own, result)

    def _staged(self, method: Callable[..., Any], outputs: Any, *rest: Any) -> StreamWork:
        """Carry a call out on the host; its first argument is what it writes."""
        hosts: dict[int, torch.Tensor] = {}

        def host(tensors: Any) -> Any:
            if not isinstance(tensors, torch.Tensor):
                return [host(part) for part in tensors] if isinstance(tensors, list) else tensors
            if streams.is_here(tensors):
                return hosts.setdefault(id(tensors), streams.fetch(tensors))
            return tensors

        method(host(outputs), *[host(argument) for argument in rest]).wait()
        first = next(tensor for tensor in flat([outputs, *_lists(rest)]) if streams.is_here(tensor))
        for tensor in flat(outputs):
            if id(tensor) in hosts:
                streams.store(tensor, hosts[id(tensor)])
        return self._run([first], outputs, lambda handle, stream: None)

    # -- reductions ---------------------------------------------------------------------------

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
        how = Reduction.of(opts.reduceOp if opts is not None else dist.ReduceOp.SUM, tensor.dtype)

        def body(handle: DeviceHandle, stream: int) -> None:
            target = tensor.detach().contiguous()
            source = how.scaled(target)
            numbers = (target.numel(), _name(tensor), how.name, stream)
            handle.allreduce(source.data_ptr(), target.data_ptr(), *numbers)
            _write(tensor, target)

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
        op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        how = Reduction.of(op, tensors[0].dtype)

        def body(handle: DeviceHandle, stream: int) -> None:
            targets = [tensor.detach().contiguous() for tensor in tensors]
            sources = [how.scaled(target) for target in targets]
            for kind in dict.fromkeys(_name(target) for target in targets):
                buffers = [
                    (source.data_ptr(), target.data_ptr(), target.numel())
                    for source, target in zip(sources, targets)
                    if _name(target) == kind
                ]
                handle.allreduce_group(buffers, kind, kind, how.name, 1.0, 1.0, stream)
            for tensor, target in zip(tensors, targets):
                _write(tensor, target)

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
        how = Reduction.of(opts.reduceOp, tensor.dtype)
        is_root = opts.rootRank == self._comm.rank

        def body(handle: DeviceHandle, stream: int) -> None:
            target = tensor.detach().contiguous()
            source = how.scaled(target)
            output = target.data_ptr() if is_root else 0
            numbers = (target.numel(), _name(tensor), how.name, opts.rootRank, stream)
            handle.reduce(source.data_ptr(), output, *numbers)
            if is_root:
                _write(tensor, target)

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
        how = Reduction.of(opts.reduceOp if opts is not None else dist.ReduceOp.SUM, inp.dtype)

        def body(handle: DeviceHandle, stream: int) -> None:
            source, target = how.scaled(inp.detach().contiguous()), output.detach().contiguous()
            numbers = (target.numel(), _name(inp), how.name, stream)
            handle.reduce_scatter(source.data_ptr(), target.data_ptr(), *numbers)
            _write(output, target)

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

    # -- moves --------------------------------------------------------------------------------

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

        def body(handle: DeviceHandle, stream: int) -> None:
            target = tensor.detach().contiguous()
            at = target.data_ptr()
            handle.broadcast(at, at, _bytes(target), "uint8", root, stream)
            _write(tensor, target)

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

        def body(handle: DeviceHandle, stream: int) -> None:
            source, target = inp.detach().contiguous(), output.detach().contiguous()
            numbers = (_bytes(source), "uint8", stream)
            handle.allgather(source.data_ptr(), target.data_ptr(), *numbers)
            _write(output, target)

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

        def body(handle: DeviceHandle, stream: int) -> None:
            source = tensor.detach().contiguous()
            rows = torch.empty(
                (len(outputs), source.numel()), dtype=tensor.dtype, device=tensor.device
            )
            numbers = (_bytes(source), "uint8", stream)
            handle.allgather(source.data_ptr(), rows.data_ptr(), *numbers)
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

        def body(handle: DeviceHandle, stream: int) -> None:
            source, target = inp.detach().contiguous(), output.detach().contiguous()
            sends, receives = (
                _split(source, input_splits, size),
                _split(target, output_splits, size),
            )
            handle.alltoallv(source.data_ptr(), sends, target.data_ptr(), receives, "uint8", stream)
            _write(output, target)

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

        def body(handle: DeviceHandle, stream: int) -> None:
            source = torch.cat([tensor.detach().reshape(-1) for tensor in inputs])
            target = torch.cat([tensor.detach().reshape(-1) for tensor in outputs])
            sends, receives = (tuple(map(_bytes, parts)) for parts in (inputs, outputs))
            handle.alltoallv(source.data_ptr(), sends, target.data_ptr(), receives, "uint8", stream)
            for output, part in zip(outputs, target.split([o.numel() for o in outputs])):
                output.detach().copy_(part.view(output.shape))

        return self._run([*inputs, *outputs], outputs, body)

    # -- coalescing ---------------------------------------------------------------------------

    def _last(
        self, outputs: Tensors, pairs: Iterable[Any], call: Callable[..., Any], opts: Any
    ) -> Any:
        """Make calls one after the other on the stream, whose event then stands for all."""
        for output, inp in pairs:
            call(output, inp, opts)
        return self._run(outputs, outputs, lambda handle, stream: None)

    def _start_coalescing(self, device: Any) -> None:
        """Nothing is gained by waiting: calls run in the order of their starts."""

    def _end_coalescing(self, device: Any) -> Any:
        own = self._streams.get(torch.device(device)) if device is not None else None
        handle = self._comm._device_get()
        if own is None or handle is None:
            return Work(self._completions, [])
        return StreamWork(self._completions, handle, own, [])


def _lists(arguments: Iterable[Any]) -> list[Any]:
    return [argument for argument in arguments if isinstance(argument, (list, torch.Tensor))]


def _name(tensor: torch.Tensor) -> str:
    """Return the core's name of the dtype."""
    return str(tensor.dtype).partition(".")[2]


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _write(tensor: torch.Tensor, plain: torch.Tensor) -> None:
    """Copy a result into the caller's tensor, unless it is the same memory."""
    if plain.data_ptr() != tensor.data_ptr():
        tensor.detach().copy_(plain)


def _split(tensor: torch.Tensor, splits: list[int], size: int) -> tuple[int, ...]:
    """Return the bytes of the parts of a tensor, equal ones without splits."""
    if not splits:
        return (_bytes(tensor) // size,) * size
    row = _bytes(tensor) // max(int(tensor.shape[0]), 1)
    return tuple(part * row for part in splits)
