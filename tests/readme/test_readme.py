# SPDX-License-Identifier: Apache-2.0
"""The code in README.md, run as it stands there.

Python runs on real Spark. R runs with sparklyr where it is installed; and everywhere with a few
lines that stand in for sparklyr: they start one R process a partition and hand it the rows and the
barrier argument, so that the closure of the README is really run, by four real processes.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
README = (HERE.parents[1] / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, **options)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def has_sparklyr():
    probe = "quit(status = !requireNamespace('sparklyr', quietly = TRUE))"
    return subprocess.run(["Rscript", "-e", probe], check=False).returncode == 0


def spark_home():
    import pyspark

    return str(Path(pyspark.__file__).parent)


def test_there_is_one_block_of_each():
    assert len(blocks("python")) == len(blocks("r")) == 1


def test_python(tmp_path):
    script = tmp_path / "readme.py"
    script.write_text(blocks("python")[0])
    output = run([sys.executable, str(script)], cwd=tmp_path)
    print("ran with real Spark")
    ranks = re.findall(r"\((\d), array\(\[\s*(\d+),\s*(\d+)\]\)\)", output)
    assert ranks == [(str(rank), "499500", "1000") for rank in range(4)]


def test_r_with_sparklyr(tmp_path):
    if not has_sparklyr():
        pytest.skip("sparklyr is not installed; test_r_without_sparklyr runs the closure")
    script = tmp_path / "readme.R"
    script.write_text("options(pillar.sigfig = 7)\n" + blocks("r")[0])
    environment = {**os.environ, "SPARK_HOME": spark_home()}
    output = run(["Rscript", str(script)], cwd=tmp_path, env=environment)
    print("ran with real sparklyr and Spark")
    assert len(re.findall(r"\b500\.5\b", output)) == 4


def test_r_without_sparklyr(tmp_path):
    shutil.copy(HERE / "standin.R", tmp_path)
    code = blocks("r")[0].replace("library(sparklyr)", 'source("standin.R")')
    assert "standin.R" in code
    (tmp_path / "readme.R").write_text(code)
    output = run(["Rscript", "readme.R"], cwd=tmp_path)
    print("ran with four R processes and a stand-in for sparklyr")
    assert len(re.findall(r"\b500\.5\b", output)) == 4
