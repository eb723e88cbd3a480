# SPDX-License-Identifier: Apache-2.0
#
# What one does with a fitted model: it holds no rows, so all of this works anywhere.

#' @importFrom stats coef family formula logLik nobs predict vcov
NULL

#' @export
print.ring_glm <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("\nCall:  ", paste(deparse(x$call), collapse = "\n"), "\n\nCoefficients:\n", sep = "")
  print.default(format(x$coefficients, digits = digits), print.gap = 2L, quote = FALSE)
  cat("\nDegrees of Freedom: ", x$df.null, " Total (i.e. Null);  ", x$df.residual, " Residual\n",
      "Null Deviance:     ", format(signif(x$null.deviance, digits)), "\n",
      "Residual Deviance: ", format(signif(x$deviance, digits)),
      "\tAIC: ", format(signif(x$aic, digits)), "\n", sep = "")
  invisible(x)
}

#' @export
summary.ring_glm <- function(object, ...) {
  known <- !is.na(object$coefficients)
  estimate <- object$coefficients[known]
  error <- sqrt(diag(stats::vcov(object)))
  statistic <- estimate / error
  estimated <- !object$family$family %in% c("poisson", "binomial")
  p <- if (!estimated) {
    2 * stats::pnorm(-abs(statistic))
  } else if (object$df.residual > 0L) {
    2 * stats::pt(-abs(statistic), object$df.residual)
  } else {
    rep(NaN, length(statistic))
  }
  table <- cbind(estimate, error, statistic, p)
  letter <- if (estimated) "t" else "z"
  tests <- c(paste(letter, "value"), paste0("Pr(>|", letter, "|)"))
  colnames(table) <- c("Estimate", "Std. Error", tests)
  object$table <- table
  object$aliased <- !known
  structure(object, class = "summary.ring_glm")
}

#' @export
coef.summary.ring_glm <- function(object, ...) object$table

#' @export
print.summary.ring_glm <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("\nCall:\n", paste(deparse(x$call), collapse = "\n"), "\n\n", sep = "")
  missing <- sum(x$aliased)
  note <- if (missing > 0L) paste0(" (", missing, " not defined because of singularities)")
  cat("Coefficients:", note, "\n", sep = "")
  stats::printCoefmat(x$table, digits = digits)
  cat("\n(Dispersion parameter for ", x$family$family, " family taken to be ",
      format(x$dispersion, digits = digits), ")\n\n", sep = "")
  cat("    Null deviance: ", format(signif(x$null.deviance, digits)), "  on ", x$df.null,
      "  degrees of freedom\n",
      "Residual deviance: ", format(signif(x$deviance, digits)), "  on ", x$df.residual,
      "  degrees of freedom\n",
      "AIC: ", format(signif(x$aic, digits)), "\n\n",
      "Number of Fisher Scoring iterations: ", x$iter, "\n\n", sep = "")
  invisible(x)
}

#' @export
vcov.ring_glm <- function(object, ...) object$dispersion * object$covariance

#' @export
nobs.ring_glm <- function(object, ...) object$nobs

#' @export
formula.ring_glm <- function(x, ...) x$formula

#' @export
family.ring_glm <- function(object, ...) object$family

#' @export
logLik.ring_glm <- function(object, ...) {
  parameters <- object$rank + object$family$family %in% c("gaussian", "Gamma", "inverse.gaussian")
  structure(parameters - object$aic / 2, nobs = object$nobs, df = parameters, class = "logLik")
}

#' Predict from a distributed generalised linear model
#'
#' Needs neither ranks nor the rows of the fit, so it works inside `spark_apply()`, on any rows.
#'
#' @param object What [ring_glm()] returns.
#' @param newdata A data frame.
#' @param type `"link"`: on the scale of the linear predictors; `"response"`: of the response.
#' @param se.fit Standard errors, too?
#' @param ... Not used.
#' @returns A vector with an element for each row, `NA` where a predictor is; with `se.fit` a list
#'   of `fit`, `se.fit` and `residual.scale`, as of [stats::predict.glm()].
#' @examples
#' comm <- ring_init()
#' fit <- ring_glm(comm, dist ~ speed, data = cars)
#' ring_close(comm)
#' predict(fit, data.frame(speed = c(10, 20)), se.fit = TRUE)
#' @export
predict.ring_glm <- function(object, newdata, type = c("link", "response"),
                             se.fit = FALSE, # nolint: object_name_linter. As in predict.glm().
                             ...) {
  type <- match.arg(type)
  terms <- stats::delete.response(object$terms)
  frame <- stats::model.frame(terms, newdata, na.action = stats::na.pass, xlev = object$xlevels)
  x <- stats::model.matrix(terms, frame, contrasts.arg = object$contrasts)
  known <- !is.na(object$coefficients)
  x <- x[, known, drop = FALSE]
  offset <- stats::model.offset(frame)
  eta <- drop(x %*% object$coefficients[known]) + if (is.null(offset)) 0 else offset
  if (!is.null(object$offset)) eta <- eta + eval(object$offset, newdata, globalenv())
  fit <- if (type == "response") object$family$linkinv(eta) else eta
  if (!se.fit) return(fit)
  error <- sqrt(rowSums((x %*% stats::vcov(object)) * x))
  if (type == "response") error <- error * abs(object$family$mu.eta(eta))
  list(fit = fit, se.fit = error, residual.scale = sqrt(object$dispersion))
}
