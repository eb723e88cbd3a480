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
#' near them. The ranks draw random numbers. [set.seed()], with another number on each rank, makes
#' them reproducible; so does `seed` of [ring_apply()].
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
#' flowers <- sparklyr::copy_to(sc, iris)
#' columns <- c("Petal_Length", "Petal_Width")
#' fit <- ring_kmeans(flowers, columns, centers = 3, num_proc = 2, seed = 1)
#' predict(fit, flowers)
#' }
#' @export
ring_kmeans <- function(comm, x, centers, max_iter = 100L, nstart = 1L, tol = 1e-4, ...) {
  check_given(comm)
  if (is_table(comm)) return(columns_fit("ring_kmeans", match.call(), parent.frame()))
  check_given(x, centers)
  call <- scope_call(match.call())
  settings <- agree(comm, {
    check_no_dots(...)
    kmeans_settings(max_iter, nstart, tol)
  })
  x <- columns_of(comm, x, finite = TRUE)
  given <- agree(comm, kmeans_given(x, centers))
  model_check_settings(comm, c(list(centers = unname(centers)), settings))
  moments <- columns_moments(comm, x)
  k <- if (is.null(given)) as.integer(centers) else nrow(given)
  if (moments$counts[[1L]] < k) check_stop("there are fewer rows than clusters on all ranks")
  if (!all(is.finite(moments$scale))) check_stop("squares of the values are not finite: scale them")
  data <- kmeans_data(x, moments, tol)
  best <- NULL
  for (start in seq_len(settings$nstart)) {
    first <- if (is.null(given)) kmeans_start(comm, data, k) else columns_scale(given, data$shift)
    found <- kmeans_lloyd(comm, data, unname(first), settings$max_iter)
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

# Rows around their mean: the columns of `x`, so that a row is in one place of the memory.
kmeans_data <- function(x, moments, tol) {
  shift <- list(center = moments$center)
  list(x = t(unname(columns_scale(x, shift))), shift = shift,
       tolerance = tol * mean(moments$scale^2 * (1 - 1 / moments$counts)))
}

kmeans_result <- function(found, x, moments, call) {
  if (any(found$size == 0L)) {
    warning("clusters are empty: there are fewer different rows than clusters", call. = FALSE)
  }
  centers <- sweep(found$centers, 2L, moments$center, "+")
  dimnames(centers) <- list(seq_len(nrow(centers)), colnames(x))
  total <- sum(moments$scale^2 * (moments$counts - 1))
  within <- sum(found$withinss)
  structure(class = "ring_kmeans", list(
    cluster = stats::setNames(found$cluster, rownames(x)), centers = centers, totss = total,
    withinss = found$withinss, tot.withinss = within, betweenss = total - within,
    size = found$size, iter = found$iterations, converged = found$converged, call = call
  ))
}

# ---- Lloyd's iterations (src/kmeans.h) -----------------------------------------------------------

kmeans_lloyd <- function(comm, data, centers, max_iter) {
  found <- .Call(C_kmeans_nearest, data$x, centers)
  state <- list(cluster = found$cluster, upper = sqrt(found$best), lower = sqrt(found$second))
  sums <- ring_allreduce(comm, kmeans_sums(data$x, state$cluster, nrow(centers)))
  converged <- FALSE
  for (iteration in seq_len(max_iter)) {
    before <- centers
    centers <- kmeans_centers(comm, data, state, sums, centers)
    moves <- sqrt(rowSums((centers - before)^2))
    state <- .Call(C_kmeans_assign, data$x, centers, moves, kmeans_half(centers), state)
    total <- ring_allreduce(comm, c(state$changed, state$delta))
    sums <- sums + total[-1L]
    converged <- total[[1L]] == 0 || sum(moves^2) <= data$tolerance
    if (converged) break
  }
  if (total[[1L]] == 0) centers <- kmeans_renew(comm, data, state, centers)
  squares <- .Call(C_kmeans_distance, data$x, centers, state$cluster)^2
  squares <- kmeans_sums(matrix(squares, 1L), state$cluster, nrow(centers))
  found <- matrix(ring_allreduce(comm, squares), nrow(centers))
  list(centers = centers, cluster = state$cluster, size = as.integer(found[, 1L]),
       withinss = found[, 2L], iterations = iteration, converged = converged)
}

# The means of the clusters by new sums: those of the iterations have rounding errors of rows that
# have left.
kmeans_renew <- function(comm, data, state, centers) {
  sums <- ring_allreduce(comm, kmeans_sums(data$x, state$cluster, nrow(centers)))
  kmeans_centers(comm, data, state, sums, centers)
}

# The number and the sums of the rows of each cluster, as one vector.
kmeans_sums <- function(x, cluster, k) as.vector(.Call(C_kmeans_sums, x, cluster, k))

# Half the distance of each center to the nearest other one.
kmeans_half <- function(centers) {
  gaps <- as.matrix(stats::dist(centers))
  diag(gaps) <- Inf
  apply(gaps, 1L, min) / 2
}

# The means of the clusters. An empty cluster gets the row that is farthest from its center.
kmeans_centers <- function(comm, data, state, sums, centers) {
  sums <- matrix(sums, nrow(centers))
  known <- sums[, 1L] > 0.5
  centers[known, ] <- sums[known, -1L] / sums[known, 1L]
  if (all(known)) return(centers)
  far <- .Call(C_kmeans_distance, data$x, centers, state$cluster)
  for (cluster in which(!known)) {
    place <- which.max(c(far, -1))
    own <- ring_maxloc(comm, max(far, -1))$rank == ring_rank(comm)
    row <- if (own) data$x[, place] else double(nrow(data$x))
    centers[cluster, ] <- ring_allreduce(comm, row)
    if (own) far[[place]] <- -1
  }
  centers
}

# ---- Start ---------------------------------------------------------------------------------------

kmeans_start <- function(comm, data, k) {
  rows <- ncol(data$x)
  counts <- ring_allgather(comm, as.double(rows))
  first <- ring_broadcast(comm, floor(stats::runif(1L) * sum(counts)) + 1)
  place <- first - sum(counts[seq_len(ring_rank(comm))])
  chosen <- kmeans_gather(comm, data, if (place >= 1 && place <= rows) place)
  before <- 0L
  near <- list(cluster = integer(rows), best = rep(Inf, rows))
  for (round in seq_len(6L)) {
    near <- kmeans_nearer(data$x, chosen, before, near)
    total <- ring_allreduce(comm, sum(near$best))
    if (total == 0 || round == 6L) break
    before <- nrow(chosen)
    drawn <- which(stats::runif(rows) * total < 2 * k * near$best)
    chosen <- rbind(chosen, kmeans_gather(comm, data, drawn))
  }
  weights <- ring_allreduce(comm, as.double(tabulate(near$cluster, nrow(chosen))))
  found <- lead(comm, "centers", list(centers = kmeans_plus(chosen, weights, k)))
  matrix(found$centers, k)
}

# The nearest of the rows of `chosen`, if only those up to `before` have been looked at.
kmeans_nearer <- function(x, chosen, before, near) {
  if (before == nrow(chosen)) return(near)
  found <- .Call(C_kmeans_nearest, x, chosen[seq_len(nrow(chosen)) > before, , drop = FALSE])
  closer <- which(found$best < near$best)
  near$cluster[closer] <- found$cluster[closer] + before
  near$best[closer] <- found$best[closer]
  near
}

# The rows `at` of all ranks.
kmeans_gather <- function(comm, data, at) {
  t(ring_allgatherv(comm, data$x[, as.integer(at), drop = FALSE]))
}

# K-means++ on weighted rows, and Lloyd's iterations, on rank 0.
kmeans_plus <- function(x, weights, k) {
  if (nrow(x) < k) x <- x[rep_len(seq_len(nrow(x)), k), , drop = FALSE]
  weights <- c(weights, double(nrow(x) - length(weights)))
  squares <- rep(1, nrow(x))
  chosen <- integer()
  for (i in seq_len(k)) {
    chances <- weights * squares
    if (sum(chances) == 0) chances <- as.double(!seq_along(weights) %in% chosen)
    chosen <- c(chosen, sample.int(nrow(x), 1L, prob = chances))
    new <- rowSums(sweep(x, 2L, x[chosen[[i]], ])^2)
    squares <- if (i == 1L) new else pmin(squares, new)
  }
  centers <- x[chosen, , drop = FALSE]
  for (step in seq_len(30L)) {
    cluster <- .Call(C_kmeans_nearest, t(x), centers)$cluster
    sums <- rowsum(cbind(weights, weights * x), cluster)
    sums <- sums[sums[, 1L] > 0, , drop = FALSE]
    centers[as.integer(rownames(sums)), ] <- sums[, -1L] / sums[, 1L]
  }
  centers
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
  found[known] <- .Call(C_kmeans_nearest, rows, object$centers)$cluster
  stats::setNames(found, rownames(newdata))
}
