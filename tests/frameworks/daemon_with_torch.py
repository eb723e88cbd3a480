# SPDX-License-Identifier: Apache-2.0
"""PySpark's daemon, which has imported PyTorch: each rank would need 3 s of a processor for that.

Half of these are for torch._dynamo, which the first optimizer of a process imports.
"""

import torch._dynamo  # noqa: F401
from pyspark import daemon

daemon.manager()
