# SPDX-License-Identifier: Apache-2.0
#
# Means and standard deviations of columns whose rows are spread over the ranks. A second pass over
# the centered rows keeps the digits that a sum of squares alone would lose.

#' Scale: center and scale the columns of a matrix on all ranks
#'
#' `ring_scale()` returns what [scale()] returns for the rows of all ranks: the rows of this rank,
#' with the means and standard deviations of the columns over all ranks. All ranks call it.
#'
#' @inheritParams ring_allreduce
#' @param x A numeric matrix, vector or data frame, with the rows of this rank, which may be none.
#'   The columns are the same on all ranks. Missing values are left out of means and deviations.
#' @param center,scale `TRUE` or `FALSE`, or numbers, one for each column, as for [scale()]. The
#'   same on all ranks.
#' @returns A matrix of the rows of this rank, with the attributes `scaled:center` and
#'   `scaled:scale`, which are the same on all ranks.
#' @section Errors:
#' `ring_error_invalid` on every rank, if `x` is invalid on any rank. The communicator stays usable.
#' Other errors as for [ring_allreduce()].
#' @seealso [ring_prcomp()], [ring_cor()]
#' @examples
#' comm <- ring_init()
#' scaled <- ring_scale(comm, faithful)
#' attr(scaled, "scaled:center")
#' ring_close(comm)
#' @export
ring_scale <- function(comm, x, center = TRUE, scale = TRUE) {
  check_given(comm)
  settings <- agree(comm, {
    check_given(comm, x)
    list(center = center, scale = scale)
  })
  x <- columns_of(comm, x)
  model_check_settings(comm, settings)
  columns_check_moments(comm, x, center, scale)
  found <- columns_moments(comm, x, center, scale)
  x <- columns_scale(x, found)
  marks <- list("scaled:center" = found$center, "scaled:scale" = found$scale)
  attributes(x) <- c(attributes(x), Filter(Negate(is.null), marks))
  x
}

# The matrix of `x`, with the same columns on all ranks. `finite` refuses missing values.
columns_of <- function(comm, x, finite = FALSE) {
  x <- agree(comm, columns_matrix(x, finite))
  labels <- if (is.null(colnames(x))) as.character(seq_len(ncol(x))) else colnames(x)
  agree(comm, rows_check_labels(allgather_strings(comm, labels)))
  x
}

columns_matrix <- function(x, finite) {
  x <- as.matrix(columns_plain(x))
  if (!is.double(x)) storage.mode(x) <- "double" # which would copy
  if (finite && ncol(x) == 0L) stop("there are no columns", call. = FALSE)
  if (finite) tsqr_check(x)
  x
}

# The columns, which are numbers or logicals.
columns_plain <- function(x) {
  x <- if (is.list(x)) integer64_rows(x) else integer64_numbers(x, "x")
  plain <- function(x) is.numeric(x) || is.logical(x)
  if (if (is.data.frame(x)) all(vapply(x, plain, NA)) else plain(x)) return(x)
  if (!is.data.frame(x)) {
    stop("the columns must be a matrix or a data frame of numbers, not ", describe(x),
         call. = FALSE)
  }
  odd <- Find(function(i) !plain(x[[i]]), seq_along(x))
  stop("the columns must be numbers, and `", names(x)[[odd]], "` is ", describe(x[[odd]]),
       ": leave it out, or make columns by model.matrix()", call. = FALSE)
}

# The columns with these names, unless names are missing or not unique. `argument` has the rows.
columns_named <- function(x, names, argument) {
  if (!columns_are_named(names) || !length(colnames(x)) || identical(names, colnames(x))) return(x)
  absent <- setdiff(names, colnames(x))
  if (length(absent) == 0L) return(x[, names, drop = FALSE])
  stop("`", argument, "` has no column ", absent[[1L]], call. = FALSE)
}

columns_are_named <- function(names) {
  length(names) > 0L && !anyNA(names) && all(nzchar(names)) && !anyDuplicated(names)
}

# The number of known values, the center and the scale of each column, over all ranks.
columns_moments <- function(comm, x, center = TRUE, scale = TRUE) {
  found <- columns_known(comm, x)
  means <- stats::setNames(found$means, colnames(x))
  squares <- found$squares
  if (isTRUE(center)) {
    center <- means
  } else {
    if (isFALSE(center)) center <- NULL
    gaps <- unname(means) - or_default(columns_numbers(center), 0)
    squares <- squares + found$weights * gaps^2
  }
  deviations <- stats::setNames(sqrt(squares / pmax(1, found$counts - 1)), colnames(x))
  if (is.logical(scale)) scale <- if (scale) deviations
  list(counts = found$counts, center = center, scale = scale)
}

# The moments of numerics/moments.h for each column, over all ranks.
columns_known <- function(comm, x, weights = NULL) {
  moments <- ring_allgather(comm, .Call(C_columns_moments, x, weights))
  .Call(C_columns_known, moments, ncol(x))
}

columns_check_moments <- function(comm, x, center, scale) {
  agree(comm, {
    columns_check_given(center, "center", ncol(x))
    columns_check_given(scale, "scale", ncol(x))
  })
}

columns_check_given <- function(given, name, width) {
  if (isTRUE(given) || isFALSE(given)) return()
  if (is.numeric(given) && length(given) == width && all(is.finite(given))) return()
  stop("`", name, "` must be TRUE or FALSE, or ", width, " numbers, one for each column, not ",
       describe(given), call. = FALSE)
}

columns_scale <- function(x, moments) {
  .Call(C_columns_scaled, x, columns_numbers(moments$center), columns_numbers(moments$scale))
}

columns_numbers <- function(x) if (!is.null(x)) as.double(x)
