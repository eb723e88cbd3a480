# SPDX-License-Identifier: Apache-2.0
#
# Methods of broom's generics, which package generics has. They are registered when generics is
# loaded. Columns are those of broom.

tidy_frame <- function(x) {
  rownames(x) <- NULL
  if (requireNamespace("tibble", quietly = TRUE)) tibble::as_tibble(x) else x
}

# A table of coefficients: a row for each.
tidy_table <- function(table, intervals = NULL) {
  table <- as.data.frame(table)
  names(table) <- c("estimate", "std.error", "statistic", "p.value")
  table <- cbind(term = rownames(table), table)
  if (!is.null(intervals)) {
    intervals <- intervals[table$term, , drop = FALSE]
    table$conf.low <- intervals[, 1L]
    table$conf.high <- intervals[, 2L]
  }
  tidy_frame(table)
}

tidy_exponentiate <- function(frame, exponentiate) {
  columns <- intersect(c("estimate", "conf.low", "conf.high"), names(frame))
  if (exponentiate) frame[columns] <- lapply(frame[columns], exp)
  frame
}

# nolint start: object_name_linter. The arguments are those of broom.
#' Tidy, glance and augment: broom's view of distributed models
#'
#' Methods of the generics `tidy()`, `glance()` and `augment()` of the packages generics and broom.
#' `tidy()` returns a row for each coefficient, component or weight, `glance()` one row for the
#' model, and `augment()` adds predictions to rows.
#'
#' @param x A model.
#' @param conf.int Whether to add a confidence interval: `TRUE` or `FALSE`.
#' @param conf.level The level of the interval, a number.
#' @param exponentiate Whether to return the exponentials of the coefficients: `TRUE` or `FALSE`.
#' @param newdata A data frame with the variables of the model, or a Spark table. The model holds no
#'   rows, so it is needed.
#' @param ... Passed on to `confint()` by `tidy()`, and to `predict()` by `augment()`.
#' @returns A data frame (a tibble, if tibble is installed), with the columns of broom. Of a Spark
#'   table `augment()` returns a lazy Spark table, as `predict()` does: see [ring_glm()]. There
#'   `.cluster` is an integer, and a class is a string.
#' @seealso [ring_lm()], [ring_glm()]
#' @name ring_tidy
#' @aliases tidy.ring_lm
#' @examples
#' comm <- ring_init()
#' fit <- ring_lm(comm, dist ~ speed, data = cars)
#' ring_close(comm)
#' if (requireNamespace("generics", quietly = TRUE)) {
#'   generics::tidy(fit, conf.int = TRUE)
#'   generics::glance(fit)
#'   generics::augment(fit, newdata = head(cars))
#' }
NULL

#' @rdname ring_tidy
#' @exportS3Method generics::tidy
tidy.ring_lm <- function(x, conf.int = FALSE, conf.level = 0.95, ...) {
  check_method_dots(...)
  intervals <- if (conf.int) stats::confint(x, level = conf.level)
  tidy_table(stats::coef(summary(x)), intervals)
}

#' @rdname ring_tidy
#' @exportS3Method generics::glance
glance.ring_lm <- function(x, ...) {
  check_method_dots(...)
  summary <- summary(x)
  test <- if (is.null(summary$fstatistic)) rep(NA_real_, 3L) else unname(summary$fstatistic)
  likelihood <- stats::logLik(x)
  tidy_frame(data.frame(
    r.squared = summary$r.squared, adj.r.squared = summary$adj.r.squared, sigma = summary$sigma,
    statistic = test[[1L]],
    p.value = stats::pf(test[[1L]], test[[2L]], test[[3L]], lower.tail = FALSE), df = test[[2L]],
    logLik = as.numeric(likelihood), AIC = stats::AIC(likelihood), BIC = stats::BIC(likelihood),
    deviance = x$deviance, df.residual = x$df.residual, nobs = x$nobs
  ))
}

#' @rdname ring_tidy
#' @exportS3Method generics::augment
augment.ring_lm <- function(x, newdata, ...) {
  if (is_table(newdata)) return(table_augment(x, newdata, ...))
  found <- predict(x, newdata, ...)
  frame <- as.data.frame(newdata)
  if (is.list(found)) {
    frame$.se.fit <- unname(found$se.fit)
    found <- found$fit
  }
  if (is.matrix(found)) {
    frame$.lower <- unname(found[, "lwr"])
    frame$.upper <- unname(found[, "upr"])
    found <- found[, "fit"]
  }
  frame$.fitted <- unname(found)
  response <- if (length(x$formula) == 3L) {
    attempt(eval(x$formula[[2L]], newdata, environment(x$terms)))$value
  }
  if (is.numeric(response)) frame$.resid <- response - frame$.fitted
  tidy_frame(frame)
}

