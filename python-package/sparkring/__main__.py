# SPDX-License-Identifier: Apache-2.0
"""``python -m sparkring``: report the installation, and test two ranks of this machine."""

import sys

from sparkring._installation import main

if __name__ == "__main__":
    sys.exit(main())
