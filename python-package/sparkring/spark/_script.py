# SPDX-License-Identifier: Apache-2.0
"""A script that `sparkring.spark.run` runs on each rank, as ``python train.py`` would.

The script is ``__main__``, has its arguments in ``sys.argv``, and gets the open communicator of the
run from `sparkring.init`. So a script for ``sparkring-run`` or torchrun needs no change.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkring import _run_state as run_state
from sparkring._core import InvalidError
from sparkring.spark import _sources as sources

if TYPE_CHECKING:
    from sparkring import Communicator


class Script:
    """A script, as a function of the communicator and of its arguments."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, comm: Communicator, *args: str) -> None:
        """Run the script as ``__main__``, in this process. ``sys.exit(0)`` ends the script."""
        sent = sources.sent(os.path.basename(self.path))
        path = str(sent or self.path)
        if sent is None:  # the rank runs on the driver's machine
            sys.path.insert(0, os.path.dirname(path))
        sys.argv = [path, *args]
        main = types.ModuleType("__main__")
        main.__file__ = path
        sys.modules["__main__"] = main
        run_state.set_communicator(comm)
        try:
            exec(compile(Path(path).read_bytes(), path, "exec"), main.__dict__)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise


def find(path: str | os.PathLike[str], args: Any, kwargs: Any) -> Script:
    """Find the script, and refuse arguments that a command line cannot have."""
    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise InvalidError(
            f"f is {os.fspath(path)!r}, and there is no such file here, in {os.getcwd()}: pass the"
            " path of a script, or a function of the communicator"
        )
    if kwargs:
        raise InvalidError('a script takes no kwargs: pass args=["--rate", "0.5"]')
    if not isinstance(args, Sequence) or isinstance(args, (str, bytes)):
        raise InvalidError(f'args is {args!r}: pass a list of str, as in args=["--rate", "0.5"]')
    for given in args:
        if not isinstance(given, str):
            raise InvalidError(f"args has {given!r}: a script takes arguments of type str")
    return Script(full)
