# SPDX-License-Identifier: Apache-2.0
#
# Methods of a linear model. Many use the method of lm(), on a sketch: an object of class lm with
# one row, which has the coefficients, sums of squares and degrees of freedom of all rows.

lm_sketch <- function(object) {
  root <- matrix(0, length(object$coefficients), length(object$coefficients))
  first <- seq_len(object$rank)
  root[first, first] <- object$root
  x <- matrix(object$means, 1L, dimnames = list("mean", names(object$coefficients)))
  attr(x, "assign") <- object$assign
  structure(class = "lm", list(
    coefficients = object$coefficients, residuals = sqrt(object$deviance),
    fitted.values = sqrt(object$model_squares), effects = object$effects, rank = object$rank,
    qr = structure(class = "qr", list(qr = root, pivot = object$pivot, rank = object$rank,
                                      qraux = double(length(object$coefficients)))),
    df.residual = object$df.residual, assign = object$assign, terms = object$terms,
    xlevels = object$xlevels, contrasts = object$contrasts, call = lm_sketch_call(object), x = x
  ))
}

# The sketch of a generalized linear model, for predict.lm().
glm_sketch <- function(object) {
  object[c("deviance", "model_squares")] <- 0
  lm_sketch(object)
}

# The call with what predict.lm() evaluates.
lm_sketch_call <- function(object) {
  call <- call("lm", formula = object$formula)
  call$offset <- object$offset
  call
}

#' @export
print.ring_lm <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_print_dots(...)
  cat("\nCall:\n", paste(deparse(x$call), collapse = "\n"), "\n\n", sep = "")
  model_print_coefficients(x, digits)
  cat("\n")
  invisible(x)
}

# The result has the elements of that of summary.lm(), and is printed by its method. `residuals` are
# the quantiles that are printed.
#' @export
summary.ring_lm <- function(object, ...) {
  check_method_dots(...)
  known <- !is.na(object$coefficients)
  variance <- object$deviance / object$df.residual
  if (is.finite(variance) && variance < 1e-30 * lm_size(object) / object$nobs) {
    warning("essentially perfect fit: summary may be unreliable", call. = FALSE)
  }
  table <- model_tests(object$coefficients[known],
                       sqrt(diag(object$covariance) * variance), object$df.residual)
  found <- list(
    call = object$call, terms = object$terms, residuals = object$quantiles, coefficients = table,
    aliased = !known, sigma = sqrt(variance),
    df = c(object$rank, object$df.residual, length(known)), cov.unscaled = object$covariance
  )
  if (object$weighted) found$weights <- rep(1, 5L)
  if (object$omitted > 0) {
    found$na.action <- structure(seq_len(object$omitted), class = "omit")
  }
  structure(class = c("summary.ring_lm", "summary.lm"), c(found, lm_fit_tests(object, variance)))
}

#' @export
print.summary.ring_lm <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_print_dots(..., known = model_print_arguments("summary.lm"))
  if (length(x$residuals) > 0L) NextMethod() else model_print_summary(x, digits = digits, ...)
  invisible(x)
}

# The arguments of a method of print() of stats, which passes others on to printCoefmat().
model_print_arguments <- function(class) {
  method <- utils::getS3method("print", class, envir = asNamespace("stats"))
  c(names(formals(method)), names(formals(stats::printCoefmat)))
}

# Prints a summary of the methods of stats without its quantiles of residuals: a model of chunks has
# none.
model_print_summary <- function(x, ...) {
  class(x) <- class(x)[-1L]
  lines <- utils::capture.output(print(x, ...))
  from <- grep("Residuals: ?$", lines)
  to <- grep("Coefficients", lines)
  if (length(from) > 0L) lines <- lines[-seq(from[[1L]], min(to[to > from[[1L]]]) - 1L)]
  writeLines(lines)
}

