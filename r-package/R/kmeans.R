# SPDX-License-Identifier: Apache-2.0
#
# K-means on rows that are spread over the ranks. The start is k-means|| (Bahmani and others, 2012).
# Lloyd's iterations skip most distances by Hamerly's bounds (2010): a row keeps an upper bound of
# the distance to its center, and a lower bound of the distance to all other centers. A row whose
# bounds do not overlap stays where it is. Every rank computes the same centers from the same sums.

#' K-means clusters of data on many ranks
#'
#' `ring_kmeans()` finds the clusters of the rows of all ranks. All ranks call it, each with its own
#' rows. In each iteration the ranks send the sums of the rows of each cluster.
#'
#' @details
#' The start is k-means|| : in five rounds each rank proposes rows that are far from all proposals
#' so far, and rank 0 chooses the centers among the proposals by k-means++, weighted by the rows
#' near them. Rank 0 draws a seed for each start. [set.seed()] makes it reproducible; so does `seed`
#' of [ring_apply()]. A start depends on the ranks and the order of the rows.
#'
#' A cluster may have up to 2^31 - 1 rows.
#'
#' The iterations are those of Lloyd, as in scikit-learn and `kmeans(algorithm = "Lloyd")`. Bounds
#' save most of the distances, and the result is the same. A cluster that loses all its rows moves
#' to the row that is farthest from its center.
#'
#' @inheritParams ring_svd
#' @param centers The number of clusters, or a matrix with the initial centers as rows. The same on
#'   all ranks.
#' @param max_iter The largest number of iterations, a whole number.
#' @param nstart The number of starts, a whole number. The best result is returned.
#' @param tol One number: the iterations end when the squared moves of all centers are less than
#'   this fraction of the mean variance of the columns, as in scikit-learn. 0: when no row changes
#'   its cluster.
#' @returns An object of class `ring_kmeans`: a list with `centers`, `size`, `withinss`,
#'   `tot.withinss`, `totss`, `betweenss`, `iter` and `converged`, the same on all ranks; and
#'   `cluster`, the clusters of the rows of this rank. `predict(fit, newdata)` returns the clusters
#'   of any rows, without a communicator, and for a Spark table a lazy table with the column
#'   `.cluster`. Package broom's `tidy()`, `glance()` and `augment()` have methods.
#' @inheritSection ring_svd Spark tables
#' @inheritSection ring_svd Errors
#' @references B. Bahmani, B. Moseley, A. Vattani, R. Kumar and S. Vassilvitskii (2012). Scalable
#'   k-means++. *Proceedings of the VLDB Endowment* 5(7).
#'
#'   G. Hamerly (2010). Making k-means even faster. *Proceedings of the SIAM International
#'   Conference on Data Mining*.
#' @seealso [ring_prcomp()], [ring_scale()]
#' @examples
#' comm <- ring_init()
#' set.seed(1 + ring_rank(comm))
#' # Each rank has its own rows:
#' rows <- seq_len(nrow(iris)) %% ring_size(comm) == ring_rank(comm)
#' fit <- ring_kmeans(comm, iris[rows, 1:4], 3, nstart = 5)
#' fit
#' table(iris$Species[rows], fit$cluster)
#' ring_close(comm)
#' \dontrun{
#' # Needs Spark.
#' sc <- sparklyr::spark_connect(master = "local[2]")
#' flowers <- sparklyr::copy_to(sc, iris, overwrite = TRUE)
#' columns <- c("Petal_Length", "Petal_Width")
#' fit <- ring_kmeans(flowers, columns, centers = 3, num_proc = 2, seed = 1)
#' predict(fit, flowers)
#' }
#' @export
ring_kmeans <- function(comm, x, centers, max_iter = 100L, nstart = 1L, tol = 1e-4, ...) {
  check_given(comm)
  if (is_table(comm)) return(columns_fit("ring_kmeans", match.call(), parent.frame()))
  call <- scope_call(match.call())
  settings <- agree(comm, {
    check_given(comm, x, centers)
    check_no_dots(...)
    kmeans_settings(max_iter, nstart, tol)
  })
  x <- columns_of(comm, x, finite = TRUE)
  given <- agree(comm, kmeans_given(x, centers))
  model_check_settings(comm, c(list(centers = unname(centers)), settings))
  moments <- columns_known(comm, x)
  k <- if (is.null(given)) as.integer(centers) else nrow(given)
  if (moments$counts[[1L]] < k) check_stop("there are fewer rows than clusters on all ranks")
  if (!all(is.finite(moments$squares))) {
    check_stop("squares of the values are not finite: scale them")
  }
  data <- kmeans_data(x, moments, tol)
  best <- NULL
  for (start in seq_len(settings$nstart)) {
    first <- if (is.null(given)) kmeans_start(comm, data, k) else t(unname(given)) - data$shift
    found <- kmeans_lloyd(comm, data, first, settings$max_iter)
    if (is.null(best) || sum(found$withinss) < sum(best$withinss)) best <- found
    if (!is.null(given)) break
  }
  kmeans_result(best, x, moments, call)
}

