# SPDX-License-Identifier: Apache-2.0
"""The baseline hazard of proportional hazards: of each stratum, at the means of the features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring.models._alike import array_of, brief
from sparkring.models._cox_pass import HAZARD

if TYPE_CHECKING:
    from sparkring.models._cox_pass import Pass
    from sparkring.models._cox_records import Records
    from sparkring.models._table import Array


def cumulative_hazard(records: Records, found: Pass) -> Array:
    """Return the stratum, the time and the cumulative hazard of each time of events. Collective."""
    rows, first = found.rows, found.rows[:, 0].astype(np.int64)
    own = np.column_stack([rows[:, 1], records.field("time")[first], rows[:, HAZARD]])
    hazards = records.comm.allgatherv(own)  # the ranks have intervals of the order
    for stratum in np.unique(hazards[:, 0]):
        part = hazards[:, 0] == stratum
        hazards[part, 2] = np.cumsum(hazards[part, 2])
    return hazards


def hazards_at(model: Any, times: Array, strata: Any, rows: int) -> Array:
    """Return the cumulative hazard at some times, for each of the rows or, without strata, once."""
    if not hasattr(model, "baseline_"):
        raise InvalidError("the model has no baseline hazard: fit it with baseline=True")
    known = list(map(plain, np.asarray(model.strata_, object).tolist()))
    if (strata is None) != (len(known) == 0):
        raise InvalidError("pass strata, one for each row, if the fit had strata, and only then")
    if isinstance(strata, str):
        raise InvalidError(f"strata is {strata!r}: pass a sequence with one stratum for each row")
    wanted = [None] if strata is None else list(map(plain, array_of(strata).tolist()))
    if strata is not None and len(wanted) != rows:
        raise InvalidError(f"X has {rows} rows and strata has {len(wanted)} values")
    absent = [stratum for stratum in wanted if known and stratum not in known]
    if absent:
        raise InvalidError(f"there is no stratum {absent[0]!r}: the fit had {brief(known)}")
    steps: dict[Any, Array] = {}
    for stratum in set(wanted):
        number = known.index(stratum) if known else 0
        part = model.baseline_[model.baseline_[:, 0] == number]
        hazards = np.append(0.0, part[:, 2])
        steps[stratum] = hazards[np.searchsorted(part[:, 1], times, "right")]
    return np.array([steps[stratum] for stratum in wanted])


def plain(stratum: Any) -> Any:
    """Return a stratum of several columns as a tuple."""
    return tuple(stratum) if isinstance(stratum, list) else stratum
