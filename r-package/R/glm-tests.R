# SPDX-License-Identifier: Apache-2.0
#
# Tests and intervals of a generalized linear model. Most fit other models, so they need the rows:
# all ranks call them, where the model was fitted.

# The rows of the model on this rank, in the form of glm_rows(), and the communicator.
glm_session <- function(object, what, chunked = FALSE) {
  rows <- session_rows(object, what, chunked)
  glm_ready(object, rows)
}

glm_ready <- function(object, rows) {
  c(glm_rows(rows$comm, rows, object$family), list(comm = rows$comm))
}

# Fits some columns of the rows.
glm_refit <- function(object, rows, columns) {
  rows$columns <- rows$columns[columns]
  rows$parts <- parts_map(rows$parts, function(part) {
    part$x <- part$x[, columns, drop = FALSE]
    part
  })
  if (length(rows$columns) == 0L) return(glm_empty(rows$comm, rows, object$family))
  glm_iterate(rows$comm, rows, NULL, object$family, object$control)
}

#' @export
anova.ring_glm <- function(object, ..., dispersion = NULL, test = NULL) {
  check_method_dots(..., models = "ring_glm")
  if (!is.null(test) && !isFALSE(test)) test <- glm_test(test, c("LRT", "Chisq", "F", "Cp"))
  others <- unname(list(...))
  if (length(others) > 0L) return(glm_compare(c(list(object), others), dispersion, test))
  if (is.null(dispersion)) dispersion <- object$dispersion
  rows <- glm_session(object, "anova()", chunked = TRUE)
  labels <- attr(object$terms, "term.labels")
  fits <- lapply(seq_along(labels) - 1L, function(term) {
    if (term == 0L) return(c(object$df.null, object$null.deviance))
    fit <- glm_term(object, rows, object$assign <= term)
    c(object$nobs - fit[["rank"]], fit[["deviance"]])
  })
  fits <- do.call(cbind, c(fits, list(c(object$df.residual, object$deviance))))
  title <- paste0("Analysis of Deviance Table\n\nModel: ", object$family$family, ", link: ",
                  object$family$link, "\n\nResponse: ", deparse(object$formula[[2L]]),
                  "\n\nTerms added sequentially (first to last)\n\n")
  change <- -diff(fits[1L, ])
  table <- data.frame(c(NA, change), c(NA, pmax(0, -diff(fits[2L, ]))), fits[1L, ], fits[2L, ])
  dimnames(table) <- list(c("NULL", labels), c("Df", "Deviance", "Resid. Df", "Resid. Dev"))
  glm_anova(table, test, dispersion, object$df.residual, object$nobs, title)
}

glm_compare <- function(fits, dispersion, test) {
  freedom <- vapply(fits, function(fit) as.double(fit$df.residual), 1)
  deviance <- vapply(fits, function(fit) fit$deviance, 1)
  model_check_size(vapply(fits, `[[`, 1L, "nobs"))
  table <- data.frame(freedom, deviance, c(NA, -diff(freedom)), c(NA, -diff(deviance)))
  dimnames(table) <- list(seq_along(fits), c("Resid. Df", "Resid. Dev", "Df", "Deviance"))
  models <- vapply(fits, function(fit) paste(deparse(fit$formula), collapse = "\n"), "")
  title <- c("Analysis of Deviance Table\n",
             paste0("Model ", format(seq_along(fits)), ": ", models, collapse = "\n"))
  big <- fits[[order(freedom)[[1L]]]]
  if (is.null(dispersion)) dispersion <- big$dispersion
  glm_anova(table, test, dispersion, big$df.residual, big$nobs, title)
}

glm_anova <- function(table, test, dispersion, freedom, count, title) {
  if (!is.null(test) && !isFALSE(test)) {
    if (is.na(dispersion)) {
      stop("a saturated model has no dispersion for a test: pass `dispersion`, or `test = FALSE`",
           call. = FALSE)
    }
    scale <- if (dispersion == 1) Inf else freedom
    table <- stats::stat.anova(table, test, dispersion, scale, count)
  }
  structure(table, heading = title, class = c("anova", "data.frame"))
}

