# SPDX-License-Identifier: Apache-2.0
"""R as the ranks of PySpark's barrier stages: each rank starts R, which opens the ring of R.

R's driver calls `Ranks` by reticulate (spark-pyspark-job.R) with a program: a list that R has
serialized. Its element ``main`` is a function of the program, a token and `arguments_of`. R
supervises its rank as in a task of sparklyr, so the value of a rank is what R has written: the
result of the rank, also that of a failed rank. The ring of R takes the token that rank 0 has drawn
and has sent by the ring of Python, which is always encrypted.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import unquote

from sparkring._communicator import Communicator
from sparkring._core import InvalidError, RingError, UnsupportedError
from sparkring._launch.child_process import describe_code, end_with_parent
from sparkring._launch.nameless_file import nameless_file
from sparkring._run_state import spark_local_directory
from sparkring.spark import _closure_codec as closure_codec
from sparkring.spark import _rank_result as rank_result
from sparkring.spark import _stage as stage
from sparkring.spark._attempts import OnSpark
from sparkring.spark._dataframe import LARGE, keys_of, without_vectors
from sparkring.spark._progress_bar import Display
from sparkring.spark._results import directory_of
from sparkring.spark._session import find

TOKEN = 32  # bytes
MAIN = f"""input <- file("stdin", "rb")
program <- unserialize(input)
program$main(program, readBin(input, "raw", {TOKEN}), commandArgs(TRUE))"""
MISSING = 69  # the exit status of R without the package sparkring: EX_UNAVAILABLE of sysexits.h
COLUMNS = ["rank", "piece", "pieces", "text"]  # of R's rank_result_rows()
SCHEMA = "rank int, piece int, pieces int, text string"


# ---- On a rank -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """The function of a rank, which runs R.

    Attributes
    ----------
    data : bytes
        The program.
    rscript : str
        The path of Rscript on the driver. A host without it uses the Rscript of ``PATH``.
    kept : bool
        Whether R writes the rows of `COLUMNS`, of which some stay in Spark.
    """

    data: bytes = field(repr=False)
    rscript: str
    kept: bool

    def __call__(self, comm: Communicator, batches: Iterable[Any] | None = None) -> Any:
        """Run R, and return what R has written."""
        with contextlib.ExitStack() as stack:
            result = stack.enter_context(nameless_file("sparkring R"))
            program = stack.enter_context(nameless_file("sparkring R"))
            token = bytearray(secrets.token_bytes(TOKEN))
            program.write(self.data + comm.broadcast(token, out=token))
            program.seek(0)
            rows = None if batches is None else stack.enter_context(rows_file(batches))
            reports = stack.enter_context(reports_of(comm))
            code = run_rscript(
                [self.rscript if os.path.exists(self.rscript) else "Rscript", "-e", MAIN],
                arguments_of(comm, reports, result, rows),
                program,
                [reports, result.fileno(), *([] if rows is None else [rows.fileno()])],
            )
            result.seek(0)
            written = result.read()
        if code == MISSING:
            raise UnsupportedError(written.decode())
        if code or not written:
            how = describe_code(code) if code else "ended without a result"
            raise ChildProcessError(f"its R process {how}")
        return table_of(written) if self.kept else written


def arguments_of(
    comm: Communicator, reports: int, result: IO[bytes], rows: IO[bytes] | None
) -> list[str]:
    """Return the arguments of R: its rank, attempt and addresses, and the files that it inherits.

    They are a pipe for reports of progress, and the files of the result and of the rows.
    """
    from pyspark import BarrierTaskContext

    addresses = [info.address for info in BarrierTaskContext.get().getTaskInfos()]
    paths = [f"/dev/fd/{file.fileno()}" for file in (result, rows) if file is not None]
    return [str(comm.rank), str(comm.attempt), ",".join(addresses), str(reports), *paths]


def run_rscript(
    command: list[str], arguments: list[str], program: IO[bytes], descriptors: list[int]
) -> int:
    """Run R, and return its exit code."""
    try:
        return subprocess.run(
            [*command, *arguments],
            check=False,
            stdin=program,
            env={**os.environ, "R_ENABLE_JIT": "0"},  # R compiles the function of the user later
            pass_fds=descriptors,
            preexec_fn=lambda: end_with_parent(signal.SIGKILL),
        ).returncode
    except FileNotFoundError:
        raise UnsupportedError(
            f"R is not installed on {os.uname().nodename}: there is no Rscript in"
            f" {os.environ.get('PATH', '')}; install R and its package sparkring there"
        ) from None


@contextlib.contextmanager
def rows_file(batches: Iterable[Any]) -> Iterator[IO[bytes]]:
    """Write batches of Arrow as lines to a file without a name, as R's batch_file.c reads them."""
    with tempfile.TemporaryFile(dir=spark_local_directory()) as file:
        for batch in batches:
            file.write(b"0 -1 " + base64.b64encode(batch.serialize()) + b"\n")
        file.flush()
        yield file


