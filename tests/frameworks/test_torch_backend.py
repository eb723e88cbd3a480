# SPDX-License-Identifier: Apache-2.0
"""The collectives and messages of the backend "sparkring", over shared memory and over TCP."""

from __future__ import annotations

import os
import time

import process_group
import pytest
import sparkring
from ranks import LIMIT, outcomes, run

LONG = pytest.mark.long
worlds = pytest.mark.parametrize(
    ("size", "shared"),
    [(2, "0"), (3, "1"), pytest.param(2, "1", marks=LONG), pytest.param(3, "0", marks=LONG)],
    ids=["2-tcp", "3-shm", "2-shm", "3-tcp"],
)


def every_collective():
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    with process_group.group() as (rank, size):
        assert dist.get_backend() == "sparkring"
        reduce_types(torch, dist, rank, size)
        reduce_bits(torch, dist, rank, size)
        reduce_layouts(torch, dist, rank, size)
        reduce_variants(torch, dist, rank, size)
        futures(torch, dist, rank, size)
        move(torch, dist, rank, size)
        exchange(torch, dist, rank, size)
        objects(dist, rank, size)
        coalesced(torch, dist, size)
        functional(torch, dist, rank, size)
        differentiable(torch, rank, size)
        groups(torch, dist, rank, size)


def reduce_types(torch, dist, rank, size):
    whole = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
    real = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    for dtype in whole + real:
        for op, expected in (
            (dist.ReduceOp.SUM, sum(range(1, size + 1))),
            (dist.ReduceOp.MAX, size),
            (dist.ReduceOp.MIN, 1),
            (dist.ReduceOp.PRODUCT, [2, 6][size - 2]),
        ):
            tensor = torch.full((5,), rank + 1, dtype=dtype)
            dist.all_reduce(tensor, op=op)
            assert (tensor == expected).all(), (dtype, op, tensor)
    for dtype in (*real, torch.complex64):
        tensor = torch.full((3,), 2.0 * rank, dtype=dtype)
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        assert (tensor == size - 1).all()


def reduce_bits(torch, dist, rank, size):
    tensor = torch.tensor([1 << rank, 8], dtype=torch.int32)
    for op, expected in (
        (dist.ReduceOp.BOR, [2**size - 1, 8]),
        (dist.ReduceOp.BAND, [0, 8]),
        (dist.ReduceOp.BXOR, [2**size - 1, 8 * (size % 2)]),
    ):
        result = tensor.clone()
        dist.all_reduce(result, op=op)
        assert result.tolist() == expected
    truth = torch.tensor([rank == 0, True, False])
    for op, expected in (
        (dist.ReduceOp.MAX, [True, True, False]),
        (dist.ReduceOp.BAND, [False, True, False]),
    ):
        result = truth.clone()
        dist.all_reduce(result, op=op)
        assert result.tolist() == expected


def reduce_layouts(torch, dist, rank, size):
    matrix = torch.zeros(4, 4)
    columns = matrix[:, ::2]
    columns += 1
    dist.all_reduce(columns)
    assert matrix.tolist() == [[float(size), 0.0] * 2] * 4
    number = torch.tensor([1 + 2j, 3j])
    dist.all_reduce(number)
    assert (number == size * torch.tensor([1 + 2j, 3j])).all()
    weight = torch.ones(3, requires_grad=True)
    dist.all_reduce(weight)
    assert (weight == size).all()
    empty = torch.empty(0)
    dist.all_reduce(empty)
    entries = torch.sparse_coo_tensor([[rank, 3]], [1.0, 2.0], (5,))
    dist.all_reduce(entries)
    assert entries.to_dense()[3] == 2.0 * size
    assert entries.to_dense()[:size].tolist() == [1.0] * size


