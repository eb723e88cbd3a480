# SPDX-License-Identifier: Apache-2.0
"""What a rank takes for pytest, whose import takes as long as all else that a rank imports.

A rank imports the module of its test to find one function there, which needs nothing of pytest but
what expects errors and warnings. That is here in the same words and whole, so that nothing is left
to import later, when timers of the test run.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


class Marks:
    """Marks on tests, which a rank does not run."""

    def __getattr__(self, name: str) -> Marks:
        return self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return arguments[0] if arguments and callable(arguments[0]) else self


mark = fixture = param = Marks()


def importorskip(name: str, reason: str = "") -> ModuleType:
    """Import what the test has found already."""
    return importlib.import_module(name)


class Raises:
    """A block that raises; `value` is the error, `type` its class."""

    value: BaseException
    type: type

    def __init__(self, kinds: Any, match: str | None) -> None:
        self.kinds = kinds
        self.match = match

    def __enter__(self) -> Raises:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        assert error is not None, f"nothing has raised {self.kinds}"
        if not isinstance(error, self.kinds):
            return False
        self.value, self.type = error, type(error)
        fits = self.match is None or re.search(self.match, str(error))
        assert fits, f"{self.match!r} is not in {str(error)!r}"
        return True


def raises(kinds: Any, *call: Any, match: str | None = None) -> Raises:
    """Expect that a block, or else a call of a function, raises an error of these kinds."""
    block = Raises(kinds, match)
    if call:
        with block:
            call[0](*call[1:])
    return block


@contextlib.contextmanager
def warns(kind: type[Warning], match: str = "") -> Iterator[None]:
    """Expect that a block warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(each.message) for each in caught if issubclass(each.category, kind)]
    assert any(re.search(match, text) for text in messages), f"{match!r} is not in {messages}"