kmeans_settings <- function(max_iter, nstart, tol) {
  if (!is_number(tol) || tol < 0) check_stop("`tol` must be a number, 0 or more")
  list(max_iter = check_whole(max_iter, "max_iter", least = 1),
       nstart = check_whole(nstart, "nstart", least = 1), tol = tol)
}

# The initial centers, if they are given.
kmeans_given <- function(x, centers) {
  given <- if (is.data.frame(centers)) as.matrix(centers) else centers
  if (is_whole(given) && given >= 1 && !is.matrix(given)) return()
  if (kmeans_are_centers(given, x)) {
    storage.mode(given) <- "double"
    alike <- setequal(colnames(given), colnames(x))
    return(if (alike) columns_named(given, colnames(x), "centers") else given)
  }
  stop("`centers` must be a number, or a matrix with ", ncol(x), " columns, not ",
       describe(centers), call. = FALSE)
}

kmeans_are_centers <- function(given, x) {
  is.matrix(given) && is.numeric(given) && nrow(given) > 0L && ncol(given) == ncol(x) &&
    all(is.finite(given))
}

# The rows as the columns of `x`, so that a row is in one place of the memory. Centers are around
# `shift`, the mean of all rows.
kmeans_data <- function(x, moments, tol) {
  variance <- Reduce(`+`, moments$squares / moments$weights) / ncol(x)
  list(x = t(unname(x)), shift = moments$means, tolerance = tol * variance)
}

kmeans_result <- function(found, x, moments, call) {
  if (any(found$size == 0L)) {
    warning("clusters are empty: there are fewer different rows than clusters", call. = FALSE)
  }
  centers <- t(found$centers + moments$means)
  dimnames(centers) <- list(seq_len(nrow(centers)), colnames(x))
  total <- sum(moments$squares)
  within <- sum(found$withinss)
  structure(class = "ring_kmeans", list(
    cluster = stats::setNames(found$cluster, rownames(x)), centers = centers, totss = total,
    withinss = found$withinss, tot.withinss = within, betweenss = total - within,
    size = found$size, iter = found$iterations, converged = found$converged, call = call
  ))
}

# ---- Lloyd's iterations (src/kmeans.h): columns are centers, clusters have numbers from 0 --------

kmeans_lloyd <- function(comm, data, centers, max_iter) {
  state <- .Call(C_kmeans_nearest, data$x, data$shift, centers)
  state <- list(nearest = state$nearest, upper = sqrt(state$best), lower = sqrt(state$second))
  sums <- kmeans_sums(comm, data, state$nearest, ncol(centers))
  converged <- FALSE
  for (iteration in seq_len(max_iter)) {
    before <- centers
    centers <- kmeans_means(comm, data, state$nearest, sums, before)
    moved <- .Call(C_kmeans_moves, before, centers)
    state <- .Call(C_kmeans_assign, data$x, data$shift, centers, moved, state)
    total <- ring_allreduce(comm, c(state$changed, state$delta))
    sums <- sums + total[-1L]
    converged <- total[[1L]] == 0 || moved$shift <= data$tolerance
    if (converged) break
  }
  if (total[[1L]] == 0) { # without the rounding errors of rows that have left
    sums <- kmeans_sums(comm, data, state$nearest, ncol(centers))
    centers <- kmeans_means(comm, data, state$nearest, sums, centers)
  }
  squares <- .Call(C_kmeans_distance, data$x, data$shift, state$nearest, centers)
  squares <- list(x = matrix(squares, 1L))
  within <- kmeans_sums(comm, squares, state$nearest, ncol(centers))
  list(centers = centers, cluster = state$nearest + 1L, size = as.integer(within[1L, ]),
       withinss = within[3L, ], iterations = iteration, converged = converged)
}

