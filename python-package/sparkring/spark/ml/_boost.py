# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Estimators of trees, XGBoost's and LightGBM's, and their models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.ml import Estimator

from sparkring.spark import _slot_check as slot_check
from sparkring.spark.ml import _columns as columns_of
from sparkring.spark.ml import _tree_rank as tree_rank
from sparkring.spark.ml._estimator import Fit, turn
from sparkring.spark.ml._model import NetworkModel
from sparkring.spark.ml._plan import Plan
from sparkring.spark.ml._storage import Stored
from sparkring.spark.ml._tree_settings import HasBaseMargin, TreeSettings

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from sparkring.spark.ml._methods import BaseMarginParams, TreeOptions, TreeParams

M = TypeVar("M", bound="TreeModel")
OUTPUTS = ["prediction", "probability", "rawPrediction"]  # of a classifier


class TreeModel(NetworkModel, HasBaseMargin):
    """Trees of either framework."""

    if TYPE_CHECKING:

        def __init__(self, **params: Unpack[BaseMarginParams]) -> None: ...

        def setParams(self, **params: Unpack[BaseMarginParams]) -> Self: ...  # noqa: N802

    def _plan(self) -> Plan:
        """Choose the types of outputs, as Spark's own classifiers have them."""
        plan, outputs = super()._plan(), self._outputs[: len(self.getOrDefault("outputCols"))]
        if outputs and not plan.outputTypes and plan.postprocess is None:
            first = outputs[0].sql if outputs[0].is_array else "double"
            plan.settings["outputTypes"] = [first, *["vector"] * (len(outputs) - 1)]
        return plan


class XGBoostModel(TreeModel):
    """Trees of XGBoost that `XGBoostEstimator` has trained. `network` returns the Booster.

    Parameters
    ----------
    **params : object
        Values of Params, which choose the outputs; ``explainParams()`` describes them.
    """

    __module__ = "sparkring.spark.ml"
    _framework = "xgboost"


class LightGBMModel(TreeModel):
    """Trees of LightGBM that `LightGBMEstimator` has trained. `network` returns the Booster.

    Parameters
    ----------
    **params : object
        Values of Params, which choose the outputs; ``explainParams()`` describes them.
    """

    __module__ = "sparkring.spark.ml"
    _framework = "lightgbm"


class TreeEstimator(Estimator[M], TreeSettings, Stored):
    """Trains trees."""

    _framework: str
    _model_type: type[M]
    _dtype = "float32"  # of the framework's features

    def __init__(self, **params: Unpack[TreeParams]) -> None:
        super().__init__()
        self._setDefault(dtype=self._dtype)
        self._set_params(params)

    def setParams(self, **params: Unpack[TreeParams]) -> Self:  # noqa: N802 (Spark's name)
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

    def _set_params(self, params: Mapping[str, Any]) -> Self:
        if params.get("model") is not None:
            raise TypeError("model has no effect on trees: modelParams has their parameters")
        return super()._set_params(params)

    def _fit(self, dataset: Any) -> M:
        settings = {**self._values(), "epochs": self.getOrDefault("rounds"), "directory": None}
        settings["labels"] = columns_of.labels_of(dataset, settings)
        plan = Plan(self._framework, settings)
        rows = columns_of.prepare(dataset, settings, trees=True)
        fit = Fit(plan, rows)
        options: dict[str, Any] = {"frame": rows}
        if plan.qidCol is not None:  # the rows of a query on one rank, together
            ranks = plan.numProc or slot_check.wait_for(fit.spark, None, None, plan.timeout)
            groups = rows.repartition(ranks, columns_of.QUERY)
            options = {"frame": groups.sortWithinPartitions(columns_of.QUERY), "num_proc": None}
        with turn:
            progress = fit.launch(tree_rank.train, (plan,), rows="batches", **options)
        model = self._model_type()._take(progress)._resetUid(self.uid)
        model = self._copyValues(model)
        if not self.isSet("outputCols"):
            model._set(outputCols=OUTPUTS[: len(model._outputs)])
        return model


