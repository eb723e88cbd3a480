# SPDX-License-Identifier: Apache-2.0
"""``sparkring-run -n 4 python train.py``: start the ranks of a job on this machine.

This process becomes the executable ``sparkring-launch``, which also guards the programs of
`Communicator.mpi_run`. Its sources, in core/launch, serve the R package, too.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from sparkring._launch.executable import EXECUTABLE


def main() -> NoReturn:
    """Become the launcher, with the arguments of this process."""
    try:
        os.execv(EXECUTABLE, [EXECUTABLE, "run", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"sparkring-run: cannot run {EXECUTABLE}: {error.strerror}")


if __name__ == "__main__":
    main()
