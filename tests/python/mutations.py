# SPDX-License-Identifier: Apache-2.0
"""Messages of others with faults in them: the same at every run."""

from __future__ import annotations

import random


def mutations(message, count, words=(b"",), seed=1):
    """Change bytes of a message, here and there; yield the pieces in which it arrives.

    The words are such as mean something there.
    """
    draw = random.Random(seed)
    for _ in range(count):
        changed = bytearray(message)
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            change(changed, words, draw)
        cuts = sorted(draw.sample(range(len(changed) + 1), min(draw.randrange(4), len(changed))))
        ends = [*cuts, len(changed)]
        yield [bytes(changed[a:b]) for a, b in zip([0, *cuts], ends, strict=True) if a < b]


def change(data, words, draw):
    begin = draw.randrange(len(data) + 1)
    end = min(len(data), begin + draw.choice((1, 1, 2, 4, 16, 100)))
    kind = draw.randrange(7)
    if kind == 0 and begin < end:
        data[begin] ^= 1 << draw.randrange(8)
    elif kind == 1:
        data[begin:end] = bytes([draw.choice((0, 1, 0x7F, 0x80, 0xFF))]) * (end - begin)
    elif kind == 2:
        data[begin:end] = draw.randbytes(end - begin)
    elif kind == 3:
        data[begin:begin] = draw.choice((draw.randbytes(end - begin), data[begin:end]))
    elif kind == 4:
        del data[begin:end]
    elif kind == 5:
        data[begin:end] = draw.choice(words)
    else:
        del data[begin:]
