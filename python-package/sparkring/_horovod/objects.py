# SPDX-License-Identifier: Apache-2.0
"""Objects of Python between ranks, as pickles and under names, in any order and from any thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkring._calls.objects import check_token
from sparkring._horovod.context import group
from sparkring._horovod.errors import internal_errors
from sparkring._horovod.pending import Pending
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._objects.codec import Envelopes, pack, unpack


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send the object of the root to every rank.

    Parameters
    ----------
    obj : object
        ``root_rank`` sends it; ignored on the other ranks.
    root_rank : int
        A global rank.
    name : str
        Not in flight already.
    process_set : ProcessSet

    Returns
    -------
    object
        ``obj`` itself on the root, a copy elsewhere.
    """
    members = group(process_set)
    root = members.index(root_rank)
    check_token(members.comm)
    named = members.name("broadcast_object", name)
    is_root = members.comm.rank == root
    mine = pack([obj], 1) if is_root else Envelopes(memoryview(b""), [0])
    with internal_errors():
        length = Pending(
            members.reducer.broadcast(f"{named}.length", np.array(mine.counts), root)
        ).wait()
        memory = np.frombuffer(mine.memory, "uint8") if is_root else np.empty(length[0], "uint8")
        received = Pending(members.reducer.broadcast(named, memory, root)).wait()
    copy = unpack(memoryview(received), [root], mine.failure)[0]
    return obj if is_root else copy


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Send the objects of all ranks to every rank, in the order of ranks.

    Parameters
    ----------
    obj : object
        Anything that can be pickled.
    name : str, optional
        The same on all ranks, and not in flight on this rank. By default the number of the
        operation.
    process_set : ProcessSet
        The ranks that take part; all by default.

    Returns
    -------
    list of object
        Copies, in the order of ranks.

    Raises
    ------
    InvalidError
        Without a token: reading a pickle can run any code.
    HorovodInternalError
        When ranks fail.
    """
    members = group(process_set)
    check_token(members.comm)
    named = members.name("allgather_object", name)
    mine = pack([obj], 1)
    with internal_errors():
        work = Pending(members.reducer.allgather(named, np.frombuffer(mine.memory, "uint8")))
    received = work.wait()
    return unpack(memoryview(received), list(range(members.size)), mine.failure)
