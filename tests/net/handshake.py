# SPDX-License-Identifier: Apache-2.0
"""What these tests know of the handshake, read from where it is defined."""

import re
from pathlib import Path

HEADER = (Path(__file__).parents[2] / "core" / "auth" / "handshake.h").read_text()


def wire(name):
    """Give a number of the handshake: wire("HELLO_BYTES")."""
    return int(re.search(rf"RING_{name}(?: =)? (\d+)", HEADER)[1])
