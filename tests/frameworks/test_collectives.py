# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch, JAX and TensorFlow as arguments and results of collectives."""

from __future__ import annotations

import gc

import pytest
import sparkring
from ranks import open_comm, run

DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8", "bool")


def refusal(call, *arguments, **keywords):
    with pytest.raises(sparkring.InvalidError) as caught:
        call(*arguments, **keywords)
    return str(caught.value)


# ---- What all three have


def libraries():
    """Return for each library its type, and how to make a tensor of a list and a list of it."""
    import jax
    import tensorflow as tf
    import torch

    jax.config.update("jax_enable_x64", True)
    return {
        "torch": (
            torch.Tensor,
            lambda values, dtype: torch.tensor(values).to(getattr(torch, dtype)),
            lambda x: x.tolist(),
        ),
        "jax": (
            jax.Array,
            lambda values, dtype: jax.numpy.array(values).astype(dtype),
            lambda x: x.tolist(),
        ),
        "tensorflow": (
            type(tf.constant(1)),
            lambda values, dtype: tf.cast(tf.constant(values), dtype),
            lambda x: x.numpy().tolist(),
        ),
    }


def exchange():
    """Return what differs from the expected result."""
    wrong = []

    def check(what, kind, result, list_of, expected, like=None):
        if not isinstance(result, kind) or list_of(result) != expected:
            wrong.append((what, type(result), result, expected))
        if like is not None and result.dtype != like.dtype:
            wrong.append((what, result.dtype, like.dtype))

    with open_comm() as comm:
        rank, size = comm.rank, comm.size
        for name, (kind, make, list_of) in libraries().items():
            for dtype in DTYPES:
                x = make([[1, rank, 0], [rank, 0, 1]], dtype)
                op = "lor" if dtype == "bool" else "max"
                check(
                    (name, dtype),
                    kind,
                    comm.allreduce(x, op),
                    list_of,
                    [[1] * 2 + [0], [1, 0, 1]],
                    x,
                )
            x = make([[rank, 1], [2, 3]], "float32")
            both = [[[r, 1], [2, 3]] for r in range(size)]
            total = [[1, 2], [4, 6]]
            results = {
                "sum": (comm.allreduce(x), total),
                "start": (comm.allreduce_start(x).wait(), total),
                "group": (comm.allreduce_group([x, x])[1], total),
                "broadcast": (comm.broadcast(x, root=1), both[1]),
                "allgather": (comm.allgather(x), both),
                "allgatherv": (comm.allgatherv(x), both[0] + both[1]),
                "reduce_scatter": (comm.reduce_scatter(x), total[rank : rank + 1]),
                "alltoall": (comm.alltoall(x), [both[0][rank], both[1][rank]]),
                "alltoallv": (comm.alltoallv(x, [1, 1]), [both[0][rank], both[1][rank]]),
                "scatter": (comm.scatter(x), both[0][rank : rank + 1]),
                "scatterv": (comm.scatterv(x, [2, 0], root=1), both[1] if rank == 0 else []),
            }
            if rank == 0:
                results["reduce"] = (comm.reduce(x), total)
                comm.send(x, 1)
            else:
                assert comm.reduce(x) is None
                results["recv"] = (comm.recv(x, 0), both[0])
            for what, (result, expected) in results.items():
                check((name, what), kind, result, list_of, expected, x)
            check((name, "0-d"), kind, comm.allreduce(make(2, "int32")), list_of, 4)
            check((name, "empty"), kind, comm.allreduce(make([], "float32")), list_of, [])
            large = comm.allreduce(make([1] * 100_000, "float32"))  # in shared memory
            check((name, "large"), kind, large, list_of, [size] * 100_000)
        comm.barrier()
    return wrong


def test_two_ranks():
    assert run(2, exchange) == [[]] * 2


# ---- PyTorch


def torch_layouts():
    import torch

    with open_comm() as comm:
        parameter = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
        values = parameter.detach().clone()
        results = [
            comm.allreduce(x) for x in (parameter, values.t(), values.flip(0), values[:, 1:])
        ]
        assert [type(result) for result in results] == [torch.Tensor] * 4
        assert not any(result.requires_grad for result in results)
        assert all(result.is_contiguous() for result in results)
        expected = (values, values.t(), values.flip(0), values[:, 1:])
        assert all(torch.equal(*pair) for pair in zip(results, expected))
        expanded = torch.ones(1).expand(3)
        assert comm.allreduce(expanded).tolist() == [1, 1, 1]
        # In place, also where a gradient is required.
        assert comm.broadcast(parameter, out=parameter) is parameter
        assert parameter.requires_grad
        out = torch.zeros(2, 3)
        assert comm.allreduce_start(values, out=out).wait() is out
        assert torch.equal(out, values)
        half = torch.ones(3, dtype=torch.bfloat16)
        assert comm.allreduce(half, out=half) is half
        assert comm.allreduce_group([values, out], out=[values, out])[1] is out
        results[0] += 1  # nobody else has the memory
        results[0].requires_grad_().sum().backward()
    return parameter.tolist() == values.tolist()


def test_torch_layouts():
    assert run(1, torch_layouts) == [True]


