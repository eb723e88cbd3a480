# SPDX-License-Identifier: Apache-2.0
"""Real frameworks train on real ranks, with the settings of sparkring and nothing else.

Ranks are processes that sparkring-run starts (tests/python/ranks.py). The zygote from which they
are forked has imported PyTorch, or the modules that a test file names as IMPORTED. TensorFlow stays
away from PyTorch on the stub of NCCL: it gives its BoringSSL to libraries that are loaded later.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
FOLDERS = [str(HERE), str(HERE.parent / "python")]

sys.path[:0] = FOLDERS

import pytest  # noqa: E402
import ranks  # noqa: E402 (it is in one of the folders)

ranks.IMPORTED += ("torch._dynamo", "torch.distributed._functional_collectives")
ranks.DEADLINE = 400  # TensorFlow's import alone takes half a minute where others are at work, too
os.environ["PYTHONPATH"] = os.pathsep.join(FOLDERS)
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
EVERYTHING = os.environ.get("SPARKRING_FRAMEWORKS") == "all"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave the tests out that take long and of which there is a like one."""
    left_out = [item for item in items if item.get_closest_marker("long") and not EVERYTHING]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
