# SPDX-License-Identifier: Apache-2.0
#
# Singular value decompositions and principal components. With few columns, R of tsqr() has the
# singular values of all rows. With many columns, the rows are projected to random directions first
# (Halko, Martinsson and Tropp, 2011).

#' SVD: singular value decomposition of a matrix on many ranks
#'
#' `ring_svd()` returns the singular value decomposition of the matrix with the rows of all ranks,
#' as [svd()] does. All ranks call it, each with its own rows.
#'
#' @details
#' `method = "qr"` decomposes the rows by an orthogonal reduction. Nothing is squared. So singular
#' values have the digits of [svd()], where methods by the covariance matrix lose all values below
#' 1e-8 of the largest. The ranks send square matrices with the number of columns.
#'
#' `method = "random"` projects the rows to `k + 10` random directions, improves them by `power`
#' iterations and finds the `k` largest singular values among them. It never makes a square matrix.
#' The error falls with the gap between the singular values `k` and `k + 10`. Rank 0 draws the
#' directions, so [set.seed()] on rank 0 makes them reproducible.
#'
#' Columns of `v` are determined up to their signs.
#'
#' @param comm A communicator, from [ring_init()]. Or a Spark table: see *Spark tables*.
#' @param x A numeric matrix or data frame with the rows of this rank, which may be none. The
#'   columns are the same on all ranks. There are no missing values.
#' @param k The number of singular values, a whole number. `NULL`: all, for `"qr"`.
#' @param u Whether to compute the left singular vectors, `TRUE` or `FALSE`, the same on all ranks.
#' @param method A string: `"qr"`, for up to some thousand columns; `"random"`; or `"auto"`, which
#'   is `"random"` for more than 2000 columns, if `k` is given.
#' @param power The number of iterations of `"random"`, a whole number from 0.
#' @param ... Arguments of [ring_apply()], such as `num_proc`, if `comm` is a Spark table.
#' @returns A list with the singular values `d` and the right singular vectors `v`, the same on all
#'   ranks; and with `u`, the rows of the left singular vectors that belong to the rows of this
#'   rank.
#' @section Spark tables:
#' With a Spark table in place of `comm`, the driver calls the function on the ranks of
#' [ring_apply()], and gets one result. `x` are names of columns of the table or a formula of them,
#' as `~ a + b`, and by default all columns that no other argument names. The result has no values
#' for each row of the table. `predict(fit, tbl)`, where there is such a method, returns a lazy
#' Spark table with the columns of `tbl` and the predictions. Columns of bigint and decimal become
#' doubles.
#' @section Errors:
#' `ring_error_invalid` on every rank, if an argument is invalid on any rank, or if a value is
#' missing or infinite. The communicator stays usable. Other errors as for [ring_allreduce()].
#' @references N. Halko, P. G. Martinsson and J. A. Tropp (2011). Finding structure with randomness.
#'   *SIAM Review* 53(2).
#' @seealso [ring_prcomp()], [ring_lm()]
#' @examples
#' comm <- ring_init()
#' ring_svd(comm, as.matrix(faithful), u = FALSE)
#' ring_close(comm)
#' @export
ring_svd <- function(comm, x, k = NULL, u = TRUE, method = c("auto", "qr", "random"), power = 2L,
                     ...) {
  check_given(comm)
  if (is_table(comm)) return(columns_fit("ring_svd", match.call(), parent.frame()))
  settings <- agree(comm, {
    check_given(comm, x)
    check_no_dots(...)
    list(k = check_whole(k, "k", least = 1, absent = 0L), u = check_flag(u, "u"),
         method = check_choice(method), power = check_whole(power, "power", least = 0))
  })
  x <- columns_of(comm, x, finite = TRUE)
  model_check_settings(comm, settings)
  found <- svd_of(comm, x, settings$k, settings$u, settings$method, settings$power)
  found$d <- found$d[seq_len(ncol(found$v))]
  found
}

# `k` vectors, or all if `k` is 0. There may be more singular values, as from svd().
svd_of <- function(comm, x, k, left, method, power) {
  random <- svd_is_random(x, k, method)
  most <- svd_most(comm, x)
  k <- if (k == 0L) most else min(k, most)
  if (random) svd_random(comm, x, k, left, power) else svd_qr(comm, x, k, left, most)
}

svd_is_random <- function(x, k, method, name = "k") {
  if (method == "auto") return(ncol(x) > 2000L && k > 0L)
  if (method == "random" && k == 0L) {
    check_stop("`method = \"random\"` needs `", name, "`", call = NULL)
  }
  method == "random"
}

# The number of singular values of all rows.
svd_most <- function(comm, x) min(ncol(x), svd_count(comm, x))

svd_count <- function(comm, x) {
  count <- ring_allreduce(comm, as.double(nrow(x)))
  if (count == 0) check_stop("there are no rows on any rank", call = NULL)
  count
}

