# SPDX-License-Identifier: Apache-2.0
"""What users read has American spelling: pages, and the strings of the Python package."""

import ast
import re
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
BRITISH = re.compile(
    r"\b(\w*(general|penal|initial|minim|maxim|optim|final|serial|normal|recogn|summar|vector|regular"
    r"|organ|real|special|standard|synchron|parallel|visual)is(e[ds]?|er|ing|ations?)"
    r"|behaviours?|colours?|neighbours?|favour\w*|centres?|centred|grey|licence"
    r"|analys(e[ds]?|ing)|learnt|modelled|travelled|labelled|catalogue|programmes?)\b",
    re.IGNORECASE,
)


def pages():
    for folder, pattern in ((".", "*.md"), (".github", "**/*.yml"), ("vignettes", "*.Rmd")):
        yield from (ROOT / folder).glob(pattern)
    yield from (ROOT / "r-package/man").glob("*.Rd")
    yield ROOT / "r-package/DESCRIPTION"
    yield ROOT / "python-package/README.md"
    yield ROOT / "r-package/README.md"


def strings_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_what_users_read_has_american_spelling():
    modules = (ROOT / "python-package/sparkring").rglob("*.py")
    texts = chain(
        ((path, path.read_text()) for path in pages()),
        ((path, text) for path in modules for text in strings_of(path)),
    )
    found = [(path.name, word[0]) for path, text in texts for word in BRITISH.finditer(text)]
    assert found == []
