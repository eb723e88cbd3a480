# SPDX-License-Identifier: Apache-2.0
"""Each folder of tests is run by a section, and each section by scripts/test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTIONS = {path.name: path.read_text() for path in (ROOT / "scripts/sections").iterdir()}


def table():
    """Read the table of scripts/test: the tracks of each section."""
    text = re.search(r"^sections='\n(.*?)^'", (ROOT / "scripts/test").read_text(), re.S | re.M)[1]
    return {row.split()[0]: row.split()[1:3] for row in text.splitlines()}


def test_each_section_has_a_row():
    assert sorted(table()) == sorted(SECTIONS)


def test_only_three_sections_run_by_name_alone():
    assert [name for name, tracks in table().items() if tracks == ["-", "-"]] == [
        "gpu",
        "wheels",
        "long",
    ]


def test_each_folder_of_tests_is_run_by_a_section():
    tests = ROOT / "tests"
    folders = {path.relative_to(tests).parts[0] for path in tests.rglob("test_*.py")}
    run = " ".join(SECTIONS.values())
    assert [folder for folder in folders if f"tests/{folder}" not in run] == []


def test_a_file_that_a_section_leaves_out_is_run_by_another_line():
    text = " ".join(SECTIONS[name] for name in SECTIONS if name != "bindings")
    for file in re.findall(r"--ignore=(\S+)", text):
        assert len(re.findall(rf"(?<!--ignore=){re.escape(file)}", text)) > 0, file
