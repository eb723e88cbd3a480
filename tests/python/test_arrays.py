# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries: DLPack, the array interface, pandas and pyarrow.

Tensors of frameworks are in tests/frameworks/test_collectives.py.
"""

from __future__ import annotations

import array
import gc
import sys

import ml_dtypes
import numpy as np
import pytest
import sparkring
from dlpack_producer import BFLOAT, CUDA, IS_COPIED, READ_ONLY, Producer
from ranks import open_comm, run

pytestmark = pytest.mark.quick

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture
def comm():
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        yield comm


class Interface:
    def __init__(self, values):
        self.values = values

    @property
    def __array_interface__(self):
        return self.values.__array_interface__


def invalid(text):
    return pytest.raises(sparkring.InvalidError, match=text)


# ---- DLPack


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bool"]
)
def test_tensor(comm, old, dtype):
    x = Producer(np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype), old=old)
    for call in (comm.broadcast, comm.allgatherv, lambda x: comm.allgather(x)[0]):
        result = call(x)
        assert isinstance(result, np.ndarray)
        assert result.dtype == dtype
        assert result.tolist() == x.array.tolist()
    assert x.made == x.deleted == 3


def test_tensor_of_bfloat16(comm):
    words = np.arange(4.0).astype(ml_dtypes.bfloat16).view("uint16")
    out = np.zeros(4, "uint16")
    assert comm.allreduce(Producer(words, code=BFLOAT), out=out, dtype="bfloat16") is out
    assert out.tolist() == words.tolist()


@pytest.mark.parametrize("old", [False, True])
def test_strides_are_copied(comm, old):
    memory = np.arange(12.0)
    views = [memory[::2], memory[::-1], memory.reshape(3, 4).T, memory.reshape(3, 4)[:, 1:3]]
    for view in views:
        first = (view.ctypes.data - memory.ctypes.data) // 8
        strides = [stride // 8 for stride in view.strides]
        x = Producer(memory, old=old, first=first, shape=view.shape, strides=strides)
        assert comm.allreduce(x).tolist() == view.tolist()
        with invalid("^out is not contiguous and aligned"):
            comm.allreduce(view.copy(), out=x)
        assert x.made == x.deleted == 2
    broadcast = Producer(memory, first=5, shape=(2, 3), strides=(0, 0), old=old)
    assert comm.allreduce(broadcast).tolist() == [[5.0] * 3] * 2
    assert comm.allreduce(Producer(memory, strides=None)).tolist() == memory.tolist()


def test_nothing_but_shape(comm):
    assert comm.allreduce(Producer(np.array(3.0))).shape == ()
    empty = Producer(np.empty((0, 3)), data=None, strides=(7, 7))
    assert comm.allreduce(empty).shape == (0, 3)
    assert comm.allgather(empty).shape == (1, 0, 3)


def test_out_is_written_and_returned(comm):
    x = np.arange(3.0)
    for old in (False, True):
        out = Producer(np.zeros(3), old=old)
        assert comm.allreduce(x, out=out) is out
        assert comm.allreduce_start(x, out=out).wait() is out
        assert out.array.tolist() == [0, 1, 2]
        assert comm.allreduce(out, out=out) is out
        assert out.made == out.deleted == 4
    for flag in (READ_ONLY, IS_COPIED):
        out = Producer(np.zeros(3), flags=flag)
        with invalid("^out is read-only"):
            comm.allreduce(x, out=out)
        assert comm.allreduce(out).tolist() == [0, 0, 0]
        assert out.made == out.deleted == 2


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"data": None}, "the tensor of __dlpack__.. is broken: its address is null"),
        ({"shape": (-3,)}, "broken: a dimension is negative"),
        ({"shape": (2**40, 2**40), "strides": None}, "broken: its elements do not fit into memory"),
        ({"ndim": -1}, "broken: its number of dimensions is not 0 to 64"),
        ({"ndim": 65}, "broken: its number of dimensions is not 0 to 64"),
        ({"shape": None, "ndim": 1}, "broken: it has no shape"),
        ({"lanes": 2}, "the dtype of x, float64 of 2 lanes, is not supported"),
        ({"lanes": 0}, "the dtype of x, float64 of 0 lanes, is not supported"),
        (
            {"bits": 4, "code": 0},
            "the dtype of x, int4, is not supported: convert it, as with x.as",
        ),
        ({"code": 99}, "the dtype of x, DLPack's code 99 of 64 bits, is not supported"),
    ],
)
def test_broken_tensors(comm, old, fields, text):
    x = Producer(np.zeros(3), old=old, **fields)
    with invalid(text):
        comm.allreduce(x)
    assert x.made == x.deleted == 1
    assert comm.allreduce(1) == 1


def test_unknown_version(comm):
    x = Producer(np.zeros(3), major=2, data=1, ndim=1000)
    with invalid("^x, of type Producer, gives no access to its memory: its tensor is of version 2"):
        comm.allreduce(x)
    assert x.made == x.deleted == 1


def test_tuple(comm):
    """A tuple is one argument for the adapters, not several."""
    for x in ((1.0, 2.0), (1.0,), ()):
        with invalid("^x is of type tuple, which has no buffer of numbers: make an array"):
            comm.allreduce(x)


def test_memory_of_a_gpu(comm):
    """Calls that serve no GPU refuse it; test_device.py has those that do."""
    text = (
        "^x is in the memory of a GPU, which this call does not read: pass a copy of x in the"
        " memory of the"
    )
    on_gpu = Producer(np.zeros(3), device=(CUDA, 3))
    lied = Producer(np.zeros(3), device_type=CUDA, device_id=3)
    with comm.messages() as messages:
        for x in (on_gpu, lied):
            with invalid(text):
                messages.send_start(x, 0)
    assert on_gpu.made == 0
    assert lied.made == lied.deleted == 1
    with pytest.raises(sparkring.UnsupportedError, match="gather takes no arrays on GPUs: copy"):
        comm.gather(on_gpu)
    with invalid("^x is in the memory of the host, and"):
        comm.allreduce(lied)
    with invalid(r"^out is in the memory of another device \(device 8:0 of DLPack\)"):
        comm.allreduce(np.zeros(3), out=Producer(np.zeros(3), device=(8, 0)))


@pytest.mark.parametrize(
    ("capsule", "text"),
    [
        (lambda: None, "has returned no capsule"),
        (lambda: 1 // 0, "by zero"),
        (lambda: int("x\n"), "invalid literal"),
    ],
)
def test_no_capsule(comm, capsule, text):
    class Bad:
        def __dlpack__(self, **_):
            return capsule()

        def __dlpack_device__(self):
            return 1, 0

    with invalid(f"^x, of type Bad, gives no access to its memory: .*{text}"):
        comm.allreduce(Bad())


@pytest.mark.parametrize("device", [None, (1,), (1, "a"), [1, 0], (2**40, 0)])
def test_no_device(comm, device):
    x = Producer(np.zeros(3))
    x.device = device
    with invalid("^x, of type Producer, gives no access"):
        comm.allreduce(x)
    assert x.made == 0


def test_a_used_capsule(comm):
    x = Producer(np.ones(3))
    capsule = x.__dlpack__(max_version=(1, 0))
    x.__dlpack__ = lambda **_: capsule

    class Again:
        def __dlpack__(self, **_):
            return capsule

        __dlpack_device__ = x.__dlpack_device__

    again = Again()
    assert comm.allreduce(again).tolist() == [1, 1, 1]
    with invalid("no capsule of a tensor, or a used one"):
        comm.allreduce(again)
    assert x.deleted == 1


def test_interrupts_are_not_converted(comm):
    class Interrupted:
        def __dlpack__(self, **_):
            raise KeyboardInterrupt

        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(KeyboardInterrupt):
        comm.allreduce(Interrupted())


# ---- The result is of the library


class Library:
    """A library of arrays as the array API has it."""

    class Array(Producer):
        def __array_namespace__(self):
            return Library

    @staticmethod
    def from_dlpack(tensor):
        assert tensor.__dlpack_device__() == (1, 0)
        return Library.Array(np.from_dlpack(tensor))


def test_result_of_the_array_api(comm):
    x = Library.Array(np.arange(6.0).reshape(2, 3))
    calls = [
        comm.allreduce,
        comm.reduce,
        comm.broadcast,
        comm.reduce_scatter,
        comm.allgatherv,
        comm.gatherv,
        comm.alltoall,
        lambda x: comm.alltoallv(x, [2]),
        lambda x: comm.scatterv(x, [2]),
        lambda x: comm.allreduce_start(x).wait(),
        lambda x: comm.allreduce_group([x])[0],
    ]
    for call in calls:
        result = call(x)
        assert type(result) is Library.Array
        assert result.array.tolist() == x.array.tolist()
    for call in (comm.allgather, comm.gather):
        assert call(x).array.tolist() == [x.array.tolist()]
    mixed = comm.allreduce_group([x, x.array, 2.0])
    assert [type(result) for result in mixed] == [Library.Array, np.ndarray, np.float64]


def exchange():
    with open_comm() as comm:
        x = Library.Array(np.arange(20000.0) + comm.rank)
        total = comm.allreduce(x).array
        parts = comm.allgatherv(Library.Array(np.full(comm.rank + 1, comm.rank)))
        if comm.rank == 0:
            comm.send(x, 1)
            received = x
        else:
            received = comm.recv(x, 0)
        rest = comm.broadcast(Library.Array(np.full((2, 3), comm.rank).T), root=1)
        comm.barrier()
    kind = [type(values) for values in (parts, received, rest)] == [Library.Array] * 3
    return (
        kind,
        total[:2].tolist(),
        parts.array.tolist(),
        received.array[:2].tolist(),
        rest.array.tolist(),
    )


def test_two_ranks():
    expected = (True, [1, 3], [0, 1, 1], [0, 1], [[1, 1]] * 3)
    assert run(2, exchange) == [expected] * 2


# ---- Other interfaces


def test_array_interface(comm):
    memory = np.arange(6.0)
    assert comm.allreduce(Interface(memory[::2])).tolist() == [0, 2, 4]
    out = Interface(np.zeros(6))
    assert comm.allreduce(memory, out=out) is out
    assert out.values.tolist() == memory.tolist()
    frozen = np.zeros(6)
    frozen.flags.writeable = False
    with invalid("^out is read-only"):
        comm.allreduce(memory, out=Interface(frozen))
    with invalid("^the dtype of x, object, is not supported"):
        comm.allreduce(Interface(np.array([None])))
    with invalid("^x is in foreign byte order"):
        comm.allreduce(Interface(np.arange(3).astype(">i4")))


def test_buffers_give_numpy(comm):
    for x in (array.array("d", [1, 2]), memoryview(np.array([1.0, 2.0]))):
        assert type(comm.allreduce(x)) is np.ndarray
        assert comm.allreduce(x).ravel().tolist() == [1, 2]


# ---- Columns of tables


def test_series(comm):
    x = pandas.Series([1.0, 2, 3], index=list("abc"), name="n")
    strided = pandas.DataFrame(np.arange(6.0).reshape(3, 2))[1]
    assert comm.allreduce(x).equals(x)
    assert comm.allreduce_start(strided).wait().equals(strided)
    assert comm.broadcast(x).name == "n"
    assert comm.allreduce(x > 2, "lor").tolist() == [False, False, True]
    for call in (comm.allgatherv, comm.alltoall, comm.reduce_scatter):
        assert call(x).equals(x.reset_index(drop=True))
    assert comm.allgather(x).tolist() == [[1, 2, 3]]  # a series has one dimension
    for dtype in ("Int64", "boolean", "float[pyarrow]", "int64[pyarrow]"):
        values = pandas.Series([1, 0], dtype=dtype)
        assert comm.broadcast(values).equals(values)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (pandas.Series([1, None], dtype="Int64"), "holds nulls: fill the nulls, as with x.fillna"),
        (pandas.Series([1, None], dtype="float[pyarrow]"), "holds nulls: fill the nulls"),
        (pandas.Series(["a"]), "the dtype of x, object, is not supported"),
        (
            pandas.Series(pandas.to_datetime(["2020-01-01"])),
            "the dtype of x, datetime64.ns., is not",
        ),
        (pandas.DataFrame({"a": [1]}), "x is of type DataFrame, which has no buffer"),
        (pyarrow.array([1, None]), r"holds nulls \(1\): fill the nulls, as with x.fill_null\(0\)"),
        (pyarrow.chunked_array([[1], [None]]), r"holds nulls \(1\): fill the nulls"),
        (pyarrow.array(["a"]), "the dtype of x, object, is not supported"),
    ],
)
def test_refused_columns(comm, values, text):
    with invalid(text):
        comm.broadcast(values)


def test_arrow(comm):
    for x in (
        pyarrow.array([1, 2, 3]),
        pyarrow.array([1.5, 2, 3], pyarrow.float32()),
        pyarrow.array([0, 1, 2, 3]).slice(1),
        pyarrow.array([True, False]),
        pyarrow.chunked_array([[1, 2], [3]]),
    ):
        result = comm.broadcast(x)
        assert type(result) is type(x)
        assert result.equals(x)
        assert comm.allgatherv(x).equals(x)
        assert comm.allgather(x).tolist() == [x.to_pylist()]


def test_columns_are_never_written(comm):
    x = np.array([1, 0])
    booleans = pyarrow.array([True, False])
    for out in (pandas.Series([1, 0]), pyarrow.array([1, 0]), pandas.Series([1, 0], dtype="Int64")):
        with invalid("^out is read-only: pass a writable array$"):
            comm.allreduce(x, out=out)
    with invalid("^out is read-only"):
        comm.allreduce(x.astype(bool), "lor", out=booleans)
    assert booleans.to_pylist() == [True, False]


# ---- Lifetimes


def test_references_and_memory_are_balanced(comm):
    x = Library.Array(np.arange(6.0))
    strided = Producer(np.arange(6.0), shape=(3,), strides=(2,))
    series, arrow = pandas.Series([1.0, 2.0]), pyarrow.array([1.0, 2.0])
    broken = Producer(np.zeros(3), data=None)
    calls = [
        lambda: comm.allreduce(x),
        lambda: comm.allreduce(x, out=x),
        lambda: comm.allreduce(strided),
        lambda: comm.allgatherv(x),
        lambda: comm.allreduce_start(x).wait(),
        lambda: comm.allreduce_start(x),
        lambda: comm.allreduce(series),
        lambda: comm.allreduce(arrow),
        lambda: comm.allreduce(Interface(x.array)),
        lambda: pytest.raises(ValueError, comm.allreduce, broken),
        lambda: pytest.raises(ValueError, comm.allreduce, x, out=x.array[:3]),
        lambda: pytest.raises(ValueError, comm.scatterv, x, [-1]),
    ]
    held = [x, strided, series, arrow, broken, x.array, Library.Array, Producer, comm]

    def count_after_calls():
        for _ in range(50):
            for call in calls:
                call()
            for producer in (x, strided, broken):
                producer.kept.clear()
        gc.collect()
        return sys.getallocatedblocks(), [sys.getrefcount(thing) for thing in held]

    count_after_calls()
    counts = [count_after_calls() for _ in range(10)]  # caches fill first
    assert min(later[0] - earlier[0] for earlier, later in zip(counts, counts[1:])) < 50
    assert [references for _, references in counts] == [counts[0][1]] * 10
    assert [p.made for p in (x, strided, broken)] == [p.deleted for p in (x, strided, broken)]


def test_a_type_is_distinguished_from_its_successor(comm):
    """The adapter of a type that is gone is not that of the next type at its address."""
    for number in range(300):
        bases = (Producer,) if number % 2 else (Interface,)
        kind = type("Passing", bases, {})
        assert comm.allreduce(kind(np.arange(3.0))).tolist() == [0, 1, 2]


def test_result_outlives_the_communicator():
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        result = comm.allreduce(Library.Array(np.arange(30000.0)))
    gc.collect()
    assert result.array.sum() == 30000 * 29999 / 2
