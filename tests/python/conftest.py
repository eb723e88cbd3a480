# SPDX-License-Identifier: Apache-2.0
"""The marker `forks`, and sanitizers (`scripts/test bindings`), whose reports name the test."""

from __future__ import annotations

import os
import re

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "forks: a process forks while another thread of it runs")


@pytest.fixture(autouse=True)
def _name_reports(request, monkeypatch):
    """Have what the sanitizer says about processes of this test in files with its name."""
    options = os.environ.get("ASAN_OPTIONS", "")
    path = re.search(r"log_path=([^:]*)", options)
    if path:
        name = re.sub(r"\W+", "_", request.node.name)[:80]
        monkeypatch.setenv("ASAN_OPTIONS", f"{options}:log_path={path[1]}.{name}")