def reduce_variants(torch, dist, rank, size):
    tensor = torch.full((3,), rank + 1.0)
    dist.reduce(tensor, size - 1)
    assert (tensor == (sum(range(1, size + 1)) if rank == size - 1 else rank + 1)).all()
    output = torch.empty(2)
    dist.reduce_scatter_tensor(output, torch.arange(2.0 * size))
    assert output.tolist() == [2.0 * rank * size, (2.0 * rank + 1) * size]
    dist.reduce_scatter(output, list(torch.arange(2.0 * size).chunk(size)))
    assert output.tolist() == [2.0 * rank * size, (2.0 * rank + 1) * size]
    parts = [torch.full((each + 1,), float(each)) for each in range(size)]
    uneven = torch.empty(rank + 1)
    dist.reduce_scatter(uneven, parts)
    assert uneven.tolist() == [float(rank * size)] * (rank + 1)
    short = torch.empty(1, dtype=torch.int16)
    dist.reduce_scatter_tensor(short, torch.arange(size, dtype=torch.int16))
    assert short.item() == rank * size
    scaled = torch.ones(2)
    dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(0.5))
    assert (scaled == 0.5 * size).all()
    with pytest.raises(RuntimeError, match="has no reduction"):
        dist.all_reduce(torch.ones(1), op=dist.ReduceOp.BXOR)
    with pytest.raises(ValueError, match=r"takes 2 elements|takes 3 elements"):
        dist.reduce_scatter_tensor(torch.empty(1), torch.ones(size + 1))


def futures(torch, dist, rank, size):
    work = dist.all_reduce(torch.ones(1000), async_op=True)
    double = work.get_future().then(lambda future: future.value()[0] * 2)
    assert (double.wait() == 2 * size).all()
    works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(20)]
    for work in works:
        work.wait()
        assert work.is_completed() and work.is_success() and work.exception() is None

    def nested(future):  # as the hook of PowerSGD does
        return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]

    outer = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(nested)
    assert (outer.wait() == size * size).all()


def move(torch, dist, rank, size):
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.uint16):
        tensor = torch.full((3,), rank == 1, dtype=torch.bool).to(dtype)
        dist.broadcast(tensor, 1)
        assert tensor.to(torch.float32).sum() == 3
    outputs = [torch.empty(3) for _ in range(size)]
    dist.all_gather(outputs, torch.full((3,), float(rank)))
    assert [each[0].item() for each in outputs] == list(range(size))
    outputs = [torch.empty(each + 1) for each in range(size)]
    dist.all_gather(outputs, torch.full((rank + 1,), float(rank)))
    assert all((each == index).all() for index, each in enumerate(outputs))
    output = torch.empty(size * 3, dtype=torch.bfloat16)
    dist.all_gather_into_tensor(output, torch.full((3,), rank, dtype=torch.bfloat16))
    assert output.tolist() == [each for each in range(size) for _ in range(3)]
    outputs = [torch.empty(2) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.full((2,), float(rank)), outputs, 0)
    assert rank or [each[0].item() for each in outputs] == list(range(size))
    output = torch.empty(2)
    parts = [torch.full((2,), float(each)) for each in range(size)] if rank == 1 else None
    dist.scatter(output, parts, 1)
    assert (output == rank).all()
    dist.barrier()


def exchange(torch, dist, rank, size):
    output = torch.empty(size)
    dist.all_to_all_single(output, torch.arange(size) + 10.0 * rank)
    assert output.tolist() == [10 * each + rank for each in range(size)]
    splits = [each + 1 for each in range(size)]
    source = torch.full((sum(splits), 2), float(rank))
    output = torch.empty(size * (rank + 1), 2)
    dist.all_to_all_single(output, source, [rank + 1] * size, splits)
    assert output[:, 0].tolist() == [float(e) for e in range(size) for _ in range(rank + 1)]
    outputs = [torch.empty(rank + 1) for _ in range(size)]
    dist.all_to_all(outputs, [torch.full((e + 1,), 10.0 * rank) for e in range(size)])
    assert [each[0].item() for each in outputs] == [10.0 * each for each in range(size)]


def objects(dist, rank, size):
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "text": "y" * rank * 100})
    assert [each["rank"] for each in gathered] == list(range(size))
    values = [{"from": rank}]
    dist.broadcast_object_list(values, 1)
    assert values == [{"from": 1}]
    mine = [None]
    dist.scatter_object_list(mine, list(range(size)) if rank == 0 else None, 0)
    assert mine == [rank]


