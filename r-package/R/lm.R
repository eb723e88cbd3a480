# SPDX-License-Identifier: Apache-2.0
#
# Linear models by tsqr(). R of the columns and the response is all that least squares needs. So
# the model keeps it, in `triangle`, and tests of terms need no rows.

#' Distributed lm: fit a linear model to data on many ranks
#'
#' `ring_lm()` fits the model of [stats::lm()] to the rows of all ranks, by a QR decomposition. All
#' ranks call it, each with its own rows. Every rank gets the result that `lm()` would return for
#' all rows. The ranks send matrices with as many rows and columns as there are coefficients.
#'
#' @details
#' The rows are never squared into `crossprod(x)`, as most distributed linear regressions do. So
#' nearly collinear columns keep the digits that they have in `lm()`: fitted values agree to
#' rounding, and coefficients up to the change that a rounding of the data makes, relatively about
#' `k * (2 + k * r) * 2e-16` (Wedin, 1973). Here `k` is the condition number of the columns, and
#' `r` the norm of the residuals, divided by those of the columns and of the coefficients. Columns
#' that depend on columns before them are found by the tolerance of `lm()`, and have `NA` as
#' coefficient.
#'
#' `ridge` adds `ridge * sum(b^2)` to the (weighted) sum of squares that is minimized, where `b` are
#' all coefficients but the intercept. Scale the columns first, if the penalty is to be the same for
#' all. The degrees of freedom are then the trace of the hat matrix, and standard errors are those
#' of the biased estimates. `anova()`, `drop1()`, `add1()`, `step()` and [sandwich::vcovHC()] are
#' for models without `ridge`.
#'
#' @inheritParams ring_glm
#' @param formula,data,weights,subset,na.action,offset,contrasts As for [stats::lm()]. `data`,
#'   `weights`, `subset` and `offset` are those of the rows of this rank, which may be none. The
#'   response is one numeric vector, also of times or durations. `data` may be a function that
#'   returns the rows in chunks, on all ranks: see [ring_chunks()] and *Chunks*.
#' @param ridge The penalty, one number from 0, the same on all ranks.
#' @param tol The tolerance for columns that depend on columns before them, one number, as for
#'   [stats::lm.fit()]. The same on all ranks.
#' @param ... Arguments of [ring_apply()], such as `num_proc`, if `comm` is a Spark table.
#' @returns An object of class `ring_lm`, the same on all ranks. It holds no rows, so it is small.
#'   It has methods for `print()`, `summary()`, `coef()`, `vcov()`, `confint()`, `anova()`,
#'   `drop1()`, `add1()`, `step()`, `update()`, `predict()` (with the arguments of
#'   [stats::predict.lm()]), `deviance()`, `logLik()`, `AIC()`, `nobs()`, `formula()`,
#'   and for `tidy()`, `glance()` and `augment()` of package broom.
#'
#'   `fitted()`, `residuals()` and `add1()` need the rows. They work on the ranks, in the function
#'   that has fitted the model: all ranks call them, and `fitted()` and `residuals()` return the
#'   values for the rows of the rank.
#' @inheritSection ring_glm Levels
#' @inheritSection ring_glm Terms
#' @inheritSection ring_glm Chunks
#' @inheritSection ring_glm Spark tables
#' @inheritSection ring_glm Errors
#' @references J. Demmel, L. Grigori, M. Hoemmen and J. Langou (2012). Communication-optimal
#'   parallel and sequential QR and LU factorizations. *SIAM Journal on Scientific Computing* 34(1).
#'
#'   P.-A. Wedin (1973). Perturbation theory for pseudo-inverses. *BIT* 13(2).
#' @seealso [ring_glm()]; [ring_glmnet()], for penalties that select columns; [ring_prcomp()].
#' @examples
#' comm <- ring_init()
#' # Each rank has its own rows:
#' rows <- seq_len(nrow(mtcars)) %% ring_size(comm) == ring_rank(comm)
#' fit <- ring_lm(comm, mpg ~ wt + factor(cyl), data = mtcars[rows, ])
#' summary(fit)
#' anova(fit)
#' predict(fit, data.frame(wt = 3, cyl = 4), interval = "prediction")
#' ring_close(comm)
#' @export
ring_lm <- function(comm, formula, data, weights, subset,
                    na.action, # nolint: object_name_linter. As in lm().
                    offset, contrasts = NULL, ridge = 0, tol = 1e-7, ...) {
  check_given(comm)
  if (is_table(comm)) return(table_fit("ring_lm", match.call(), parent.frame()))
  agree(comm, {
    check_no_dots(...)
    lm_check_numbers(ridge, tol)
  })
  call <- match.call()
  env <- parent.frame()
  rows <- rows_of_call(comm, call, env, if (!missing(data)) data, contrasts, chunked = TRUE)
  ready <- lm_rows(comm, rows)
  model_check_settings(comm, list(response = rows$response, ridge = ridge, tol = tol,
                                  contrasts = contrasts))
  model_make("ring_lm", rows, call, env, lm_fit(comm, ready, ridge, tol))
}