#' @export
drop1.ring_glm <- function(object, scope, scale = 0, test = c("none", "Rao", "LRT", "Chisq", "F"),
                           k = 2, ...) {
  check_method_dots(..., known = "trace")
  test <- glm_test(test)
  scope <- model_drop_scope(object, if (!missing(scope)) scope)
  if (session_is_table(object, "drop1()")) {
    return(table_method(object, "drop1", scope = scope, scale = scale, test = test, k = k))
  }
  rows <- glm_session(object, "drop1()", chunked = TRUE)
  fits <- model_drops(object, scope, function(columns) glm_term(object, rows, columns))
  model_deviance_table(object, scope, object$count, fits, scale, test, k, -1)
}

#' @export
add1.ring_glm <- function(object, scope, scale = 0, test = c("none", "Rao", "LRT", "Chisq", "F"),
                          k = 2, ...) {
  check_method_dots(..., known = "trace")
  test <- glm_test(test)
  scope <- model_add_scope(object, scope)
  if (session_is_table(object, "add1()")) {
    return(table_method(object, "add1", scope = scope, scale = scale, test = test, k = k))
  }
  rows <- model_add_rows(object, scope)
  ready <- glm_ready(object, rows)
  fits <- model_adds(object, scope, rows, function(columns) glm_term(object, ready, columns))
  model_deviance_table(object, scope, rows$count, fits, scale, test, k, 1)
}

# The rank and the deviance of some columns of the rows.
glm_term <- function(object, rows, columns) {
  fit <- glm_refit(object, rows, columns)
  glm_warn(fit)
  c(rank = fit$rank, deviance = fit$deviance)
}

# The name of a test. "Rao" is among the choices of the methods of R.
glm_test <- function(test, choices = c("none", "LRT", "Chisq", "F"), call = sys.call(-1)) {
  if (identical(test, c("none", "Rao", "LRT", "Chisq", "F"))) return("none")
  at <- if (is_string(test)) pmatch(test, choices) else NA
  if (!is.na(at)) return(choices[[at]])
  check_stop("`test` must be ", toString(dQuote(choices, FALSE)), ", not ", describe(test),
             if (identical(test, "Rao")) paste0(
               ": the score test needs the residuals of each smaller model, and a distributed ",
               "model keeps deviances only. Pass test = \"LRT\", which tests the same hypothesis"
             ), call = call)
}

#' @export
extractAIC.ring_glm <- function(fit, scale = 0, k = 2, ...) {
  check_method_dots(...)
  freedom <- fit$nobs - fit$df.residual
  c(freedom, fit$aic + (k - 2) * freedom)
}

# ---- Rows ----------------------------------------------------------------------------------------

# The state of the rows of this rank at the coefficients.
glm_here <- function(object, what) {
  rows <- glm_session(object, what)
  part <- rows$parts$held
  # The start of the last step of least squares, as in glm().
  before <- glm_state(part, object$previous, object$family)
  c(part, list(state = glm_state(part, object$coefficients, object$family), before = before,
               comm = rows$comm))
}

#' @export
fitted.ring_glm <- function(object, ...) {
  check_method_dots(...)
  rows <- glm_here(object, "fitted()")
  stats::setNames(rows$state$mu, rownames(rows$x))
}

#' @export
residuals.ring_glm <- function(object, type = c("deviance", "pearson", "working", "response"),
                               ...) {
  check_method_dots(...)
  type <- check_choice(type)
  rows <- glm_here(object, "residuals()")
  if (rows$count == 0L) return(double())
  gap <- rows$y - rows$state$mu
  family <- object$family
  found <- switch(type,
    deviance = sign(gap) * sqrt(pmax(family$dev.resids(rows$y, rows$state$mu, rows$weights), 0)),
    pearson = gap * sqrt(rows$weights) / sqrt(family$variance(rows$state$mu)),
    working = gap / family$mu.eta(rows$state$eta),
    response = gap
  )
  stats::setNames(found, rownames(rows$x))
}