def coalesced(torch, dist, size):
    for options in ({"device": torch.device("cpu")}, {}):
        tensors = [torch.ones(3), torch.ones(4)]
        with dist._coalescing_manager(async_ops=True, **options) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        while not manager.works[0].is_completed():
            time.sleep(1e-3)
        manager.wait()
        assert all((each == size).all() for each in tensors)
        wholes = [torch.empty(size * len(each)) for each in tensors]
        with dist._coalescing_manager(**options):
            for whole, tensor in zip(wholes, tensors):
                dist.all_gather_into_tensor(whole, tensor)
        with dist._coalescing_manager(**options):
            for whole, tensor in zip(wholes, tensors):
                dist.reduce_scatter_tensor(tensor, whole)
        assert all((each == size * size).all() for each in tensors)


def functional(torch, dist, rank, size):
    import torch.distributed._functional_collectives as collectives

    world = dist.group.WORLD
    assert (collectives.all_reduce(torch.ones(3), "sum", world) == size).all()
    gathered = collectives.all_gather_tensor(torch.full((2,), float(rank)), 0, world)
    assert gathered.tolist() == [float(each) for each in range(size) for _ in range(2)]
    scattered = collectives.reduce_scatter_tensor(torch.ones(2 * size), "sum", 0, world)
    assert (scattered == size).all()
    first, second = collectives.all_reduce_coalesced([torch.ones(2), torch.ones(3)], "avg", world)
    assert (first == 1).all() and (second == 1).all()


def differentiable(torch, rank, size):
    """The functions of torch.distributed.nn, and their gradients."""
    import torch.distributed.nn.functional as nn

    def ones(count=2):
        return torch.ones(count, requires_grad=True)

    x = ones()
    nn.all_reduce(2 * x).sum().backward()
    assert (x.grad == 2 * size).all()
    x = ones()
    sum(part.sum() for part in nn.all_gather(x)).backward()
    assert (x.grad == size).all()
    for function in (nn.broadcast, nn.reduce):
        x = ones()
        function(x, 0).sum().backward()
        assert x.grad is not None
    x = ones()
    sum(part.sum() for part in nn.gather(x, 0)).backward()
    parts = [ones() for _ in range(size)]
    received = nn.scatter(parts, 1)
    received.sum().backward()
    assert rank != 1 or all((part.grad == 1).all() for part in parts)
    parts = [ones() for _ in range(size)]
    (rank * nn.reduce_scatter(torch.empty(2), parts)).sum().backward()
    assert [part.grad[0].item() for part in parts] == list(range(size))
    parts = [ones() for _ in range(size)]
    outputs = nn.all_to_all([torch.empty(2) for _ in range(size)], parts)
    sum(rank * part.sum() for part in outputs).backward()
    assert [part.grad[0].item() for part in parts] == list(range(size))
    x = ones(2 * size)
    (rank * nn.all_to_all_single(torch.empty(2 * size), x)).sum().backward()
    assert x.grad.tolist() == [each for each in range(size) for _ in range(2)]


def groups(torch, dist, rank, size):
    pair, last = dist.new_group([0, 1]), dist.new_group([size - 1])
    tensor = torch.ones(2)
    if rank < 2:
        dist.all_reduce(tensor, group=pair)
        assert (tensor == 2).all()
        dist.destroy_process_group(pair)
    if rank == size - 1:
        dist.all_reduce(tensor, group=last)
    dist.barrier()


@worlds
def test_collectives(size, shared, monkeypatch):
    monkeypatch.setenv("SPARKRING_SHARED_MEMORY", shared)
    run(size, every_collective)


def coalesce_a_mismatch():
    import torch
    import torch.distributed as dist

    with process_group.group() as (rank, _):
        with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
            dist.all_reduce(torch.ones(2 + rank))
        with pytest.raises(dist.DistBackendError, match="the ranks made different calls"):
            manager.wait()


