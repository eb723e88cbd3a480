# SPDX-License-Identifier: Apache-2.0
"""PySpark's daemon, which has imported PyTorch: else each rank and each worker takes 3 s of a processor for that."""

import torch  # noqa: F401
from pyspark import daemon

daemon.manager()
