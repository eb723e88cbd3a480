# SPDX-License-Identifier: Apache-2.0
"""Python code of the pages in docs: it parses, names what there is, and prints what its page shows.

Code that runs processes of this machine is executed; Spark runs that of the vignettes.
"""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
BLOCKS = {
    f"{page.relative_to(DOCS)} {number}": found.groups()
    for page in sorted(DOCS.rglob("*.md"))
    for number, found in enumerate(BLOCK.finditer(page.read_text()), 1)
}
RESULTS = {name: pair for name, pair in BLOCKS.items() if pair[1] and "num_proc=-" in pair[0]}
FRAMEWORKS = ("sparkring.torch", "sparkring.keras", "sparkring.tensorflow")  # import a framework


@pytest.mark.parametrize("name", BLOCKS)
def test_it_names_what_there_is(name):
    for node in ast.walk(ast.parse(BLOCKS[name][0])):
        module = node.module if isinstance(node, ast.ImportFrom) else None
        if not module or not module.startswith("sparkring") or module in FRAMEWORKS:
            continue
        for each in node.names:
            assert hasattr(importlib.import_module(module), each.name), each.name


def test_there_are_results():
    assert len(RESULTS) >= 3


@pytest.mark.parametrize("name", RESULTS)
def test_it_prints_what_the_page_shows(name, tmp_path):
    code, shown = RESULTS[name]
    (tmp_path / "page.py").write_text(code)
    done = subprocess.run(
        [shutil.which("python"), "page.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, shown), done.stderr
