# SPDX-License-Identifier: Apache-2.0
#
# The bootstrap of rows that are spread over the ranks. A replicate draws as many rows as there are
# on all ranks. The ranks draw first how many of them each rank has, from a stream that all ranks
# share, and then each rank draws among its own rows. No row leaves its rank.

#' Bootstrap: the distribution of a statistic of rows on many ranks
#'
#' `ring_bootstrap()` computes a statistic for samples, with replacement, of the rows of all ranks.
#' All ranks call it, each with its own rows. A sample is passed as weights: the number of times
#' that each row was drawn.
#'
#' @details
#' Random numbers are streams of L'Ecuyer's generator: one for each rank, with a substream for each
#' replicate, and one that all ranks share. So the result is the same in each run with the same
#' `seed` and the same rows on each rank. The generator of R keeps its state.
#'
#' The acceleration of BCa intervals is that of a jackknife, which leaves out one of `groups` groups
#' of rows at a time.
#'
#' @inheritParams ring_allreduce
#' @param data The rows of this rank, which may be none: a data frame, a matrix or a vector.
#' @param statistic A function that is called as `statistic(data, weights, comm, ...)`, on all
#'   ranks, and returns numbers, the same on all ranks. It may make collective calls, such as
#'   [ring_glm()] with these weights.
#' @param ... Further arguments of `statistic`.
#' @param R The number of replicates, a whole number.
#' @param seed A whole number, the same on all ranks. `NULL`: rank 0 draws it.
#' @param groups The number of groups of the jackknife, a whole number, or 0 for no jackknife and no
#'   BCa intervals. With the number of all rows, it is the usual jackknife.
#' @returns An object of class `ring_bootstrap`, the same on all ranks: a list with the statistic
#'   `t0`, the replicates `t`, a matrix with a row for each, and the influence values `L` of the
#'   jackknife. `confint(fit, parm, level, type)` returns intervals of the `type` `"bca"`,
#'   `"perc"`, `"basic"` or `"norm"`, as `boot::boot.ci()` computes them: from the finite
#'   replicates, with a warning if others are left out. Package broom's `tidy()` has a method.
#' @section Errors:
#' An error of `statistic` on one rank is an error on all ranks only if it comes from a collective
#' call. `ring_error_invalid` on every rank for an invalid argument on any rank. Other errors as for
#' [ring_allreduce()]. There may be up to 2^31 - 1 rows on all ranks.
#' @references A. C. Davison and D. V. Hinkley (1997). *Bootstrap Methods and Their Application*.
#'   Cambridge University Press.
#' @seealso [ring_glm()], [ring_apply()]
#' @examples
#' comm <- ring_init()
#' # Each rank has its own rows:
#' rows <- seq_len(nrow(mtcars)) %% ring_size(comm) == ring_rank(comm)
#' slope <- function(data, weights, comm) {
#'   data$weights <- weights
#'   coef(ring_lm(comm, mpg ~ wt, data, weights = weights))
#' }
#' fit <- ring_bootstrap(comm, mtcars[rows, ], slope, R = 99, seed = 1)
#' fit
#' confint(fit, type = "perc")
#' ring_close(comm)
#' @export
ring_bootstrap <- function(comm, data, statistic, ..., R = 999L, # nolint: object_name_linter.
                           seed = NULL, groups = 100L) {
  check_given(comm)
  call <- scope_call(match.call())
  settings <- agree(comm, {
    check_given(comm, data, statistic)
    if (!is.function(statistic)) {
      check_stop("`statistic` must be a function, not ", describe(statistic))
    }
    list(R = check_whole(R, "R", least = 2), groups = check_whole(groups, "groups", least = 0),
         seed = check_whole(seed, "seed", least = 0, absent = -1L))
  })
  model_check_settings(comm, settings)
  replicates <- settings$R
  seed <- settings$seed
  counts <- ring_allgather(comm, as.double(NROW(data)))
  if (sum(counts) == 0) check_stop("there are no rows on any rank")
  if (seed < 0L) seed <- floor(stats::runif(1L) * .Machine$integer.max)
  seed <- ring_broadcast(comm, as.double(seed))
  at <- function(weights) bootstrap_value(statistic(data, weights, comm, ...))
  t0 <- at(rep(1, NROW(data)))
  draws <- bootstrap_streams(seed, ring_rank(comm), counts)
  found <- matrix(0, replicates, length(t0), dimnames = list(NULL, names(t0)))
  for (replicate in seq_len(replicates)) found[replicate, ] <- at(draws())
  influence <- bootstrap_influence(comm, at, t0, counts, settings$groups)
  structure(class = "ring_bootstrap", list(
    t0 = t0, t = found, R = replicates, L = influence, seed = seed, call = call
  ))
}

