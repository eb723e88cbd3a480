# SPDX-License-Identifier: Apache-2.0
"""What Python adds to the communicator, which is a type of the extension.

A module that has methods marks each of them, and is imported by `sparkring` for that. `_core.pyi`
lists them under the name of the module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from sparkring._core import Communicator

Function = TypeVar("Function", bound=Callable[..., Any])


def method(function: Function) -> Function:
    """Make a function a method of the communicator, too; a decorator.

    A function may do without a communicator, as its first parameter has a default; a method has
    none then, which types need to know.
    """
    own: Any = function
    defaults = own.__defaults__ or ()
    if len(defaults) == own.__code__.co_argcount:
        own = FunctionType(
            own.__code__, own.__globals__, own.__name__, defaults[1:], own.__closure__
        )
        functools.update_wrapper(own, function)
        del own.__wrapped__
        own.__kwdefaults__ = function.__kwdefaults__
    setattr(Communicator, function.__name__, own)
    return function


def attribute(function: Function) -> Function:
    """Make what a function tells of a communicator an attribute of that; a decorator."""
    setattr(Communicator, function.__name__, property(function))
    return function
