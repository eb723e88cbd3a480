# SPDX-License-Identifier: Apache-2.0
"""What goes into a collective and what may be written: a world of one is enough to see."""

from __future__ import annotations

import array
import gc
import re
import sys

import numpy as np
import pytest
import sparkring

pytestmark = pytest.mark.quick

SUPPORTED = (
    "int8, uint8, int32, int64, float16, bfloat16, float32, float64, bool,"
    " int16, uint16, uint32, uint64, complex64, complex128"
)


def refuses(text, call, *arguments, **keywords):
    """Check that a call raises InvalidError, which is a ValueError, with exactly this text."""
    with pytest.raises(sparkring.InvalidError, match=f"^{re.escape(text)}$") as caught:
        call(*arguments, **keywords)
    assert isinstance(caught.value, ValueError)
    assert caught.value.status == "INVALID"


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("clongdouble", str(np.dtype("clongdouble"))),
        ("longdouble", str(np.dtype("longdouble"))),
        ("O", "object"),
        ("U3", "<U3"),
        ("S3", "|S3"),
        ("datetime64[s]", "datetime64[s]"),
        ("i4,f4", "[('f0', '<i4'), ('f1', '<f4')]"),
    ],
)
def test_unsupported_dtype(comm, dtype, name):
    refuses(
        f'the dtype of x, {name}, is not supported: convert it, as with x.astype("float64"), to'
        f" one of {SUPPORTED}",
        comm.allreduce,
        np.zeros(3, dtype),
    )


def test_words_are_uint16_or_bfloat16(comm):
    words = np.zeros(3, "uint16")
    for dtype in (None, "uint16", "bfloat16"):
        assert comm.allreduce(words, dtype=dtype).dtype == "uint16"
    assert comm.allreduce(words, "band").tolist() == [0, 0, 0]
    with pytest.raises(sparkring.InvalidError, match="op band is for integers and bool"):
        comm.allreduce(words, "band", dtype="bfloat16")


def test_unsupported_format(comm):
    with pytest.raises(sparkring.InvalidError, match="format 'w'"):
        comm.broadcast(array.array("w" if sys.version_info >= (3, 13) else "u", "a"))


@pytest.mark.parametrize("dtype", [">f8", ">i4", ">f2"])
def test_foreign_byte_order(comm, dtype):
    x = np.arange(3).astype(dtype)
    text = 'x is in foreign byte order: convert it with x.astype(x.dtype.newbyteorder("="))'
    refuses(text, comm.allreduce, x)
    assert comm.allreduce(x.astype(x.dtype.newbyteorder("="))).tolist() == [0, 1, 2]


@pytest.mark.parametrize("x", [[1, 2], (1.0,), {"a": 1}, "text", None, object()])
def test_no_buffer(comm, x):
    text = (
        f"x is of type {type(x).__name__}, which has no buffer of numbers: make an array of it with"
        " numpy.asarray(x)"
    )
    for call in (comm.allreduce, comm.broadcast, comm.allgather):
        refuses(text, call, x)


def test_masked_arrays(comm):
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    for call in (comm.allreduce, comm.broadcast, comm.allgather_start):
        refuses(
            "x is a masked array, and its mask would be lost: pass x.filled(0), or fill in"
            " another harmless number",
            call,
            masked,
        )
    with pytest.raises(sparkring.InvalidError, match=r"^out is a masked array"):
        comm.allreduce(np.zeros(2), out=masked)
    assert comm.allreduce(masked.filled(0)).tolist() == [1, 0]


def test_named_dtype(comm):
    x = np.zeros(3, "float32")
    assert comm.allreduce(x, dtype="float32").dtype == "float32"
    refuses(
        'x holds float32, not float64: convert it with x.astype("float64")',
        comm.allreduce,
        x,
        dtype="float64",
    )
    refuses(
        'x holds bool, not uint8: convert it with x.astype("uint8")',
        comm.broadcast,
        np.zeros(3, bool),
        dtype="uint8",
    )
    refuses(f'unknown dtype "float8": one of {SUPPORTED}', comm.allgather, x, dtype="float8")


