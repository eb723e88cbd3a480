# SPDX-License-Identifier: Apache-2.0
"""The hosts of all tests here, and the table of what was injected, which is printed at the end."""

import collections
import os
import shutil
import signal

import pytest
from hosts import Hosts

HOSTS = 5  # four for ranks, one for outsiders
ROWS = pytest.StashKey()
NOTES = pytest.StashKey()


def missing():
    """Return why these tests cannot run here, if so."""
    if os.geteuid() != 0:
        return "network namespaces can be made by root alone"
    absent = [tool for tool in ("ip", "tc", "nft") if shutil.which(tool) is None]
    assert not absent, f"scripts/setup installs what is missing: {', '.join(absent)}"
    return None


def pytest_collection_modifyitems(items):
    if (reason := missing()) is not None:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_configure(config):
    config.stash[ROWS] = collections.defaultdict(list)
    config.stash[NOTES] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that fixtures are taken down


@pytest.fixture(scope="session")
def network():
    with Hosts(HOSTS) as made:
        yield made


@pytest.fixture
def hosts(network):
    """Good hosts, with nobody on them."""
    yield network
    network.reset()


@pytest.fixture
def injected(request):
    """Note a fault, how it ended and after how long: `injected(fault, outcome, seconds)`."""
    rows = request.config.stash[ROWS]
    return lambda fault, outcome, seconds: rows[fault, outcome].append(seconds)


@pytest.fixture
def noted(request):
    """Keep a line of figures for the end: `noted(line)`."""
    return request.config.stash[NOTES].append


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash[ROWS]
    if not rows:
        return
    terminalreporter.section("injected")
    terminalreporter.write_line(f"{'fault':44} {'times':>5}  {'outcome':34} {'worst':>8}")
    for (fault, outcome), seconds in rows.items():
        line = f"{fault:44} {len(seconds):5}  {outcome:34} {max(seconds):6.2f} s"
        terminalreporter.write_line(line)
    for line in config.stash[NOTES]:
        terminalreporter.write_line(line)
