# SPDX-License-Identifier: Apache-2.0
#
# Newton's iterations to the largest partial likelihood. The covariates of the records are scaled,
# as in survival: see records_make(). So are the coefficients here, until the fit ends.

coxph_fit <- function(comm, records, names, init, efron, control) {
  width <- length(names)
  if (!is.null(init) && length(init) != width) {
    check_stop("`init` must have ", width, " values, one for each coefficient", call = NULL)
  }
  scale <- records$scale
  beta <- if (is.null(init)) double(width) else as.double(init) * scale
  first <- coxph_pass(comm, records, beta, efron)
  if (!all(is.finite(first$sums))) {
    check_stop("the likelihood or its derivatives are not finite at the start: make the scale of ",
               "covariates, offsets or weights less wide", call = NULL)
  }
  fit <- coxph_iterate(comm, records, beta, first, efron, control)
  coxph_warn(fit, names, control)
  lost <- !fit$kept & control$iter.max > 0
  list(
    coefficients = stats::setNames(replace(fit$beta / scale, lost, NA), names),
    var = fit$variance / outer(scale, scale), loglik = c(first$loglik, fit$loglik),
    score = fit$test, iter = fit$iterations, n = records$rows, nevent = records$events,
    means = stats::setNames(records$means, names), mean_offset = records$mean_offset,
    converged = fit$converged, efron = efron, start = beta,
    beta = replace(fit$beta, lost, 0), variance = fit$variance
  )
}

# `now` is the pass at `beta`. A column that has no information at first has none later. Every rank
# computes the same step from the same sums.
coxph_iterate <- function(comm, records, beta, now, efron, control) {
  solve <- function(first, kept) .Call(C_coxph_step, now$sums, first, control$toler.chol, kept)
  solved <- solve(TRUE, rep(TRUE, length(beta)))
  known <- solved$kept
  test <- solved$test
  converged <- length(beta) == 0L || control$iter.max == 0
  iteration <- 0L
  while (!converged && iteration < control$iter.max) {
    iteration <- iteration + 1L
    new <- beta + solved$step
    next_one <- coxph_pass(comm, records, new, efron)
    change <- .Call(C_coxph_change, now$loglik, next_one$loglik)
    if (!is.finite(next_one$loglik) || next_one$loglik < now$loglik && change > control$eps) {
      solved$step <- solved$step / 2
      next
    }
    beta <- new
    now <- next_one
    solved <- solve(FALSE, known)
    converged <- change <= control$eps
  }
  list(beta = beta, variance = solved$variance, loglik = now$loglik, kept = solved$kept,
       last = solved$step, score = now$score, test = test, iterations = iteration,
       converged = converged)
}

# Warns, as coxph() does, of a fit without an end, and of coefficients that still grow although the
# likelihood does not.
coxph_warn <- function(fit, names, control) {
  if (!fit$converged) warning("ring_coxph did not converge: see `control`", call. = FALSE)
  if (!fit$converged || control$iter.max <= 1) return()
  last <- abs(fit$last)
  lost <- !fit$kept & fit$beta != 0
  grows <- lost | !is.finite(fit$score) |
    last > control$eps & last > control$toler.inf * abs(fit$beta)
  if (any(grows)) {
    warning("ring_coxph: the likelihood converged before the coefficients of ",
            toString(names[grows]), ", which may be infinite", call. = FALSE)
  }
}
