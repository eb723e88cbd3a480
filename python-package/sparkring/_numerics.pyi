# SPDX-License-Identifier: Apache-2.0
"""The functions of numerics/, whose headers describe them. Results are written to arrays."""

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
