# SPDX-License-Identifier: Apache-2.0
#
# The tests of package car: a term is tested in the model without the terms that contain it (type
# II), or with all other columns of the model (type III).

#' Type II and III tests of a distributed model
#'
#' Methods of `car::Anova()` for [ring_lm()] and [ring_glm()], with its tables.
#'
#' @details
#' The sums of squares of a linear model, and the Wald tests, need no rows. Likelihood ratio tests
#' fit models without a term, so all ranks call `car::Anova()` then, in the function that has fitted
#' the model. As always, type III tests of factors make sense with contrasts such as `contr.sum()`.
#'
#' @param mod A model, from [ring_lm()] without `ridge`, or from [ring_glm()].
#' @param type The type: `"II"` or `"III"`, or 2 or 3.
#' @param test.statistic A string: `"LR"`, the likelihood ratio, or `"Wald"`.
#' @param ... No further arguments of `car::Anova()`, such as `white.adjust`: they are errors.
#' @returns A data frame of class `anova`, with a row for each term.
#' @seealso [ring_lm()] and [ring_glm()], whose `anova()` and `drop1()` make other tests.
#' @name ring_anova
#' @examples
#' if (requireNamespace("car", quietly = TRUE)) {
#'   comm <- ring_init()
#'   fit <- ring_lm(comm, breaks ~ wool * tension, data = warpbreaks)
#'   print(car::Anova(fit))
#'   ring_close(comm)
#' }
NULL

# nolint start: object_name_linter. The generic is Anova(), and the arguments are its.
#' @rdname ring_anova
#' @exportS3Method car::Anova
Anova.ring_lm <- function(mod, type = c("II", "III", 2, 3), ...) {
  check_no_dots(..., where = "for a distributed model")
  lm_no_ridge(mod, "Anova()")
  type <- anova_type(type)
  change <- anova_changes(mod, type, function(columns) lm_refit(mod$triangle, columns, mod$tol))
  freedom <- c(change[1L, ], mod$df.residual)
  squares <- c(change[2L, ], mod$deviance)
  value <- squares / freedom / (mod$deviance / mod$df.residual)
  value[length(value)] <- NA
  table <- data.frame(squares, freedom, value, model_tail(stats::pf, value, freedom,
                                                          mod$df.residual))
  dimnames(table) <- list(c(colnames(change), "Residuals"), c("Sum Sq", "Df", "F value", "Pr(>F)"))
  anova_table(table, mod, paste0("Anova Table (Type ", type, " tests)\n"))
}

#' @rdname ring_anova
#' @exportS3Method car::Anova
Anova.ring_glm <- function(mod, type = c("II", "III", 2, 3), test.statistic = c("LR", "Wald"),
                           ...) {
  check_no_dots(..., where = "for a distributed model")
  type <- anova_type(type)
  test <- check_choice(test.statistic)
  change <- if (test == "LR") {
    rows <- glm_session(mod, "Anova()", chunked = TRUE)
    found <- anova_changes(mod, type, intercept = FALSE, fit = function(columns) {
      if (all(columns)) c(mod$rank, mod$deviance) else glm_term(mod, rows, columns)
    })
    found / c(1, mod$dispersion)
  } else {
    anova_changes(mod, type, function(columns) anova_wald(mod, columns))
  }
  tail <- model_tail(stats::pchisq, change[2L, ], change[1L, ])
  names <- c("Df", if (test == "LR") "LR Chisq" else "Chisq", "Pr(>Chisq)")
  table <- stats::setNames(data.frame(change[1L, ], change[2L, ], tail), names)
  if (test == "LR") table <- table[c(2L, 1L, 3L)]
  anova_table(table, mod, paste0("Analysis of Deviance Table (Type ", type, " tests)\n"))
}
# nolint end

anova_type <- function(type) {
  type <- as.character(type)[[1L]]
  type <- c(II = "II", "2" = "II", III = "III", "3" = "III")[type]
  if (is.na(type)) stop("`type` must be \"II\", \"III\", 2 or 3", call. = FALSE)
  unname(type)
}

# Changes of rank and deviance by each term, with `intercept` also by the intercept (type III).
# `fit(columns)` returns both for some columns.
anova_changes <- function(object, type, fit, intercept = TRUE) {
  factors <- attr(object$terms, "factors")
  labels <- attr(object$terms, "term.labels")
  assign <- object$assign
  terms <- if (type == "III" && intercept) sort(unique(assign)) else seq_along(labels)
  contains <- function(large, small) all(factors[, large] | !factors[, small])
  found <- vapply(terms, FUN.VALUE = c(0, 0), function(term) {
    above <- if (type == "II") {
      Filter(function(other) contains(other, term), setdiff(seq_along(labels), term))
    }
    larger <- fit(!assign %in% above)
    smaller <- fit(!assign %in% c(above, term))
    c(larger[[1L]] - smaller[[1L]], smaller[[2L]] - larger[[2L]])
  })
  dimnames(found) <- list(NULL, c("(Intercept)", labels)[terms + 1L])
  found
}

# In place of a fit: Wald's statistic that all other columns are 0.
anova_wald <- function(object, columns) {
  tested <- !columns & !is.na(object$coefficients)
  beta <- object$coefficients[tested]
  covariance <- object$dispersion * object$covariance
  value <- if (any(tested)) {
    sum(beta * solve(covariance[names(beta), names(beta), drop = FALSE], beta))
  } else {
    0
  }
  c(object$rank - sum(tested), value)
}

anova_table <- function(table, object, title) {
  response <- paste("Response:", deparse(object$formula[[2L]]))
  structure(table, heading = c(title, response), class = c("anova", "data.frame"))
}
