# SPDX-License-Identifier: Apache-2.0
"""Arrays on a real GPU, which all ranks of a test share.

To NCCL the ranks are on hosts of their own, for it refuses two ranks of a host on one GPU.
`scripts/test gpu` runs these tests where there is a GPU and a PyTorch that uses it.
"""

import os
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
FOLDERS = [str(TESTS / name) for name in ("gpu", "frameworks", "python")]

sys.path[:0] = FOLDERS

import ranks  # noqa: E402 (it is in one of the folders)

ranks.DEADLINE = 150
os.environ["PYTHONPATH"] = os.pathsep.join(FOLDERS)
