# SPDX-License-Identifier: Apache-2.0
"""Docstrings of the types that are written in C: classes whose methods have no bodies.

`attach` copies the docstrings to the types when sparkring is imported. `_core.pyi` has the types of
the same parameters, for type checkers. A test compares docstrings, stubs and extension.
"""

from __future__ import annotations

import inspect
from typing import Any

from sparkring._core import Communicator, Request, document
from sparkring._docs import collectives, communicator, reductions, request

LENGTHS = """The ranks exchange their lengths first. This exchange waits for the other ranks and for
all earlier requests.

"""
SENDS_LENGTHS = ("allgatherv", "gatherv", "alltoallv")
START = """Start `{name}` and return before it is complete.

{lengths}Parameters
----------
{parameters} : as for `{name}`
    Arrays must not be used until the request is complete.

Returns
-------
Request
    Its result is the return value of `{name}`.

Raises
------
InvalidError
    For invalid arguments.
MismatchError, PeerLostError, TimeoutError, AbortedError
    When the communicator is broken already. The request raises later errors."""


def attach() -> None:
    """Document the communicator and the request."""
    Communicator.__doc__ = inspect.getdoc(communicator.Communicator)
    Request.__doc__ = inspect.getdoc(request.Request)
    attach_members(Communicator, communicator.Communicator)
    attach_members(Communicator, collectives.Collectives)
    attach_members(Communicator, reductions.Reductions)
    attach_members(Request, request.Request)
    for written in (collectives.Collectives, reductions.Reductions):
        for name in methods(written):
            attach_start(name, written)


def methods(written: type) -> dict[str, Any]:
    """List the functions of a class, class methods included."""
    found = {name: getattr(member, "__func__", member) for name, member in vars(written).items()}
    return {name: member for name, member in found.items() if inspect.isfunction(member)}


def attach_members(kind: type, written: type) -> None:
    """Document the methods and properties of a type of the extension."""
    for name, member in vars(written).items():
        if isinstance(member, property):
            document(kind, name, clean(member.__doc__))
    for name, function in methods(written).items():
        document(kind, name, f"{name}{signature(function)}\n--\n\n{clean(function.__doc__)}")


def attach_start(name: str, written: type) -> None:
    """Document the method that starts a collective. It has the parameters of the collective."""
    function = vars(written)[name]
    parameters = ", ".join(list(inspect.signature(function).parameters)[1:])
    lengths = LENGTHS if name in SENDS_LENGTHS else ""
    text = START.format(name=name, parameters=parameters, lengths=lengths)
    document(Communicator, f"{name}_start", f"{name}_start{signature(function)}\n--\n\n{text}")


def signature(function: Any) -> str:
    """Write a signature as `inspect` reads it from a function in C."""
    text = str(inspect.signature(function))
    return text.replace("(self", "($self", 1).replace("(cls", "($type", 1)


def clean(text: str | None) -> str:
    """Remove the indentation. ``python -OO`` leaves no text."""
    return inspect.cleandoc(text or "")
