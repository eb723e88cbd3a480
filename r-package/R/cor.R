# SPDX-License-Identifier: Apache-2.0
#
# Correlations of columns whose rows are spread over the ranks. Ranks of values, for Spearman's
# correlation, come from a distributed sort: order statistics divide the values of all ranks into
# parts, each rank ranks one part, and sends the ranks back.

#' Correlation of columns over all ranks
#'
#' `ring_cor()` returns the correlation matrix of the rows of all ranks, as [stats::cor()] does. All
#' ranks call it. Columns are centered first, so no digits are lost.
#'
#' @inheritParams ring_svd
#' @param x A numeric matrix or data frame, with the rows of this rank, which may be none. The
#'   columns are the same on all ranks.
#' @param y A numeric vector, matrix or data frame with the same rows as `x`, or `NULL`. For a Spark
#'   table, names of columns.
#' @param use The treatment of missing values, a string: `"everything"`, where a correlation with a
#'   missing value is `NA`, or `"complete.obs"`, which leaves out rows with missing values.
#' @param method A string: `"pearson"` or `"spearman"`, the correlation of ranks.
#' @returns A matrix, the same on all ranks: the correlations of the columns of `x`, or of the
#'   columns of `x` and those of `y`.
#' @inheritSection ring_svd Spark tables
#' @inheritSection ring_scale Errors
#' @seealso [ring_summary()], [ring_prcomp()]
#' @examples
#' comm <- ring_init()
#' ring_cor(comm, mtcars[1:3])
#' ring_cor(comm, airquality[1:2], airquality$Temp, use = "complete.obs", method = "spearman")
#' ring_close(comm)
#' @export
ring_cor <- function(comm, x, y = NULL, use = c("everything", "complete.obs"),
                     method = c("pearson", "spearman"), ...) {
  check_given(comm)
  if (is_table(comm)) return(columns_fit("ring_cor", match.call(), parent.frame()))
  settings <- agree(comm, {
    check_given(comm, x)
    check_no_dots(...)
    list(use = check_choice(use), method = check_choice(method), "is.null(y)" = is.null(y))
  })
  model_check_settings(comm, settings)
  use <- settings$use
  method <- settings$method
  x <- columns_of(comm, x)
  width <- ncol(x)
  names <- colnames(x)
  if (!is.null(y)) {
    y <- columns_of(comm, y)
    x <- agree(comm, cor_join(x, y))
  }
  if (use == "complete.obs") x <- x[stats::complete.cases(x), , drop = FALSE]
  counts <- ring_allreduce(comm, unname(c(nrow(x), colSums(is.na(x)))))
  if (counts[[1L]] == 0) {
    check_stop("there are no rows", if (use == "complete.obs") " without missing values",
               " on any rank")
  }
  known <- counts[-1L] == 0
  if (method == "spearman") x[, known] <- cor_ranks(comm, x[, known, drop = FALSE])
  found <- cor_products(comm, x, width)
  found[!known[seq_len(width)], ] <- NA
  found[, !known[if (is.null(y)) seq_len(width) else -seq_len(width)]] <- NA
  if (is.null(y) && counts[[1L]] > 1) diag(found) <- 1
  flat <- is.nan(found) & counts[[1L]] > 1
  if (any(flat)) warning("the standard deviation is zero", call. = FALSE)
  found[is.nan(found)] <- NA
  labels <- list(names, if (is.null(y)) names else colnames(y))
  if (is.null(unlist(labels))) found else array(found, dim(found), labels)
}

# The correlations of the first `width` columns of `x` with those after them, or with each other if
# there are no more: NaN where a standard deviation is 0.
cor_products <- function(comm, x, width) {
  x <- columns_scale(x, columns_moments(comm, x, scale = FALSE))
  first <- seq_len(width)
  second <- if (ncol(x) == width) first else width + seq_len(ncol(x) - width)
  products <- crossprod(x[, first, drop = FALSE], x[, second, drop = FALSE])
  sums <- ring_allreduce(comm, unname(c(colSums(x^2), products)))
  norms <- sqrt(sums[seq_len(ncol(x))])
  found <- matrix(sums[-seq_len(ncol(x))], width) / outer(norms[first], norms[second])
  pmax(pmin(found, 1), -1)
}

cor_join <- function(x, y) {
  if (nrow(x) == nrow(y)) return(cbind(x, y))
  stop("`x` has ", nrow(x), " rows and `y` has ", nrow(y), ": pass the same rows", call. = FALSE)
}

# The rank of each value among those of all ranks. Equal values have the mean of their ranks.
cor_ranks <- function(comm, x) {
  for (i in seq_len(ncol(x))) x[, i] <- ranks_of(comm, x[, i])
  x
}

ranks_of <- function(comm, x) {
  size <- ring_size(comm)
  count <- ring_allreduce(comm, as.double(length(x)))
  places <- unique(ceiling(count * seq_len(size - 1L) / size))
  cuts <- if (count > 0 && size > 1L) order_statistics(comm, list(sort(x)), list(places))[[1L]]
  part <- findInterval(x, unique(cuts), left.open = TRUE) + 1L
  order <- order(part)
  counts <- tabulate(part, size)
  received <- ring_alltoallv(comm, x[order], counts, return_counts = TRUE)
  before <- ring_exscan(comm, as.double(length(received$x)))
  ranked <- rank(received$x) + before
  x[order] <- ring_alltoallv(comm, ranked, received$counts)
  x
}
