# SPDX-License-Identifier: Apache-2.0
"""A reader of all packets sees the ranks' data if it is not encrypted, and never the token."""

import base64

import numpy as np
import pytest
import sparkring
from capture import Capture
from jobs import Job

PATTERN = bytes(range(65, 97))  # what a rank's numbers are made of
BYTES = 1 << 20


def show_pattern(options):
    """Send the pattern by every kind of call that moves what it is given."""
    pattern = np.frombuffer(PATTERN * (BYTES // len(PATTERN)), "uint8")
    with sparkring.init(**options) as comm:
        assert comm.broadcast(pattern, root=0)[-1] == pattern[-1]
        assert comm.allgather(pattern[:4096]).shape == (comm.size, 4096)
        assert comm.allreduce(pattern[: 1 << 16], op="max")[-1] == pattern[(1 << 16) - 1]
        comm.send_object(PATTERN.decode() * 10, (comm.rank + 1) % comm.size)
        assert comm.recv_object((comm.rank - 1) % comm.size) == PATTERN.decode() * 10
        return comm.encrypted


@pytest.mark.parametrize("encryption", [False, True])
def test_what_is_on_the_wire(hosts, encryption, injected):
    with Job(hosts, [0, 1, 2], encryption=encryption) as job, Capture(hosts) as capture:
        assert job.start(show_pattern).results() == [encryption] * 3
    text, token = capture.text, job.options["token"]
    assert len(text) > 2 * BYTES, "the capture has missed what there was"
    assert b"sparkrng" in text
    assert (PATTERN in text) is not encryption
    half = PATTERN[: len(PATTERN) // 2]
    assert (half in text) is not encryption
    assert not [
        secret
        for secret in (token, token.hex().encode(), base64.b64encode(token))
        if secret in text
    ]
    seen = "nothing to be read" if encryption else "can be read, as documented"
    injected(f"capture, {'encrypted' if encryption else 'plain'}", seen, 0.0)