# The rows have a last column of ones, which changes the rounding of the others. TruncatedSVD of
# Python needs it, and so both languages get the same bits.
svd_qr <- function(comm, x, k, left, most) {
  triangle <- tsqr(comm, tsqr_rows(x, rep(1, nrow(x))), c(tsqr_names(x), "ones"))
  columns <- seq_len(ncol(x))
  found <- lead(comm, c("d", "v"), tsqr_svd(triangle[columns, columns, drop = FALSE], k))
  v <- matrix(found$v, ncol(x), k, dimnames = list(colnames(x), NULL))
  found <- list(d = found$d[seq_len(most)], v = v)
  if (left) found$u <- svd_left(comm, x, list(d = found$d[seq_len(k)], v = v))
  found
}

# Columns of `x v / d` lose their right angles where d is small. A second decomposition, of columns
# that are nearly orthogonal, restores them. Columns of singular values of 0 are 0.
svd_left <- function(comm, x, found) {
  clear <- found$d > found$d[[1L]] * .Machine$double.eps
  u <- matrix(0, nrow(x), length(found$d), dimnames = list(rownames(x), NULL))
  if (!any(clear)) return(u)
  scaled <- sweep(x %*% found$v[, clear, drop = FALSE], 2L, found$d[clear], "/")
  u[, clear] <- svd_basis(comm, scaled)
  u
}

# Orthonormal columns that span those of `x`. Columns that depend on columns before them, up to
# rounding, are 0.
svd_basis <- function(comm, x) {
  triangle <- tsqr(comm, tsqr_rows(x), tsqr_names(x))
  inverse <- lead(comm, "root", list(root = svd_root(triangle)))
  x %*% inverse$root
}

svd_root <- function(triangle) {
  width <- ncol(tsqr_check(triangle))
  decomposed <- qr.default(triangle, tol = 10 * max(100, width) * .Machine$double.eps)
  first <- seq_len(decomposed$rank)
  kept <- decomposed$pivot[first]
  root <- matrix(0, width, width)
  if (length(kept) == 0L) return(root)
  upper <- qr.R(decomposed)[first, first, drop = FALSE]
  # Columns keep their direction, so they still belong to those of `v`.
  root[kept, kept] <- backsolve(upper, diag(sign(diag(upper)), length(kept)))
  root
}

svd_random <- function(comm, x, k, left, power) {
  width <- min(k + 10, svd_most(comm, x))
  shape <- double(ncol(x) * width)
  if (ring_rank(comm) == 0) shape <- stats::rnorm(length(shape))
  found <- x %*% matrix(ring_broadcast(comm, shape), ncol(x))
  for (step in seq_len(power)) {
    basis <- svd_basis(comm, svd_basis(comm, found))
    found <- x %*% qr.Q(qr(ring_allreduce(comm, unname(crossprod(x, basis)))))
  }
  basis <- svd_basis(comm, svd_basis(comm, found))
  projected <- ring_allreduce(comm, unname(crossprod(x, basis)))
  small <- lead(comm, c("d", "u", "v"), svd(projected, nu = k, nv = k))
  v <- matrix(small$u, ncol(x), k, dimnames = list(colnames(x), NULL))
  result <- list(d = small$d[seq_len(k)], v = v)
  if (left) result$u <- basis %*% matrix(small$v, width, k)
  result
}

