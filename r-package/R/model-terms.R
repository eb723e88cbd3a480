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

# Fits the columns of the model without each of the terms. A matrix of what fit() returns, with a
# column for the model itself and for each term.
model_drops <- function(object, scope, fit) {
  own <- c(rank = object$rank, deviance = object$deviance)
  cbind(own, vapply(scope, FUN.VALUE = own, function(term) {
    fit(object$assign != match(term, attr(object$terms, "term.labels")))
  }))
}

# The rows of the model on this rank, with the columns of all terms that are added.
model_add_rows <- function(object, scope) {
  change <- stats::reformulate(c(".", scope))
  session_rows(object, "add1()", chunked = TRUE, stats::update.formula(object$formula, change))
}

# As model_drops(), of the model with each of the terms. All are fitted to `rows`, the rows without
# missing values in any term.
model_adds <- function(object, scope, rows, fit) {
  if (rows$count < object$count) {
    warning("using the ", rows$count, "/", object$count, " rows from a combined fit", call. = FALSE)
  }
  # A term has another name if its variables come in another order.
  sorted <- function(labels) {
    vapply(strsplit(labels, ":", fixed = TRUE), function(x) paste(sort(x), collapse = ":"), "")
  }
  labels <- sorted(attr(rows$terms, "term.labels"))
  own <- sorted(attr(object$terms, "term.labels"))
  added <- lapply(sorted(scope), function(term) c(own, term))
  vapply(c(list(own), added), FUN.VALUE = c(rank = 0, deviance = 0), function(terms) {
    fit(rows$assign %in% c(0L, match(terms, labels)))
  })
}

# The table of a linear model. The first element of `ranks` and `squares` is of the model itself,
# and `count` the number of rows. `sign` is 1 for added terms, and -1 for dropped terms.
model_squares_table <- function(object, scope, count, ranks, squares, scale, test, k, sign) {
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

# The table of a generalized linear model.
model_deviance_table <- function(object, scope, count, fits, scale, test, k, sign) {
  deviance <- fits["deviance", ]
  spread <- if (scale > 0) scale else object$dispersion
  gaussian <- object$family$family == "gaussian"
  likelihood <- if (!gaussian) deviance / spread
                else if (scale > 0) deviance / scale - count
                else count * log(deviance / count)
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
