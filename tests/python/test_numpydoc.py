# SPDX-License-Identifier: Apache-2.0
"""Every public callable has the sections of numpydoc, and they name its parameters.

The sources are parsed, because the frameworks of half of the modules are not installed here. The
communicator, the request and the types that are written in C are read at run time.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from pathlib import Path
from typing import NamedTuple

import pytest
import sparkring
from sparkring import _core

PACKAGE = Path(sparkring.__file__).parent
COUNTS = {  # of callables that users find in each module
    "sparkring": 122,
    "sparkring.data": 10,
    "sparkring.frameworks": 8,
    "sparkring.keras": 45,
    "sparkring.keras.callbacks": 13,
    "sparkring.models": 114,
    "sparkring.spark": 7,
    "sparkring.spark.ml": 42,
    "sparkring.tensorflow": 55,
    "sparkring.torch": 105,
    "sparkring.torch.elastic": 42,
}
RETURNED = {  # by a method or a function: no user calls the constructor
    *("Batch", "Batches", "Device", "DeviceArray", "Loader", "Messages", "ProcessGroup"),
    *("Reducer", "Summary", "Transfer"),
}


class Documented(NamedTuple):
    """What a user can call: its docstring, the names of its parameters, whether it returns."""

    name: str
    text: str
    parameters: list[str]
    returns: bool


@functools.cache
def source(module):
    """Parse a module of the package, or the stub of one in C; another module has no names."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    for file in (path / "__init__.py", path.with_suffix(".py"), path.with_suffix(".pyi")):
        if file.exists() and module.split(".")[0] == "sparkring":
            return ast.parse(file.read_text())
    return ast.Module([], [])


def find(module, name):
    """Return the module that defines a name of a module, and the definition, or None."""
    for node in source(module).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom) and node.module not in (None, module):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return find(node.module, alias.name)
            if node.names[0].name == "*" and name in exported(node.module):
                return find(node.module, name)
    return module, None


def exported(module):
    """Return ``__all__``; `sparkring` replaces its own, which has more than the help shows."""
    body = source(module).body
    assigned = (node for node in body if isinstance(node, ast.Assign))
    named = {ast.unparse(node.targets[0]): node.value for node in reversed([*assigned])}
    imports = (node for node in body if isinstance(node, ast.ImportFrom))
    stars = (node for node in imports if node.names[0].name == "*")
    names = ast.literal_eval(named["__all__"]) if "__all__" in named else []
    return names + [name for node in stars for name in exported(node.module)]


def is_decorated(node, name):
    return any(name in ast.unparse(each) for each in node.decorator_list)


def function(name, node, bound=False):
    """Describe a function. The first parameter of a bound one is not the user's."""
    given = node.args
    names = [each.arg for each in [*given.posonlyargs, *given.args]][bound:]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [each.arg for each in given.kwonlyargs]
    names += [f"**{given.kwarg.arg}"] if given.kwarg else []
    returned = "None" if node.returns is None else ast.unparse(node.returns)
    returns = returned not in ("None", "NoReturn") and not is_decorated(node, "property")
    return Documented(name, ast.get_docstring(node) or "", names, returns)


def lineage(module, node):
    """List a class, and the classes of the package from which it inherits."""
    found = [node]
    for base in node.bases:
        name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        where, parent = find(module, name)
        found += lineage(where, parent) if isinstance(parent, ast.ClassDef) else []
    return found


def members(module, kind):
    """Describe a class with its constructor, and its public methods."""
    found = {}
    for each in lineage(module, kind):
        for node in each.body:
            if isinstance(node, ast.FunctionDef) and not is_decorated(node, "overload"):
                found.setdefault(node.name, node)
    made = found.get("__init__") if kind.name not in RETURNED else None
    parameters = [] if made is None else function("", made, True).parameters
    yield Documented(kind.name, ast.get_docstring(kind) or "", parameters, False)
    for name, node in found.items():
        if not name.startswith("_") and not is_decorated(node, "setter"):
            yield function(f"{kind.name}.{name}", node, not is_decorated(node, "staticmethod"))


def native(kind):
    """Describe a type that is written in C. The stub has its methods."""
    own = getattr(_core, kind.name)
    for each in members("sparkring._core", kind):
        *_, method = each.name.split(".")
        text = inspect.getdoc(own if method == kind.name else getattr(own, method)) or ""
        yield each._replace(text=text)


def loaded(kind):
    """Describe a class whose methods are in many files. A method without types has overloads."""
    yield Documented(kind.__name__, inspect.getdoc(kind) or "", [], False)
    for name, method in inspect.getmembers(kind, callable):
        if not name.startswith("_"):
            signature = inspect.signature(method)
            returns = signature.return_annotation not in ("None", "NoReturn")
            stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
            names = [stars.get(each.kind, "") + each.name for each in signature.parameters.values()]
            parameters = names[names[0] == "self" :]
            text = inspect.getdoc(method) or ""
            yield Documented(f"{kind.__name__}.{name}", text, parameters, returns)


def callables(module):
    """Describe all that a module exports and a user can call."""
    for name in exported(module):
        where, node = find(module, name)
        if isinstance(node, ast.FunctionDef):
            yield function(name, node)
        elif isinstance(node, ast.ClassDef) and name in ("Communicator", "Request"):
            yield from loaded(getattr(sparkring, name))
        elif isinstance(node, ast.ClassDef):
            yield from native(node) if where == "sparkring._core" else members(where, node)


def sections(text):
    """Return the sections of a docstring by their titles."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def faults(each):
    """Tell what the docstring of a callable lacks."""
    found = sections(each.text)
    heads = re.findall(
        r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .*)?$", found.get("Parameters", ""), re.MULTILINE
    )
    names = [name for head in heads for name in head.split(", ")]
    wanted = each.parameters
    *explicit, last = wanted or [""]
    if last.startswith("**") and last not in names and {*explicit} < {*names}:
        wanted = names  # which has the keywords that there are
    if not each.text:
        yield "no docstring"
    if sorted(names) != sorted(wanted):
        yield f"the parameters are {wanted}, those of the docstring {names}"
    if each.returns and not {"Returns", "Yields"} & {*found}:
        yield "no section Returns"


@pytest.mark.parametrize("module", COUNTS)
def test_public_callables_have_the_sections_of_numpydoc(module):
    found = list(callables(module))
    assert len(found) >= COUNTS[module]
    assert [f"{each.name}: {fault}" for each in found for fault in faults(each)] == []


def test_all_modules_with_public_names_are_covered():
    files = [path for path in PACKAGE.rglob("*.py") if "__all__ = [" in path.read_text()]
    names = (file.relative_to(PACKAGE.parent).with_suffix("").parts for file in files)
    public = (
        parts for parts in names if not any(p.startswith("_") and p != "__init__" for p in parts)
    )
    modules = {".".join(part for part in parts if part != "__init__") for parts in public}
    assert modules == {*COUNTS}
