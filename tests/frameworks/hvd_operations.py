# SPDX-License-Identifier: Apache-2.0
"""The operations of Horovod's API on tensors."""

from __future__ import annotations

import pytest


def check(torch, hvd, rank, size):
    """Try every operation; test_hvd_training.py calls it."""
    for part in (
        reduce_types,
        reduce_in_place,
        reduce_groups,
        reduce_sparse,
        gather,
        send_to_all,
        exchange,
        scatter,
        gradients,
        gradients_of_groups,
        fail,
        refuse,
        differ,
        parts,
        finish_early,
    ):
        part(torch, hvd, rank, size)


def reduce_types(torch, hvd, rank, size):
    real = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    whole = [torch.uint8, torch.int8, torch.int32, torch.int64]
    total = sum(range(1, size + 1))
    for dtype in whole + real:
        x = torch.full((2, 3), rank + 1, dtype=dtype)
        mean = total // size if dtype in whole else total / size
        for op, expected in (
            (None, mean),
            (hvd.Sum, total),
            (hvd.Min, 1),
            (hvd.Max, size),
            (hvd.Product, [2, 6][size - 2]),
        ):
            result = hvd.allreduce(x, op=op)
            assert result.dtype is dtype and (result == expected).all(), (dtype, op, result)
        if dtype in whole:  # halves truncate before they are added
            assert (hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5) == size - 1).all()
    x = torch.full((3,), rank + 1.0)
    assert hvd.allreduce(-x, average=True).tolist() == [-total / size] * 3
    assert hvd.allreduce(torch.tensor(-rank)).item() == int(-sum(range(size)) / size)
    scaled = hvd.allreduce(x, op=hvd.Sum, prescale_factor=3, postscale_factor=0.5)
    assert scaled.tolist() == [1.5 * total] * 3
    for kind in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
        result = hvd.allreduce(x, compression=kind)
        assert result.dtype is torch.float32 and (result == total / size).all()
    for dtype in (torch.float32, torch.bfloat16):
        apart = torch.eye(size, dtype=dtype)[rank]
        assert hvd.allreduce(apart, op=hvd.Adasum).tolist() == [1.0] * size
    with pytest.raises(ValueError, match="exclude each other"):
        hvd.allreduce(x, average=True, op=hvd.Sum)
    with pytest.raises(ValueError, match="dense tensors of the CPU and of NVIDIA"):
        hvd.allreduce(torch.empty(1, device="meta"))


def reduce_in_place(torch, hvd, rank, size):
    x = torch.ones(4, requires_grad=True)
    assert hvd.allreduce_(x, op=hvd.Sum) is x and (x == size).all()
    columns = torch.zeros(4, 4)[:, ::2]
    columns += 1
    assert hvd.allreduce_(columns, op=hvd.Sum) is columns and (columns == size).all()
    whole = torch.full((2,), 3)
    assert hvd.allreduce_(whole, op=hvd.Sum, postscale_factor=0.5).tolist() == [3 * size // 2] * 2
    whole = torch.full((2,), 4)
    assert hvd.allreduce_(whole, op=hvd.Sum, prescale_factor=0.5) is whole
    assert whole.tolist() == [2 * size] * 2
    order = range(20) if rank == 0 else reversed(range(20))
    tensors = {i: torch.full((5,), float(i)) for i in range(20)}
    handles = {i: hvd.allreduce_async_(tensors[i], name=f"any.{i}") for i in order}
    for i, handle in handles.items():
        assert hvd.synchronize(handle) is tensors[i] and (tensors[i] == i).all()
    with pytest.raises(hvd.HorovodInternalError, match="is unknown"):
        hvd.synchronize(handles[0])
    handle = hvd.allreduce_async(torch.ones(1))
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle).tolist() == [1.0]


def reduce_groups(torch, hvd, rank, size):
    mixed = [torch.full((2,), float(rank)), torch.full((1, 3), rank), torch.ones(3).bfloat16()]
    total = sum(range(size))
    results = hvd.grouped_allreduce(mixed, op=hvd.Sum)
    assert [each.dtype for each in results] == [torch.float32, torch.int64, torch.bfloat16]
    assert [each.flatten().tolist() for each in results] == [[total] * 2, [total] * 3, [size] * 3]
    handle = hvd.grouped_allreduce_async(mixed, name="group")
    assert hvd.synchronize(handle)[0].tolist() == [total / size] * 2
    results = hvd.grouped_allreduce_(mixed, op=hvd.Max)
    assert all(a is b for a, b in zip(results, mixed)) and mixed[1][0, 0] == size - 1
    scaled = hvd.grouped_allreduce(
        [torch.tensor([3]), torch.ones(1)], op=hvd.Sum, prescale_factor=0.5
    )
    assert [each.item() for each in scaled] == [size, size / 2]
    small = hvd.grouped_allreduce([torch.ones(2)], compression=hvd.Compression.fp16)
    assert small[0].dtype is torch.float32