def torch_refusals():
    import torch

    with open_comm() as comm:
        x = torch.ones(2)
        texts = [
            refusal(comm.allreduce, x, out=torch.ones(4)[::2]),
            refusal(comm.allreduce, x, out=torch.ones(1).expand(2)),
            refusal(comm.allreduce, x, out=torch.ones(2, dtype=torch.float64)),
            refusal(comm.allreduce, x, out=torch.ones(3)),
            refusal(comm.allreduce, torch.ones(2, dtype=torch.float8_e5m2)),
            refusal(comm.allreduce, torch.ones(2, dtype=torch.complex64).conj().imag),
            refusal(comm.allreduce, torch.ones(2, device="meta")),
            refusal(comm.allreduce, torch.ones(2).to_sparse()),
        ]
        torch.func.vmap(lambda row: (texts.append(refusal(comm.allreduce, row)), row)[1])(
            torch.ones(2, 2)
        )
        assert comm.allreduce(1) == 1
    return texts


def test_torch_refusals():
    found = run(1, torch_refusals)[0]
    beginnings = [
        "out is not contiguous and aligned",
        "out is not contiguous and aligned",
        "out holds float64 and x float32",
        "out has 3 elements and the result 2",
        "the dtype of x, DLPack's code",
        "x, of type Tensor, gives no access to its memory: its values are conjugated or negated",
        "x, of type Tensor, gives no access to its memory: Cannot pack tensors on meta",
        "x, of type Tensor, gives no access to its memory: ",
        "x, of type Tensor, gives no access to its memory: ",
    ]
    assert len(found) == len(beginnings)
    for text, beginning in zip(found, beginnings):
        assert text.startswith(beginning)
        assert "\n" not in text
    assert "x.to(torch.float64)" in found[4]


def torch_empty():
    import torch

    with open_comm() as comm:
        made = [comm.empty((2, 3), dtype) for dtype in (torch.float32, torch.bfloat16, torch.bool)]
        comm.empty(0, torch.int64)
        x = comm.empty(1000, torch.float64).fill_(comm.rank)
        total = comm.allreduce(x, out=x)
        texts = [
            refusal(comm.empty, (2, -1), torch.float32),
            refusal(comm.empty, 2, torch.float8_e5m2),
        ]
        comm.barrier()
    assert x.tolist() == [1.0] * 1000  # it outlives the communicator
    return total is x, [(tuple(t.shape), str(t.dtype)) for t in made], texts


def test_torch_empty():
    shapes = [((2, 3), f"torch.{dtype}") for dtype in ("float32", "bfloat16", "bool")]
    for same, made, (shape, dtype) in run(2, torch_empty):
        assert same
        assert made == shapes
        assert shape == "shape[1] is -1: it must be 0 or more"
        assert dtype.startswith("the dtype of dtype, DLPack's code")


def torch_memory():
    """Tensors are given back: as many results as fit into memory only once."""
    import resource

    import torch

    def resident():
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB, and never less

    with open_comm() as comm:
        x = torch.ones(2**18)
        calls = [
            lambda: comm.allreduce(x),
            lambda: comm.allreduce(x.reshape(512, 512).t()),
            lambda: comm.allreduce_start(x),
            lambda: refusal(comm.allreduce, x, out=x[:3]),
        ]
        sizes = []
        for _ in range(3):
            for _ in range(100):
                for call in calls:
                    call()
            sizes.append(resident())
        comm.barrier()
    return (sizes[2] - sizes[1]) / 1024


def test_torch_memory():
    assert max(run(2, torch_memory)) < 50  # a leak of one result a call would be 100 MiB or more


# ---- JAX


def jax_refusals():
    import jax

    with open_comm() as comm:
        x = jax.numpy.ones(2)
        deleted = jax.numpy.ones(2)
        deleted.delete()
        texts = [
            refusal(comm.allreduce, x, out=x),
            refusal(comm.allreduce, deleted),
            refusal(jax.jit(comm.allreduce), x),
        ]
        called = jax.pure_callback(comm.allreduce, jax.ShapeDtypeStruct((2,), x.dtype), x)
        assert comm.allreduce(x.reshape(1, 2).T).shape == (2, 1)
        return texts, called.tolist()


def test_jax():
    texts, called = run(1, jax_refusals)[0]
    assert texts[0] == "out is read-only: pass a writable array"
    assert texts[1].startswith("x, of type ArrayImpl, gives no access to its memory: ")
    assert texts[2].endswith(
        "a function that is being traced has no values: call the collective outside, or by"
        " jax.pure_callback"
    )
    assert called == [1, 1]


# ---- TensorFlow


def tensorflow_kinds():
    import tensorflow as tf

    with open_comm() as comm:
        x = tf.constant([1.0, 2.0])
        variable = tf.Variable(x)
        texts = [
            refusal(comm.allreduce, x, out=x),
            refusal(comm.allreduce, x, out=variable),
            refusal(comm.allreduce, tf.constant("a")),
        ]
        with pytest.raises(Exception, match=r"being traced has no values: .* by tf\.py_function"):
            tf.function(comm.allreduce)(x)
        called = tf.py_function(comm.allreduce, [x], tf.float32)
        results = [comm.allreduce(variable), comm.allreduce(tf.reshape(x, (2, 1))), called]
    return texts, [type(result).__name__ for result in results], results[0].numpy().tolist()


def test_tensorflow():
    texts, kinds, values = run(1, tensorflow_kinds)[0]
    assert texts == [
        "out is read-only: pass a writable array",
        "out is read-only: pass a writable array",
        "x, of type EagerTensor, gives no access to its memory: its elements are of type string,"
        " which are no numbers",
    ]
    assert kinds == ["EagerTensor"] * 3
    assert values == [1, 2]
