# SPDX-License-Identifier: Apache-2.0
#
# Methods of a fitted model. The model holds no rows, so they work anywhere.

#' @importFrom stats coef family fitted formula logLik nobs predict residuals vcov
NULL

#' @export
print.ring_glm <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("\nCall:  ", paste(deparse(x$call), collapse = "\n"), "\n\n", sep = "")
  if (length(x$coefficients) > 0L) {
    cat("Coefficients:\n")
    print.default(format(x$coefficients, digits = digits), print.gap = 2L, quote = FALSE)
  } else {
    cat("No coefficients\n")
  }
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
  error <- sqrt(diag(object$covariance) * object$dispersion)
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
  if (nrow(x$table) > 0L) {
    cat("Coefficients:", note, "\n", sep = "")
    stats::printCoefmat(x$table, digits = digits)
  } else {
    cat("No coefficients\n")
  }
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
vcov.ring_glm <- function(object, complete = TRUE, ...) {
  known <- object$dispersion * object$covariance
  if (!complete) return(known)
  names <- names(object$coefficients)
  all <- matrix(NA_real_, length(names), length(names), dimnames = list(names, names))
  all[rownames(known), colnames(known)] <- known
  all
}

#' @export
fitted.ring_glm <- function(object, ...) {
  stop("a ring_glm holds no rows: call predict(fit, rows, type = \"response\") with the rows of a ",
       "rank", call. = FALSE)
}

#' @export
residuals.ring_glm <- function(object, ...) {
  stop("a ring_glm holds no rows: subtract predict(fit, rows, type = \"response\") from the ",
       "response of the rows of a rank", call. = FALSE)
}

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
#' `predict()` needs no communicator and no rows of the fit, so it works anywhere, such as inside
#' `sparklyr::spark_apply()`. Constants of the formula that are not in `newdata` have their values
#' of the fit.
#'
#' @details
#' Pass a model to `sparklyr::spark_apply()` as its `context`. Spark sends it once to each executor,
#' and the R process of each task reads it once. The same holds for the result of [ring_mlp()].
#'
#' @param object A model, from [ring_glm()].
#' @param newdata A data frame with the variables of the formula.
#' @param type The scale of the predictions, a string: `"link"`, that of the linear predictors, or
#'   `"response"`, that of the response.
#' @param se.fit Whether to return standard errors, too: `TRUE` or `FALSE`.
#' @param ... Ignored.
#' @returns A double vector with an element for each row of `newdata`, `NA` where a predictor is
#'   `NA`. With `se.fit`, a list of `fit` and `se.fit`, two such vectors, and `residual.scale`, one
#'   number, as [stats::predict.glm()] returns.
#' @seealso [ring_glm()]
#' @examples
#' comm <- ring_init()
#' fit <- ring_glm(comm, dist ~ speed, data = cars)
#' ring_close(comm)
#' predict(fit, data.frame(speed = c(10, 20)), se.fit = TRUE)
#' \dontrun{
#' # Needs Spark.
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' predicted <- sparklyr::spark_apply(
#'   sparklyr::copy_to(sc, cars), context = fit, packages = FALSE,
#'   columns = list(distance = "double"),
#'   f = function(df, model) {
#'     loadNamespace("sparkring") # registers the method of predict()
#'     data.frame(distance = predict(model, df))
#'   }
#' )
#' sparklyr::sdf_collect(predicted)
#' }
#' @export
predict.ring_glm <- function(object, newdata, type = c("link", "response"),
                             se.fit = FALSE, # nolint: object_name_linter. As in predict.glm().
                             ...) {
  type <- match.arg(type)
  rows <- rows_predict(object, newdata, object$offset)
  known <- !is.na(object$coefficients)
  x <- rows$x[, known, drop = FALSE]
  offset <- stats::model.offset(rows$frame)
  eta <- drop(x %*% object$coefficients[known]) + if (is.null(offset)) 0 else offset
  if (!is.null(object$offset)) eta <- eta + eval(object$offset, newdata, environment(object$terms))
  fit <- if (type == "response") object$family$linkinv(eta) else eta
  if (!se.fit) return(fit)
  error <- sqrt(rowSums((x %*% stats::vcov(object, complete = FALSE)) * x))
  if (type == "response") error <- error * abs(object$family$mu.eta(eta))
  list(fit = fit, se.fit = error, residual.scale = sqrt(object$dispersion))
}