#' @rdname ring_tidy
#' @exportS3Method generics::tidy
tidy.ring_glm <- function(x, exponentiate = FALSE, conf.int = FALSE, conf.level = 0.95, ...) {
  check_method_dots(..., known = "method")
  intervals <- if (conf.int) stats::confint(x, level = conf.level, ...)
  if (conf.int && !is.matrix(intervals)) intervals <- t(as.matrix(intervals))
  if (conf.int) rownames(intervals) <- names(x$coefficients)
  tidy_exponentiate(tidy_table(stats::coef(summary(x)), intervals), exponentiate)
}

#' @rdname ring_tidy
#' @exportS3Method generics::glance
glance.ring_glm <- function(x, ...) {
  check_method_dots(...)
  likelihood <- stats::logLik(x)
  tidy_frame(data.frame(
    null.deviance = x$null.deviance, df.null = x$df.null, logLik = as.numeric(likelihood),
    AIC = stats::AIC(likelihood), BIC = stats::BIC(likelihood), deviance = x$deviance,
    df.residual = x$df.residual, nobs = x$nobs
  ))
}

#' @rdname ring_tidy
#' @exportS3Method generics::augment
augment.ring_glm <- function(x, newdata, ...) {
  x$formula <- x$formula[-2L] # residuals have types
  augment.ring_lm(x, newdata, ...)
}

#' @rdname ring_tidy
#' @exportS3Method generics::tidy
tidy.ring_coxph <- function(x, exponentiate = FALSE, conf.int = FALSE, conf.level = 0.95, ...) {
  check_method_dots(...)
  table <- stats::coef(summary(x))
  robust <- if (ncol(table) == 6L) table[, "robust se"]
  table <- table[, c("coef", "se(coef)", "z", "Pr(>|z|)"), drop = FALSE]
  intervals <- if (conf.int) stats::confint(x, level = conf.level)
  found <- tidy_exponentiate(tidy_table(table, intervals), exponentiate)
  if (!is.null(robust)) found$robust.se <- unname(robust)
  found
}

#' @rdname ring_tidy
#' @exportS3Method generics::glance
glance.ring_coxph <- function(x, ...) {
  check_method_dots(...)
  summary <- summary(x)
  likelihood <- stats::logLik(x)
  tidy_frame(data.frame(
    n = x$n, nevent = x$nevent,
    statistic.log = summary$logtest[["test"]], p.value.log = summary$logtest[["pvalue"]],
    statistic.sc = summary$sctest[["test"]], p.value.sc = summary$sctest[["pvalue"]],
    statistic.wald = x$wald.test, p.value.wald = summary$waldtest[["pvalue"]],
    logLik = as.numeric(likelihood), AIC = stats::AIC(likelihood), BIC = stats::BIC(likelihood),
    nobs = x$n
  ))
}

#' @rdname ring_tidy
#' @exportS3Method generics::augment
augment.ring_coxph <- function(x, newdata, ...) {
  x$formula <- x$formula[-2L] # there are no residuals
  augment.ring_lm(x, newdata, ...)
}

#' @rdname ring_tidy
#' @exportS3Method generics::tidy
tidy.ring_glmnet <- function(x, ...) {
  check_method_dots(...)
  all <- glmnet_coefficients(x, NULL)
  frame <- expand.grid(term = rownames(all), class = seq_len(ncol(all)), step = seq_along(x$lambda),
                       stringsAsFactors = FALSE)
  frame$estimate <- as.vector(all)
  frame$lambda <- x$lambda[frame$step]
  frame$dev.ratio <- x$dev.ratio[frame$step]
  frame$class <- if (ncol(all) > 1L) x$classnames[frame$class]
  tidy_frame(frame[frame$estimate != 0, ])
}

#' @rdname ring_tidy
#' @exportS3Method generics::augment
augment.ring_glmnet <- function(x, newdata, ...) {
  if (is_table(newdata)) return(table_augment(x, newdata, ...))
  found <- predict(x, newdata, ...)
  if (length(dim(found)) != 2L || ncol(found) != 1L) {
    stop("augment() adds one column: pass one penalty as `s`, and of a multinomial model ",
         "`type = \"class\"`", call. = FALSE)
  }
  tidy_frame(cbind(as.data.frame(newdata), .fitted = found[, 1L]))
}

