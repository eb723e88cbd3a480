# SPDX-License-Identifier: Apache-2.0
"""What Spark's errors mean for a stage; with Spark itself in tests/spark."""

from __future__ import annotations

import pytest
import sparkring
from sparkring.spark.stage import Stage


def explain(text):
    return Stage(None, 2, None, 1.0, print, lambda rank: [f"{rank} was here"]).explain(
        RuntimeError(text), 0
    )


@pytest.mark.parametrize(
    ("module", "what"),
    [
        ("sparkring", "no package sparkring: install this version there"),
        (
            "sparkring.spark.settle",
            "an old package sparkring, without sparkring.spark.settle: install this version there",
        ),
    ],
)
def test_executors_lack_a_module(module, what):
    with pytest.raises(sparkring.UnsupportedError, match=f"the executors' Python has {what}"):
        explain(f"PythonException: ...\nModuleNotFoundError: No module named '{module}'\n\n\tat x")


@pytest.mark.parametrize("module", ["sparkringer", "my.sparkring", "torch"])
def test_other_modules_are_not_ours(module):
    with pytest.raises(RuntimeError, match=module):
        explain(f"ModuleNotFoundError: No module named '{module}'")
