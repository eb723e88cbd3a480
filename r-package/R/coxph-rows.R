# SPDX-License-Identifier: Apache-2.0
#
# Functions of survival that need the rows of the fit, such as cox.zph() and coxph.detail(), ask for
# its model frame. A distributed model has none, so they end here.

coxph_refuse <- function() {
  stop("a ring_coxph holds no rows, and this function of survival needs all rows of the fit: call ",
       "it for a coxph() of a sample of the rows", call. = FALSE)
}

#' @importFrom stats model.frame model.matrix
#' @export
model.frame.ring_coxph <- function(formula, ...) coxph_refuse() # nolint: object_name_linter.

#' @export
model.matrix.ring_coxph <- function(object, ...) coxph_refuse() # nolint: object_name_linter.

#' @export
weights.ring_coxph <- function(object, ...) coxph_refuse()

# The concordance of the predictions of new rows, which need no rows of the fit.
#' @exportS3Method survival::concordance
concordance.ring_coxph <- function(object, ..., newdata) { # nolint: object_name_linter.
  if (missing(newdata)) coxph_refuse()
  known <- c("ymin", "ymax", "timewt", "influence", "ranks", "timefix", "keepstrata")
  check_method_dots(..., known = known)
  if (!is.data.frame(newdata)) {
    stop("`newdata` must be a data frame, not ", describe(newdata), call. = FALSE)
  }
  env <- list2env(mget(c("Surv", "strata"), asNamespace("survival")),
                  parent = environment(object$terms))
  strata <- as.list(attr(object$terms, "variables"))[1L + attr(object$terms, "specials")$strata]
  formula <- stats::reformulate(c(".fitted", vapply(strata, deparse1, "")), object$formula[[2L]],
                                env = env)
  newdata$.fitted <- predict(object, newdata)
  found <- survival::concordance(formula, newdata, reverse = TRUE, ...)
  found$call <- match.call()
  found
}
