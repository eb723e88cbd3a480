# SPDX-License-Identifier: Apache-2.0
"""The way of rows from Spark's worker to its child, and of a result back, without Spark."""

from __future__ import annotations

import itertools
import os
import signal

import pytest
from sparkring.spark import _arrow as arrow
from sparkring.spark import _child as child
from sparkring.spark._rows import Feed, Rows

pytestmark = pytest.mark.quick

pyarrow = pytest.importorskip("pyarrow")


def batch(*ids):
    return pyarrow.RecordBatch.from_pydict({"id": pyarrow.array(ids, pyarrow.int64())})


def carry(batches, work):
    """What a child makes of the batches, as the task of a rank has it."""
    feed = Feed(batches)

    def in_child():
        feed.open()
        return work(feed.read())

    ended = child.call(in_child, lambda _: feed.start())
    feed.close()
    assert not feed.thread.is_alive()
    return ended


def ids(batches):
    return [some["id"].to_pylist() for some in batches]


# ---- To the child


def test_batches_arrive_in_their_order():
    assert carry([batch(1, 2), batch(3)], ids) == [[1, 2], [3]]
    assert carry([batch(), batch(1), batch(), batch(2)], ids) == [[], [1], [], [2]]
    assert carry([], ids) == []


def test_large_batches_arrive():
    large = batch(*range(300_000))
    assert carry([large] * 3, lambda batches: [b.num_rows for b in batches]) == [300_000] * 3


def test_a_child_may_stop_early():
    """Though there are more rows than a pipe holds."""
    endless = itertools.repeat(batch(*range(10_000)))
    assert carry(endless, lambda batches: next(batches).num_rows) == 10_000
    assert carry(endless, lambda batches: None) is None


def test_a_batch_is_taken_when_the_child_has_read_the_one_before():
    taken = []

    def count():
        for _ in range(50):
            taken.append(len(taken))
            yield batch(*range(300_000))

    assert carry(count(), lambda batches: next(batches).num_rows) == 300_000
    assert len(taken) <= 3


def test_a_child_that_cannot_start():
    feed = Feed([batch(1)])
    feed.close()
    assert feed.task_end.fileno() == feed.rank_end.fileno() == -1


def test_a_child_may_die():
    def die(batches):
        next(batches)
        os.kill(os.getpid(), signal.SIGKILL)

    assert carry(itertools.repeat(batch(1)), die) == signal.SIGKILL


@pytest.mark.parametrize("good", [0, 1, 2])
def test_an_error_of_spark_reaches_both(good):
    """The child must not take the rows before it for all."""
    seen = []

    def failing():
        yield from [batch(1)] * good
        raise ArithmeticError("no such row")

    def read(batches):
        with pytest.raises(ConnectionError, match="has ended the rows of this rank early"):
            ids(batches)

    feed = Feed(failing())

    def in_child():
        feed.open()
        read(feed.read())
        return "explained"

    seen.append(child.call(in_child, lambda _: feed.start()))
    feed.close()
    assert seen == ["explained"]
    assert repr(feed.error) == "ArithmeticError('no such row')"


# ---- What the function gets


def alone(traits):
    """Return the traits of a single rank."""
    return traits


@pytest.mark.parametrize("batches", [[], [batch(1), batch(2)]])
def test_kinds_of_rows(batches):
    schema = pyarrow.schema([("id", pyarrow.int64())]).serialize().to_pybytes()
    expected = list(range(1, 1 + len(batches)))
    table = Rows("arrow", schema, "UTC").of(iter(batches), alone)
    assert isinstance(table, pyarrow.Table)
    assert table["id"].to_pylist() == expected
    frame = Rows("pandas", schema, "UTC").of(iter(batches), alone)
    assert frame["id"].tolist() == expected
    assert str(frame["id"].dtype) == "int64"
    assert ids(Rows("batches", schema, "UTC").of(iter(batches), alone)) == [[i] for i in expected]


