# SPDX-License-Identifier: Apache-2.0
"""The functions of numerics/, whose headers describe them. Results are written to arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Doubles = NDArray[np.float64]
_Integers = NDArray[np.int32]

def moments_size(width: int, /) -> int: ...
def moments_open(state: _Doubles, width: int, /) -> None: ...
def moments_add(state: _Doubles, x: _Doubles, weights: _Doubles | None, /) -> None: ...
def moments_merge(state: _Doubles, other: _Doubles, width: int, /) -> None: ...
def moments_close(
    state: _Doubles, counts: _Doubles, weights: _Doubles, means: _Doubles, squares: _Doubles, /
) -> None: ...
def kmeans_nearest(
    x: _Doubles,
    shift: _Doubles | None,
    centers: _Doubles,
    nearest: _Integers,
    best: _Doubles,
    second: _Doubles | None,
    /,
) -> None: ...
def kmeans_distance(
    x: _Doubles,
    shift: _Doubles | None,
    nearest: _Integers,
    centers: _Doubles,
    squares: _Doubles,
    /,
) -> None: ...
def kmeans_sums(
    x: _Doubles,
    weights: _Doubles | None,
    shift: _Doubles | None,
    nearest: _Integers,
    sums: _Doubles,
    /,
) -> None: ...
def kmeans_means(sums: _Doubles, centers: _Doubles, width: int, /) -> int: ...
def kmeans_refill(sums: _Doubles, far: _Doubles, centers: _Doubles, /) -> None: ...
def kmeans_moves(before: _Doubles, centers: _Doubles, moves: _Doubles, /) -> float: ...
def kmeans_half(centers: _Doubles, half: _Doubles, /) -> None: ...
def kmeans_assign(
    x: _Doubles,
    weights: _Doubles | None,
    shift: _Doubles | None,
    centers: _Doubles,
    moves: _Doubles,
    half: _Doubles,
    nearest: _Integers,
    upper: _Doubles,
    lower: _Doubles,
    delta: _Doubles,
    /,
) -> int: ...
def kmeans_first(
    x: _Doubles,
    weights: _Doubles | None,
    shift: _Doubles | None,
    before: int,
    seed: int,
    rank: int,
    first: _Doubles,
    /,
) -> None: ...
def kmeans_total(squares: _Doubles, weights: _Doubles | None, total: float, /) -> float: ...
def kmeans_draw(
    squares: _Doubles,
    weights: _Doubles | None,
    factor: float,
    before: int,
    seed: int,
    rank: int,
    round: int,
    drawn: _Integers,
    /,
) -> int: ...
def kmeans_choose(
    x: _Doubles, weights: _Doubles | None, seed: int, centers: _Doubles, /
) -> None: ...
def triangle_size(width: int, /) -> int: ...
def triangle_message(width: int, /) -> int: ...
def triangle_open(state: _Doubles, width: int, centered: bool, /) -> None: ...
def triangle_add(
    state: _Doubles, x: _Doubles, last: _Doubles | None, roots: _Doubles | None, ones: bool, /
) -> None: ...
def triangle_close(state: _Doubles, width: int, /) -> None: ...
def triangle_merge(state: _Doubles, other: _Doubles, width: int, /) -> None: ...
def triangle_finish(message: _Doubles, width: int, /) -> None: ...
def least_squares(
    x: _Doubles,
    tolerance: float,
    order: _Integers,
    coefficients: _Doubles,
    effects: _Doubles,
    root: _Doubles,
    unscaled: _Doubles,
    /,
) -> tuple[int, float]: ...
def cox_size(width: int, /) -> int: ...
def cox_distances(
    x: _Doubles, weights: _Doubles | None, means: _Doubles, sums: _Doubles, /
) -> None: ...
def cox_pack(
    fields: _Doubles, x: _Doubles, means: _Doubles, scales: _Doubles, all: _Doubles, /
) -> None: ...
def cox_sort(rows: _Doubles, numbers: int, sorted: _Doubles, /) -> None: ...
def cox_propose(rows: _Doubles, numbers: int, proposals: _Doubles, /) -> int: ...
def cox_divide(rows: _Doubles, numbers: int, proposals: _Doubles, counts: _Doubles, /) -> None: ...
def cox_carry(edges: _Doubles, rank: int, back: bool, carried: _Doubles, /) -> None: ...
def cox_times_sum(times: _Doubles, /) -> float: ...
def cox_chains(times: _Doubles, mean: float, firsts: _Doubles, /) -> None: ...
def cox_chain_before(edges: _Doubles, mean: float, /) -> float: ...
def cox_groups(all: _Doubles, width: int, /) -> int: ...
def cox_row(width: int, details: bool, /) -> int: ...
def cox_state(width: int, /) -> int: ...
def cox_risks(
    all: _Doubles,
    width: int,
    efron: bool,
    details: bool,
    risks: _Doubles,
    rows: _Doubles,
    state: _Doubles,
    coefficients: _Doubles,
    /,
) -> None: ...
def cox_edge(
    all: _Doubles,
    width: int,
    efron: bool,
    details: bool,
    risks: _Doubles,
    rows: _Doubles,
    state: _Doubles,
    back: bool,
    edge: _Doubles,
    /,
) -> None: ...
def cox_back(
    all: _Doubles,
    width: int,
    efron: bool,
    details: bool,
    risks: _Doubles,
    rows: _Doubles,
    state: _Doubles,
    carried: _Doubles,
    /,
) -> None: ...
def cox_forward(
    all: _Doubles,
    width: int,
    efron: bool,
    details: bool,
    risks: _Doubles,
    rows: _Doubles,
    state: _Doubles,
    carried: _Doubles,
    sums: _Doubles,
    /,
) -> None: ...
def cox_residuals(
    all: _Doubles,
    width: int,
    efron: bool,
    details: bool,
    risks: _Doubles,
    rows: _Doubles,
    state: _Doubles,
    carried: _Doubles,
    residuals: _Doubles,
    /,
) -> None: ...
def cox_clusters(rows: _Doubles, clusters: _Doubles, /) -> int: ...
def cox_influence(clusters: _Doubles, matrix: _Doubles | None, sums: _Doubles, /) -> None: ...
def cox_step(
    sums: _Doubles,
    first: bool,
    tolerance: float,
    kept: _Integers,
    step: _Doubles,
    variance: _Doubles,
    /,
) -> float: ...
def cox_change(before: float, now: float, /) -> float: ...
def positive_wald(covariance: _Doubles, values: _Doubles, tolerance: float, /) -> float: ...

# The letter of the family, whether there is an intercept, the number of classes, centers, scales.
_Model = tuple[str, bool, int, _Doubles, _Doubles]

def net_state(model: _Model, active: _Integers, b: _Doubles, whole: bool, /) -> int: ...
def net_open(
    model: _Model,
    active: _Integers,
    b: _Doubles,
    whole: bool,
    state: _Doubles,
    sums: _Doubles,
    /,
) -> None: ...
def net_add(
    model: _Model,
    active: _Integers,
    b: _Doubles,
    whole: bool,
    x: _Doubles,
    y: _Doubles,
    weights: _Doubles,
    offset: _Doubles | None,
    state: _Doubles,
    sums: _Doubles,
    /,
) -> None: ...
def net_close(
    model: _Model,
    active: _Integers,
    b: _Doubles,
    whole: bool,
    state: _Doubles,
    sums: _Doubles,
    /,
) -> None: ...
def net_least(model: _Model, y: _Doubles, weights: _Doubles, total: float, /) -> float: ...
def net_squares(
    model: _Model,
    active: _Integers,
    b: _Doubles,
    whole: bool,
    sums: _Doubles,
    found: _Doubles,
    /,
) -> None: ...

# Of the problem: the penalties of the coefficients, alpha, spread, least, tolerance, ratio, the
# number of steps, and whether the path may end early.
def net_follow(
    model: _Model,
    problem: tuple[_Doubles, float, float, float, float, float, int, bool],
    look: Callable[[memoryview, memoryview, bool], _Doubles],
    share: Callable[[memoryview], Any],
    lambdas: _Doubles,
    coefficients: _Doubles,
    deviance: _Doubles,
    violation: _Doubles,
    steps: _Doubles,
    /,
) -> tuple[int, float]: ...
def net_unscale(
    model: _Model, coefficients: _Doubles, mean: float, slopes: _Doubles, levels: _Doubles, /
) -> None: ...
def glm_eta(link: int, mu: _Doubles, eta: _Doubles, /) -> None: ...
def glm_mean(link: int, eta: _Doubles, mu: _Doubles, /) -> None: ...
def glm_slope(link: int, eta: _Doubles, slope: _Doubles, /) -> None: ...
def glm_variance(family: int, mu: _Doubles, variance: _Doubles, /) -> None: ...
def glm_deviance(
    family: int, y: _Doubles, mu: _Doubles, weights: _Doubles, deviance: _Doubles, /
) -> None: ...
def glm_predict(
    x: _Doubles,
    intercept: float,
    coefficients: _Doubles,
    offset: _Doubles | None,
    eta: _Doubles,
    /,
) -> None: ...
def glm_add(state: _Doubles, x: _Doubles, /) -> None: ...
def glm_total(state: _Doubles, /) -> float: ...
def svd(matrix: _Doubles, singular: _Doubles, /) -> None: ...
def quantile_places(
    count: float,
    probs: _Doubles,
    type: int,
    below: _Doubles,
    above: _Doubles,
    share: _Doubles,
    /,
) -> None: ...
def quantile_between(
    below: _Doubles, above: _Doubles, share: _Doubles, found: _Doubles, /
) -> None: ...
