# SPDX-License-Identifier: Apache-2.0
"""Real frameworks train on real ranks, with what sparkring tells them and nothing else.

Ranks are processes that sparkring-run starts (tests/python/ranks.py). Frameworks are imported on
the ranks only.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
FOLDERS = [str(HERE), str(HERE.parent / "python")]

sys.path[:0] = FOLDERS

import ranks  # noqa: E402 (it is in one of the folders)

ranks.DEADLINE = 150  # TensorFlow's import alone takes half a minute where others are at work, too
os.environ["PYTHONPATH"] = os.pathsep.join(FOLDERS)
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
