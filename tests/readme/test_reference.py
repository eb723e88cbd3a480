# SPDX-License-Identifier: Apache-2.0
"""The index of R's help pages: groups of ``_pkgdown.yml``, and titles that searches find."""

import re
from collections import Counter
from pathlib import Path

R_PACKAGE = Path(__file__).parents[2] / "r-package"
GROUPS = [
    "Run on Spark",
    "Models",
    "Statistics",
    "Collectives",
    "Frameworks",
    "When things go wrong",
]
WORDS = ["allreduce", "broadcast", "checkpoint", "gather", "GPU", "progress", "TensorFlow"]


def pages():
    """Return the titles of the help pages, by name."""
    texts = [page.read_text() for page in (R_PACKAGE / "man").glob("*.Rd")]
    return {
        re.search(r"\\name\{(.*)\}", text)[1]: re.search(r"\\title\{(.*)\}", text)[1]
        for text in texts
        if r"\keyword{internal}" not in text
    }


def test_each_page_is_in_one_group():
    index = (R_PACKAGE / "_pkgdown.yml").read_text()
    assert re.findall(r"^- title: (.*)$", index, re.MULTILINE) == GROUPS
    assert Counter(re.findall(r"^  - (.*)$", index, re.MULTILINE)) == Counter(list(pages()))


def test_titles_have_the_words_that_people_search_for():
    titles = "\n".join(pages().values()).lower()
    assert [word for word in WORDS if word.lower() not in titles] == []
