# SPDX-License-Identifier: Apache-2.0
"""The Params and functions that the driver sends to the ranks and to the workers that predict."""

from __future__ import annotations

import copy
import importlib
import uuid
from typing import Any

from sparkring.spark.ml import _factory as factory

FUNCTIONS = tuple(factory.ARGUMENTS)
MODULES = {
    "torch": "sparkring.spark.ml._torch_learner",
    "keras": "sparkring.spark.ml._keras_learner",
    "xgboost": "sparkring.spark.ml._xgboost",
    "lightgbm": "sparkring.spark.ml._lightgbm",
}


class Plan:
    """The values of Params as attributes, with functions in place of their import paths.

    Parameters
    ----------
    kind : str
        One of `MODULES`.
    settings : dict
        The values of all Params.
    """

    def __init__(self, kind: str, settings: dict[str, Any]) -> None:
        self.kind = kind
        self.run = uuid.uuid4().hex[:16]  # names the checkpoints
        self.shapes: Any = None  # of a row of the input columns, when some have been read
        self.settings = settings
        self.functions = {name: factory.load(settings.get(name)) for name in FUNCTIONS}
        for name, function in self.functions.items():
            two = name == "trainStep" or (name == "optimizer" and kind == "torch")
            factory.check(name, function, 1 + two)

    def __getattr__(self, name: str) -> Any:
        """Find the value of a Param."""
        for values in (self.__dict__.get("functions", {}), self.__dict__.get("settings", {})):
            if name in values:  # a function of the user may change its own modelParams
                return copy.deepcopy(values[name]) if name == "modelParams" else values[name]
        raise AttributeError(name)

    @property
    def module(self) -> Any:
        """The module that trains and predicts. Only ranks and workers import the framework."""
        return importlib.import_module(MODULES[self.kind])