def test_arguments_that_do_not_fit(comm):
    x = np.zeros(3)
    assert comm.reduce(x, "max", 0, out=x) is x
    assert comm.reduce(root=0, dtype=None, op="max", x=x).tolist() == [0, 0, 0]
    keyword = "".join(["o", "ut"])  # not the interned string
    assert comm.allreduce(x, **{keyword: x}) is x
    for text, call in [
        (
            r"allreduce\(\) missing 1 required positional argument: 'x'",
            lambda: comm.allreduce(op="sum"),
        ),
        (r"send\(\) missing 1 required positional argument: 'peer'", lambda: comm.send(x)),
        (
            r"scatterv_start\(\) missing 1 required positional argument: 'counts'",
            lambda: comm.scatterv_start(x),
        ),
        (
            r"reduce\(\) takes from 2 to 4 positional arguments but 5 were given",
            lambda: comm.reduce(x, "sum", 0, x),
        ),
        (
            r"allgather\(\) got an unexpected keyword argument 'op'",
            lambda: comm.allgather(x, op="sum"),
        ),
        (
            r"broadcast\(\) got multiple values for argument 'root'",
            lambda: comm.broadcast(x, 0, root=0),
        ),
        ("op must be str, not int", lambda: comm.allreduce(x, 3)),
        ("dtype must be str, not int", lambda: comm.allgather(x, dtype=3)),
        ("root must be a whole number, not float", lambda: comm.broadcast(x, 0.5)),
        ("peer must be a whole number, not NoneType", lambda: comm.send(x, None)),
        ("prescale must be a number, not str", lambda: comm.allreduce(x, prescale="2")),
        ("counts must be a list of whole numbers", lambda: comm.scatterv(x, None)),
        (r"counts\[0\] must be a whole number, not float", lambda: comm.scatterv(x, [3.0])),
        ("True or False, not str", lambda: comm.alltoallv(x, [3], return_counts="no")),
        ("color must be a whole number, not str", lambda: comm.split("0")),
        ("key must be a whole number, not float", lambda: comm.split(0, key=0.5)),
        ("nbytes must be a whole number, not str", lambda: comm.explain("allreduce", "8")),
        ("timeout must be a number, not list", lambda: comm.close([1])),
    ]:
        with pytest.raises(TypeError, match=text):
            call()
    for number in (2**31, 2**32, 2**64):
        text = f"is {number}: it must be from -2147483648 to 2147483647"
        refuses(f"root {text}", comm.broadcast, x, number)
        refuses(f"key {text}", comm.split, 0, number)


def test_number_too_large(comm):
    with pytest.raises(sparkring.InvalidError, match="the dtype of x, object, is not"):
        comm.allreduce(2**64)


def test_numbers(comm):
    assert type(comm.allreduce(3)) is np.int64
    assert type(comm.allreduce(2.5)) is np.float64
    assert type(comm.allreduce(np.float16(2))) is np.float16
    assert type(comm.broadcast(True)) is np.bool_
    assert type(comm.allreduce(np.array(3))) is np.ndarray
    assert comm.allgather(3).tolist() == [3]


def test_out_is_refused(comm):
    x = np.arange(6.0)
    frozen = np.empty(6)
    frozen.flags.writeable = False
    refuses("out is read-only: pass a writable array", comm.allreduce, x, out=frozen)
    refuses(
        "out is read-only: pass a writable array",
        comm.allreduce,
        np.arange(6, dtype="uint8"),
        out=bytes(6),
    )
    text = "out is not contiguous and aligned: pass an array in C order, as numpy.empty makes"
    refuses(text, comm.broadcast, x, out=np.empty(12)[::2])
    refuses(text, comm.allreduce, x.reshape(2, 3), out=np.empty((2, 3), order="F"))
    refuses(text, comm.allreduce, x, out=np.empty(49, "uint8")[1:].view(float))
    refuses(
        "out holds float32 and x float64: the dtypes must be the same",
        comm.allreduce,
        x,
        out=np.empty(6, "float32"),
    )
    refuses(
        "out holds bool and x uint8: the dtypes must be the same",
        comm.broadcast,
        np.zeros(6, "uint8"),
        out=np.empty(6, bool),
    )
    refuses("out has 5 elements and the result 6", comm.allgather, x, out=np.empty(5))
    refuses(
        "out is of type list, which has no buffer of numbers: make an array of it with"
        " numpy.asarray(out)",
        comm.allreduce,
        x,
        out=[0.0] * 6,
    )
    assert comm.usable


