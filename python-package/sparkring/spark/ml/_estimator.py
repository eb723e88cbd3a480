# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The estimator of both frameworks: it prepares the table, and trains on the ranks of `run`."""

from __future__ import annotations

import contextlib
import threading
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.ml import Estimator

from sparkring._core import InvalidError
from sparkring.data import write_parquet
from sparkring.data._parquet import file_system
from sparkring.spark import _session as sessions
from sparkring.spark import _slot_check as slot_check
from sparkring.spark import run
from sparkring.spark.ml import _columns as columns_of
from sparkring.spark.ml import _rank as rank
from sparkring.spark.ml._model import NetworkModel
from sparkring.spark.ml._plan import Plan
from sparkring.spark.ml._settings import TrainingSettings
from sparkring.spark.ml._storage import Stored
from sparkring.spark.ml._training import Progress

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from sparkring.spark.ml._methods import TrainingParams

M = TypeVar("M", bound=NetworkModel)

# Runs of one process take turns. CrossValidator(parallelism=2) starts two, and each barrier stage
# would wait for slots that the other one holds.
turn = threading.Lock()


class NetworkEstimator(Estimator[M], TrainingSettings, Stored):
    """Trains a network."""

    _framework: str
    _model_type: type[M]

    def __init__(self, **params: Unpack[TrainingParams]) -> None:
        super().__init__()
        self._set_params(params)

    def setParams(self, **params: Unpack[TrainingParams]) -> Self:  # noqa: N802 (Spark's name)
        """Set Params by name.

        Parameters
        ----------
        **params : object
            Values by the names of Params.

        Returns
        -------
        estimator
            This estimator.
        """
        return self._set_params(params)

    def _fit(self, dataset: Any) -> M:
        settings = self._values()
        for name in ("model", "loss", "optimizer"):
            if settings[name] is None:
                raise InvalidError(f"{name} is not set: pass a function, or its import path")
        plan = Plan(self._framework, settings)
        if plan.data == "stream" and plan.callbacks:
            raise InvalidError(
                "callbacks need data='spill' or 'parquet': with 'stream' each epoch launches new"
                " ranks, whose callbacks would begin anew"
            )
        with turn:
            progress = Fit(plan, columns_of.prepare(dataset, settings)).run()
        if progress.best is None:
            warnings.warn(
                "the loss, or the number of monitor, was NaN in all epochs, and predictions may be"
                " NaN, too: try a lower learning rate, and look for NaN in inputCols",
                RuntimeWarning,
                stacklevel=2,
            )
        model = self._model_type()._take(progress)._resetUid(self.uid)
        return self._copyValues(model)


class Fit:
    """One training."""

    def __init__(self, plan: Plan, frame: Any) -> None:
        self.plan, self.frame = plan, frame
        self.spark = sessions.find(frame.sparkSession)

    def run(self) -> Progress:
        """Train on the ranks, and return the last progress."""
        plan, frame = self.plan, self.frame
        if plan.data == "parquet":
            with contextlib.ExitStack() as files:
                paths = self.paths(files)
                return self.launch(rank.train_on_files, (plan, paths), spark=frame.sparkSession)
        if plan.data == "spill":
            return self.launch(rank.train_on_rows, (plan,), frame=frame, rows="batches")
        # Without num_proc Spark computes the table once an epoch, for a rank a partition.
        parts = frame if plan.numProc is None else frame.repartition(plan.numProc)
        options: dict[str, Any] = {"frame": parts, "rows": "batches", "num_proc": None}
        now = Progress()
        while not now.is_over:
            now = self.launch(rank.train_an_epoch, (plan, now), now.epoch, **options)
        return now

    def launch(
        self, function: Any, args: tuple[Any, ...], epoch: int = 0, **options: Any
    ) -> Progress:
        """Run the ranks once, from an epoch on."""
        plan = self.plan
        if plan.timeline is not None:
            options["timeline"] = plan.timeline
        if "num_proc" not in options:
            slots = plan.numProc or slot_check.wait_for(self.spark, None, None, plan.timeout)
            options["num_proc"] = slots
        try:
            found: list[Any] = run(
                function,
                args,
                timeout=plan.timeout,
                max_restarts=plan.maxRestarts,
                verbose=plan.verbose,
                **options,
            )
        finally:
            if plan.maxRestarts and plan.directory is not None:
                # After a failure. This process need not see the directory, as ranks must.
                with contextlib.suppress(Exception):
                    rank.remove(rank.path_of(plan, epoch))
        progress: Progress = found[0]
        return progress

    def paths(self, files: contextlib.ExitStack) -> tuple[str, str | None]:
        """Write the table to Parquet files, for training and for validation.

        The parts are made of the files of the whole: a table with random numbers that is computed
        twice has rows in both parts, or in none.
        """

        def write(rows: Any) -> str:
            return files.enter_context(write_parquet(rows, self.plan.directory))

        valid = columns_of.VALID
        if valid not in self.frame.columns:
            return write(self.frame), None
        path = write(self.frame)
        local = file_system.local_path(path)
        whole = self.frame.sparkSession.read.parquet(path if local is None else f"file://{local}")
        return write(whole.where(f"NOT {valid}").drop(valid)), write(whole.where(valid).drop(valid))