def reduce_sparse(torch, hvd, rank, size):
    entries = torch.sparse_coo_tensor([[rank, 3]], [[1.0, 2.0], [4.0, 4.0]], (5, 2))
    result = hvd.synchronize(hvd.sparse_allreduce_async(entries, name="sparse"))
    dense = result.to_dense()
    assert result.is_sparse and torch.allclose(dense[0], torch.tensor([1.0, 2.0]) / size)
    assert dense[3].tolist() == [4.0, 4.0]
    total = hvd.sparse_allreduce_async(entries, op=hvd.Sum)()
    assert total.to_dense()[3].tolist() == [4.0 * size] * 2
    whole = torch.sparse_coo_tensor([[2] * (rank > 0)], [3] * (rank > 0), (5,), dtype=torch.int64)
    mean = hvd.synchronize(hvd.sparse_allreduce_async(whole))
    assert mean.dtype is torch.int64 and mean.to_dense()[2] == 3 * (size - 1) // size


def gather(torch, hvd, rank, size):
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64):
        x = torch.full((rank, 2), rank).to(dtype)
        result = hvd.allgather(x)
        expected = torch.tensor([r for r in range(size) for _ in range(r)]).to(dtype)
        assert result.dtype is dtype and (result[:, 0] == expected).all()
    first, second = hvd.grouped_allgather([torch.ones(1), torch.full((2,), rank)], name="pair")
    assert len(first) == size and second.tolist() == [r for r in range(size) for _ in range(2)]
    assert hvd.synchronize(hvd.allgather_async(torch.ones(1))).tolist() == [1.0] * size


def send_to_all(torch, hvd, rank, size):
    root = size - 1
    x = torch.full((2,), rank)
    assert hvd.broadcast(x, root).tolist() == [root] * 2 and x.tolist() == [rank] * 2
    assert hvd.broadcast_(x, root) is x and x.tolist() == [root] * 2
    half = torch.full((2,), float(rank)).bfloat16()
    assert hvd.synchronize(hvd.broadcast_async(half, 1)).tolist() == [1.0] * 2
    assert hvd.synchronize(hvd.broadcast_async_(half, 1)) is half and half[0] == 1
    assert hvd.broadcast_object({"rank": rank}, root_rank=1) == {"rank": 1}
    assert hvd.allgather_object(rank) == list(range(size))
    hvd.barrier()


def exchange(torch, hvd, rank, size):
    x = torch.arange(2 * size) + 100 * rank
    expected = [100 * r + 2 * rank + i for r in range(size) for i in range(2)]
    assert hvd.alltoall(x).tolist() == expected
    assert hvd.synchronize(hvd.alltoall_async(x)).tolist() == expected
    uneven = torch.full((size * (rank + 1),), rank).bfloat16()
    result, received = hvd.alltoall(uneven, splits=[rank + 1] * size)
    assert received.dtype is torch.int32 and received.tolist() == list(range(1, size + 1))
    assert result.tolist() == [r for r in range(size) for _ in range(r + 1)]
    splits = torch.full((size,), 1, dtype=torch.int32)
    handle = hvd.alltoall_async(x, splits=splits)
    assert hvd.synchronize(handle)[0].tolist() == [100 * r + rank for r in range(size)]
    for wrong in (splits.long(), [1] * (size + 1), [1.5] * size, [3] * size):
        with pytest.raises(ValueError, match="splits"):
            hvd.alltoall(x, splits=wrong)


