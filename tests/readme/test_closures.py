# SPDX-License-Identifier: Apache-2.0
"""R code of the documentation, read without sparklyr: what it uses is there, also in closures."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHECK = Path(__file__).with_name("closures.R")


def check(*documents):
    done = subprocess.run(
        ["Rscript", CHECK, *documents], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_code_and_closures_are_complete():
    """Pasted in order, blocks have all that they use.

    Closures name their columns, and use nothing of the top level, which sparklyr does not send.
    """
    vignettes = (ROOT / "vignettes").glob("*.Rmd")
    pages = (ROOT / "r-package/man").glob("*.Rd")
    first = ROOT / "README.md", ROOT / "r-package/README.md", ROOT / "docs/start/first_r.md"
    *found, count = check(*first, *vignettes, *pages)
    assert found == []
    assert int(count.split()[0]) >= 6


def test_what_a_reader_does_not_have_is_found(tmp_path):
    document = tmp_path / "page.Rmd"
    document.write_text("""
```{r, include = FALSE}
hidden <- function(x) x
```

```{r}
comm <- ring_init()
total <- hidden(sparkring::ring_allreduce(comm, nrow(cars)))
```

```r
# in the closure
ring_init(barrier)
```

```{r, eval = FALSE}
library(sparklyr)
flights <- sdf_copy_to(sc, total)
```
""")
    assert check(document) == [
        "page.Rmd: a block uses hidden, which a reader does not have",
        "page.Rmd: a block uses ring_init, which a reader does not have",
        "page.Rmd: a block uses sc, which a reader does not have",
        "0 calls",
    ]


def test_what_is_missing_is_found(tmp_path):
    document = tmp_path / "page.Rmd"
    document.write_text("""
```{r, eval = FALSE}
library(sparklyr)
library(sparkring)
token <- "secret"
spark_connect("local") |> sdf_len(4) |> spark_apply(function(df, barrier) {
  comm <- ring_init(barrier, token = token)
  data.frame(x = sparkring::ring_allreduce(comm, sum(df$x)))
}, barrier = TRUE)
```
""")
    assert check(document) == [
        "page.Rmd: spark_apply(barrier = TRUE) has no `columns`, which sparklyr demands",
        "page.Rmd: spark_apply(barrier = TRUE) has a closure that uses ring_init, token",
        "page.Rmd: spark_apply(barrier = TRUE) is not collected, so its closure may not run",
        "1 calls",
    ]
