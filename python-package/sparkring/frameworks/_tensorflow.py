# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: TF_CONFIG, which its strategies for several workers read.

Its gRPC server sets SO_REUSEADDR before it binds, with or without TF_GRPC_REUSE_PORT. So the server
can bind a reserved port.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError
from sparkring.frameworks._exchange import address, communicator, gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._communicator import Communicator
    from sparkring.frameworks._exchange import Ring

ROLES = ("chief", "worker", "ps", "evaluator")  # sent as numbers, as R does


def tf_config(comm: Ring = None, /, role: str = "worker") -> dict[str, Any]:
    """Set ``TF_CONFIG``, which TensorFlow's strategies for several workers read.

    Collective. Call it before the strategy is made. Every rank has a server of its own. Its port
    stays reserved until TensorFlow has bound it.

    Parameters
    ----------
    comm : Communicator or BarrierTaskContext, optional
        As for `torch_env`.
    role : str
        The role of this rank: ``"worker"``, ``"chief"``, ``"ps"`` (a parameter server) or
        ``"evaluator"``. At most one rank is chief and one evaluator. Without a chief, the first
        worker is chief. The evaluator's settings have the other ranks, but the settings of the
        other ranks lack the evaluator.

    Returns
    -------
    dict
        The contents of ``TF_CONFIG``: ``cluster``, the addresses of every role, and ``task``, the
        role of this rank and its index among the ranks of the role.

    Raises
    ------
    InvalidError
        For an unknown role, for more than one chief or evaluator, and without a chief or worker;
        else as for `torch_env`.
    SystemCallError, MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `torch_env`.

    Examples
    --------
    >>> with sparkring.init() as comm:
    ...     comm.tf_config()
    ...     strategy = tensorflow.distribute.MultiWorkerMirroredStrategy()
    """

    def row() -> tuple[int, int]:
        if role not in ROLES:
            raise InvalidError(f"role is {role!r}: it must be one of {', '.join(ROLES)}")
        return ROLES.index(role), 0 if role == "evaluator" else ring.port_reserve()

    with communicator(comm) as ring:
        config = _config(ring, gather(ring, row, 2))
    os.environ["TF_CONFIG"] = json.dumps(config)
    return config


def _config(comm: Communicator, rows: NDArray[Any]) -> dict[str, Any]:
    roles = [ROLES[int(number)] for number in rows[:, 0]]
    _check_roles(roles)
    cluster: dict[str, list[str]] = {}
    for role, host, port in zip(roles, comm.hosts, rows[:, 1]):
        if role != "evaluator":
            cluster.setdefault(role, []).append(address(host, port))
    role = roles[comm.rank]
    return {
        "cluster": cluster,
        "task": {"type": role, "index": roles[: comm.rank].count(role)},
    }


def _check_roles(roles: list[str]) -> None:
    for role in ("chief", "evaluator"):
        ranks = [rank for rank, other in enumerate(roles) if other == role]
        if len(ranks) > 1:
            raise InvalidError(f"ranks {ranks[0]} and {ranks[1]} are both {role}: only one can be")
    if "chief" not in roles and "worker" not in roles:
        raise InvalidError("no rank is chief or worker: at least one must be")
