# SPDX-License-Identifier: Apache-2.0
"""The R code that vignettes and help pages show for Spark, run with real sparklyr as it stands.

Each document is a session of its own: what a reader would paste, block after block. Where sparklyr
is not installed it is skipped; test_closures.py reads the same code everywhere.
"""

import json
import os
import subprocess
import sys

import pytest
from test_readme import HERE, has_sparklyr, spark_home

ROOT = HERE.parents[1]
PAGES = [*(ROOT / "vignettes").glob("*.Rmd"), *(ROOT / "r-package/man").glob("*.Rd")]
DOCUMENTS = sorted(page for page in PAGES if "spark_connect(" in page.read_text())
TOGETHER = "## R and Python in one ring"  # the section whose ranks are of both languages


def python_of(document):
    """Return the Python code whose ranks are in one ring with those of R."""
    section = document.read_text().partition(TOGETHER)[2]
    return section.partition("```python\n")[2].partition("```\n")[0]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_documented_r_runs_on_spark(document, tmp_path):
    if not has_sparklyr():
        pytest.skip("sparklyr is not installed; test_closures.py reads this code")
    if "tensorflow::" in document.read_text():
        pytest.skip("it needs TensorFlow in R")
    session = tmp_path / "session.R"
    blocks = ["Rscript", HERE / "blocks.R", document]
    session.write_text(subprocess.run(blocks, capture_output=True, text=True, check=True).stdout)
    options = {"cwd": tmp_path, "env": {**os.environ, "SPARK_HOME": spark_home()}}
    python = None
    if code := python_of(document):
        (tmp_path / "job.token").write_text(os.urandom(32).hex() + "\n")
        python = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, **options)
    show = "source(commandArgs(TRUE), echo = TRUE)"
    command = ["Rscript", "-e", show, session]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, **options)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    if python:
        assert json.loads(python.communicate(timeout=200)[0]) == [[4.0] * 3] * 2
