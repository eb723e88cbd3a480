# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any
"""The Params of estimators of trees."""

from __future__ import annotations

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasLabelCol, HasWeightCol

from sparkring.spark.ml._methods import BaseMarginMethods, TreeMethods
from sparkring.spark.ml._settings import PredictionSettings, Settings, TrainingSettings, whole


class HasBaseMargin(BaseMarginMethods, Settings):
    """The Param that the estimator and the model of trees share, beside those of networks."""

    baseMarginCol = Param(  # noqa: N815 (Spark's style)
        Params._dummy(),
        "baseMarginCol",
        "column of the margins that the trees begin with, numbers or arrays",
        TypeConverters.toString,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(baseMarginCol=None)


class TreeSettings(TreeMethods, PredictionSettings, HasBaseMargin, HasLabelCol, HasWeightCol):
    """The Params of an estimator of trees."""

    _advice = ". The parameters of the framework go into modelParams"
    rounds = Param(Params._dummy(), "rounds", "number of rounds at most", whole(1))
    qidCol = Param(  # noqa: N815
        Params._dummy(),
        "qidCol",
        "column of the queries of a ranking, whole numbers or strings",
        TypeConverters.toString,
    )
    classWeights = TrainingSettings.classWeights  # noqa: N815
    validation = TrainingSettings.validation
    seed = Param(
        Params._dummy(),
        "seed",
        "seed of the trees, unless modelParams has one, and of the rows for validation; 32 bits",
        whole(0, 2**32 - 1),
    )
    numProc = TrainingSettings.numProc  # noqa: N815
    maxRestarts = TrainingSettings.maxRestarts  # noqa: N815
    timeline = TrainingSettings.timeline
    timeout = TrainingSettings.timeout
    verbose = TrainingSettings.verbose

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            outputCols=None,  # all outputs of the objective
            rounds=100,
            qidCol=None,
            weightCol=None,
            classWeights=None,
            validation=None,
            seed=0,
            numProc=None,
            maxRestarts=0,
            timeline=None,
            timeout=300.0,
            verbose=1,
        )
