# SPDX-License-Identifier: Apache-2.0
"""``python -m sparkring``: report the installation, and test two ranks of this machine.

``python -m sparkring timeline`` makes one trace, or a picture, of the timelines of the ranks.
"""

import sys

from sparkring import _installation as installation
from sparkring._trace import command as trace

if __name__ == "__main__":
    if sys.argv[1:2] == ["timeline"]:
        sys.exit(trace.main(sys.argv[2:]))
    sys.exit(installation.main())
