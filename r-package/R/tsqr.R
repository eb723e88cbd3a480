# SPDX-License-Identifier: Apache-2.0
#
# The QR decomposition of a matrix whose rows are spread over the ranks (TSQR: Demmel, Grigori,
# Hoemmen and Langou, 2012). A rank decomposes its rows block by block: see numerics/triangle.h.
# Triangles of two ranks are stacked and decomposed again, along a binomial tree that ends on rank
# 0. Nothing is squared, so singular values keep their digits. Only R is computed.

# The state of the rows `x`, with the column `y` behind them, and a column of ones in front with
# `ones`. Row i is multiplied by `weights[i]`. `above` is the state of the rows before. `centered`:
# the first column is 1, and the other columns keep their digits where they are far from 0.
tsqr_rows <- function(x, y = NULL, weights = NULL, above = NULL, centered = FALSE, ones = FALSE) {
  if (is.null(above)) {
    above <- .Call(C_triangle_open, ones + ncol(x) + !is.null(y), centered)
  }
  .Call(C_triangle_add, above, x, y, weights, ones)
}

# Whether the first of these columns of a model is 1.
tsqr_has_ones <- function(columns) identical(columns[1L], "(Intercept)")

# Returns the matrix. Raises an error for its first column that is not finite.
tsqr_check <- function(x) {
  bad <- which(!is.finite(colSums(x)))
  if (length(bad) == 0L) return(x)
  name <- colnames(x)[bad[[1L]]]
  stop("column ", if (is.null(name)) bad[[1L]] else name, " has values that are not finite, or ",
       "too large to be added: remove these rows or scale the column", call. = FALSE)
}

# The names of columns, which may have none.
tsqr_names <- function(x) {
  if (is.null(colnames(x))) as.character(seq_len(ncol(x))) else colnames(x)
}

# The part of a state that other ranks need.
tsqr_close <- function(state, names) {
  width <- length(names)
  if (is.null(state)) state <- .Call(C_triangle_open, width, FALSE)
  message <- .Call(C_triangle_close, state, width)
  tsqr_check(matrix(message[seq_len(width^2)], ncol = width, byrow = TRUE,
                    dimnames = list(NULL, names)))
  message
}

# R of the rows of all ranks on rank 0, and NULL elsewhere. `state`, which may be an error, is that
# of this rank, or NULL without rows. Diagonal elements of R are not negative, so R does not depend
# on the number of ranks, up to rounding. R may be not finite, where values of many ranks together
# are too large: rank 0 raises that error in lead(), by tsqr_check(). Here it would leave ranks
# without their partner.
tsqr <- function(comm, state, names) {
  message <- agree(comm, tsqr_close(state, names))
  rank <- ring_rank(comm)
  step <- 1L
  while (step < ring_size(comm)) {
    if (rank %% (2L * step) == step) {
      ring_send(comm, message, rank - step)
      return()
    }
    if (rank + step < ring_size(comm)) {
      other <- ring_recv(comm, message, rank + step)
      message <- .Call(C_triangle_merge, message, other, length(names))
    }
    step <- 2L * step
  }
  triangle <- .Call(C_triangle_finish, message, length(names))
  colnames(triangle) <- names
  triangle
}

# Solves least squares from R of the columns and the response, side by side. As stats::lm(), it
# finds columns that depend on columns before them, by the tolerance of lm.fit(). Coefficients of
# such columns are NA. Row i of `penalty` is one more row of the data, with the response 0. `rest`
# is the residual sum of squares, without a difference of large sums.
tsqr_solve <- function(triangle, tolerance = 1e-7, penalty = NULL) {
  tsqr_check(triangle)
  if (!is.null(penalty)) penalty <- cbind(penalty, 0)
  .Call(C_triangle_solve, unname(rbind(triangle, penalty)), tolerance)
}

# The singular values of R, and its first `k` right vectors, whose largest element is positive.
tsqr_svd <- function(triangle, k) {
  found <- .Call(C_triangle_svd, unname(tsqr_check(triangle)))
  list(d = found$d, v = found$v[, seq_len(k), drop = FALSE])
}

# Evaluates `expr`, a list of numeric vectors and matrices without missing rows or names, on rank 0
# and broadcasts it: ranks whose processors round differently would get different results. `names`
# are the names of the list.
lead <- function(comm, names, expr) {
  found <- agree(comm, if (ring_rank(comm) == 0) expr)
  shape <- function(x) c(length(x), if (is.matrix(x)) dim(x) else c(-1, -1))
  shapes <- double(3L * length(names))
  if (!is.null(found)) shapes <- unlist(lapply(unname(found[names]), shape))
  shapes <- matrix(ring_broadcast(comm, as.double(shapes)), 3L)
  numbers <- double(sum(shapes[1L, ]))
  if (!is.null(found)) numbers <- as.double(unlist(found[names], use.names = FALSE))
  numbers <- ring_broadcast(comm, numbers)
  parts <- split(numbers, factor(rep(seq_along(names), shapes[1L, ]), seq_along(names)))
  stats::setNames(lapply(seq_along(names), function(i) {
    part <- unname(parts[[i]])
    if (shapes[2L, i] >= 0) matrix(part, shapes[2L, i], shapes[3L, i]) else part
  }), names)
}