def test_the_wait_of_a_coalescing_manager_raises_errors_of_its_calls(monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    run(2, coalesce_a_mismatch)


def every_message():
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    with process_group.group() as (rank, size):
        following, previous = (rank + 1) % size, (rank - 1) % size
        for count in (0, 10, 3_000_000):  # both send first, so none may wait for the receiver
            mine, theirs = torch.full((count,), float(rank)), torch.empty(count)
            works = [dist.isend(mine, following), dist.irecv(theirs, previous)]
            for work in works:
                work.wait()
            assert (theirs == previous).all()
        operations = [
            dist.P2POp(dist.isend, mine, following),
            dist.P2POp(dist.irecv, theirs.zero_(), previous),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert (theirs == previous).all()
        tags(torch, dist, rank)
        any_source(torch, dist, rank, size)
        wrong_size(torch, dist, rank)
        stride = torch.zeros(4, 2)
        if rank == 0:
            dist.send(torch.arange(4.0), 1)
        if rank == 1:
            dist.recv(stride[:, 1], 0)
            assert stride.tolist() == [[0.0, float(each)] for each in range(4)]
        if rank == 0:
            dist.send_object_list([{"a": 1}], 1)
        if rank == 1:
            found = [None]
            dist.recv_object_list(found, 0)
            assert found == [{"a": 1}]
            dist.irecv(torch.empty(1), 0)  # never served: the end of the group must not wait
        dist.barrier()
    return process_group.threads()


def tags(torch, dist, rank):
    """Messages are awaited in another order than sent."""
    if rank == 0:
        for tag in (1, 2, 1):
            dist.send(torch.tensor([float(tag), 1.0]), 1, tag=tag)
        dist.send(torch.tensor([7.0, 2.0]), 1, tag=1)
    if rank == 1:
        room = torch.empty(2)
        assert dist.recv(room, 0, tag=2) == 0 and room[0] == 2
        for expected in (1.0, 1.0, 7.0):
            dist.recv(room, 0, tag=1)
            assert room[0] == expected


def any_source(torch, dist, rank, size):
    if rank == 0:
        seen = set()
        for _ in range(1, size):
            room = torch.empty(1)
            source = dist.recv(room, tag=5)
            assert room.item() == source
            seen.add(source)
        assert seen == set(range(1, size))
    else:
        time.sleep(0.05 * rank)
        dist.send(torch.tensor([float(rank)]), 0, tag=5)


def wrong_size(torch, dist, rank):
    if rank == 0:
        dist.send(torch.ones(3), 1, tag=9)
    if rank == 1:
        with pytest.raises(dist.DistBackendError, match="rank 0 has sent 12 bytes"):
            dist.recv(torch.empty(4), 0, tag=9)


@worlds
def test_messages(size, shared, monkeypatch):
    monkeypatch.setenv("SPARKRING_SHARED_MEMORY", shared)
    assert run(size, every_message) == [[]] * size


def lose_a_sender():
    import torch
    import torch.distributed as dist

    with process_group.group(destroy=False) as (rank, _):
        room = torch.ones(2)
        dist.send(room, 1) if rank == 0 else dist.recv(room, 0)
        if rank == 0:
            os._exit(0)
        start = time.monotonic()
        with pytest.raises(dist.DistBackendError, match="rank 0") as caught:
            dist.recv(room, 0)
        dist.destroy_process_group()
        assert process_group.threads() == []
        return time.monotonic() - start, type(caught.value.__cause__)


def test_a_lost_sender_is_an_error():
    _, (seconds, cause) = (each.value for each in outcomes(2, lose_a_sender))
    assert seconds < LIMIT
    assert cause is sparkring.PeerLostError


def late_message():
    import torch
    import torch.distributed as dist

    with process_group.group(timeout=2) as (rank, _):
        if rank == 1:
            problem = r"waited 2\.\d s for a message from rank 0 .* with tag 3"
            with pytest.raises(dist.DistBackendError, match=problem):
                dist.recv(torch.ones(2), 0, tag=3)
        else:
            time.sleep(2.5)


def test_a_receive_times_out():
    run(2, late_message)
