# SPDX-License-Identifier: Apache-2.0
#
# The QR decomposition of a matrix whose rows are spread over the ranks (TSQR: Demmel, Grigori,
# Hoemmen and Langou, 2012). A rank decomposes its rows block by block (src/triangle.h). Triangles
# of two ranks are stacked and decomposed again, along a binomial tree that ends on rank 0. Nothing
# is squared, so singular values keep their digits. Only R is computed.

# R of the rows `x`, with the column `y` behind them, and row i multiplied by `weights[i]`; and of
# the triangle `above`. With `shift` a column of ones is in front of `x - shift`. A square matrix.
tsqr_triangle <- function(x, y = NULL, weights = NULL, above = NULL, shift = NULL) {
  triangle <- .Call(C_triangle_of, x, y, weights, above, shift)
  if (!is.null(colnames(x)) || !is.null(shift)) {
    columns <- if (is.null(colnames(x))) seq_len(ncol(x)) else colnames(x)
    names <- c(if (!is.null(shift)) "(Intercept)", columns, if (!is.null(y)) "(response)")
    colnames(triangle) <- names
  }
  tsqr_check(triangle)
}

# Returns the matrix. Raises an error for its first column that is not finite.
tsqr_check <- function(x) {
  bad <- which(!is.finite(colSums(x)))
  if (length(bad) == 0L) return(x)
  name <- colnames(x)[bad[[1L]]]
  stop("column ", if (is.null(name)) bad[[1L]] else name, " has values that are not finite, or ",
       "too large to be added: remove these rows or scale the column", call. = FALSE)
}

# R of the rows of all ranks on rank 0, and NULL elsewhere. `triangle` is that of this rank. Rows of
# R with a negative diagonal are negated, so R does not depend on the number of ranks, up to
# rounding. R may be not finite, where values of many ranks together are too large: rank 0 raises
# that error in lead(), by tsqr_check(). Here it would leave ranks without their partner.
tsqr <- function(comm, triangle) {
  force(triangle) # it may be a collective call
  names <- colnames(triangle)
  triangle <- unname(triangle)
  rank <- ring_rank(comm)
  step <- 1L
  while (step < ring_size(comm)) {
    if (rank %% (2L * step) == step) {
      ring_send(comm, triangle, rank - step)
      return()
    }
    if (rank + step < ring_size(comm)) {
      other <- ring_recv(comm, triangle, rank + step)
      triangle <- .Call(C_triangle_of, other, NULL, NULL, triangle, NULL)
    }
    step <- 2L * step
  }
  sign <- ifelse(diag(triangle) < 0, -1, 1)
  dimnames(triangle) <- list(NULL, names)
  triangle * sign
}

# Solves least squares from R of the columns and the response, side by side. As stats::lm(), it
# finds columns that depend on columns before them, by the tolerance of lm.fit(). Coefficients of
# such columns are NA. Row i of `penalty` is one more row of the data, with the response 0. `rest`
# is the residual sum of squares, without a difference of large sums.
tsqr_solve <- function(triangle, tolerance = 1e-7, penalty = NULL) {
  width <- ncol(tsqr_check(triangle)) - 1L
  columns <- seq_len(width)
  rows <- rbind(triangle[, columns, drop = FALSE], penalty)
  response <- c(triangle[, width + 1L], double(NROW(penalty)))
  if (width == 0L) {
    return(list(rank = 0L, pivot = integer(), coefficients = double(), effects = double(),
                root = matrix(0, 0L, 0L), unscaled = matrix(0, 0L, 0L), rest = sum(response^2)))
  }
  fit <- stats::.lm.fit(unname(rows), response, tol = tolerance)
  first <- seq_len(fit$rank)
  kept <- fit$pivot[first]
  coefficients <- rep(NA_real_, width)
  coefficients[kept] <- fit$coefficients[first]
  root <- fit$qr[first, first, drop = FALSE]
  root[lower.tri(root)] <- 0
  list(rank = fit$rank, pivot = fit$pivot, coefficients = coefficients,
       effects = fit$effects[first], root = root,
       unscaled = if (fit$rank > 0L) chol2inv(root) else root,
       rest = sum(fit$effects[seq_along(fit$effects) > fit$rank]^2))
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
