# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own suite for a backend, which is in its wheel, for the backend "sparkring".

  python tests/frameworks/torch_suite.py              all tests
  python tests/frameworks/torch_suite.py -k all_gather   those whose names contain the word
  WORLD_SIZE=3 python tests/frameworks/torch_suite.py  with three ranks

The suite starts new interpreters for the ranks of every test. Here the ranks are forked, so that
none imports PyTorch again. The suite itself reports why it skips a test.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

temporary = tempfile.TemporaryDirectory()
for name in ("barrier", "test_dir", "init_dir"):
    Path(temporary.name, name).mkdir()
os.environ.update(
    BACKEND="sparkring",
    INIT_METHOD=f"file://{temporary.name}/shared_init_file",
    TEMP_DIR=temporary.name,
)
os.environ.pop("CI", None)  # where it is set, run_tests() needs a package that writes XML
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
with socket.socket() as free:  # rank 0 of each test binds it
    free.bind(("127.0.0.1", 0))
    os.environ.setdefault("MASTER_PORT", str(free.getsockname()[1]))

import sparkring.torch  # noqa: E402, F401 (it registers the backend)
import torch  # noqa: E402 (it reads the environment)

torch.set_num_threads(1)

from torch.testing._internal.common_distributed import DistTestCases  # noqa: E402

for feature in ("subgroup", "ddp", "plugin"):  # the next import reads what a backend can
    DistTestCases.backend_feature[feature].add("sparkring")

from torch.testing._internal.common_utils import run_tests  # noqa: E402
from torch.testing._internal.distributed.distributed_test import (  # noqa: E402
    DistributedTest,
    TestDistBackend,
)


class TestSparkring(TestDistBackend, DistributedTest._DistTestBase):
    """The tests, each on ranks of its own."""

    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


if __name__ == "__main__":
    sys.argv.append("-v")
    run_tests()
