# SPDX-License-Identifier: Apache-2.0
"""What we want to reach, and whether a session did.

Each target is about several cases (all sizes of a range that were measured, all its numbers of
ranks), and the worst of them counts. A ratio is the time of a peer over ours, so more is better.
"""

from dataclasses import dataclass

from network import SHAPED
from results import Case, busbw, human_bytes

KIB, MIB = 1 << 10, 1 << 20
NEVER_SLOWER = ("broadcast", "allgather", "alltoall")


@dataclass(frozen=True)
class Target:
    """One row: `peer` over `ours` is at least `least`."""

    what: str
    least: float
    link: str
    sizes: tuple  # from, to
    peer: str = "openmpi"
    ours: str = "sparkring"
    buffers: str = "-"
    ranks: tuple = (2, 4)
    collectives: tuple = ("allreduce",)

    def speaks_of(self, case):
        """Tell whether a case of ours is one of those that count."""
        return (
            (case.library, case.link, case.buffers) == (self.ours, self.link, self.buffers)
            and case.collective in self.collectives
            and case.ranks in self.ranks
            and self.sizes[0] <= case.bytes <= self.sizes[1]
        )

    def reached(self, times):
        """Return (ratio, case) of all cases that were measured with the peer, too."""
        pairs = []
        for case in filter(self.speaks_of, times):
            theirs = times.get(case._replace(library=self.peer, buffers="-"))
            if theirs:
                pairs.append((theirs / times[case], case))
        return pairs


def _shm(what, least, sizes, buffers, **more):
    return Target(f"shm, {what}", least, "shm", sizes, buffers=buffers, **more)


def _tcp(what, least, sizes, **more):
    return Target(f"tcp, {what}", least, "tcp", sizes, **more)


def _others(link, buffers):
    for collective in NEVER_SLOWER:
        one = {"buffers": buffers, "collectives": (collective,)}
        what = f"{link}, {collective}"
        yield Target(f"{what}, any size", 1.0, link, (0, 1 << 40), **one)
        yield Target(f"{what}, above 64 KiB", 1.3, link, (64 * KIB + 1, 1 << 40), **one)


def _language(ours, peer):
    every = ("allreduce", *NEVER_SLOWER)
    for link in ("shm", "tcp"):
        one = {"peer": peer, "ours": ours, "collectives": every}
        yield Target(f"{link}, {ours}, any size", 1.0, link, (0, 1 << 40), **one)


TARGETS = (
    _shm("n=2, to 8 KiB", 2.2, (0, 8 * KIB), "private", ranks=(2,)),
    _shm("n=4, 512 B to 32 KiB", 2.8, (512, 32 * KIB), "private", ranks=(4,)),
    _shm("n=4, to 64 B", 1.5, (0, 64), "private", ranks=(4,)),
    _shm("private, 64 KiB to 16 MiB", 1.6, (64 * KIB, 16 * MIB), "private"),
    _shm("result in the arena, 64 KiB to 16 MiB", 2.0, (64 * KIB, 16 * MIB), "result"),
    _shm("both in the arena, n=2, 1 to 16 MiB", 3.0, (MIB, 16 * MIB), "arena", ranks=(2,)),
    _shm("both in the arena, n=4, 1 to 16 MiB", 3.5, (MIB, 16 * MIB), "arena", ranks=(4,)),
    _shm("private, 64 MiB", 2.5, (64 * MIB, 64 * MIB), "private"),
    _shm("both in the arena, 64 MiB", 6.0, (64 * MIB, 64 * MIB), "arena"),
    _shm("both in the arena, from 1 MiB", 1 / 1.1, (MIB, 1 << 40), "arena", peer="memcpy"),
    _tcp("to 512 B", 1.8, (0, 512)),
    _tcp("1 to 2 MiB", 1.2, (MIB, 2 * MIB)),
    _tcp("64 MiB", 1.9, (64 * MIB, 64 * MIB)),
    _tcp("to 64 KiB", 20, (0, 64 * KIB), peer="gloo"),
    _tcp("256 KiB", 5, (256 * KIB, 256 * KIB), peer="gloo"),
    _tcp("from 2 MiB", 2.5, (2 * MIB, 1 << 40), peer="gloo"),
    *_others("shm", "private"),
    *_others("tcp", "-"),
    *_language("sparkring-python", "mpi4py"),
    *_language("sparkring-r", "rmpi"),
)

RATE = 0.95  # of a shaped link's nominal rate, from LARGE bytes on
LARGE = 16 * MIB
OVER_C = {"sparkring-python": 0.5, "sparkring-r": 1.5}  # microseconds for 8 bytes


def table(times):
    """Yield a line for each target: what is wanted, the worst that was measured, met or missed."""
    yield f"\n{'target, of allreduce where no other is named':<58}{'wanted':>10}{'measured':>10}"
    for target in TARGETS:
        what = f"{target.what}, {target.peer}"
        pairs = target.reached(times)
        yield _line(what, target.least, *min(pairs, default=(None, None)), more_is_better=True)
    yield from _rates(times)
    yield from _languages(times)


def _line(what, wanted, measured, case, *, more_is_better):
    row = f"{what:<58}{'>= ' if more_is_better else '<= '}{wanted:>7.2f}"
    if measured is None:
        return f"{row}{'-':>10}  not measured"
    met = measured >= wanted if more_is_better else measured <= wanted
    where = f"{case.ranks} ranks, {human_bytes(case.bytes)}"
    where += f", {case.collective}" if case.collective != "allreduce" else ""
    return f"{row}{measured:>10.2f}  {'met' if met else 'MISSED'} ({where})"


def _rates(times):
    for link, rate in SHAPED.items():
        nominal = float(rate.removesuffix("gbit")) / 8  # GB/s
        shares = [
            (busbw(case, time) / nominal, case)
            for case, time in times.items()
            if (case.library, case.link, case.collective) == ("sparkring", link, "allreduce")
            and case.bytes >= LARGE
        ]
        what = f"{link}, share of the nominal rate, from {human_bytes(LARGE)}"
        yield _line(what, RATE, *min(shares, default=(None, None)), more_is_better=True)


def _languages(times):
    """R's numbers are float64, so its 8 bytes are one element, and C's are two."""
    for ours, most in OVER_C.items():
        mine = times.get(Case("sparkring", "allreduce", "shm", 2, 8, "float32", "private"))
        over = [
            (time - mine, case)
            for case, time in times.items()
            if mine and case[:5] == (ours, "allreduce", "shm", 2, 8)
        ]
        what = f"shm, {ours} over C, us, 8 B, n=2"
        yield _line(what, most, *max(over, default=(None, None)), more_is_better=False)
