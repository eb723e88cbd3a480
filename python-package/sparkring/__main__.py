# SPDX-License-Identifier: Apache-2.0
"""``python -m sparkring``: what is installed, and whether two ranks of this machine work."""

import sys

from sparkring._installation import main

if __name__ == "__main__":
    sys.exit(main())