# The sum of the squared fitted values.
lm_size <- function(object) {
  known <- !is.na(object$coefficients)
  object$model_squares + object$nobs * sum((object$means * object$coefficients)[known])^2
}

# Warns as drop1() of lm() does.
lm_check_exact <- function(object) {
  if (object$deviance >= 1e-10 * lm_size(object)) return()
  warning("attempting model selection on an essentially perfect fit is nonsense", call. = FALSE)
}

# R squared and the F statistic, as in summary.lm().
lm_fit_tests <- function(object, variance) {
  terms <- object$rank - object$intercept
  if (terms == 0L) return(list(r.squared = 0, adj.r.squared = 0))
  share <- object$model_squares / (object$model_squares + object$deviance)
  list(
    r.squared = share,
    adj.r.squared = 1 - (1 - share) * (object$nobs - object$intercept) / object$df.residual,
    fstatistic = c(value = object$model_squares / terms / variance, numdf = terms,
                   dendf = object$df.residual)
  )
}

# The table of coefficients. Without degrees of freedom the tests are normal.
model_tests <- function(estimate, error, freedom = NULL) {
  statistic <- estimate / error
  letter <- if (is.null(freedom)) "z" else "t"
  p <- if (is.null(freedom)) {
    2 * stats::pnorm(-abs(statistic))
  } else if (freedom > 0) {
    2 * stats::pt(-abs(statistic), freedom)
  } else {
    rep(NaN, length(statistic))
  }
  table <- cbind(estimate, error, statistic, p)
  colnames(table) <- c("Estimate", "Std. Error", paste(letter, "value"),
                       paste0("Pr(>|", letter, "|)"))
  table
}

#' @export
vcov.ring_lm <- function(object, complete = TRUE, ...) {
  check_method_dots(...)
  known <- object$covariance * object$deviance / object$df.residual
  if (complete) model_complete(known, names(object$coefficients)) else known
}

#' @importFrom stats confint anova drop1 add1 extractAIC deviance update
#' @export
confint.ring_lm <- function(object, parm, level = 0.95, ...) {
  check_method_dots(...)
  stats::confint.lm(object, parm, level)
}

#' @export
anova.ring_lm <- function(object, ...) {
  check_method_dots(..., known = c("scale", "test"), models = "ring_lm")
  others <- list(...)
  models <- vapply(others, inherits, NA, "ring_lm")
  fits <- c(list(object), others[models])
  for (fit in fits) lm_no_ridge(fit, "anova()")
  model_check_size(vapply(fits, `[[`, 1L, "nobs"))
  others[models] <- lapply(others[models], lm_sketch)
  do.call(stats::anova, c(list(lm_sketch(object)), others))
}

lm_no_ridge <- function(object, what) {
  if (object$ridge > 0) stop(what, " is for models without `ridge`", call. = FALSE)
}

#' @export
deviance.ring_lm <- function(object, ...) {
  check_method_dots(...)
  object$deviance
}

#' @export
nobs.ring_lm <- nobs.ring_glm

#' @export
formula.ring_lm <- formula.ring_glm

#' @export
logLik.ring_lm <- function(object, ...) {
  check_method_dots(...)
  count <- object$nobs
  value <- (object$log_weights - count * (log(2 * pi) + 1 - log(count) + log(object$deviance))) / 2
  structure(value, nall = count, nobs = count, df = object$rank + 1L, class = "logLik")
}

#' @export
extractAIC.ring_lm <- function(fit, scale = 0, k = 2, ...) {
  check_method_dots(...)
  lm_aic(fit$deviance, fit$nobs, fit$nobs - fit$df.residual, scale, k)
}

lm_aic <- function(squares, count, freedom, scale, k) {
  deviance <- if (scale > 0) squares / scale - count else count * log(squares / count)
  c(freedom, deviance + k * freedom)
}