def scatter(torch, hvd, rank, size):
    rows = torch.arange(size + 1.0).repeat_interleave(2).view(-1, 2)
    mine = [0.0, 1.0] if rank == 0 else [rank + 1.0]
    assert hvd.reducescatter(rows)[:, 0].tolist() == mine
    total = hvd.reducescatter(rows.bfloat16(), op=hvd.Sum, prescale_factor=2)
    assert total[:, 1].tolist() == [2 * size * each for each in mine]
    assert hvd.synchronize(hvd.reducescatter_async(rows, op=hvd.Sum))[-1, 0] == size * mine[-1]
    first, second = hvd.grouped_reducescatter([rows, rows + 1], name="rows")
    assert (second - first == 1).all()
    with pytest.raises(ValueError, match="takes Average and Sum"):
        hvd.reducescatter(rows, op=hvd.Max)


def gradient(torch, call, shape, outer=None):
    x = torch.ones(shape, requires_grad=True)
    result = call(x)
    result.backward(torch.ones_like(result) if outer is None else outer(result))
    return x.grad


def gradients(torch, hvd, rank, size):
    for op, expected in ((hvd.Sum, size), (hvd.Average, 1)):
        assert (gradient(torch, lambda x, op=op: hvd.allreduce(x, op=op), 3) == expected).all()
    grown = gradient(torch, lambda x: hvd.allreduce(x, op=hvd.Sum, postscale_factor=0.5), 3)
    assert (grown == 0.5 * size).all()

    def by_rank(result):
        return torch.cat([torch.full((r + 1, 2), float(r)) for r in range(size)])

    assert (gradient(torch, hvd.allgather, (rank + 1, 2), by_rank) == rank).all()
    sent = gradient(torch, lambda x: hvd.broadcast(x, 1), 3, lambda x: torch.full((3,), rank + 1.0))
    assert (sent == (sum(range(1, size + 1)) / size if rank == 1 else 0)).all()
    back = gradient(
        torch,
        lambda x: hvd.alltoall(x, splits=[1] * size)[0],
        size + 1,
        lambda x: torch.full((size,), rank + 1.0),
    )
    assert back.tolist() == [*range(1, size + 1), 0]
    part = gradient(torch, hvd.reducescatter, size + 1, lambda x: torch.full_like(x, rank))
    assert part.tolist() == [0.0, *range(size)]
    twice = torch.tensor([2.0], requires_grad=True)
    (slope,) = torch.autograd.grad(hvd.allreduce(twice**3), twice, create_graph=True)
    slope.backward()
    assert twice.grad.item() == 12


def gradients_of_groups(torch, hvd, rank, size):
    xs = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
    first, second = hvd.grouped_allreduce(xs, op=hvd.Sum)
    (first.sum() + 2 * second.sum()).backward()
    assert xs[0].grad.tolist() == [size] * 2 and xs[1].grad.tolist() == [2 * size] * 3
    gathered = hvd.grouped_allgather(xs)
    scattered = hvd.grouped_reducescatter([x.repeat(size) for x in xs])
    sum(each.sum() for each in gathered + scattered).backward()
    assert (xs[0].grad > size).all()


def fail(torch, hvd, rank, size):
    handle = hvd.allreduce_async(torch.ones(2 + rank), name="uneven")
    with pytest.raises(hvd.HorovodInternalError, match=r"\[2\]"):
        hvd.synchronize(handle)
    with pytest.raises(hvd.HorovodInternalError):
        hvd.allreduce(torch.ones(2, dtype=[torch.float32, torch.int32][rank % 2]), name="type")
    twice = hvd.allreduce_async(torch.ones(2), name="twice")
    if rank == 0:
        with pytest.raises(ValueError, match="in flight"):
            for _ in range(3):
                hvd.allreduce_async(torch.ones(2), name="never")
    else:
        hvd.allreduce_async(torch.ones(2), name="never")
    assert hvd.synchronize(twice).tolist() == [1.0] * 2