#' @importFrom stats weights profile
#' @export
weights.ring_glm <- function(object, type = c("prior", "working"), ...) {
  check_method_dots(...)
  rows <- glm_here(object, "weights()")
  found <- if (check_choice(type) == "prior") rows$weights else
    if (rows$count > 0L) glm_weights(rows, rows$before, object$family) else double()
  stats::setNames(found, rownames(rows$x))
}

# ---- Profiles ------------------------------------------------------------------------------------

# The profile of each coefficient in `which`, by the steps of MASS and of stats since R 4.4.
#' @export
profile.ring_glm <- function(fitted, which = seq_along(fitted$coefficients), alpha = 0.01,
                             maxsteps = 10, del = limit / 5, ...) {
  check_method_dots(...)
  rows <- glm_session(fitted, "profile()")
  names <- names(fitted$coefficients)
  if (is.character(which)) which <- match(which, names)
  limit <- sqrt(if (glm_known(fitted$family)) {
    stats::qchisq(1 - alpha, 1)
  } else {
    stats::qf(1 - alpha, 1, fitted$nobs - length(names))
  })
  which <- which[!is.na(fitted$coefficients[which])]
  found <- lapply(which, glm_profile, object = fitted, rows = rows, limit = limit, del = del,
                  maxsteps = maxsteps)
  stats::setNames(found, names[which])
}

# A data frame with the values of one coefficient and the signed roots of the deviance.
glm_profile <- function(i, object, rows, limit, del, maxsteps) {
  best <- ifelse(is.na(object$coefficients), 0, object$coefficients)
  rest <- setdiff(which(!is.na(object$coefficients)), i)
  error <- sqrt(diag(object$covariance)[[names(best)[[i]]]] * object$dispersion)
  value <- best[[i]]
  root <- 0
  part <- rows$parts$held
  fixed <- part
  for (sign in c(-1, 1)) {
    fixed$etastart <- drop(part$x %*% best) + part$offset
    last <- 0
    for (step in seq_len(maxsteps - 1L)) {
      at <- best[[i]] + sign * step * del * error
      fixed$offset <- part$offset + part$x[, i] * at
      rows$parts <- parts_held(fixed)
      fit <- glm_refit(object, rows, rest)
      beta <- fit$coefficients
      fixed$etastart <- drop(part$x[, rest, drop = FALSE] %*% beta) + fixed$offset
      gain <- (fit$deviance - object$deviance) / object$dispersion
      if (gain < -1e-3) {
        stop("profiling has found a better solution, so original fit had not converged",
             call. = FALSE)
      }
      last <- sign * sqrt(max(gain, 0))
      value <- c(value, at)
      root <- c(root, last)
      if (abs(last) >= limit) break
    }
  }
  data.frame(value = value, root = root)[order(value), ]
}