#' @rdname ring_tidy
#' @exportS3Method generics::tidy
tidy.ring_mlp <- function(x, ...) {
  check_method_dots(...)
  parts <- lapply(seq_along(x$weights), function(layer) {
    weights <- x$weights[[layer]]
    inputs <- seq_len(nrow(weights) - 1L)
    data.frame(layer = layer, input = rep(c(inputs, 0L), ncol(weights)), # 0 is the bias
               unit = rep(seq_len(ncol(weights)), each = nrow(weights)),
               estimate = as.vector(weights))
  })
  tidy_frame(do.call(rbind, parts))
}

#' @rdname ring_tidy
#' @exportS3Method generics::glance
glance.ring_mlp <- function(x, ...) {
  check_method_dots(...)
  tidy_frame(data.frame(loss = x$loss, evaluations = x$evaluations, converged = x$converged,
                        parameters = sum(lengths(x$weights)), nobs = x$nobs))
}

#' @rdname ring_tidy
#' @exportS3Method generics::augment
augment.ring_mlp <- function(x, newdata, ...) {
  if (is_table(newdata)) return(table_augment(x, newdata, ...))
  found <- predict(x, newdata, ...)
  if (is.matrix(found)) colnames(found) <- paste0(".prob_", colnames(found))
  else found <- data.frame(.fitted = found)
  tidy_frame(cbind(as.data.frame(newdata), found))
}

#' @rdname ring_tidy
#' @exportS3Method generics::glance
glance.ring_glmnet <- function(x, ...) {
  check_method_dots(...)
  found <- data.frame(nulldev = x$nulldev, npasses = length(x$lambda), nobs = x$nobs)
  if (!is.null(x$lambda.min)) found[c("lambda.min", "lambda.1se")] <- c(x$lambda.min, x$lambda.1se)
  tidy_frame(found)
}

#' @rdname ring_tidy
#' @param matrix What to return of principal components, a string: `"eigenvalues"` or `"rotation"`.
#' @exportS3Method generics::tidy
tidy.ring_prcomp <- function(x, matrix = c("eigenvalues", "rotation"), ...) {
  check_method_dots(...)
  components <- seq_along(x$sdev)
  if (check_choice(matrix) == "eigenvalues") {
    share <- x$sdev^2 / x$total
    return(tidy_frame(data.frame(PC = components, std.dev = x$sdev, percent = share,
                                 cumulative = cumsum(share))))
  }
  components <- seq_len(ncol(x$rotation))
  names <- rownames(x$rotation)
  if (is.null(names)) names <- seq_len(nrow(x$rotation))
  tidy_frame(data.frame(column = rep(names, each = length(components)), PC = components,
                        value = as.vector(t(x$rotation))))
}

#' @rdname ring_tidy
#' @exportS3Method generics::augment
augment.ring_prcomp <- function(x, newdata, ...) {
  if (is_table(newdata)) return(table_augment(x, newdata, ...))
  check_method_dots(...)
  scores <- as.data.frame(predict(x, newdata))
  names(scores) <- paste0(".fitted", names(scores))
  tidy_frame(cbind(as.data.frame(newdata), scores))
}

#' @rdname ring_tidy
#' @exportS3Method generics::tidy
tidy.ring_bootstrap <- function(x, conf.int = FALSE, conf.level = 0.95, ...) {
  check_method_dots(..., known = "type")
  errors <- unname(bootstrap_errors(x))
  found <- data.frame(statistic = errors[, 1L], bias = errors[, 2L], std.error = errors[, 3L])
  if (!is.null(names(x$t0))) found <- cbind(term = names(x$t0), found)
  if (conf.int) {
    intervals <- stats::confint(x, level = conf.level, ...)
    found$conf.low <- unname(intervals[, 1L])
    found$conf.high <- unname(intervals[, 2L])
  }
  tidy_frame(found)
}

#' @rdname ring_tidy
#' @exportS3Method generics::tidy
tidy.ring_kmeans <- function(x, ...) {
  check_method_dots(...)
  centers <- as.data.frame(x$centers)
  tidy_frame(cbind(centers, size = x$size, withinss = x$withinss,
                   cluster = factor(seq_along(x$size))))
}

#' @rdname ring_tidy
#' @exportS3Method generics::glance
glance.ring_kmeans <- function(x, ...) {
  check_method_dots(...)
  tidy_frame(as.data.frame(x[c("totss", "tot.withinss", "betweenss", "iter")]))
}

#' @rdname ring_tidy
#' @exportS3Method generics::augment
augment.ring_kmeans <- function(x, newdata, ...) {
  if (is_table(newdata)) return(table_augment(x, newdata, ...))
  check_method_dots(...)
  cluster <- factor(predict(x, newdata), seq_along(x$size))
  tidy_frame(cbind(as.data.frame(newdata), .cluster = cluster))
}
# nolint end
