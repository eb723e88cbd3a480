# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The model of both frameworks: weights, and predictions as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.ml import Model

from sparkring._core import InvalidError
from sparkring.spark._dataframe import quoted
from sparkring.spark.ml import _prediction as prediction
from sparkring.spark.ml._output import Output
from sparkring.spark.ml._plan import Plan
from sparkring.spark.ml._settings import PredictionSettings
from sparkring.spark.ml._storage import Stored, find_session

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from sparkring.spark.ml._methods import ModelParams
    from sparkring.spark.ml._training import Progress


class NetworkModel(Model, PredictionSettings, Stored):
    """A trained network."""

    _framework: str

    def __init__(self, **params: Unpack[ModelParams]) -> None:
        super().__init__()
        self._weights: bytes = b""
        self._shapes: list[list[int]] = []
        self._outputs: list[Output] = []
        self._history: list[dict[str, Any]] = []
        self._set_params(params)

    def setParams(self, **params: Unpack[ModelParams]) -> Self:  # noqa: N802 (Spark's name)
        """Set Params by name.

        Parameters
        ----------
        **params : object
            Values by the names of Params.

        Returns
        -------
        model
            This model.
        """
        return self._set_params(params)

    @property
    def history(self) -> Any:
        """pyspark.sql.DataFrame: a row an epoch, with its losses, metrics and learning rate."""
        if not self._history:
            raise InvalidError("this model has no history: set validation before fit")
        names = list(dict.fromkeys(name for row in self._history for name in row))
        types = ", ".join(f"{quoted(n)} {'bigint' if n == 'epoch' else 'double'}" for n in names)
        rows = [tuple(row.get(name) for name in names) for row in self._history]
        return find_session().createDataFrame(rows, types)

    def network(self) -> Any:
        """Return the network of the framework, with its weights, in this process.

        Returns
        -------
        torch.nn.Module, keras.Model, xgboost.Booster or lightgbm.Booster
            By the framework of the model, which is imported.
        """
        plan = self._plan()
        return plan.module.Predictor(plan, self._weights).model

    def _plan(self) -> Plan:
        return Plan(self._framework, self._values())

    def _transform(self, dataset: Any) -> Any:
        plan = self._plan()
        outputs = self._outputs[: len(plan.outputCols)]  # trees leave outputs without a name out
        return prediction.append(dataset, plan, self._weights, self._shapes, outputs)

    def _take(self, progress: Progress) -> Self:
        """Take the result of a training."""
        assert progress.best_weights is not None
        self._weights, self._history = progress.best_weights, progress.history
        self._shapes, self._outputs = progress.shapes, progress.outputs
        return self

    # ---- For Writer and Reader

    def _extra(self) -> dict[str, Any]:
        return {
            "shapes": self._shapes,
            "outputs": self._outputs,
            "history": self._history,
        }

    def _load(self, weights: bytes, metadata: dict[str, Any]) -> None:
        self._weights, self._shapes = weights, metadata["shapes"]
        self._outputs = [Output(*output) for output in metadata["outputs"]]
        self._history = metadata["history"]