def test_timestamps_have_the_time_of_the_session():
    pandas = pytest.importorskip("pandas")
    times = pyarrow.array([0, None], pyarrow.timestamp("us", "America/New_York"))
    table = pyarrow.table({"t": times, "u": times})
    frame = arrow.to_pandas(table, "America/New_York", alone)
    assert frame["u"][0] == pandas.Timestamp("1969-12-31 19:00:00")
    assert frame["t"].isna().tolist() == [False, True]
    schema = table.schema.serialize().to_pybytes()
    back = list(arrow.read_stream(arrow.pack(frame, schema, "America/New_York", 0)))
    assert pyarrow.Table.from_batches(back).equals(table)


def test_dtypes_are_those_of_all_ranks():
    """The other rank has nulls in each column, and times that nanoseconds cannot hold."""
    pandas = pytest.importorskip("pandas")
    zoned, naive = pyarrow.timestamp("us", "UTC"), pyarrow.timestamp("us")
    kinds = {"n": pyarrow.int32(), "b": pyarrow.bool_(), "t": zoned, "u": naive}
    mine = pyarrow.table({name: pyarrow.array([1]).cast(kind) for name, kind in kinds.items()})
    theirs = pyarrow.table({name: pyarrow.nulls(1, kind) for name, kind in kinds.items()})
    late = pyarrow.array([None, 253_402_214_400_000_000], zoned)  # in the year 9999
    theirs = pyarrow.concat_tables([theirs, theirs]).set_column(2, "t", late)
    theirs = theirs.set_column(3, "u", late.cast(naive))
    sent = []
    for table in (mine, theirs):
        arrow.to_pandas(table, "UTC", lambda traits: sent.append(traits) or traits)
    here, there = (
        arrow.to_pandas(table, "UTC", lambda _: sent[0] | sent[1]) for table in (mine, theirs)
    )
    assert here.dtypes.tolist() == there.dtypes.tolist()
    assert list(map(str, here.dtypes)) == ["float64", "object", "datetime64[us]", "datetime64[us]"]
    assert here["n"].tolist() == [1] and here["b"].tolist() == [True]
    assert there["t"][1] == there["u"][1] == pandas.Timestamp(9999, 12, 31)
    assert here["t"][0] == here["u"][0] == pandas.Timestamp("1970-01-01 00:00:00.000001")
    alone_here = arrow.to_pandas(mine, "UTC", alone)
    assert list(map(str, alone_here.dtypes[:2])) == ["int32", "bool"]


def test_tables_have_one_schema_on_all_ranks():
    """Batches of Spark have the time zone of the session, and may exclude nulls."""
    moment = pyarrow.timestamp("us", "UTC")
    schema = pyarrow.schema([("t", moment), ("a", pyarrow.list_(moment))])
    zoned = pyarrow.timestamp("us", "America/New_York")
    some = pyarrow.RecordBatch.from_arrays(
        [pyarrow.array([0], zoned), pyarrow.array([[0]], pyarrow.list_(zoned))],
        schema=pyarrow.schema(
            [pyarrow.field("t", zoned, nullable=False), ("a", pyarrow.list_(zoned))]
        ),
    )
    rows = Rows("arrow", schema.serialize().to_pybytes(), "America/New_York")
    assert rows.of(iter([some]), alone).schema == rows.of(iter([]), alone).schema == schema


NESTED = {
    "a": lambda time: [time],
    "m": lambda time: {"k": time},
    "s": lambda time: {"t": time, "n": 1},
}


