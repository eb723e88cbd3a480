# SPDX-License-Identifier: Apache-2.0
#
# Tables of single terms that are dropped from a model or added to it, as drop1() and add1() of
# stats make them.

# The terms that add1() may add.
model_add_scope <- function(object, scope) {
  if (missing(scope) || is.null(scope)) stop("no terms in scope", call. = FALSE)
  if (!is.character(scope)) {
    scope <- stats::add.scope(object, stats::update.formula(object$formula, scope))
  }
  if (length(scope) == 0L) stop("no terms in scope for adding to object", call. = FALSE)
  scope
}

# The terms that drop1() may drop.
model_drop_scope <- function(object, scope) {
  if (is.null(scope)) return(stats::drop.scope(object))
  if (!is.character(scope)) {
    scope <- attr(stats::terms(stats::update.formula(object$formula, scope)), "term.labels")
  }
  odd <- setdiff(scope, attr(object$terms, "term.labels"))
  if (length(odd) > 0L) stop("scope is not a subset of term labels: ", odd[[1L]], call. = FALSE)
  scope
}

# Fits the model without or with each term. A matrix with a column for each term.
model_refits <- function(object, scope, sign, what) {
  vapply(scope, FUN.VALUE = c(rank = 0, deviance = 0, aic = 0), function(term) {
    change <- stats::as.formula(paste("~ .", sign, term))
    fit <- session_refit(object, stats::update.formula(object$formula, change), what)
    if (fit$nobs != object$nobs) {
      stop("number of rows in use has changed: remove missing values?", call. = FALSE)
    }
    c(rank = fit$rank, deviance = fit$deviance, aic = if (is.null(fit$aic)) NA else fit$aic)
  })
}

# The table of a linear model. The first element of `ranks` and `squares` is of the model itself.
# `sign` is 1 for added terms, and -1 for dropped terms.
model_squares_table <- function(object, scope, ranks, squares, scale, test, k, sign) {
  count <- object$nobs
  aic <- k * ranks + if (scale > 0) squares / scale - count else count * log(squares / count)
  change <- sign * (ranks - ranks[[1L]])
  change[[1L]] <- NA
  sums <- c(NA, sign * (squares[[1L]] - squares[-1L]))
  table <- data.frame(change, sums, squares, aic, row.names = c("<none>", scope))
  names(table) <- c("Df", "Sum of Sq", "RSS", if (scale > 0) "Cp" else "AIC")
  if (test == "Chisq") {
    deviance <- if (scale > 0) sums / scale else
      sign * count * (log(squares[[1L]] / count) - log(squares / count))
    table[["Pr(>Chi)"]] <- model_tail(stats::pchisq, deviance, change)
  }
  if (test == "F") {
    freedom <- object$df.residual - if (sign > 0) change else 0
    value <- sums / change / ((if (sign > 0) squares else squares[[1L]]) / freedom)
    table[["F value"]] <- ifelse(change < 1e-4, NA, value)
    table[["Pr(>F)"]] <- model_tail(stats::pf, table[["F value"]], change, freedom)
  }
  model_terms_heading(table, object, scale, sign)
}

# The table of a generalised linear model.
model_deviance_table <- function(object, scope, fits, scale, test, k, sign) {
  deviance <- fits["deviance", ]
  spread <- if (scale > 0) scale else object$dispersion
  gaussian <- object$family$family == "gaussian"
  likelihood <- if (!gaussian) deviance / spread
                else if (scale > 0) deviance / scale - object$nobs
                else object$nobs * log(deviance / object$nobs)
  aic <- likelihood + k * fits["rank", ]
  aic <- aic + stats::extractAIC(object, k = k)[[2L]] - aic[[1L]]
  change <- sign * (fits["rank", ] - fits[["rank", 1L]])
  change[[1L]] <- NA
  table <- data.frame(Df = change, Deviance = deviance, AIC = aic, row.names = c("<none>", scope))
  if (all(is.na(aic))) table$AIC <- NULL
  if (test %in% c("Chisq", "LRT")) {
    gain <- pmax(0, sign * (likelihood[[1L]] - likelihood))
    gain[[1L]] <- NA
    table[[if (spread == 1) "LRT" else "scaled dev."]] <- gain
    table[["Pr(>Chi)"]] <- model_tail(stats::pchisq, gain, change)
  }
  if (test == "F") {
    freedom <- object$df.residual - if (sign > 0) change else 0
    gain <- pmax(0, sign * (deviance[[1L]] - deviance)) / change
    value <- gain / ((if (sign > 0) deviance else deviance[[1L]]) / freedom)
    table[["F value"]] <- ifelse(change < 1e-4, NA, value)
    table[["Pr(>F)"]] <- model_tail(stats::pf, table[["F value"]], change, freedom)
  }
  model_terms_heading(table, object, scale, sign)
}

model_tail <- function(distribution, value, ...) {
  suppressWarnings(distribution(value, ..., lower.tail = FALSE))
}

model_terms_heading <- function(table, object, scale, sign) {
  title <- if (sign > 0) "Single term additions" else "Single term deletions"
  structure(class = c("anova", "data.frame"), table, heading = c(
    title, "\nModel:", deparse(object$formula),
    if (scale > 0) paste("\nscale: ", format(scale), "\n")
  ))
}