#' Confidence intervals of a distributed generalized linear model
#'
#' `confint()` returns the confidence intervals of the coefficients: by default those of the profile
#' likelihood, as for [stats::glm()].
#'
#' @param object A model, from [ring_glm()].
#' @param parm The coefficients, numbers or names.
#' @param level The level, a number.
#' @param method A string. `"profile"`: from the profile likelihood. It fits many models, so all
#'   ranks call it, in the function that has fitted the model. `"wald"`: from the standard errors,
#'   anywhere. By default it is `"profile"` where the rows are, and not in chunks; else `"wald"`,
#'   with a message.
#' @param ... No further arguments: they are errors.
#' @returns A matrix with a row for each coefficient, as from [stats::confint()].
#' @seealso [ring_glm()]
#' @examples
#' comm <- ring_init()
#' fit <- ring_glm(comm, am ~ wt, family = binomial(), data = mtcars)
#' confint(fit)
#' confint(fit, method = "wald")
#' ring_close(comm)
#' @export
confint.ring_glm <- function(object, parm, level = 0.95, method = c("profile", "wald"), ...) {
  check_method_dots(...)
  method <- if (missing(method)) glm_method(object) else check_choice(method)
  if (method == "wald") return(stats::confint.default(object, parm, level))
  names <- names(object$coefficients)
  if (missing(parm)) parm <- names
  if (is.numeric(parm)) parm <- names[parm]
  profiles <- profile.ring_glm(object, parm, alpha = (1 - level) / 4)
  tails <- c((1 - level) / 2, (1 + level) / 2)
  found <- vapply(parm, FUN.VALUE = c(0, 0), function(name) {
    if (is.null(profiles[[name]])) return(c(NA_real_, NA_real_))
    curve <- stats::spline(profiles[[name]]$value, profiles[[name]]$root)
    stats::approx(curve$y, curve$x, stats::qnorm(tails))$y
  })
  percent <- paste(format(100 * tails, trim = TRUE, scientific = FALSE, digits = 3L), "%")
  found <- t(found)
  dimnames(found) <- list(parm, percent)
  drop(found)
}

glm_method <- function(object) {
  session <- attempt(session_of(object, "confint()"))$value
  comm <- if (!is.null(session)) attempt(eval(session$call$comm, session$env))$value
  held <- length(object$quantiles) > 0L # and not in chunks
  if (held && inherits(comm, "ring_comm") && .Call(C_comm_state, comm) == "open") return("profile")
  message("Wald's intervals: those of the profile likelihood need the rows")
  "wald"
}

# ---- Plots ---------------------------------------------------------------------------------------

#' Plot residuals of a distributed model
#'
#' `plot()` draws the residuals of a sample of the rows of all ranks against the fitted values. All
#' ranks call it, in the function that has fitted the model. Rank 0 draws.
#'
#' @param x A model, from [ring_glm()] or [ring_lm()].
#' @param size The number of rows of the sample, a whole number.
#' @param ... Arguments of [graphics::plot()].
#' @returns A data frame with the sample, invisibly, the same on all ranks: the columns `.fitted`
#'   (for [ring_glm()] on the scale of the linear predictors) and `.resid` (deviance residuals).
#' @seealso [ring_glm()], [ring_lm()]
#' @examples
#' comm <- ring_init()
#' fit <- ring_lm(comm, dist ~ speed, data = cars)
#' plot(fit)
#' ring_close(comm)
#' @export
plot.ring_glm <- function(x, size = 1000L, ...) {
  rows <- glm_here(x, "plot()")
  size <- check_whole(size, "size", least = 1)
  plot_sample(rows$comm, rows$state$eta, residuals.ring_glm(x), size, ...)
}

#' @rdname plot.ring_glm
#' @export
plot.ring_lm <- function(x, size = 1000L, ...) {
  rows <- session_rows(x, "plot()")
  residuals <- residuals.ring_lm(x)
  plot_sample(rows$comm, rows$y - residuals, residuals, check_whole(size, "size", least = 1),
              ...)
}

# Rows at equal distances on each rank.
plot_sample <- function(comm, fitted, residuals, size, ...) {
  total <- ring_allreduce(comm, as.double(length(fitted)))
  count <- ceiling(length(fitted) * min(1, size / total))
  at <- unique(round(seq(1, length(fitted), length.out = count)))
  all <- ring_allgatherv(comm, rbind(unname(fitted)[at], unname(residuals)[at]))
  sample <- data.frame(.fitted = all[1L, ], .resid = all[2L, ])
  if (ring_rank(comm) == 0) {
    graphics::plot(sample$.fitted, sample$.resid, xlab = "Fitted", ylab = "Residuals", ...)
    graphics::abline(h = 0, lty = 3)
  }
  invisible(sample)
}