lm_check_numbers <- function(ridge, tol) {
  if (!is_number(ridge) || ridge < 0) {
    stop("`ridge` must be one number, 0 or more, not ", describe(ridge), call. = FALSE)
  }
  if (!is_number(tol) || tol < 0 || tol >= 1) {
    stop("`tol` must be one number from 0 to less than 1, not ", describe(tol), call. = FALSE)
  }
}

# The rows of this rank: weights and offsets are numbers.
lm_rows <- function(comm, rows) {
  list(parts = parts_keep(agree(comm, parts_map(rows$parts, lm_part))), columns = rows$columns,
       weighted = rows$has_weights, intercept = attr(rows$terms, "intercept") > 0L)
}

lm_part <- function(part) {
  count <- nrow(part$x)
  y <- part$y
  numeric <- is.numeric(y) || is.logical(y) || inherits(y, c("difftime", "Date", "POSIXct"))
  if (count > 0L && (!numeric || length(dim(y)) > 1L)) {
    stop("the response must be one numeric vector, not ", describe(y), call. = FALSE)
  }
  weights <- if (is.null(part$weights)) rep(1, count) else as.double(part$weights)
  if (any(weights < 0)) stop("negative weights not allowed", call. = FALSE)
  list(x = part$x, y = as.double(y), weights = weights,
       offset = if (is.null(part$offset)) rep(0, count) else as.double(part$offset))
}

lm_fitted <- function(part, coefficients) {
  coefficients[is.na(coefficients)] <- 0
  drop(part$x %*% coefficients) + part$offset
}

lm_fit <- function(comm, rows, ridge, tol) {
  labels <- c(rows$columns, "(response)")
  triangle <- tsqr(comm, names = labels, parts_tsqr(rows$parts, function(part) {
    list(part$x, part$y - part$offset, sqrt(part$weights),
         centered = tsqr_has_ones(rows$columns))
  }))
  solved <- lead(comm, c("rank", "coefficients", "pivot", "unscaled", "effects", "root",
                         "triangle", "freedom"), lm_solve(triangle, ridge, rows$intercept, tol))
  names <- rows$columns
  coefficients <- stats::setNames(solved$coefficients, names)
  sums <- lm_sums(comm, rows, coefficients)
  kept <- solved$pivot[seq_len(solved$rank)]
  order <- order(kept)
  unscaled <- solved$unscaled[order, order, drop = FALSE]
  dimnames(unscaled) <- list(names[sort(kept)], names[sort(kept)])
  colnames(solved$triangle) <- labels
  c(list(
    coefficients = coefficients, rank = as.integer(solved$rank), pivot = as.integer(solved$pivot),
    effects = solved$effects, root = solved$root, covariance = unscaled,
    triangle = solved$triangle, df.residual = sums$nobs - solved$freedom, ridge = ridge,
    tol = tol, quantiles = lm_quantiles(comm, rows, coefficients), weighted = rows$weighted,
    intercept = rows$intercept
  ), sums)
}