bootstrap_value <- function(value) {
  if (is.numeric(value) && length(value) > 0L) return(drop(value))
  stop("`statistic` must return numbers, not ", describe(value), call. = FALSE)
}

# A function that draws the weights of the next replicate.
bootstrap_streams <- function(seed, rank, counts) {
  own <- bootstrap_seed(seed)
  shared <- own
  for (step in seq_len(rank + 1L)) own <- parallel::nextRNGStream(own)
  function() {
    shared <<- parallel::nextRNGSubStream(shared)
    own <<- parallel::nextRNGSubStream(own)
    sizes <- bootstrap_with(shared, stats::rmultinom(1L, sum(counts), counts))
    rows <- counts[[rank + 1L]]
    drawn <- bootstrap_with(own, {
      if (rows > 0) sample.int(rows, sizes[[rank + 1L]], replace = TRUE) else integer()
    })
    as.double(tabulate(drawn, rows))
  }
}

# The first stream of L'Ecuyer's generator.
bootstrap_seed <- function(seed) {
  before <- RNGkind()
  old <- globalenv()$.Random.seed
  on.exit(bootstrap_restore(before, old))
  set.seed(seed, "L'Ecuyer-CMRG", "Inversion", "Rejection")
  globalenv()$.Random.seed
}

# Evaluates `expr` with the generator at `seed`.
bootstrap_with <- function(seed, expr) {
  before <- RNGkind()
  old <- globalenv()$.Random.seed
  on.exit(bootstrap_restore(before, old))
  assign(".Random.seed", seed, globalenv())
  expr
}

bootstrap_restore <- function(kind, seed) {
  RNGkind(kind[[1L]], kind[[2L]], kind[[3L]])
  if (is.null(seed)) rm(".Random.seed", envir = globalenv())
  else assign(".Random.seed", seed, globalenv())
}

# A row for each group of the jackknife.
bootstrap_influence <- function(comm, at, t0, counts, groups) {
  groups <- min(groups, sum(counts))
  if (groups < 2) return()
  before <- sum(counts[seq_len(ring_rank(comm))])
  of <- (before + seq_len(counts[[ring_rank(comm) + 1L]]) - 1) %% groups
  found <- vapply(seq_len(groups) - 1, FUN.VALUE = unname(t0), function(group) {
    (groups - 1) * (t0 - unname(at(as.double(of != group))))
  })
  matrix(t(found), groups, dimnames = list(NULL, names(t0)))
}

# ---- Methods -------------------------------------------------------------------------------------

# Quantiles of replicates, interpolated on the scale of the normal distribution, as in package boot.
bootstrap_quantile <- function(values, shares) {
  values <- sort(values)
  count <- length(values)
  rank <- (count + 1) * shares
  if (any(rank < 1 | rank > count)) {
    warning("too few replicates for this level: raise `R`", call. = FALSE)
  }
  below <- trunc(rank)
  low <- stats::qnorm(below / (count + 1))
  high <- stats::qnorm((below + 1) / (count + 1))
  share <- (stats::qnorm(shares) - low) / (high - low)
  first <- values[pmin(pmax(below, 1), count)]
  second <- values[pmin(pmax(below + 1, 1), count)]
  ifelse(below == rank | below < 1 | below >= count, first, first + share * (second - first))
}