# The rank and the deviance of some columns, which are fitted to R of the data.
lm_refit <- function(triangle, columns, tol) {
  width <- ncol(triangle)
  solved <- tsqr_solve(triangle[, c(which(columns), width), drop = FALSE], tol)
  c(rank = solved$rank, deviance = solved$rest)
}

#' @export
drop1.ring_lm <- function(object, scope, scale = 0, test = c("none", "Chisq", "F"), k = 2, ...) {
  check_method_dots(..., known = "trace")
  test <- check_choice(test)
  lm_no_ridge(object, "drop1()")
  lm_check_exact(object)
  scope <- model_drop_scope(object, if (!missing(scope)) scope)
  fits <- model_drops(object, scope, function(columns) {
    lm_refit(object$triangle, columns, object$tol)
  })
  model_squares_table(object, scope, object$nobs, fits[1L, ], fits[2L, ], scale, test, k, -1)
}

#' @export
add1.ring_lm <- function(object, scope, scale = 0, test = c("none", "Chisq", "F"), k = 2, ...) {
  check_method_dots(..., known = "trace")
  test <- check_choice(test)
  lm_no_ridge(object, "add1()")
  lm_check_exact(object)
  scope <- model_add_scope(object, scope)
  if (session_is_table(object, "add1()")) {
    return(table_method(object, "add1", scope = scope, scale = scale, test = test, k = k))
  }
  rows <- model_add_rows(object, scope)
  whole <- lm_fit(rows$comm, lm_rows(rows$comm, rows), 0, object$tol)
  fits <- model_adds(object, scope, rows, function(columns) {
    lm_refit(whole$triangle, columns, object$tol)
  })
  model_squares_table(object, scope, whole$nobs, fits[1L, ], fits[2L, ], scale, test, k, 1)
}

#' @export
fitted.ring_lm <- function(object, ...) {
  check_method_dots(...)
  rows <- session_rows(object, "fitted()")
  known <- !is.na(object$coefficients)
  fitted <- drop(rows$x[, known, drop = FALSE] %*% object$coefficients[known])
  fitted + if (is.null(rows$offset)) 0 else rows$offset
}

#' @export
residuals.ring_lm <- function(object, ...) {
  check_method_dots(...)
  rows <- session_rows(object, "residuals()")
  rows$y - fitted.ring_lm(object)
}

#' Predict from a distributed linear model
#'
#' `predict()` needs no communicator and no rows of the fit, so it works anywhere, such as inside
#' `sparklyr::spark_apply()`: see [predict.ring_glm()].
#'
#' @param object A model, from [ring_lm()].
#' @param newdata A data frame with the variables of the formula, or a Spark table.
#' @param ... Arguments of [stats::predict.lm()]: `se.fit`, `scale`, `df`, `interval`, `level`,
#'   `type` (`"response"` or `"terms"`), `terms` and `na.action`. `pred.var` and `weights`, too.
#' @returns As [stats::predict.lm()]; for a Spark table a lazy Spark table, see [ring_glm()].
#' @seealso [ring_lm()]
#' @examples
#' comm <- ring_init()
#' fit <- ring_lm(comm, dist ~ speed, data = cars)
#' ring_close(comm)
#' predict(fit, data.frame(speed = c(10, 20)), interval = "confidence")
#' @export
predict.ring_lm <- function(object, newdata, ...) {
  check_method_dots(..., known = names(formals(stats::predict.lm))[-(1:2)])
  if (!missing(newdata) && is_table(newdata)) return(table_predict(object, newdata, ...))
  rows_check_new(object, newdata, object$offset)
  newdata <- integer64_rows(newdata)
  sketch <- lm_sketch(object)
  # The offset is evaluated where the terms are: predict.lm() would look in the wrong place.
  if (is.null(object$offset)) return(stats::predict.lm(sketch, newdata, ...))
  sketch$call$offset <- eval(object$offset, newdata, environment(object$terms))
  stats::predict.lm(sketch, newdata, ...)
}