# Runs on rank 0.
lm_solve <- function(triangle, ridge, intercept, tol) {
  width <- ncol(triangle) - 1L
  penalty <- if (ridge > 0) {
    diag(sqrt(ridge), width)[seq_len(width) > intercept, , drop = FALSE]
  }
  solved <- tsqr_solve(triangle, tol, penalty)
  solved$freedom <- solved$rank
  if (ridge > 0) {
    kept <- solved$pivot[seq_len(solved$rank)]
    gram <- crossprod(triangle[, kept, drop = FALSE])
    hat <- solved$unscaled %*% gram
    solved$freedom <- sum(diag(hat))
    solved$unscaled <- hat %*% solved$unscaled
    solved$root <- lm_root(solved$unscaled)
  }
  c(solved, list(triangle = triangle))
}

# A triangle R with this inverse of crossprod(R), by which predict.lm() computes standard errors.
# The covariance of a ridge has no inverse if columns depend on each other. So its eigenvalues are
# raised to 1e-12 of the largest, on the scale of the columns: predict.lm() needs a condition of R
# below 1e7.
lm_root <- function(covariance) {
  if (length(covariance) == 0L) return(covariance)
  scale <- sqrt(pmax(diag(covariance), 0))
  scale <- pmax(scale, 1e-10 * max(scale), .Machine$double.eps)
  parts <- eigen(covariance / outer(scale, scale), symmetric = TRUE)
  halves <- t(parts$vectors) / sqrt(pmax(parts$values, 1e-12 * parts$values[[1L]]))
  decomposed <- qr.default(halves, tol = 0)
  sweep(qr.R(decomposed)[, order(decomposed$pivot), drop = FALSE], 2L, scale, "/")
}

# Quantiles of the weighted residuals of all ranks; none if rows are in chunks.
lm_quantiles <- function(comm, rows, coefficients) {
  part <- rows$parts$held
  if (is.null(part)) return(double())
  residuals <- (part$y - lm_fitted(part, coefficients)) * sqrt(part$weights)
  drop(ring_quantile(comm, residuals[part$weights > 0]))
}

# Sums over all ranks: rows with a weight, the residual sum of squares, and that of the model, which
# is around the mean if there is an intercept. `means` are unweighted, as those by which
# predict.lm() centers terms.
lm_sums <- function(comm, rows, coefficients) {
  spread <- c(weights = 0, mean = 0, squares = 0)
  sums <- agree(comm, parts_sum(rows$parts, double(4L + length(rows$columns)), function(part) {
    used <- part$weights > 0
    weights <- part$weights[used]
    fitted <- lm_fitted(part, coefficients)[used]
    spread <<- lm_spread(spread, weights, fitted)
    c(length(weights), sum(weights * (part$y[used] - fitted)^2), sum(log(weights)),
      nrow(part$x), unname(colSums(part$x)))
  }))
  sums <- ring_allreduce(comm, c(sums, spread[[1L]], spread[[1L]] * spread[[2L]]))
  total <- utils::tail(sums, 2L)
  center <- if (rows$intercept) total[[2L]] / total[[1L]] else 0
  squares <- ring_allreduce(comm, spread[[3L]] + spread[[1L]] * (spread[[2L]] - center)^2)
  list(nobs = as.integer(sums[[1L]]), deviance = sums[[2L]], model_squares = squares,
       log_weights = sums[[3L]], means = sums[4L + seq_along(rows$columns)] / sums[[4L]])
}

# The weight, the mean and the squares around the mean of values that come in parts (T. Chan, G.
# Golub and R. LeVeque, 1983). Squares around 0 would lose digits.
lm_spread <- function(spread, weights, values) {
  weight <- sum(weights)
  if (weight == 0) return(spread)
  mean <- sum(weights * values) / weight
  total <- spread[[1L]] + weight
  gap <- mean - spread[[2L]]
  squares <- sum(weights * (values - mean)^2) + spread[[1L]] * weight / total * gap^2
  c(total, spread[[2L]] + gap * weight / total, spread[[3L]] + squares)
}
