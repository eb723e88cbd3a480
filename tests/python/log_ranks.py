# SPDX-License-Identifier: Apache-2.0
"""Ranks that print, each in a process of its own, and what they report to the driver."""

from __future__ import annotations

import json
import subprocess
import sys

DEADLINE = 180

RANK = """
import json, os, sys
from sparkring.spark._stdio_redirect import StdioRedirect
from sparkring.spark._driver_link import Address
settings = json.loads(sys.argv[1])
address = Address(*settings["address"]) if settings["address"] else None
with StdioRedirect(settings["rank"], address, settings["echo"]) as redirect:
    exec(settings["work"])
    print("last words of", settings["rank"])
    lines = redirect.finish()
print("after:", json.dumps(lines))
"""


reports = []


def report(*given):
    reports.append(given)


def run_rank(work, address, rank=0, echo=True):
    """Run a rank that prints, in a process of its own; return its log."""
    settings = {"work": work, "address": address, "rank": rank, "echo": echo}
    command = [sys.executable, "-c", RANK, json.dumps(settings)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE, check=False
    )
    return done.stdout.decode(errors="replace")