@contextlib.contextmanager
def reports_of(comm: Communicator) -> Iterator[int]:
    """Pass on the reports of progress that R writes to a pipe, as lines of progress_write()."""
    ours, theirs = os.pipe()

    def work() -> None:
        with open(ours, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                step, total, *metrics = line.split()
                names = map(unquote, metrics[::2])
                numbers = dict(zip(names, map(float, metrics[1::2])))
                comm.progress(float(step), None if total == "NA" else float(total), **numbers)

    thread = threading.Thread(target=work, name="sparkring reports", daemon=True)
    thread.start()
    try:
        yield theirs
    finally:
        os.close(theirs)
        thread.join(1)  # a process that R has left behind may hold the pipe


def table_of(written: bytes) -> Any:
    """Make a table of Arrow of lines with the columns of `COLUMNS`."""
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    lines = [line.split("\t", 3) for line in written.decode().split("\n") if line]
    *numbers, texts = zip(*lines)
    columns = [pyarrow.array(map(int, column), pyarrow.int32()) for column in numbers]
    return pyarrow.table([*columns, pyarrow.array(texts, pyarrow.string())], COLUMNS)


# ---- On the driver -------------------------------------------------------------------------------


class Lines(Display):
    """Shows the output of the ranks, and no progress."""

    def progress(
        self, rank: int, step: float, total: float | None, metrics: dict[str, float]
    ) -> None:
        """Show nothing."""


class Ranks:
    """The ranks of a call of R's ``ring_apply()`` or ``ring_run()``.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The Spark.
    program : bytes
        The program.
    rscript : str
        The path of Rscript on the driver.
    frame : pyspark.sql.DataFrame, optional
        The table of the rows, from `readable`.
    num_proc : int, optional
        The number of ranks.
    kept : bool
        Whether the tables of the ranks stay in Spark.
    progress : bool
        Whether reports of progress are shown.
    results : str, optional
        As for `run`.
    options : dict
        The arguments of `sparkring.init` that the rings of R and of Python share, but for
        ``encryption``.
    """

    def __init__(
        self,
        spark: Any,
        program: bytes | bytearray,
        rscript: str,
        frame: Any,
        num_proc: int | None,
        *,
        kept: bool,
        progress: bool,
        results: str | None,
        options: dict[str, Any],
    ) -> None:
        found = find(spark)
        self.session, self.kept = spark, kept
        self.display = Display(1) if progress else Lines(1)
        run_r = Program(bytes(program), rscript, kept)
        work = closure_codec.dumps_work(run_r, (), None, rows=frame is not None)
        directory = directory_of(results, found.here)
        options = {**options, "encryption": True}  # the token of R's ring is sent by it
        self.ranks = OnSpark(work, options, found, None, directory, self.display)
        if frame is not None:
            self.ranks.take(frame, "batches", SCHEMA if kept else None)
        self.ranks.prepare(num_proc)

    def launch(self, number: int) -> dict[str, Any]:
        """Run an attempt.

        Returns
        -------
        dict
            ``values``: what R has written on each rank, or, with ``kept``, the rows of `COLUMNS`
            that R reads. Or, for a rank whose processes have ended, ``lost`` and its ``rank``,
            ``host`` and ``log``.
        """
        if number:
            self.display.restart()
        found = self.ranks.launch(number)
        if isinstance(found, list):
            failed = rank_result.culprit(found)
            if failed is None:
                return {"values": self.rows_of_results() if self.kept else arrays_of(found)}
            found = rank_result.to_raise(failed, number)
        lost = found if isinstance(found, rank_result.RankError) else found.__cause__
        if isinstance(found, RingError) or not isinstance(lost, rank_result.RankError):
            raise found
        what = lost.what
        if isinstance(found, ChildProcessError):
            what = f"was lost: {rank_result.advise(str(found), here=self.ranks.spark.here)}"
        return {"lost": what, "rank": lost.rank, "host": lost.host, "log": lost.log}

    def rows_of_results(self) -> dict[str, list[Any]]:
        """Return the rows that R reads, as columns."""
        rows = self.rows().where("pieces >= 0").collect()
        return {name: [row[name] for row in rows] for name in COLUMNS}

    def rows(self) -> Any:
        """Return the rows of `COLUMNS` of the last attempt, which Spark keeps."""
        columns = [f"{stage.own_name(place)} AS {name}" for place, name in enumerate(COLUMNS)]
        return self.ranks.kept.where(f"{stage.DATA} IS NULL").selectExpr(*columns)

    def keys(self) -> list[int]:
        """Find for each partition a number whose hash chooses the partition."""
        return keys_of(self.session, int(self.ranks.size or 1))

    def table(self, view: str, sql: str) -> Any:
        """Make a DataFrame by SQL about a view of the strings that stay in Spark."""
        self.rows().where("pieces = -1").createOrReplaceTempView(view)
        try:
            return self.session.sql(sql).localCheckpoint(eager=True)
        finally:
            self.session.catalog.dropTempView(view)

    def close(self) -> None:
        """End the output."""
        self.display.close()


def arrays_of(rank_results: list[rank_result.RankResult]) -> list[bytearray]:
    """Return the values of the ranks as reticulate converts them to raw vectors."""
    return [bytearray(value) for value in rank_result.values(rank_results)]


def readable(frame: Any) -> Any:
    """Return a DataFrame without vectors of MLlib, whose types R knows."""
    if frame.sparkSession.conf.get(LARGE, "false") == "true":
        raise UnsupportedError(f"{LARGE} is true, and R cannot read such rows: set it to false")
    if frame.isStreaming:
        raise InvalidError("the table is a stream: make the call in foreachBatch, with each batch")
    return without_vectors(frame)


def types_of(frame: Any) -> dict[str, str]:
    """Return the type of each column, as Spark writes it in Scala."""
    return {
        column.name: str(column.dataType)
        .replace("()", "")
        .replace(", True)", ",true)")
        .replace(", False)", ",false)")
        for column in frame.schema
    }


def is_here(spark: Any) -> bool:
    """Return whether tasks run on the host of this process, as its children."""
    return find(spark).here
