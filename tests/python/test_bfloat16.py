# SPDX-License-Identifier: Apache-2.0
"""bfloat16, as words and as arrays of ml_dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from cases import check, numbers, parted, reduced
from ranks import open_comm, run


def bfloat16_words(values):
    """Cut float32 to bfloat16, which small whole numbers survive."""
    return (values.astype("float32").view("uint32") >> 16).astype("uint16")


def move_bfloat16_words():
    with open_comm() as comm:
        me, size = comm.rank, comm.size
        words = bfloat16_words(parted(me, size, (2,), "float32"))
        words_are = {"dtype": "bfloat16"}
        assert np.array_equal(
            comm.alltoallv(words, [2] * size, **words_are), comm.alltoall(words, **words_are)
        )
        assert np.array_equal(
            comm.allgatherv(words, **words_are), comm.allgather(words, **words_are).ravel()
        )
        whole = comm.reduce(words, root=1, **words_are)
        part = comm.reduce_scatter(words, **words_are)
        assert np.array_equal(
            comm.scatter(words, 1, **words_are), comm.scatterv(words, [2] * size, 1, **words_are)
        )
        gathered = comm.gatherv(part, 1, **words_are)
        assert (gathered is None and whole is None) or np.array_equal(gathered, whole)
        comm.send(words, (me + 1) % size, **words_are)
        return comm.recv(words, (me - 1) % size, **words_are)


def test_bfloat16_parts():
    for rank, words in enumerate(run(3, move_bfloat16_words)):
        expected = bfloat16_words(parted((rank - 1) % 3, 3, (2,), "float32"))
        check(words, expected, "bfloat16")


def reduce_bfloat16_words():
    with open_comm() as comm:
        words = bfloat16_words(numbers(comm.rank, "float32"))
        total = comm.allreduce(words, dtype="bfloat16")
        comm.allreduce(words, out=words, dtype="bfloat16")
        assert words.tobytes() == total.tobytes()
        return total


def test_bfloat16_words():
    expected = bfloat16_words(reduced("sum", [numbers(rank, "float32") for rank in range(3)]))
    for total in run(3, reduce_bfloat16_words):
        check(total, expected, "bfloat16")


def reduce_bfloat16_array():
    import ml_dtypes

    with open_comm() as comm:
        x = numbers(comm.rank, "float32").astype(ml_dtypes.bfloat16)
        total = comm.allreduce(x.T)
        assert comm.allreduce(x, out=x) is x
        assert x.tobytes() == total.T.tobytes()
        return str(total.dtype), total.astype("float32"), comm.allgather(x).dtype.name


def test_bfloat16_array():
    pytest.importorskip("ml_dtypes", reason="ml_dtypes, which adds bfloat16 to NumPy, is missing")
    expected = reduced("sum", [numbers(rank, "float32") for rank in range(2)])
    for dtype, total, gathered in run(2, reduce_bfloat16_array):
        assert (dtype, gathered) == ("bfloat16", "bfloat16")
        assert total.tolist() == expected.T.tolist()