def test_overlap_is_refused(comm):
    memory = np.arange(8.0)
    text = "out overlaps x without being in place: pass a copy of x"
    for call in (comm.allreduce, comm.broadcast, comm.allgather):
        refuses(text, call, memory[:6], out=memory[2:])
    assert comm.allreduce(memory[:4], out=memory[4:]).tolist() == [0, 1, 2, 3]


def test_strided_input_may_overlap_out(comm):
    memory = np.arange(8.0)
    comm.allreduce(memory[::2], out=memory[:4])
    assert memory.tolist() == [0, 2, 4, 6, 4, 5, 6, 7]


def test_complex_has_no_order(comm):
    for op in ("min", "max"):
        text = f"allreduce: op {op} is not defined on complex64: pass integers or floats"
        refuses(text, comm.allreduce, np.zeros(3, "complex64"), op)
    refuses(
        "allreduce: op lor is for integers and bool, not for complex128", comm.allreduce, 1j, "lor"
    )


def test_bool_has_no_average(comm):
    text = "allreduce: op avg is not defined on bool: pass integers or floats"
    refuses(text, comm.allreduce, np.array([True, False]), "avg")


def test_input_is_not_changed(comm):
    x = np.arange(6.0)
    result = comm.allreduce(x)
    result[:] = -1
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_buffer_is_let_go(comm):
    x = bytearray(3)
    comm.allreduce(x, "max")
    with pytest.raises(sparkring.InvalidError):
        comm.allreduce(x, "no such op")
    with pytest.raises(sparkring.InvalidError):
        comm.allreduce(x, out=bytes(3))
    x.append(1)  # raises BufferError while anybody holds a view


def test_references_are_balanced(comm):
    x, out = np.arange(6.0), np.empty(6)
    strided, words = np.arange(12.0)[::2], np.zeros(3, "uint16")
    calls = [
        lambda: comm.allreduce(x),
        lambda: comm.allreduce(x, out=out),
        lambda: comm.allreduce(strided),
        lambda: comm.allreduce(words, dtype="bfloat16"),
        lambda: comm.broadcast(x, out=x),
        lambda: comm.allgather(x),
        lambda: comm.allreduce(2.5),
        lambda: (comm.reduce(x), comm.gather(x, out=out), comm.scatter(strided)),
        lambda: (comm.reduce_scatter(x, out=x), comm.alltoall(x, out=out)),
        lambda: (comm.allgatherv(x), comm.gatherv(strided), comm.scatterv(x, [6])),
        lambda: comm.alltoallv(words, [3], dtype="bfloat16"),
        lambda: pytest.raises(ValueError, comm.alltoallv, x, [5]),
        lambda: pytest.raises(ValueError, comm.scatterv, x, [-1]),
        lambda: pytest.raises(ValueError, comm.gatherv, 2.5),
        lambda: pytest.raises(ValueError, comm.send, x, 0),
        lambda: pytest.raises(ValueError, comm.recv, x, 0),
        lambda: pytest.raises(ValueError, comm.alltoall, x, out=x),
        lambda: pytest.raises(ValueError, comm.allreduce, x, out=x[1:]),
        lambda: pytest.raises(ValueError, comm.allreduce, [1]),
        lambda: (comm.hosts, comm.counters(), comm.link(0), repr(comm)),
    ]
    held = [x, out, strided, words, comm, x.dtype, words.dtype, np.ndarray]

    def count_after_calls():
        for _ in range(200):
            for call in calls:
                call()
        gc.collect()
        return sys.getallocatedblocks(), [sys.getrefcount(thing) for thing in held]

    count_after_calls()  # fills caches
    counts = [count_after_calls() for _ in range(5)]
    growth = [later[0] - earlier[0] for earlier, later in zip(counts, counts[1:])]
    assert min(growth) < 100  # a leak of a block a call would be 200 in every round
    assert [references for _, references in counts] == [counts[0][1]] * 5


def test_bool_is_true_or_false():
    """Whatever byte another rank sends; here an array holds one that NumPy would not make."""
    odd = np.array([5, 0, 2], dtype="uint8").view(bool)
    with sparkring.init() as comm:
        for result in (comm.broadcast(odd), comm.allgather(odd)[0], comm.allreduce(odd, op="lor")):
            assert result.view("uint8").tolist() == [1, 0, 1]
