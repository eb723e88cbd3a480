# SPDX-License-Identifier: Apache-2.0
"""The summary of proportional hazards, printed as R prints it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkring.models._distributions import chi_squared_tail, normal_quantile
from sparkring.models._summary import (
    DIGITS,
    Summary,
    aligned,
    coefficient_table,
    general,
    if_scipy,
    labels_of,
    p_values,
    real,
    without,
)


def cox_summary(model: Any) -> Summary:
    """Summarize a `CoxPH`."""
    names = labels_of(model)
    is_robust = not np.array_equal(model.covariance_, model.naive_covariance_)
    naive = np.sqrt(np.diag(model.naive_covariance_))
    estimates = np.where(np.isnan(model.standard_errors_), np.nan, model.coef_)
    columns = ["coef", "exp(coef)", "se(coef)", "z", "Pr(>|z|)"]
    parts = [estimates, np.exp(estimates), naive, model.statistics_, model.p_values_]
    if is_robust:
        columns.insert(3, "robust se")
        parts.insert(3, model.standard_errors_)
    table = np.stack(parts, axis=1)
    text = (
        f"Call:\n{model!r}\n\n  n= {model.n_obs_}, number of events= {model.n_events_} \n\n"
        f"{coefficient_table(names, columns, table, together=len(parts) - 2)}\n\n"
        f"{intervals(names, estimates, model.standard_errors_)}\n\n{tests(model)}\n"
    )
    return Summary(names, columns, table, text)


def intervals(names: list[str], estimates: Any, errors: Any) -> str:
    """Return the table of hazard ratios with their confidence intervals."""
    reach = float(normal_quantile(0.975)) * errors
    columns = ["exp(coef)", "exp(-coef)", "lower .95", "upper .95"]
    signs = (np.exp(estimates), np.exp(-estimates))
    values = [*signs, np.exp(estimates - reach), np.exp(estimates + reach)]
    texts = [without(real(part, DIGITS), estimates) for part in values]
    cells = [aligned([title, *column]) for title, column in zip(columns, texts)]
    width = max(map(len, names))
    labels = [text.ljust(width) for text in ["", *names]]
    return "\n".join(" ".join(row) for row in zip(labels, *cells))


def tests(model: Any) -> str:
    """Return the lines of the tests of all coefficients."""
    lack = ""

    def p_value(value: float) -> str:
        nonlocal lack
        p, lack = if_scipy(lambda: chi_squared_tail(value, model.rank_), math.nan)
        return p_values(np.array([p]), 1)[0]

    values = {
        "Likelihood ratio test= ": model.likelihood_ratio_test_,
        "Wald test            = ": model.wald_test_,
        "Score (logrank) test = ": model.score_test_,
    }
    lines = [
        f"{title}{general(round(value, 2), DIGITS)}  on {model.rank_} df,   p={p_value(value)}"
        for title, value in values.items()
    ]
    return "\n".join(lines) + lack
