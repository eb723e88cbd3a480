# SPDX-License-Identifier: Apache-2.0
"""Functions as values of Params: a function, or the path by which it is imported.

A path is ``"package.module:name"``. Estimators and models are saved with paths. A function without
a path, such as a lambda, is saved as a pickle, and only where the Param ``cloudpickle`` allows it.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import operator
import re
import sys
from typing import Any

from sparkring._core import InvalidError
from sparkring.spark import _closure_codec as closure_codec

PATH = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*(\.\w+)*")
PICKLE = "cloudpickle:"
FRAMEWORKS = ("torch", "keras", "tensorflow", "tf_keras", "transformers", "lightning")
ARGUMENTS = {
    "model": "modelParams",
    "loss": "modelParams",
    "optimizer": "modelParams, and with PyTorch the parameters of the network",
    "metrics": "modelParams",
    "callbacks": "modelParams",
    "trainStep": "training, batch",
    "transformation": "arrays",
    "postprocess": "output",
}


def to_function(value: Any) -> Any:
    """Check the value of a Param."""
    if isinstance(value, str) and (PATH.fullmatch(value) or value.startswith(PICKLE)):
        return value
    kind = value if isinstance(value, type) else type(value)
    if any(base.__module__.partition(".")[0] in FRAMEWORKS for base in kind.__mro__):
        if value is kind:
            advice = (
                f"a class: pass a function that calls it, as in lambda params: {kind.__name__}()"
            )
        else:
            advice = "an object: pass a function that makes it, as each rank needs one of its own"
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} is {advice}")
    if callable(value):
        return value
    raise TypeError(
        f"{value!r} is not a function: pass a function or its import path 'package.module:name'"
    )


def check(name: str, function: Any, count: int) -> None:
    """Refuse a function that does not take a number of arguments, before any rank starts."""
    if function is None:
        return
    try:
        to_function(function)
        inspect.signature(function).bind(*(None,) * count)
    except ValueError:  # some functions of C have no signature
        return
    except TypeError as error:
        raise InvalidError(
            f"{name} is called with {count} argument{'s' * (count > 1)} ({ARGUMENTS[name]}), which"
            f" it does not take: {error}"
        ) from None


def load(value: Any) -> Any:
    """Return the function of a value."""
    if value is None or callable(value):
        return value
    if value.startswith(PICKLE):
        return closure_codec.loads(base64.b64decode(value[len(PICKLE) :]))
    module, _, name = value.partition(":")
    try:
        found = operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise InvalidError(
            f"the function {value} cannot be imported ({error}): install its module, or put its"
            " directory on Python's path"
        ) from error
    return found


def dump(name: str, value: Any, *, pickles: bool) -> str | None:
    """Return the text with which the value of a Param is saved."""
    if value is None or isinstance(value, str):
        return value
    path = path_of(value)
    if path is not None:
        return path
    if not pickles:
        raise InvalidError(
            f"{name} is a function without an import path ({value!r}), so it cannot be saved: move"
            " it to a module, or set cloudpickle=True, which saves it as a pickle"
        )
    return PICKLE + base64.b64encode(closure_codec.dumps(value)).decode()


def path_of(function: Any) -> str | None:
    """Find the import path of a function; None where there is none."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "<")
    if module in (None, "__main__") or "<" in name or module not in sys.modules:
        return None
    try:
        found = operator.attrgetter(name)(sys.modules[module])
    except AttributeError:
        return None
    return f"{module}:{name}" if found is function else None
