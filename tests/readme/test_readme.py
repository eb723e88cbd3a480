# SPDX-License-Identifier: Apache-2.0
"""The code in README.md, run as it stands there: each block prints what the README shows after it.

Python runs on real Spark. R runs with sparklyr where it is installed; and everywhere with a few
lines that stand in for sparklyr: they start one R process a partition and hand it the rows and the
barrier argument, so that a closure is really run, by four real processes. The first closure of the
vignette of R runs in the same way.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLOSURE = "### In a closure of your own"  # a section of the vignette of R


def read(page):
    return (ROOT / page).read_text()


README = read("README.md")


def block(language, text=README):
    """Return the first code of a language, or what the text shows as its output."""
    return re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]


def shown(language):
    """Return the output that the README shows after a block."""
    return block("text", README.partition(block(language))[2])


def r_code():
    """Return the README's R, and the closure of the vignette, each in an environment of its own."""
    vignette = read("vignettes/sparkring.Rmd")
    closure = block(r"\{r, eval = FALSE\}", vignette.partition(CLOSURE)[2])
    connect = "".join(block("r").splitlines(keepends=True)[:2])
    return f"local({{\n{block('r')}}})\nlocal({{\n{connect}{closure}}})\n"


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


def ranks_of(text):
    """Return rank, rows and slope of each line of a printed table."""
    return re.findall(r"\b([0-3])\s+(\d+)\s+(-\d\.\d\d)", text)


def check_r(output):
    """The closure of the vignette has printed a mean on each rank, the README's block its table."""
    assert len(re.findall(r"\b50\.5\b", output)) == 4
    assert ranks_of(output) == ranks_of(shown("r"))
    assert [rank for rank, _, _ in ranks_of(output)] == ["0", "1", "2", "3"]


def test_python(tmp_path):
    script = tmp_path / "readme.py"
    script.write_text(block("python") + block("python", read("python-package/README.md")))
    output = run([sys.executable, str(script)], cwd=tmp_path)
    print("ran with real Spark")
    assert output == shown("python") + "[49.5, 49.5]\n"


def test_r_with_sparklyr(tmp_path):
    if not has_sparklyr():
        pytest.skip("sparklyr is not installed; test_r_without_sparklyr runs the closures")
    script = tmp_path / "readme.R"
    script.write_text(r_code() + block("r", read("r-package/README.md")))
    environment = {**os.environ, "SPARK_HOME": spark_home()}
    output = run(["Rscript", str(script)], cwd=tmp_path, env=environment)
    print("ran with real sparklyr and Spark")
    assert shown("r") in output
    check_r(output)


def test_r_without_sparklyr(tmp_path):
    shutil.copy(HERE / "standin.R", tmp_path)
    code = r_code()
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


PAGES = ("README.md", "r-package/README.md", "python-package/README.md")


@pytest.mark.parametrize(("page", "lines", "words"), zip(PAGES, (80, 60, 70), (700, 400, 450)))
def test_a_readme_fits_a_screen(page, lines, words):
    text = read(page)
    assert len(text.splitlines()) <= lines
    assert len(text.split()) <= words


@pytest.mark.parametrize("page", [*PAGES, "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_a_page_lead_somewhere(page):
    """Files of the tree are there. Package indexes show READMEs of packages without the tree."""
    text = read(page)
    for alternative, target in re.findall(r"\[([^][]*)\]\(([^) #]*)[^)]*\)", text):
        assert alternative, target
        if not target.startswith("https://github.com/sparkring/sparkring"):
            assert page not in PAGES[1:], target
            assert (ROOT / target).exists(), target