# The number, the weight and the sums of the rows of each cluster, a column for each.
kmeans_sums <- function(comm, data, nearest, clusters) {
  ring_allreduce(comm, .Call(C_kmeans_sums, data$x, data$shift, nearest, clusters))
}

# The means of the clusters. A cluster without rows gets a row that is far from its center.
kmeans_means <- function(comm, data, nearest, sums, centers) {
  found <- .Call(C_kmeans_means, sums, centers)
  if (found$empty == 0L) return(found$centers)
  squares <- .Call(C_kmeans_distance, data$x, data$shift, nearest, found$centers)
  far <- utils::head(order(-squares), found$empty)
  far <- rbind(squares[far], kmeans_rows(data, far))
  far <- ring_allgatherv(comm, far)
  far <- far[, utils::head(order(-far[1L, ]), found$empty), drop = FALSE]
  .Call(C_kmeans_refill, sums, found$centers, far[-1L, , drop = FALSE])
}

kmeans_rows <- function(data, at) data$x[, at, drop = FALSE] - data$shift

# ---- Start ---------------------------------------------------------------------------------------

kmeans_start <- function(comm, data, k) {
  seed <- ring_broadcast(comm, floor(stats::runif(1L) * 2^31))
  rank <- as.integer(ring_rank(comm))
  firsts <- ring_allgatherv(comm, .Call(C_kmeans_first, data$x, data$shift, seed, rank))
  chosen <- firsts[-1L, which.min(firsts[1L, ]), drop = FALSE]
  before <- 0L
  near <- list(nearest = integer(ncol(data$x)), best = rep(Inf, ncol(data$x)))
  for (round in seq_len(6L)) {
    near <- kmeans_nearer(data, chosen, before, near)
    total <- ring_allreduce(comm, .Call(C_kmeans_total, near$best))
    if (total == 0 || round == 6L) break
    before <- ncol(chosen)
    drawn <- .Call(C_kmeans_draw, near$best, 2 * k / total, seed, rank, round)
    chosen <- cbind(chosen, ring_allgatherv(comm, kmeans_rows(data, drawn)))
  }
  weights <- list(x = matrix(0, 0L, ncol(data$x)))
  weights <- kmeans_sums(comm, weights, near$nearest, ncol(chosen))[2L, ]
  found <- lead(comm, "centers", list(centers = .Call(C_kmeans_choose, chosen, weights, k, seed)))
  found$centers
}

# The nearest of the columns of `chosen`, if only those up to `before` have been looked at.
kmeans_nearer <- function(data, chosen, before, near) {
  if (before == ncol(chosen)) return(near)
  new <- chosen[, seq_len(ncol(chosen)) > before, drop = FALSE]
  found <- .Call(C_kmeans_nearest, data$x, data$shift, new)
  closer <- which(found$best < near$best)
  near$nearest[closer] <- found$nearest[closer] + before
  near$best[closer] <- found$best[closer]
  near
}

# ---- Methods -------------------------------------------------------------------------------------

#' @export
print.ring_kmeans <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_print_dots(...)
  cat("K-means with ", nrow(x$centers), " clusters of sizes ", toString(x$size), "\n\n",
      "Cluster means:\n", sep = "")
  print(x$centers, digits = digits)
  cat("\nWithin cluster sum of squares by cluster:\n")
  print(x$withinss, digits = digits)
  cat(" (between_SS / total_SS = ", format(100 * x$betweenss / x$totss, digits = 3L), " %) after ",
      x$iter, " iterations", if (!x$converged) ", not converged", "\n", sep = "")
  invisible(x)
}

#' @export
predict.ring_kmeans <- function(object, newdata, ...) {
  check_method_dots(...)
  if (is_table(newdata)) return(table_predict(object, newdata))
  x <- columns_matrix(columns_named(newdata, colnames(object$centers), "newdata"), finite = FALSE)
  if (ncol(x) != ncol(object$centers)) {
    stop("`newdata` must have ", ncol(object$centers), " columns, not ", ncol(x), call. = FALSE)
  }
  known <- which(is.finite(rowSums(x)))
  found <- rep(NA_integer_, nrow(x))
  rows <- t(unname(x[known, , drop = FALSE]))
  found[known] <- .Call(C_kmeans_nearest, rows, NULL, t(unname(object$centers)))$nearest + 1L
  stats::setNames(found, rownames(newdata))
}
