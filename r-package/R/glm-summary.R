# SPDX-License-Identifier: Apache-2.0
#
# The numbers of a fitted generalized linear model that need another visit to the rows: the
# dispersion, the null deviance, AIC and the quantiles of the residuals.

# Sums over all ranks: rows with a weight, weights, Pearson's statistic, weighted y for the mean of
# the null model, and fitted means at a boundary. Also the means of the columns.
glm_sums <- function(comm, rows, fit, family) {
  names <- c("pearson", "ok", "weights", "weighted", "extreme")
  empty <- double(length(names) + length(rows$columns))
  pearson <- exact_sum()
  sums <- agree(comm, parts_sum(rows$parts, empty, function(part) {
    state <- glm_state(part, fit$coefficients, family)
    pearson(glm_pearson(part, state, fit$previous, family))
    c(sum(part$weights != 0), sum(part$weights), sum(part$weights * part$y),
      glm_extreme(state$mu, family$family), part$count, unname(colSums(part$x)))
  }))
  sums <- ring_allreduce(comm, c(pearson(), sums))
  found <- as.list(stats::setNames(sums[seq_along(names)], names))
  sums <- sums[-seq_along(names)]
  c(found, list(means = sums[-1L] / sums[[1L]]))
}

# Quantiles of the deviance residuals of all ranks; none if rows are in chunks.
glm_quantiles <- function(comm, rows, fit, family) {
  part <- rows$parts$held
  if (is.null(part)) return(double())
  mu <- glm_state(part, fit$coefficients, family)$mu
  used <- which(part$weights > 0)
  residuals <- if (length(used) > 0L) {
    squares <- family$dev.resids(part$y[used], mu[used], part$weights[used])
    ifelse(part$y[used] > mu[used], 1, -1) * sqrt(pmax(squares, 0))
  }
  unname(ring_quantile(comm, as.double(residuals)))
}

# The number of fitted means that are numerically 0 or 1, where glm() warns.
glm_extreme <- function(mu, family) {
  least <- 10 * .Machine$double.eps
  switch(family, binomial = sum(mu > 1 - least | mu < least), poisson = sum(mu < least), 0)
}

# The squared Pearson residuals of a part, with the weights of the last step, as in summary.glm():
# it was made at the coefficients `previous`.
glm_pearson <- function(part, state, previous, family) {
  if (part$count == 0L) return()
  weights <- glm_weights(part, glm_state(part, previous, family), family)
  residuals <- (part$y - state$mu) / family$mu.eta(state$eta)
  (weights * residuals^2)[weights > 0]
}

# The deviance of the null model, and AIC without the penalty.
glm_rest <- function(comm, rows, fit, sums, family, control) {
  mean <- sums$weighted / sums$weights
  null <- exact_sum()
  own <- attempt(parts_sum(rows$parts, 0, function(part) {
    mu <- if (rows$intercept) rep(mean, part$count)
          else if (part$count > 0L) family$linkinv(part$offset)
    null(glm_deviance(part, list(mu = mu, valid = TRUE), family))
    glm_aic_part(part, glm_state(part, fit$coefficients, family)$mu, fit$deviance, sums, family)
  }))
  if (is.null(own$error)) own$value <- c(null(), own$value)
  found <- agree_total(comm, own, c(0, 0))
  if (rows$intercept && rows$has_offset) found[[1L]] <- glm_null(comm, rows, family, control)
  c(found[[1L]], found[[2L]] + glm_aic(fit$deviance, sums, family))
}

# The deviance of the model with only an intercept. With an offset it needs a fit.
glm_null <- function(comm, rows, family, control) {
  rows$columns <- "(Intercept)"
  rows$parts <- parts_map(rows$parts, function(part) {
    part$x <- matrix(1, part$count, 1L)
    part
  })
  glm_iterate(comm, rows, NULL, family, control)$deviance
}

# AIC is the sum of glm_aic() and of glm_aic_part() of all parts. Some families of stats need sums
# over all ranks. The AIC of any other family is assumed to be a sum over the rows.
glm_aic <- function(deviance, sums, family) {
  normal <- function(count) count * (log(2 * pi * deviance / count) + 1) + 2
  switch(family$family, gaussian = normal(sums$ok), inverse.gaussian = normal(sums$weights),
         Gamma = 2, 0)
}

glm_aic_part <- function(part, mu, deviance, sums, family) {
  used <- part$weights > 0
  if (!any(used)) return(0)
  y <- part$y[used]
  weights <- part$weights[used]
  switch(family$family,
    gaussian = -sum(log(weights)),
    inverse.gaussian = 3 * sum(weights * log(y)),
    Gamma = {
      dispersion <- deviance / sums$weights
      shape <- 1 / dispersion
      -2 * sum(weights * stats::dgamma(y, shape, scale = mu[used] * dispersion, log = TRUE))
    },
    as.double(family$aic(part$y, part$n, mu, part$weights, deviance))
  )
}
