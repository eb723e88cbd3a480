# SPDX-License-Identifier: Apache-2.0
"""Methods in Python for the communicator, which is a type of the extension.

A module marks each of its methods with a decorator, and `sparkring` imports the module to add them.
`_core.pyi` lists the methods under the name of the module.
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

    The first parameter of a function may have a default, so that a caller may pass no communicator.
    The type of the method has no such default.
    """
    own: Any = function
    defaults = own.__defaults__ or ()
    if defaults and len(defaults) == own.__code__.co_argcount:
        own = FunctionType(
            own.__code__, own.__globals__, own.__name__, defaults[1:], own.__closure__
        )
        functools.update_wrapper(own, function)
        del own.__wrapped__
        own.__kwdefaults__ = function.__kwdefaults__
    setattr(Communicator, function.__name__, own)
    return function


def attribute(function: Function) -> Function:
    """Make a function of a communicator a property of the communicator; a decorator."""
    setattr(Communicator, function.__name__, property(function))
    return function
