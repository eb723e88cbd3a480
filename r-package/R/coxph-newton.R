# SPDX-License-Identifier: Apache-2.0
#
# Newton's iterations to the largest partial likelihood. The covariates of the records are scaled,
# as in survival: see records_make(). So are the coefficients here, until the fit ends.

coxph_noise <- 1e-13 # of the weight of the events: less is no information

coxph_fit <- function(comm, records, names, init, efron, control) {
  width <- length(names)
  if (!is.null(init) && length(init) != width) {
    check_stop("`init` must have ", width, " values, one for each coefficient", call = NULL)
  }
  scale <- records$scale
  beta <- if (is.null(init)) double(width) else as.double(init) * scale
  first <- coxph_pass(comm, records, beta, efron)
  if (!all(is.finite(unlist(first[c("loglik", "score", "information")])))) {
    check_stop("the likelihood or its derivatives are not finite at the start: make the scale of ",
               "covariates, offsets or weights less wide", call = NULL)
  }
  noise <- coxph_noise * ring_allreduce(comm, sum(records$died))
  fit <- coxph_iterate(comm, records, beta, first, noise, efron, control)
  coxph_warn(fit, names, control)
  lost <- !seq_len(width) %in% fit$kept & control$iter.max > 0
  list(
    coefficients = stats::setNames(replace(fit$beta / scale, lost, NA), names),
    var = fit$variance / outer(scale, scale), loglik = c(first$loglik, fit$loglik),
    score = coxph_score(first, noise, control), iter = fit$iterations,
    n = records$rows, nevent = records$events, means = stats::setNames(records$means, names),
    mean_offset = records$mean_offset, converged = fit$converged, efron = efron,
    start = beta / scale
  )
}

# `now` is the pass at `beta`. A column that has no information at first has none later.
coxph_iterate <- function(comm, records, beta, now, noise, efron, control) {
  solved <- coxph_step(comm, now, seq_along(beta), noise, control)
  known <- solved$kept
  converged <- length(beta) == 0L || control$iter.max == 0
  iteration <- 0L
  while (!converged && iteration < control$iter.max) {
    iteration <- iteration + 1L
    new <- beta + solved$step
    next_one <- coxph_pass(comm, records, new, efron)
    # A likelihood of 0, of strata of one row each, has no ratio.
    change <- if (identical(now$loglik, next_one$loglik)) 0 else
      abs(1 - now$loglik / next_one$loglik)
    if (!is.finite(next_one$loglik) || next_one$loglik < now$loglik && change > control$eps) {
      solved$step <- solved$step / 2
      next
    }
    beta <- new
    now <- next_one
    solved <- coxph_step(comm, now, known, 0, control)
    converged <- change <= control$eps
  }
  list(beta = beta, variance = solved$variance, loglik = now$loglik, kept = solved$kept,
       last = solved$step, score = now$score, iterations = iteration, converged = converged)
}

# Warns, as coxph() does, of a fit without an end, and of coefficients that still grow although the
# likelihood does not.
coxph_warn <- function(fit, names, control) {
  if (!fit$converged) warning("ring_coxph did not converge: see `control`", call. = FALSE)
  if (!fit$converged || control$iter.max <= 1) return()
  last <- abs(fit$last)
  lost <- !seq_along(names) %in% fit$kept & fit$beta != 0
  grows <- lost | !is.finite(fit$score) |
    last > control$eps & last > control$toler.inf * abs(fit$beta)
  if (any(grows)) {
    warning("ring_coxph: the likelihood converged before the coefficients of ",
            toString(names[grows]), ", which may be infinite", call. = FALSE)
  }
}

# The score statistic.
coxph_score <- function(pass, noise, control) {
  kept <- coxph_kept(pass$information, noise, control)
  score <- pass$score[kept]
  sum(score * (coxph_inverse(pass$information[kept, kept, drop = FALSE]) %*% score))
}

# Columns that do not depend on columns before them, by the information: those that the Cholesky
# decomposition of survival keeps. Less than `noise` is no information.
coxph_kept <- function(information, noise, control) {
  least <- max(noise, control$toler.chol * max(0, diag(information)))
  kept <- integer()
  for (column in seq_len(ncol(information))) {
    pivot <- information[column, column]
    if (!is.finite(pivot) || pivot <= least) next
    kept <- c(kept, column)
    information <- information - outer(information[, column], information[column, ]) / pivot
  }
  kept
}

# The inverse of a positive matrix, which is scaled to a diagonal of ones first.
coxph_inverse <- function(matrix) {
  if (length(matrix) == 0L) return(matrix)
  scale <- sqrt(diag(matrix))
  solve(matrix / outer(scale, scale), tol = 0) / outer(scale, scale)
}

# Rank 0 computes the step and the variance, in which dependent columns are 0.
coxph_step <- function(comm, pass, known, noise, control) {
  width <- length(pass$score)
  solved <- lead(comm, c("kept", "step", "variance"), {
    kept <- intersect(known, coxph_kept(pass$information, noise, control))
    variance <- matrix(0, width, width)
    variance[kept, kept] <- coxph_inverse(pass$information[kept, kept, drop = FALSE])
    list(kept = kept, step = drop(variance %*% pass$score), variance = variance)
  })
  solved$variance <- matrix(solved$variance, width)
  solved
}
