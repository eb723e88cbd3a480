# SPDX-License-Identifier: Apache-2.0
"""Callbacks for ``model.fit`` of Keras 3, by Horovod's names."""

from __future__ import annotations

from sparkring.keras._callbacks import BroadcastGlobalVariablesCallback, MetricAverageCallback
from sparkring.keras._learning_rate import (
    LearningRateScheduleCallback,
    LearningRateWarmupCallback,
)

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]
