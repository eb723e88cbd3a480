# SPDX-License-Identifier: Apache-2.0
"""The setters and getters of Params, for type checkers: the stub beside this file has them.

At run time `Settings` makes them of the Params.
"""


class ModelMethods:
    """The methods of the Params of a model."""


class LearningMethods:
    """The methods of the Params that networks and trees share."""


class TrainingMethods(LearningMethods):
    """The methods of the Params of a training."""


class BackendMethods:
    """The methods of the Param ``backend``."""


class BaseMarginMethods:
    """The methods of the Param ``baseMarginCol``."""


class TreeMethods(LearningMethods):
    """The methods of the Params of a training of trees."""
