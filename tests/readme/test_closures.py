# SPDX-License-Identifier: Apache-2.0
"""Closures of ``spark_apply(barrier = TRUE)`` in the documentation, read without sparklyr."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHECK = Path(__file__).with_name("closures.R")


def check(*documents):
    done = subprocess.run(
        ["Rscript", CHECK, *documents], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_closures_are_complete():
    """Each names its columns, and uses nothing of the top level, which sparklyr does not send."""
    vignettes = (ROOT / "vignettes").glob("*.Rmd")
    pages = (ROOT / "r-package/man").glob("*.Rd")
    *found, count = check(ROOT / "README.md", *vignettes, *pages)
    assert found == []
    assert int(count.split()[0]) >= 6


def test_what_is_missing_is_found(tmp_path):
    document = tmp_path / "page.Rmd"
    document.write_text("""
```{r, eval = FALSE}
token <- "secret"
tbl |> spark_apply(function(df, barrier) {
  comm <- ring_init(barrier, token = token)
  data.frame(x = sparkring::ring_allreduce(comm, sum(df$x)))
}, barrier = TRUE)
```
""")
    assert check(document) == [
        "page.Rmd: spark_apply(barrier = TRUE) has no `columns`, which sparklyr demands",
        "page.Rmd: spark_apply(barrier = TRUE) has a closure that uses ring_init, token",
        "1 calls",
    ]
