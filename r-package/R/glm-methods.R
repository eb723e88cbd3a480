# SPDX-License-Identifier: Apache-2.0
#
# Methods of a fitted model. The model holds no rows, so they work anywhere.

#' @importFrom stats coef family fitted formula logLik nobs predict residuals vcov
NULL

#' @export
print.ring_glm <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_print_dots(...)
  cat("\nCall:  ", paste(deparse(x$call), collapse = "\n"), "\n\n", sep = "")
  model_print_coefficients(x, digits)
  cat("\nDegrees of Freedom: ", x$df.null, " Total (i.e. Null);  ", x$df.residual, " Residual\n",
      "Null Deviance:     ", format(signif(x$null.deviance, digits)), "\n",
      "Residual Deviance: ", format(signif(x$deviance, digits)),
      "\tAIC: ", format(signif(x$aic, digits)), "\n", sep = "")
  model_print_unconverged(x)
  invisible(x)
}

# The result has the elements of that of summary.glm(), and is printed by its method. The residuals
# are the quantiles that some versions of R print.
#' @export
summary.ring_glm <- function(object, dispersion = NULL, ...) {
  check_method_dots(...)
  known <- !is.na(object$coefficients)
  estimated <- is.null(dispersion) && !glm_known(object$family)
  if (is.null(dispersion)) dispersion <- object$dispersion
  scaled <- dispersion * object$covariance
  table <- model_tests(object$coefficients[known], sqrt(diag(scaled)),
                       if (estimated) object$df.residual)
  kept <- c("call", "terms", "family", "deviance", "aic", "contrasts", "df.residual",
            "null.deviance", "df.null", "iter", "converged")
  found <- c(object[kept], list(
    deviance.resid = object$quantiles, coefficients = table, aliased = !known,
    dispersion = dispersion, df = c(object$rank, object$df.residual, length(known)),
    cov.unscaled = object$covariance, cov.scaled = scaled
  ))
  if (object$omitted > 0) found$na.action <- structure(seq_len(object$omitted), class = "omit")
  structure(class = c("summary.ring_glm", "summary.glm"), found)
}

#' @export
print.summary.ring_glm <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_print_dots(..., known = model_print_arguments("summary.glm"))
  if (length(x$deviance.resid) > 0L) NextMethod() else model_print_summary(x, digits = digits, ...)
  model_print_unconverged(x)
  invisible(x)
}

# Whether the family has a known dispersion.
glm_known <- function(family) family$family %in% c("poisson", "binomial")

#' @export
vcov.ring_glm <- function(object, complete = TRUE, ...) {
  check_method_dots(...)
  known <- object$dispersion * object$covariance
  if (complete) model_complete(known, names(object$coefficients)) else known
}

#' @export
nobs.ring_glm <- function(object, ...) {
  check_method_dots(..., known = "use.fallback") # of step()
  object$nobs
}

#' @export
formula.ring_glm <- function(x, ...) {
  check_method_dots(...)
  x$formula
}

#' @export
family.ring_glm <- function(object, ...) {
  check_method_dots(...)
  object$family
}

#' @export
logLik.ring_glm <- function(object, ...) {
  check_method_dots(...)
  parameters <- object$rank + object$family$family %in% c("gaussian", "Gamma", "inverse.gaussian")
  structure(parameters - object$aic / 2, nobs = object$nobs, df = parameters, class = "logLik")
}

#' Predict from a distributed generalized linear model
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
#' @param newdata A data frame with the variables of the formula, or a Spark table.
#' @param type The scale of the predictions, a string: `"link"`, that of the linear predictors,
#'   `"response"`, that of the response, or `"terms"`: a matrix with a column for each term, on the
#'   scale of the linear predictors.
#' @param se.fit Whether to return standard errors, too: `TRUE` or `FALSE`.
#' @param ... For `type = "terms"`, further arguments of [stats::predict.lm()].
#' @returns A double vector with an element for each row of `newdata`, `NA` where a predictor is
#'   `NA`. With `se.fit`, a list of `fit` and `se.fit`, two such vectors, and `residual.scale`, one
#'   number, as [stats::predict.glm()] returns.
#'   For a Spark table, a lazy Spark table: see [ring_glm()].
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
#'   sparklyr::copy_to(sc, cars, overwrite = TRUE), context = fit, packages = FALSE,
#'   columns = list(distance = "double"),
#'   f = function(df, model) {
#'     loadNamespace("sparkring") # registers the method of predict()
#'     data.frame(distance = predict(model, df))
#'   }
#' )
#' sparklyr::sdf_collect(predicted)
#' }
#' @export
predict.ring_glm <- function(object, newdata, type = c("link", "response", "terms"),
                             se.fit = FALSE, # nolint: object_name_linter. As in predict.glm().
                             ...) {
  type <- check_choice(type)
  check_method_dots(..., known = if (type == "terms") names(formals(stats::predict.lm))[-(1:3)])
  if (!missing(newdata) && is_table(newdata)) {
    return(table_predict(object, newdata, type = type, se.fit = se.fit))
  }
  if (type == "terms") {
    rows_check_new(object, newdata, object$offset)
    newdata <- integer64_rows(newdata)
    return(stats::predict.lm(glm_sketch(object), newdata, se.fit, scale = sqrt(object$dispersion),
                             type = "terms", ...))
  }
  rows <- rows_predict(object, newdata, object$offset)
  known <- !is.na(object$coefficients)
  x <- rows$x[, known, drop = FALSE]
  offset <- stats::model.offset(rows$frame)
  eta <- drop(x %*% object$coefficients[known]) + if (is.null(offset)) 0 else offset
  if (!is.null(object$offset)) eta <- eta + eval(object$offset, newdata, environment(object$terms))
  fit <- if (type == "response") object$family$linkinv(eta) else eta
  if (!se.fit) return(fit)
  error <- sqrt(rowSums((x %*% vcov.ring_glm(object, complete = FALSE)) * x))
  if (type == "response") error <- error * abs(object$family$mu.eta(eta))
  list(fit = fit, se.fit = error, residual.scale = sqrt(object$dispersion))
}