def test_nested_columns_of_pandas_and_back():
    """Maps and structs are dictionaries, with the time of the session."""
    pandas = pytest.importorskip("pandas")
    moment = pyarrow.timestamp("us", "UTC")
    schema = pyarrow.schema(
        [
            ("a", pyarrow.list_(moment)),
            ("m", pyarrow.map_(pyarrow.string(), moment)),
            ("s", pyarrow.struct([("t", moment), ("n", pyarrow.int64())])),
        ]
    )
    table = pyarrow.table(
        [
            pyarrow.array([[0], None], schema.field("a").type),
            pyarrow.array([[("k", 0)], None], schema.field("m").type),
            pyarrow.array([{"t": 0, "n": 1}, None], schema.field("s").type),
        ],
        schema=schema,
    )
    frame = arrow.to_pandas(table, "America/New_York", alone)
    local = pandas.Timestamp("1969-12-31 19:00:00")
    for name, make in NESTED.items():
        assert (list(frame[name][0]) if name == "a" else frame[name][0]) == make(local)
        assert frame[name][1] is None
    back = arrow.pack(frame, schema.serialize().to_pybytes(), "America/New_York", 0)
    assert pyarrow.Table.from_batches(list(arrow.read_stream(back))).equals(table)


def test_times_without_a_zone_are_in_the_zone_of_the_session():
    from datetime import datetime, timezone

    pandas = pytest.importorskip("pandas")
    schema = pyarrow.schema([("t", pyarrow.timestamp("us", "UTC"))])
    naive, aware = datetime(1969, 12, 31, 19), datetime(1970, 1, 1, tzinfo=timezone.utc)
    for value in [
        pandas.DataFrame({"t": [naive, None]}),
        pandas.DataFrame({"t": [naive, None]}, dtype=object),
        pandas.DataFrame({"t": [aware, None]}, dtype=object),
        pandas.DataFrame({"t": pandas.to_datetime([aware, None])}),
        pyarrow.table({"t": [naive, None]}),
        pyarrow.table({"t": [aware, None]}),
        pyarrow.table({"t": pyarrow.array([naive, None], pyarrow.timestamp("ms"))}),
    ]:
        data = arrow.pack(value, schema.serialize().to_pybytes(), "America/New_York", 0)
        (found,) = arrow.read_stream(data)
        assert found["t"].to_pylist() == [aware, None]
    nested = pyarrow.schema([("a", pyarrow.list_(pyarrow.timestamp("us", "UTC")))])
    with pytest.raises(TypeError, match=r"column 'a' is of type list.*in which times have no zone"):
        arrow.pack(pyarrow.table({"a": [[naive]]}), nested.serialize().to_pybytes(), "UTC", 0)


# ---- What it returns

SCHEMA = pyarrow.schema([("x", pyarrow.float64()), ("s", pyarrow.string())])
TABLE = pyarrow.table({"s": ["a", None], "more": [1, 2], "x": [0.5, 1.5]})


def packed(value):
    data = arrow.pack(value, SCHEMA.serialize().to_pybytes(), "UTC", 3)
    batches = list(arrow.read_stream(data))
    return [row for some in batches for row in some.to_pylist()]


def test_rows_that_fit():
    rows = [{"x": 0.5, "s": "a"}, {"x": 1.5, "s": None}]
    assert packed(TABLE) == packed(TABLE.to_batches()[0]) == packed(TABLE.to_pandas()) == rows
    assert packed([TABLE, None, TABLE.to_pandas()]) == rows * 2
    assert packed(None) == packed([]) == packed(TABLE.slice(0, 0)) == []
    whole = TABLE.set_column(2, "x", pyarrow.array([1, 2]))
    assert packed(whole) == [{"x": 1.0, "s": "a"}, {"x": 2.0, "s": None}]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "they are of type int"),
        ([TABLE, 3], "they are of type int"),
        (TABLE.drop_columns(["x"]), "there is no column 'x', only 's', 'more'"),
        (TABLE.to_pandas()[["x"]], "there is no column 's', only 'x'"),
        (TABLE.set_column(2, "x", pyarrow.array(["no", "number"])), "Failed to parse string"),
    ],
)
def test_rows_that_do_not_fit(value, text):
    with pytest.raises(TypeError, match=rf"rows on rank 3 that do not fit schema=: .*{text}"):
        packed(value)
