# SPDX-License-Identifier: Apache-2.0
"""The attempts of a run: all ranks are launched, and again after a failure.

R's spark-barrier-job.R does the same.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sparkring._core import UnsupportedError
from sparkring.spark import _abilities as abilities
from sparkring.spark import _dataframe as dataframes
from sparkring.spark import _rank_result as rank_result
from sparkring.spark import _slot_check as slot_check
from sparkring.spark import _stage as stage
from sparkring.spark._log_server import LogServer
from sparkring.spark._results import Results
from sparkring.spark._task_main import Attempt

if TYPE_CHECKING:
    from sparkring.spark import _closure_codec as closure_codec
    from sparkring.spark._progress_bar import Display
    from sparkring.spark._rank_result import RankResult
    from sparkring.spark._session import Spark
    from sparkring.spark._task_main import Table


def attempts(
    launch: Callable[[int], list[RankResult] | BaseException], max_restarts: int, display: Display
) -> list[Any]:
    """Launch the ranks until they succeed, or no restart is left."""
    for attempt in range(max_restarts + 1):
        start = time.monotonic()
        rank_results = launch(attempt)
        error = (
            rank_results
            if isinstance(rank_results, BaseException)
            else error_of(rank_results, attempt)
        )
        if isinstance(rank_results, list) and error is None:
            display.detail(f"all ranks ended after {time.monotonic() - start:.1f} s")
            return rank_result.values(rank_results, attempt)
        assert error is not None
        if attempt == max_restarts:
            raise error
        cause = error if isinstance(error, rank_result.RankError) else error.__cause__
        first = str(cause).partition("\n")[0]
        display.notify(
            f"{first}; launching all ranks again ({attempt + 1} of {max_restarts} times)"
        )
        display.restart()
    raise AssertionError("one attempt is the last")


def error_of(rank_results: list[RankResult], attempt: int) -> BaseException | None:
    """Find the error to raise for the rank at fault; None when no rank has failed."""
    failed = rank_result.culprit(rank_results)
    return None if failed is None else rank_result.to_raise(failed, attempt)


class OnSpark:
    """Runs the attempts on Spark."""

    def __init__(
        self,
        work: closure_codec.Work,
        options: dict[str, Any],
        spark: Spark,
        resources: Any,
        results: str | None,
        display: Display,
        replacements: int | None = None,
    ) -> None:
        self.work, self.options, self.spark, self.resources = work, options, spark, resources
        self.results, self.display, self.replacements = results, display, replacements
        self.size: int | None = None  # by default, all attempts have the size of the first
        self.table: Table | None = None
        self.frame: Any = None
        self.kept: Any = None
        self.source: dataframes.PartedDataFrame | None = None
        self.kind = ""

    def take(self, frame: Any, kind: str, schema: Any) -> None:
        """Give the ranks the rows of a DataFrame. With a schema their results stay in Spark."""
        self.frame, self.kind = frame, kind
        if schema is None:
            return
        if not abilities.has_results(frame):
            raise UnsupportedError("schema= on Spark Connect needs Spark 4.0: leave schema out")
        session = frame.sparkSession
        fields = session.createDataFrame([], schema).schema
        self.table = stage.result_of(fields, session.conf.get(dataframes.ZONE))

    def prepare(self, num_proc: int | None) -> None:
        """Check the settings of Spark, and find the number of ranks of a DataFrame."""
        slot_check.check_settings(self.spark, self.resources)
        self.size = num_proc
        if self.frame is not None:
            self.source = dataframes.PartedDataFrame(self.spark, self.frame, self.kind, num_proc)
            self.size = self.source.size

    def run(self, num_proc: int | None, max_restarts: int) -> Any:
        """Run the attempts. Return the values of the ranks, or their DataFrame."""
        self.prepare(num_proc)
        values = attempts(self.launch, max_restarts, self.display)
        if self.table is None or self.size is None:
            return values
        return stage.table_of(self.kept, self.table, self.size)

    def launch(self, number: int) -> list[RankResult] | BaseException:
        """Run an attempt."""
        spark, resources = self.spark, self.resources
        size = slot_check.wait_for(spark, resources, self.size, self.options["timeout"], number)
        self.size = size
        self.display.detail(
            f"{size} ranks, {slot_check.arithmetic(slot_check.read(spark, resources))}"
        )
        try:
            return self.submit(size, number)
        except UnsupportedError as error:
            if self.source is None or not self.source.shuffle(error):
                raise
            return self.submit(size, number)

    def submit(self, size: int, number: int) -> list[RankResult] | BaseException:
        """Run the ranks once."""
        spark, display = self.spark, self.display
        frame = self.source.prepare() if self.source else None
        with contextlib.ExitStack() as stack:
            log_server = stack.enter_context(listening(spark, size, display))
            large = stack.enter_context(Results(spark, size, self.results, log_server))
            address = log_server.address if log_server else None
            job = spark.job_type(
                spark,
                size,
                self.resources,
                self.options["timeout"],
                display.notify,
                log_server,
                frame,
            )
            attempt = Attempt(
                self.work,
                self.options,
                number,
                address,
                (None if not display.verbose else not address) if spark.here else True,
                slot_check.gpus_of_task(spark, self.resources),
                directory=os.getcwd() if spark.here else None,
                route=large.route,
                rows=self.source.rows if self.source else None,
                table=self.table,
                size=size,
                replacements=self.replacements,
            )
            rank_results = job.run(attempt)
            if not rank_results:  # Spark leaves out stages of tables that have no rows
                raise UnsupportedError(f"Spark started no task for {size} ranks: pass num_proc")
            self.kept = job.kept
            return large.insert(rank_results) if isinstance(rank_results, list) else rank_results


@contextlib.contextmanager
def listening(spark: Spark, size: int, display: Display) -> Iterator[LogServer | None]:
    """Listen for the output of the ranks. The error of a lost rank always shows its last lines."""
    log_server = None
    try:
        log_server = LogServer(spark.reach(), size, display.line, display.progress)
    except OSError as error:
        display.notify(f"live output is off: {error.strerror or error}; see the executor logs")
    try:
        yield log_server
    finally:
        if log_server is not None:
            log_server.close()
    if log_server is not None and not log_server.hosts:
        display.notify(
            "live output is off because no executor has connected to this process; see the executor"
            " logs"
        )