class XGBoostEstimator(TreeEstimator[XGBoostModel]):
    """Trains trees of XGBoost on the ranks of a barrier stage.

    It works in Pipeline, CrossValidator and TrainValidationSplit, and is saved and loaded as other
    stages; ``explainParams()`` describes all Params. Some need more words:

    Parameters
    ----------
    modelParams : dict
        The parameters of ``xgboost.train``, its arguments ``early_stopping_rounds`` (which needs
        ``validation``) and ``maximize``, and the arguments ``enable_categorical``,
        ``feature_types``, ``feature_names``, ``feature_weights`` and ``missing`` of
        ``xgboost.DMatrix``. A parameter without an effect is an error, as are ``gblinear`` and
        ``survival:cox`` with several ranks: XGBoost fits them to each rank's own rows. The leaves
        of ``reg:absoluteerror`` and ``reg:quantileerror`` are means of those of the ranks.
    inputCols : list of str
        Numbers, arrays and vectors, which become one matrix. Nulls and NaN are missing values. The
        columns, or the parts of a VectorAssembler, name the features.
    validation : str or float
        The column that is true or not 0 in the rows for validation, or their fraction. ``history``
        has the metrics of these rows.
    qidCol : str
        The queries of a ranking, as for ``rank:ndcg``. The rows of a query go to one rank.
    baseMarginCol : str
        The margins that the trees begin with, also those of predictions.
    outputCols : list of str
        The names of the class, the vector of probabilities and the vector of margins of a
        classifier, or of the first of these; by default ``prediction``, ``probability`` and
        ``rawPrediction``. Other objectives have one prediction. With ``postprocess``, the names of
        what this function of the Booster's prediction returns.

    Examples
    --------
    >>> from sparkring.spark.ml import XGBoostEstimator
    >>> estimator = XGBoostEstimator(
    ...     modelParams={"objective": "binary:logistic", "early_stopping_rounds": 5}, rounds=100,
    ...     inputCols=["features"], labelCol="label", validation=0.2,
    ... )
    >>> estimator.fit(frame).transform(frame).select("prediction", "probability")
    """

    __module__ = "sparkring.spark.ml"
    _framework = "xgboost"
    _model_type = XGBoostModel


class LightGBMEstimator(TreeEstimator[LightGBMModel]):
    """Trains trees of LightGBM on the ranks of a barrier stage, with its data-parallel learner.

    The trees of several ranks are those of LightGBM's own ``tree_learner="data"`` on as many
    machines, which may differ from those of one process. ``linear_tree``,
    ``interaction_constraints``, ``forcedsplits_filename`` and the values ``intermediate`` and
    ``advanced`` of ``monotone_constraints_method`` need ``numProc=1``, as LightGBM has them for one
    machine only. ``dtype`` is ``float64`` by default.

    As `XGBoostEstimator`, with the parameters of ``lightgbm.train``, such as
    ``early_stopping_rounds`` and ``categorical_feature``, also by the names of columns. Every rank
    needs rows, and holds all rows for validation.

    Parameters
    ----------
    **params : object
        Values of the Params of `XGBoostEstimator`.
    """

    __module__ = "sparkring.spark.ml"
    _framework = "lightgbm"
    _model_type = LightGBMModel
    _dtype = "float64"


def fit_xgboost(
    frame: Any, parameters: Mapping[str, Any], rounds: int = 10, **params: Unpack[TreeOptions]
) -> XGBoostModel:
    """Train trees of XGBoost on the rows of a DataFrame, on the ranks of a ring.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows.
    parameters : dict
        ``modelParams`` of `XGBoostEstimator`.
    rounds : int
        The number of rounds.
    **params
        Params of `XGBoostEstimator`.

    Returns
    -------
    XGBoostModel
        Its ``transform`` appends the predictions.

    Examples
    --------
    >>> model = fit_xgboost(frame, {"objective": "reg:squarederror"}, 50, inputCols=["features"])
    >>> model.transform(frame)
    """
    estimator = XGBoostEstimator(**params)
    return estimator.setParams(modelParams=parameters, rounds=rounds).fit(frame)


def fit_lightgbm(
    frame: Any, parameters: Mapping[str, Any], rounds: int = 100, **params: Unpack[TreeOptions]
) -> LightGBMModel:
    """Train trees of LightGBM on the rows of a DataFrame, on the ranks of a ring.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows.
    parameters : dict
        ``modelParams`` of `LightGBMEstimator`.
    rounds : int
        The number of rounds.
    **params : object
        Params of `LightGBMEstimator`.

    Returns
    -------
    LightGBMModel
        Its ``transform`` appends the predictions.

    Examples
    --------
    >>> model = fit_lightgbm(frame, {"objective": "binary"}, 50, inputCols=["features"])
    >>> model.transform(frame)
    """
    estimator = LightGBMEstimator(**params)
    return estimator.setParams(modelParams=parameters, rounds=rounds).fit(frame)
