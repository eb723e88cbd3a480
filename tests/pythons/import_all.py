# SPDX-License-Identifier: Apache-2.0
"""Imports every module of the installed package, then forms a ring of this rank and the others.

    sparkring-run -n 2 python import_all.py SOURCE

SOURCE is the folder of the package's sources: each module there must be installed. A module may
lack a package that is not installed; any other exception fails.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import sparkring

OTHERS = {  # packages that modules need and that a bare environment lacks
    *("jax", "keras", "pandas", "polars", "pyarrow", "pyspark", "scipy", "sklearn"),
    *("tensorflow", "torch", "xgboost", "lightgbm", "mpi4py", "tqdm", "fsspec", "ray"),
}


def modules(source: Path) -> list[str]:
    """List the modules of the sources by their names."""
    files = sorted(source.rglob("*.py"))
    names = [".".join(file.relative_to(source.parent).with_suffix("").parts) for file in files]
    return [name[: -len(".__init__")] if name.endswith(".__init__") else name for name in names]


def main() -> None:
    names = [name for name in modules(Path(sys.argv[1])) if not name.endswith("__main__")]
    lacking = []
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in OTHERS:
                raise
            lacking.append(name)
    with sparkring.init() as comm:
        assert comm.size == 2
        assert comm.allreduce(np.arange(3.0)).tolist() == [0.0, 2.0, 4.0]
        assert comm.allgather_object({"rank": comm.rank}) == [{"rank": 0}, {"rank": 1}]
        if comm.rank == 0:
            print(
                f"Python {sys.version.split()[0]}: {len(names) - len(lacking)} modules imported,"
                f" {len(lacking)} lack a package; two ranks agree"
            )


main()