def refuse(torch, hvd, rank, size):
    """A wrong type is an error that names the argument, and uses up no name."""
    one = torch.ones(1)
    sgd = torch.optim.SGD([torch.nn.Parameter(one.clone())], lr=1)
    for call, text in (
        (lambda: hvd.allreduce("x"), "tensor is of type str"),
        (lambda: hvd.allreduce_([1.0]), "tensor is of type list"),
        (lambda: hvd.allgather(3), "tensor is of type int"),
        (lambda: hvd.alltoall("x"), "tensor is of type str"),
        (lambda: hvd.broadcast_(None, 0), "tensor is of type NoneType"),
        (lambda: hvd.reducescatter("x"), "tensor is of type str"),
        (lambda: hvd.grouped_allreduce(3), "tensors is of type int"),
        (lambda: hvd.grouped_allreduce_async_([one, 3]), "tensor is of type int"),
        (lambda: hvd.grouped_allgather(3), "tensors is of type int"),
        (lambda: hvd.grouped_reducescatter(3), "tensors is of type int"),
        (lambda: hvd.sparse_allreduce_async(3, op=hvd.Sum), "tensor is of type int"),
        (lambda: hvd.allreduce(one, name=3), "name is of type int"),
        (lambda: hvd.allreduce(one, process_set="a"), "process_set is of type str"),
        (lambda: hvd.broadcast(one, 0, process_set="a"), "process_set is of type str"),
        (lambda: hvd.allreduce(one, compression="fp16"), "compression is 'fp16'"),
        (lambda: hvd.broadcast(one, "0"), "root_rank is '0'"),
        (lambda: hvd.broadcast_parameters(3, 0), "params of type int have no names"),
        (lambda: hvd.broadcast_optimizer_state(3, 0), "optimizer is of type int"),
        (lambda: hvd.DistributedOptimizer("sgd"), "optimizer is of type str"),
        (lambda: hvd.DistributedOptimizer(sgd, named_parameters=3), "named_parameters are no"),
        (lambda: hvd.DistributedOptimizer(sgd, compression="fp16"), "compression is 'fp16'"),
        (
            lambda: hvd.DistributedOptimizer(sgd, backward_passes_per_step="2"),
            "backward_passes_per_step is of type str",
        ),
    ):
        if rank == 0:
            with pytest.raises(ValueError, match=text):
                call()
    assert hvd.allreduce(one, op=hvd.Sum).item() == size


def differ(torch, hvd, rank, size):
    """What differs between ranks, in number, too, is an error on all of them, and not a wait."""
    whole, real = torch.ones(2, dtype=torch.int32), torch.ones(2)
    sparse = torch.eye(2).to_sparse()
    first = rank == 0

    def group():
        return hvd.grouped_allreduce([real, whole] if first else [real, real])

    def kinds():
        return (hvd.allreduce if first else hvd.allgather)(real)

    def entries():
        if first:
            return hvd.sparse_allreduce_async(sparse, name="entries")()
        return hvd.allreduce(sparse.to_dense(), name="entries")

    def shapes():
        tensor = torch.sparse_coo_tensor([[0], [0]], [1.0], (2, 2 + rank))
        return hvd.synchronize(hvd.sparse_allreduce_async(tensor))

    def means():
        op = hvd.Sum if first else hvd.Average
        return hvd.sparse_allreduce_async(sparse, op=op)()

    def steps():
        op = hvd.Adasum if first else hvd.Sum
        return hvd.grouped_allreduce([real, real], op=op)

    for call, text in (
        (group, r"counts \[2 float32, 2 int32\].*float32 counts \[2, 2\]"),
        (kinds, "allreduce of .* allgather of"),
        (entries, r"sparse float32 \[2, 2\].*allreduce of float32"),
        (shapes, r"sparse float32 \[2, 2\].*sparse float32 \[2, 3\]"),
        (means, "sparse .*, Sum.* sparse .*, Average"),
        (steps, r"Adasum of float32 \[2\]"),
    ):
        with pytest.raises(hvd.HorovodInternalError, match=f"MismatchError: .*{text}"):
            call()
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size


def parts(torch, hvd, rank, size):
    pair = hvd.add_process_set([0, size - 1] if size > 2 else [1])
    if pair.included():
        one = torch.ones(2, requires_grad=True)
        total = hvd.allreduce(one, op=hvd.Sum, process_set=pair)
        total.sum().backward()
        assert total.tolist() == one.grad.tolist() == [pair.size()] * 2
        assert len(hvd.allgather(torch.ones(1), process_set=pair)) == pair.size()
        assert hvd.broadcast(torch.tensor([rank]), size - 1, process_set=pair) == size - 1
        hvd.barrier(process_set=pair)
    elif size > 2:
        with pytest.raises(ValueError, match="not in the process set"):
            hvd.allreduce(torch.ones(1), process_set=pair)
    assert hvd.remove_process_set(pair)


def finish_early(torch, hvd, rank, size):
    """A rank with less data joins; names of later operations agree again."""
    for _ in range(rank + 1):
        x = hvd.allreduce(torch.ones(1), op=hvd.Sum)
    assert x.item() == size - rank
    assert hvd.join() == size - 1
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size
