# SPDX-License-Identifier: Apache-2.0
"""Tables of tests, printed as R prints them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from sparkring._core import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkring.models._table import Array

DIGITS = 4  # of coefficients
LEGEND = "Signif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1"


class Summary:
    """A table of tests, which ``summary()`` of a model returns. ``print`` shows it as R does.

    Attributes
    ----------
    names : list of str
        The names of the rows.
    columns : list of str
        The names of the columns.
    coefficients : array
        The table.
    """

    def __init__(
        self, names: Sequence[str], columns: Sequence[str], coefficients: Array, text: str
    ) -> None:
        self.names, self.columns = list(names), list(columns)
        self.coefficients = coefficients
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text


def labels_of(model: Any) -> list[str]:
    """Return the names of the features, or x0, x1 and so on."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"x{place}" for place in range(model.n_features_in_)]
    return [str(name) for name in names]


def glm_summary(model: Any) -> Summary:
    """Summarize a generalized linear model."""
    names = ["(Intercept)"] * int(model.fit_intercept) + labels_of(model)
    estimates = np.concatenate([[model.intercept_] * int(model.fit_intercept), model.coef_])
    aliased = model.aliased_
    estimates[aliased] = np.nan
    letter = "z" if model._family().known else "t"
    columns = ["Estimate", "Std. Error", f"{letter} value", f"Pr(>|{letter}|)"]
    p, lack = if_scipy(lambda: model.p_values_, np.full(len(names), np.nan))
    parts = (estimates, model.standard_errors_, model.statistics_, p)
    table = np.stack(parts, axis=1)
    text = (
        f"\nCall:\n{model!r}\n\n{heading(int(aliased.sum()))}\n"
        f"{coefficient_table(names, columns, table, together=2)}\n\n"
        f"(Dispersion parameter for {family_name(model)} family taken to be"
        f" {general(model.dispersion_, 7)})\n\n{deviances(model)}\n"
        f"AIC: {general(model.aic_, 5)}\n\n"
        f"Number of Fisher Scoring iterations: {model.n_iter_}\n{lack}"
    )
    return Summary(names, columns, table, text)


def if_scipy(compute: Callable[[], Any], missing: Any) -> tuple[Any, str]:
    """Return what SciPy computes; without SciPy, what is missing, and a line that names SciPy."""
    try:
        return compute(), ""
    except UnsupportedError as error:
        return missing, f"\nNaN: {error}\n"


def heading(aliased: int) -> str:
    """Return the heading of the coefficients."""
    if aliased == 0:
        return "Coefficients:"
    plural = f"{aliased} not defined because of singularities"
    return f"Coefficients: ({plural})"


def family_name(model: Any) -> str:
    """Return R's name of a family."""
    name: str = model.family
    return {"gamma": "Gamma", "inverse_gaussian": "inverse.gaussian"}.get(name, name)


def deviances(model: Any) -> str:
    """Return the lines of the deviances."""
    numbers = aligned(real([model.null_deviance_, model.deviance_], DIGITS + 1))
    freedom = aligned([str(model.df_null_), str(model.df_residual_)])
    return (
        f"    Null deviance: {numbers[0]}  on {freedom[0]}  degrees of freedom\n"
        f"Residual deviance: {numbers[1]}  on {freedom[1]}  degrees of freedom"
    )


def coefficient_table(
    names: Sequence[str], columns: Sequence[str], table: Array, together: int
) -> str:
    """Format a table as printCoefmat() of R: estimates, a statistic, and a p-value with stars.

    The first ``together`` columns share their digits. The last column has p-values, the column
    before it the statistic.
    """
    estimates = table[:, :together]
    sizes = np.abs(estimates[np.isfinite(estimates) & (estimates != 0)])
    least = 1 + math.floor(math.log10(sizes.min())) if len(sizes) else 0
    decimals = max(1, DIGITS - least)
    flat = aligned(real(np.round(estimates.ravel(), decimals), DIGITS))
    cells = [flat[place::together] for place in range(together)]
    cells.append(real(np.round(table[:, -2], DIGITS - 1), DIGITS))
    cells.append(p_values(table[:, -1]))
    cells = [without(column, table[:, 0]) for column in cells]
    stars = [star(p) for p in table[:, -1]]
    padded = [aligned([title, *column]) for title, column in zip(columns, cells)]
    label = [text.ljust(max(map(len, names))) for text in ["", *names]]
    width = max(map(len, stars))
    marks = [text.ljust(width) for text in ["", *stars]] if width else [""] * (1 + len(names))
    lines = [
        " ".join([head, *row, *([mark] if width else [])])
        for head, mark, *row in zip(label, marks, *padded)
    ]
    return "\n".join([*lines, *(["---", LEGEND] if width else [])])


def without(texts: Sequence[str], estimates: Array) -> list[str]:
    """Return texts, and NA in the rows of columns that have no estimate."""
    return ["NA" if math.isnan(value) else text for text, value in zip(texts, estimates)]


def star(p: float) -> str:
    """Return the stars of a p-value."""
    if math.isnan(p):
        return ""
    return next((mark for limit, mark in STARS if p <= limit), "")


STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"), (0.1, "."))


def aligned(texts: Sequence[str]) -> list[str]:
    """Pad texts on the left to one width."""
    width = max(map(len, texts))
    return [text.rjust(width) for text in texts]


def p_values(values: Array, digits: int = 3) -> list[str]:
    """Format p-values as format.pval() of R."""
    eps = float(np.finfo(float).eps)
    texts = ["NaN"] * len(values)
    for least, most in ((1e-4, math.inf), (eps, 1e-4)):
        places = [place for place, p in enumerate(values) if least <= p < most]
        for place, text in zip(places, real(values[places], digits)):
            texts[place] = text
    widest = max((len(text) for text, p in zip(texts, values) if not p < eps), default=0)
    tiny = "<2e-16" if widest <= 6 else "< 2e-16"
    return [tiny if p < eps else text for text, p in zip(texts, values)]


def real(values: Sequence[float] | Array, digits: int) -> list[str]:
    """Format numbers alike, with at least this many digits, as format() of R."""
    finite = [float(value) for value in values if math.isfinite(value)]
    decimals = max((decimals_of(value, digits) for value in finite), default=0)
    mantissas = [f"{value:.{digits - 1}e}".partition("e")[0] for value in finite]
    places = max((len(text.rstrip("0").partition(".")[2]) for text in mantissas), default=0)
    fixed = [f"{value:.{decimals}f}" for value in finite]
    exponential = [f"{value:.{places}e}" for value in finite]
    wide = max(map(len, fixed), default=0) > max(map(len, exponential), default=0)
    chosen = iter(exponential if wide else fixed)
    return [next(chosen) if math.isfinite(value) else special(value) for value in values]


def special(value: float) -> str:
    """Name a number that is not finite."""
    return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"


def decimals_of(value: float, digits: int) -> int:
    """Count the decimals that show a number with these digits, without zeros at the end."""
    if value == 0:
        return 0
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    needed = len(mantissa.lstrip("-").replace(".", "").rstrip("0"))
    return max(0, needed - 1 - int(exponent))


def general(value: float, digits: int) -> str:
    """Format one number."""
    return real([value], digits)[0]
