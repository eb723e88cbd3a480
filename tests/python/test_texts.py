# SPDX-License-Identifier: Apache-2.0
"""The vignette on failures and the pages of docs/troubleshoot quote the core's texts."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
VIGNETTE = (ROOT / "vignettes" / "failures.Rmd").read_text()
PAGES = [page.read_text() for page in sorted((ROOT / "docs" / "troubleshoot").glob("*.md"))]
DATA = {  # in the place of %s
    *("", "10.0.0.5", "10.0.0.7", "node7"),
    *("Name or service not known", "allreduce(count 4, float64, sum) as call 3"),
}


def strings_of_the_core():
    """Those side by side are one."""
    piece = r'"(?:[^"\\\n]|\\.)*"'
    for path in [*sorted((ROOT / "core").glob("*/**/*.c")), *(ROOT / "core").glob("*.h")]:
        code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for found in re.findall(rf"{piece}(?:\s*{piece})*", code):
            yield "".join(part[1:-1] for part in re.findall(piece, found)).replace('\\"', '"')


STRINGS = set(strings_of_the_core())
# Each is a list of characters and of directives such as %s.
FORMATS = [re.findall(r"%[-.0-9zl]*[a-z]|.", string) for string in STRINGS]
TEMPLATES = [
    items
    for items in FORMATS
    if sum(item.isalpha() for item in items) > 2 and any(item[0] == "%" for item in items)
]


@cache
def fills_in(text):
    """Whether the core may put a text in the place of %s."""
    return text in DATA or text in STRINGS or any(makes(items, text, True) for items in TEMPLATES)


def makes(items, text, whole=False):
    """Whether a format makes a text, in which … leaves something out; if not whole, also a part."""

    @cache
    def goes_on(at, begin):
        """Whether what follows in the format makes what follows in the text."""
        left = text[begin:]
        if left in ("", "…"):
            return left == "…" or not whole or at == len(items)
        if left[0] == "…":
            return any(goes_on(after, begin + 1) for after in range(at, len(items)))
        if at == len(items):
            return False
        if len(items[at]) == 1:
            return items[at] == left[0] and goes_on(at + 1, begin + 1)
        if items[at][-1] != "s":
            number = re.match(r"\d+(\.\d+)?", left)
            return bool(number) and goes_on(at + 1, begin + number.end())
        ends = range(len(left.partition("…")[0]) + 1)
        return any(goes_on(at + 1, begin + end) and fills_in(left[:end]) for end in ends)

    return any(goes_on(at, 0) for at in ([0] if whole else range(len(items))))


def is_in_an_error(text):
    return any(makes(items, text) for items in FORMATS)


def quotes():
    rows = re.findall(r"^\| \*(.+?)\* \|", VIGNETTE, re.MULTILINE)
    bullets = re.findall(r'\*"(.+?)"\*', VIGNETTE, re.DOTALL)
    blocks = re.findall(r"^ {4}(rank \d.*(?:\n {4}.*)+)", VIGNETTE, re.MULTILINE)
    assert (len(rows), len(bullets), len(blocks)) == (24, 2, 1)
    pages = re.findall(r"^```text\n(.*?)\n```$", "\n".join(PAGES), re.DOTALL | re.MULTILINE)
    assert len(pages) > 20
    return [re.sub(r"\s+", " ", quote) for quote in (*rows, *bullets, *blocks, *pages)]


@pytest.mark.parametrize("quote", quotes())
def test_an_error_has_the_quote(quote):
    assert is_in_an_error(quote)


@pytest.mark.parametrize(
    "quote",
    [
        "rank 1 is gone",
        "rank 1 (10.0.0.7) is gone: nobody listens on its port 25003 any more",
        "rank one found no free port",
        "rank 1 (10.0.0.7) wants encryption, and rank 0 (10.0.0.5) wants nothing",
        "rank 1 was stopped … by accident",
        "no free port to connect from, of 32768 to 60999 and more",
    ],
)
def test_what_no_error_has_is_seen(quote):
    assert not is_in_an_error(quote)