# nolint start: object_name_linter. The arguments are those of prcomp().
#' Principal components of data on many ranks
#'
#' `ring_prcomp()` returns the principal components of the rows of all ranks, as [stats::prcomp()]
#' does, by [ring_svd()] of the centered rows. All ranks call it, each with its own rows.
#'
#' @inheritParams ring_svd
#' @param retx Whether to return the scores of the rows of this rank, `TRUE` or `FALSE`.
#' @param center,scale. As for [stats::prcomp()]: `TRUE` or `FALSE`, or a number for each column.
#'   The same on all ranks.
#' @param rank. The number of components, a whole number. `NULL`: all.
#' @returns An object of the classes `ring_prcomp` and `prcomp`, so the methods of
#'   [stats::prcomp()] work: `print()`, `summary()`, `predict()`, [stats::screeplot()]. Package
#'   broom's `tidy()` and `augment()` have methods, too. `sdev`, `rotation`, `center` and `scale`
#'   are the same on all ranks. With `retx`, `x` has the scores of the rows of this rank.
#'
#'   For a Spark table `predict(fit, tbl)` adds the columns `PC1`, `PC2` and so on.
#' @inheritSection ring_svd Spark tables
#' @inheritSection ring_svd Errors
#' @seealso [ring_svd()]
#' @examples
#' comm <- ring_init()
#' # Each rank has its own rows:
#' rows <- seq_len(nrow(USArrests)) %% ring_size(comm) == ring_rank(comm)
#' fit <- ring_prcomp(comm, USArrests[rows, ], scale. = TRUE)
#' summary(fit)
#' predict(fit, USArrests[1:3, ])
#' ring_close(comm)
#' \dontrun{
#' # Needs Spark.
#' sc <- sparklyr::spark_connect(master = "local[2]")
#' states <- sparklyr::copy_to(sc, USArrests, overwrite = TRUE)
#' fit <- ring_prcomp(states, scale. = TRUE, rank. = 2, num_proc = 2)
#' predict(fit, states)
#' }
#' @export
ring_prcomp <- function(comm, x, retx = FALSE, center = TRUE, scale. = FALSE, rank. = NULL,
                        method = c("auto", "qr", "random"), power = 2L, ...) {
  check_given(comm)
  if (is_table(comm)) return(columns_fit("ring_prcomp", match.call(), parent.frame()))
  call <- scope_call(match.call())
  settings <- agree(comm, {
    check_given(comm, x)
    check_no_dots(...)
    list(rank = check_whole(rank., "rank.", least = 1, absent = 0L), method = check_choice(method),
         power = check_whole(power, "power", least = 0), center = center, scale = scale.,
         retx = check_flag(retx, "retx"))
  })
  x <- columns_of(comm, x, finite = TRUE)
  model_check_settings(comm, settings[names(settings) != "retx"])
  columns_check_moments(comm, x, center, scale.)
  if (is.numeric(scale.)) prcomp_check_scale(scale.)
  random <- svd_is_random(x, settings$rank, settings$method, "rank.")
  found <- if (random) prcomp_random(comm, x, center, scale., settings$rank, settings$power)
           else prcomp_qr(comm, x, center, scale., settings$rank)
  names <- list(colnames(x), paste0("PC", seq_len(ncol(found$v))))
  fit <- list(
    sdev = found$d / sqrt(max(1, found$count - 1)), rotation = array(found$v, dim(found$v), names),
    center = if (is.null(found$center)) FALSE else found$center,
    scale = if (is.null(found$scale)) FALSE else found$scale, call = call, total = found$total
  )
  if (settings$retx) fit$x <- columns_scale(x, found) %*% fit$rotation
  structure(class = c("ring_prcomp", "prcomp"), fit)
}
# nolint end

#' @export
predict.ring_prcomp <- function(object, newdata, ...) {
  check_method_dots(...)
  if (!missing(newdata) && is_table(newdata)) return(table_predict(object, newdata))
  NextMethod()
}

#' @export
summary.ring_prcomp <- function(object, ...) {
  check_method_dots(...)
  found <- NextMethod()
  share <- object$sdev^2 / object$total
  found$importance[2L, ] <- round(share, 5L)
  found$importance[3L, ] <- round(cumsum(share), 5L)
  found
}

# `total`: the variance of all components, of which not all may be known.
prcomp_random <- function(comm, x, center, scale, k, power) {
  moments <- columns_moments(comm, x, center, scale)
  prcomp_check_scale(moments$scale)
  x <- columns_scale(x, moments)
  found <- svd_of(comm, x, k, FALSE, "random", power)
  count <- moments$counts[[1L]]
  total <- ring_allreduce(comm, sum(x^2)) / max(1, count - 1)
  c(found, moments[c("center", "scale")], count = count, total = total)
}

# The rows are read once: behind a column of ones, R has the means of the columns in its first row,
# and below it R of the centered columns.
prcomp_qr <- function(comm, x, center, scale, k) {
  count <- svd_count(comm, x)
  centered <- isTRUE(center)
  if (is.numeric(center)) x <- columns_scale(x, list(center = center))
  names <- c(if (centered) "(Intercept)", tsqr_names(x))
  triangle <- tsqr(comm, tsqr_rows(x, centered = centered, ones = centered), names)
  most <- min(ncol(x), count)
  k <- if (k == 0L) most else min(k, most)
  found <- lead(comm, c("means", "scale", "d", "v"),
                prcomp_of(tsqr_check(triangle), centered, scale, count, k))
  if (is.logical(scale)) scale <- if (scale) stats::setNames(found$scale, colnames(x))
  prcomp_check_scale(scale)
  if (centered) center <- stats::setNames(found$means, colnames(x))
  list(d = found$d[seq_len(most)], v = found$v, count = count, scale = scale,
       total = sum(found$d^2) / max(1, count - 1), center = if (!is.logical(center)) center)
}

prcomp_of <- function(triangle, centered, scale, count, k) {
  means <- double()
  if (centered) {
    means <- triangle[1L, -1L] / triangle[[1L]]
    triangle <- triangle[-1L, -1L, drop = FALSE]
  }
  deviations <- sqrt(colSums(triangle^2) / max(1, count - 1))
  if (is.logical(scale)) scale <- if (scale) ifelse(deviations == 0, 1, deviations)
  if (!is.null(scale)) triangle <- sweep(triangle, 2L, scale, "/")
  c(list(means = means, scale = deviations), tsqr_svd(triangle, k))
}

prcomp_check_scale <- function(scale) {
  flat <- which(scale == 0)
  if (length(flat) == 0L) return()
  check_stop("cannot rescale a constant/zero column to unit variance: leave out column ",
             flat[[1L]], call = sys.call(-2))
}
