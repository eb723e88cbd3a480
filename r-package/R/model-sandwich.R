# SPDX-License-Identifier: Apache-2.0
#
# The heteroscedasticity-consistent covariance of package sandwich. The meat is a sum over the rows,
# which each rank computes where its rows are.

#' Robust covariance of the coefficients of a distributed model
#'
#' Methods of `sandwich::vcovHC()`: the covariance that is consistent if the variances of the rows
#' differ. All ranks call it, in the function that has fitted the model. Each rank computes the sums
#' of its rows.
#'
#' @param x A model, from [ring_lm()] without `ridge`, or from [ring_glm()].
#' @param type A string: `"HC3"`, `"HC0"` (also `"HC"`), `"HC1"`, `"HC2"`, `"HC4"` or `"const"`, as
#'   for `sandwich::vcovHC()`.
#' @param ... Ignored.
#' @returns A matrix, the same on all ranks.
#' @seealso [ring_glm()], [ring_lm()]
#' @name ring_vcov_hc
#' @examples
#' if (requireNamespace("sandwich", quietly = TRUE)) {
#'   comm <- ring_init()
#'   fit <- ring_lm(comm, dist ~ speed, data = cars)
#'   print(sandwich::vcovHC(fit))
#'   ring_close(comm)
#' }
NULL

# nolint start: object_name_linter. The generic is vcovHC().
#' @rdname ring_vcov_hc
#' @exportS3Method sandwich::vcovHC
vcovHC.ring_glm <- function(x, type = c("HC3", "const", "HC", "HC0", "HC1", "HC2", "HC4"), ...) {
  check_method_dots(...)
  type <- check_choice(type)
  rows <- glm_here(x, "vcovHC()")
  weights <- if (rows$count > 0L) glm_weights(rows, rows$before, x$family) else double()
  slope <- if (rows$count > 0L) x$family$mu.eta(rows$state$eta) else double()
  residuals <- (rows$y - rows$state$mu) / slope
  sandwich_of(rows$comm, x, rows$x, weights, residuals, type)
}

#' @rdname ring_vcov_hc
#' @exportS3Method sandwich::vcovHC
vcovHC.ring_lm <- function(x, type = c("HC3", "const", "HC", "HC0", "HC1", "HC2", "HC4"), ...) {
  check_method_dots(...)
  type <- check_choice(type)
  lm_no_ridge(x, "vcovHC()")
  session <- session_rows(x, "vcovHC()")
  rows <- lm_rows(session$comm, session)$parts$held
  residuals <- rows$y - lm_fitted(rows, x$coefficients)
  sandwich_of(session$comm, x, rows$x, rows$weights, residuals, type)
}
# nolint end

# `weights` and `residuals` are those of the last step of least squares.
sandwich_of <- function(comm, object, x, weights, residuals, type) {
  used <- weights > 0
  x <- x[used, !is.na(object$coefficients), drop = FALSE]
  weights <- weights[used]
  count <- object$nobs
  width <- ncol(x)
  hats <- weights * rowSums((x %*% object$covariance) * x)
  squares <- (weights * residuals[used])^2
  if (type == "const") {
    squares[] <- ring_allreduce(comm, sum(squares)) / (count - width)
  }
  omega <- squares * switch(type,
    HC1 = count / (count - width), HC2 = 1 / (1 - hats), HC3 = 1 / (1 - hats)^2,
    HC4 = 1 / (1 - hats)^pmin(4, count * hats / width), 1
  )
  meat <- ring_allreduce(comm, unname(crossprod(x, omega * x)))
  found <- object$covariance %*% meat %*% object$covariance
  dimnames(found) <- dimnames(object$covariance)
  found
}
