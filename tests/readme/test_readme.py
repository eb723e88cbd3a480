# SPDX-License-Identifier: Apache-2.0
"""The code in README.md, run as it stands there: each block has names of its own, as when pasted.

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


def alone(code):
    """Give each block of R an environment of its own."""
    return "\n".join(f"local({{\n{block}}})" for block in code)


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, **options)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def has_sparklyr():
    probe = "quit(status = !requireNamespace('sparklyr', quietly = TRUE))"
    return subprocess.run(["Rscript", "-e", probe], check=False).returncode == 0


def spark_home():
    import pyspark

    return str(Path(pyspark.__file__).parent)


def check_r(output):
    assert len(re.findall(r"\b50\.5\b", output)) == 4
    ranks = re.findall(r"\b([0-3])\s+(\d+)\s+-5\.344\d*\b", output)
    assert [int(rank) for rank, _ in ranks] == [0, 1, 2, 3]
    assert sum(int(rows) for _, rows in ranks) == 32


def test_there_are_two_blocks_of_each():
    assert len(blocks("python")) == len(blocks("r")) == 2


def test_python(tmp_path):
    script = tmp_path / "readme.py"
    script.write_text(
        f"for block in {blocks('python')!r}:\n    exec(block, {{'__name__': '__main__'}})\n"
    )
    output = run([sys.executable, str(script)], cwd=tmp_path)
    print("ran with real Spark")
    slopes = re.findall(r"\d\.\d+", re.search(r"^\[(\d.*)\]$", output, re.MULTILINE)[1])
    assert len(slopes) == 4
    assert len(set(slopes)) == 1
    assert abs(float(slopes[0]) - 3) < 0.1
    ranks = re.findall(r"\((\d), array\(\[\s*(\d+),\s*(\d+)\]\)\)", output)
    assert ranks == [(str(rank), "499500", "1000") for rank in range(4)]


def test_r_with_sparklyr(tmp_path):
    if not has_sparklyr():
        pytest.skip("sparklyr is not installed; test_r_without_sparklyr runs the closures")
    script = tmp_path / "readme.R"
    script.write_text("options(pillar.sigfig = 7)\n" + alone(blocks("r")))
    environment = {**os.environ, "SPARK_HOME": spark_home()}
    output = run(["Rscript", str(script)], cwd=tmp_path, env=environment)
    print("ran with real sparklyr and Spark")
    check_r(output)


def test_r_without_sparklyr(tmp_path):
    shutil.copy(HERE / "standin.R", tmp_path)
    code = alone(blocks("r"))
    for ours, standin in (
        ("library(sparklyr)", 'source("standin.R")'),
        ("sparkring::ring_apply(", "ring_apply("),
    ):
        assert ours in code
        code = code.replace(ours, standin)
    (tmp_path / "readme.R").write_text(code)
    output = run(["Rscript", "readme.R"], cwd=tmp_path)
    print("ran with four R processes and a stand-in for sparklyr")
    check_r(output)
