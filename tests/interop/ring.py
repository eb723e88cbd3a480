# SPDX-License-Identifier: Apache-2.0
"""The Python ranks of the ring. ring.R prints the same lines; test_interop.py compares them."""

import hashlib

import numpy as np
import sparkring

NUMERIC = ["sum", "prod", "min", "max"]
LOGICAL = ["land", "lor"]
WIDER = {"sum": np.int64, "prod": np.float64}  # in which R works out those of integers


def digest(x):
    return hashlib.md5(x.tobytes()).hexdigest()


with sparkring.init(timeout=60, call_timeout=60) as comm:
    whole = (np.arange(30) * 7 + comm.rank * 3) % 5 - 2
    inputs = {
        "float64": (whole / 3, [*NUMERIC, "avg"]),
        "int32": (whole.astype("int32"), [*NUMERIC, *LOGICAL]),
        "uint8": (abs(whole).astype("uint8"), [*NUMERIC, *LOGICAL]),
        "logical": ((whole > 0).astype("int32"), [*NUMERIC, *LOGICAL]),
        "empty": (np.empty(0), ["sum"]),
        "large": (np.sin(np.arange(1.0, 100004) * (comm.rank + 1)), ["sum", "avg"]),
    }
    for name, (x, ops) in inputs.items():
        for op in ops:
            mine = x.astype(WIDER[op]) if x.dtype == np.int32 and op in WIDER else x
            total = comm.allreduce(mine, op)
            back = x.dtype == np.int32 and op == "sum"
            print(name, op, digest(total.astype(np.int32) if back else total))
        for root in range(comm.size):
            print(name, "broadcast", root, digest(comm.broadcast(x, root)))
        print(name, "allgather", digest(comm.allgather(x)))
        comm.barrier()
    print("hosts", *comm.hosts)
    print("encrypted" if comm.encrypted else "plain")
