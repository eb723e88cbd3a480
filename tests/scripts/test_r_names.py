# SPDX-License-Identifier: Apache-2.0
"""The functions of the R package have different names: R takes the last of two, without a word."""

import re
from collections import Counter
from pathlib import Path

R = Path(__file__).parents[2] / "r-package" / "R"


def test_names_are_defined_once():
    sources = "\n".join(path.read_text(encoding="utf-8") for path in R.glob("*.R"))
    names = Counter(re.findall(r"^([\w.]+) <- ", sources, re.MULTILINE))
    assert names["ring_table"] == 1
    assert {name for name, count in names.items() if count > 1} == set()