#' @export
confint.ring_bootstrap <- function(object, parm, level = 0.95,
                                   type = c("bca", "perc", "basic", "norm"), ...) {
  check_method_dots(...)
  type <- check_choice(type)
  if (type == "bca" && is.null(object$L)) {
    stop("BCa intervals need a jackknife: see `groups`", call. = FALSE)
  }
  if (!is_number(level) || level <= 0 || level >= 1) {
    stop("`level` must be a number between 0 and 1, not ", describe(level), call. = FALSE)
  }
  labels <- if (is.null(names(object$t0))) paste0("t", seq_along(object$t0), "*") else
    names(object$t0)
  wanted <- bootstrap_wanted(if (!missing(parm)) parm, labels)
  tails <- c((1 - level) / 2, (1 + level) / 2)
  found <- vapply(wanted, FUN.VALUE = c(0, 0), function(i) {
    values <- bootstrap_finite(object, i, labels[[i]])
    influence <- if (type == "bca") bootstrap_known(object$L[, i], labels[[i]])
    bootstrap_interval(values, object$t0[[i]], tails, type, influence)
  })
  percent <- paste(format(100 * tails, trim = TRUE, scientific = FALSE, digits = 3L), "%")
  matrix(t(found), length(wanted), dimnames = list(labels[wanted], percent))
}

# The numbers of the statistics that `parm` names; all by default.
bootstrap_wanted <- function(parm, labels) {
  if (is.null(parm)) return(seq_along(labels))
  wanted <- match(parm, if (is.character(parm)) labels else seq_along(labels))
  if (anyNA(wanted)) {
    stop("`parm` is ", describe(parm[is.na(wanted)][[1L]]), ": the statistics are ",
         toString(labels), call. = FALSE)
  }
  wanted
}

# The replicates that are finite, as boot::boot.ci() uses them.
bootstrap_finite <- function(object, i, label) {
  values <- object$t[, i]
  finite <- values[is.finite(values)]
  odd <- length(values) - length(finite)
  if (!is.finite(object$t0[[i]]) || length(finite) < 2L) {
    stop("`statistic` has returned ", object$t0[[i]], " as ", label, " of all rows, and ",
         length(finite), " finite replicates: there is no interval", call. = FALSE)
  }
  if (odd > 0L) {
    warning(odd, " of ", length(values), " replicates of ", label,
            " are not finite: the interval leaves them out", call. = FALSE)
  }
  finite
}

# The influence values, where the jackknife has one for each group.
bootstrap_known <- function(influence, label) {
  if (all(is.finite(influence)) && any(influence != 0)) return(influence)
  stop("a BCa interval of ", label, " needs finite values of the jackknife that differ: pass ",
       "`type = \"perc\"`, or other `groups` to ring_bootstrap()", call. = FALSE)
}

bootstrap_interval <- function(values, t0, tails, type, influence) {
  switch(type,
    perc = bootstrap_quantile(values, tails),
    basic = 2 * t0 - bootstrap_quantile(values, rev(tails)),
    norm = 2 * t0 - mean(values) + stats::qnorm(tails) * stats::sd(values),
    bca = {
      bias <- stats::qnorm(mean(values < t0))
      if (is.infinite(bias)) {
        stop("all replicates are on one side of the statistic: there is no BCa interval, so pass ",
             "another `type`, such as \"perc\"", call. = FALSE)
      }
      acceleration <- sum(influence^3) / (6 * sum(influence^2)^1.5)
      z <- bias + stats::qnorm(tails)
      bootstrap_quantile(values, stats::pnorm(bias + z / (1 - acceleration * z)))
    }
  )
}

# The statistics, their biases and standard errors, of the finite replicates as in package boot.
bootstrap_errors <- function(x) {
  t <- x$t
  t[!is.finite(t)] <- NA
  cbind(original = x$t0, bias = colMeans(t, na.rm = TRUE) - x$t0,
        "std. error" = apply(t, 2L, stats::sd, na.rm = TRUE))
}

#' @export
print.ring_bootstrap <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_print_dots(...)
  cat("Bootstrap of the rows of all ranks, ", x$R, " replicates\n\n", sep = "")
  print(bootstrap_errors(x), digits = digits)
  odd <- colSums(!is.finite(x$t))
  if (any(odd > 0)) cat("\nReplicates that are not finite, left out:", toString(odd), "\n")
  invisible(x)
}
