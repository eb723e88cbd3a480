# SPDX-License-Identifier: Apache-2.0
"""The executable ``sparkring-launch``, which setup.py builds from core/launch."""

from pathlib import Path

EXECUTABLE = str(Path(__file__).parents[1] / "sparkring-launch")
