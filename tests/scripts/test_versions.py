# SPDX-License-Identifier: Apache-2.0
"""The version stands in core/sparkring.h; files whose format cannot read it there repeat it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = re.search(r'RING_VERSION "(.+)"', (ROOT / "core/sparkring.h").read_text())[1]
COPIES = {
    "r-package/DESCRIPTION": r"^Version: (.+)$",
    "CHANGELOG.md": r"\A# sparkring (.+)$",
    "r-package/NEWS.md": r"\A# sparkring (.+)$",
    "CITATION.cff": r"^version: (.+)$",
    "README.md": r"Version (\d\S+) has run",
}


@pytest.mark.parametrize("file", COPIES)
def test_a_copy_of_the_version_is_the_version(file):
    assert re.findall(COPIES[file], (ROOT / file).read_text(), re.MULTILINE) == [VERSION]


def test_other_files_read_it():
    for file in ("CMakeLists.txt", "python-package/pyproject.toml", "python-package/setup.py"):
        text = (ROOT / file).read_text()
        assert VERSION not in text, file
        assert "RING_VERSION" in text, file


def test_pages_do_not_name_a_file_of_one_version():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("vignettes/*.Rmd")]
    assert len(pages) > 30
    assert [page for page in pages if re.search(r"sparkring[-_]\d+\.\d", page.read_text())] == []
