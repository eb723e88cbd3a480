# SPDX-License-Identifier: Apache-2.0
#
# Iteratively reweighted least squares with the steps of stats::glm.fit(), on rows that are spread
# over the ranks. The weighted rows are decomposed by tsqr(), which squares nothing, so the result
# has as many digits as that of glm(). Rank 0 broadcasts the solution.

#' Distributed GLM: fit a generalized linear model to data on many ranks
#'
#' `ring_glm()` fits the model of [stats::glm()] to the rows of all ranks. All ranks call it, each
#' with its own rows; or the driver calls it with a Spark table. Every rank gets the same
#' coefficients, standard errors and deviance, as `glm()` would return for all rows. The ranks send
#' no data. In each iteration they send a matrix with as many rows and columns as there are
#' coefficients.
#'
#' @param comm A communicator, from [ring_init()]. Or a Spark table: then the model is fitted to the
#'   rows of the table, on the ranks of [ring_apply()].
#' @param formula,family,data,weights,subset,na.action,start,offset,contrasts As for [stats::glm()].
#'   `data`, `weights`, `subset` and `offset` are those of the rows of this rank, which may be none.
#'   All other arguments must be the same on all ranks. `data` may be a function that returns the
#'   rows in chunks, on all ranks: see [ring_chunks()] and *Chunks*.
#' @param control As for [stats::glm()]: a list of arguments of [stats::glm.control()], the same on
#'   all ranks.
#' @param ... Arguments of [ring_apply()], such as `num_proc`, if `comm` is a Spark table.
#' @returns An object of class `ring_glm`, the same on all ranks. It holds no rows, so it is small.
#'   It has methods for `print()`, `summary()`, `coef()`, `vcov()`, `confint()`, `predict()`,
#'   `logLik()`, `AIC()`, `nobs()`, `family()`, `deviance()`, `formula()`, and `anova()` of several
#'   models; and for `tidy()`, `glance()` and `augment()` of package broom. The environment of the
#'   formula has only the constants and functions that the terms need, such as `k` in `I(x^k)`.
#'
#'   Other methods need the rows. They work on the ranks, in the function that has fitted the model,
#'   and all ranks call them: `anova()` of one model, `drop1()`, `add1()`, `step()`, `update()`,
#'   `profile()` and [confint()][confint.ring_glm] by profiles, and [sandwich::vcovHC()]. So do
#'   `fitted()`, `residuals()` and `weights()`, with the values for the rows of the rank.
#' @section Levels:
#' The levels of a factor or of strings are the levels of all ranks. If ranks make levels from their
#' rows, as by `factor(x)` in the formula, the levels get the order that `factor()` gives the levels
#' of all rows: numeric if all levels are numbers, else alphabetical. An order that you have chosen
#' is kept, also if each rank has only some of the levels. Two cases are errors: orders that
#' contradict each other, and an ordered factor whose order follows from no rank. The remedy is
#' `factor()` with the same `levels` on all ranks.
#' @section Terms:
#' Each rank computes a term from its own rows. Some functions need constants of all rows. As terms
#' of their own, these are the same as for a fit to all rows, and predictions use the same
#' constants: `scale(x)`, `poly(x, 2)`, `ns(x, 3)` and `bs(x, 5)` of package splines, and
#' `cut(x, 4)`. Their other arguments must be the same on all ranks, and are not computed from
#' columns, as in `knots = median(x)`.
#'
#' Any other term that depends on all rows, such as `x - mean(x)` or `rank(x)`, would differ between
#' ranks, so it is an error. That holds for weights, offsets and subsets, too. `ring_glm()` detects
#' such a term by computing it for parts of a sample of the rows. The remedy is to compute the
#' values that the term needs on all ranks first, such as a mean by [ring_allreduce()]. A constant
#' in a term must be the same on all ranks.
#'
#' Variables have the same class, units and time zone on all ranks that have values of them: a
#' `difftime` in seconds on one rank and in minutes on another is an error. That includes a
#' difference of times in a term, whose units R chooses from the rows, and factors with other
#' levels, if a term uses their codes. Columns of class `integer64` count as doubles, or are an
#' error where doubles do not hold their values.
#' @section Chunks:
#' With a function as `data`, a rank holds one chunk of its rows at a time, and all of them if they
#' take less than 256 MiB. `ring_glm()` reads larger chunks once to find levels, once in each
#' iteration, and three times more; the null model of an offset has iterations of its own.
#' `ring_lm()` reads them three times. Each term such as `poly(x, 2)` takes one more pass. Variables
#' of the formula, `weights`, `subset` and `offset` are columns of the chunks, or constants. While
#' constants of `poly(x, 2)` are computed, a rank holds the numbers `x` of all its rows. The model
#' has no quantiles of residuals. Methods that return a value for each row, such as `residuals()`,
#' need all rows, and are errors; so are profiles. The ranks of a Spark table read their rows in
#' batches, which are chunks; with `rows = "all"` they hold all rows.
#' @section Spark tables:
#' With a Spark table in place of `comm`, the driver fits the model by [ring_apply()], and gets one
#' model. `weights`, `subset` and `offset` may name columns. `update()`, `drop1()`, `add1()` and
#' `step()` fit on Spark again. Other methods that need the rows of a rank, such as `residuals()`,
#' work in a function of [ring_apply()] only.
#'
#' `predict(fit, tbl)` and `augment(fit, newdata = tbl)` return a Spark table. It has the columns of
#' `tbl`, of the same types, in the order of the rows, and `.fitted`; `.se.fit`, `.lower` and
#' `.upper` if `se.fit` and `interval` ask for them; and `.resid` by `augment()` of [ring_lm()]. A
#' column that cannot be carried along, such as a vector of MLlib, is an error that names it.
#'
#' The table is lazy: Spark computes the predictions when the table is used, and each time that it
#' is used, unless `sparklyr::tbl_cache()` or `dplyr::compute()` keeps them. Spark runs only the
#' shuffles that `tbl` itself needs before `predict()` returns. A column that the model needs and
#' the table lacks is an error of `predict()`. A level that the model does not know is an error when
#' Spark reads the row; Spark's error names it. R runs once for each partition that has rows, and
#' reads them in batches of `spark.sql.execution.arrow.maxRecordsPerBatch` rows.
#' @section Errors:
#' An error on one rank, such as a missing column, is an error on all ranks, with the number of the
#' rank. The communicator stays usable. Other errors as for [ring_allreduce()]. A model takes up to
#' 2^31 - 1 rows on all ranks: with more, counts and degrees of freedom are `NA`.
#' @references J. Demmel, L. Grigori, M. Hoemmen and J. Langou (2012). Communication-optimal
#'   parallel and sequential QR and LU factorizations. *SIAM Journal on Scientific Computing* 34(1).
#' @seealso [predict.ring_glm()]; [ring_optim()], for other models; [ring_mlp()];
#'   `vignette("models")`.
#' @examples
#' comm <- ring_init()
#' # Each rank has its own rows:
#' rows <- seq_len(nrow(mtcars)) %% ring_size(comm) == ring_rank(comm)
#' fit <- ring_glm(comm, am ~ wt, family = binomial(), data = mtcars[rows, ])
#' summary(fit)
#' predict(fit, data.frame(wt = 3), type = "response")
#' ring_close(comm)
#' \dontrun{
#' # Needs Spark.
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' births <- sparklyr::sdf_copy_to(sc, infert, overwrite = TRUE)
#' fit <- ring_glm(births, case ~ age + parity + education, binomial, num_proc = 4)
#' predict(fit, births, type = "response")
#' }
#' @export
ring_glm <- function(comm, formula, family = stats::gaussian(), data, weights, subset,
                     na.action, # nolint: object_name_linter. As in glm().
                     start = NULL, offset, control = list(), contrasts = NULL, ...) {
  check_given(comm)
  if (is_table(comm)) return(table_fit("ring_glm", match.call(), parent.frame()))
  call <- match.call()
  env <- parent.frame()
  family <- agree(comm, {
    check_no_dots(...)
    glm_family(family, env)
  })
  control <- agree(comm, glm_control(control))
  rows <- rows_of_call(comm, call, env, if (!missing(data)) data, contrasts, chunked = TRUE)
  glm_check_settings(comm, rows, family, control, start)
  fit <- glm_fit(comm, glm_rows(comm, rows, family), start, family, control)
  fit <- c(fit, list(family = glm_small_family(family), control = control))
  model_make("ring_glm", rows, call, env, fit)
}

glm_family <- function(family, env) {
  if (is_string(family)) {
    family <- or_default(get0(family, mode = "function", envir = env), family)
  }
  if (is.function(family)) family <- or_default(attempt(family())$value, family)
  if (inherits(family, "family")) return(family)
  stop("`family` must be a family such as binomial(), not ", describe(family), call. = FALSE)
}

glm_control <- function(control) {
  known <- names(formals(stats::glm.control))
  odd <- setdiff(or_default(names(control), as.character(seq_along(control))), known)
  if (is.list(control) && length(odd) == 0L) return(do.call(stats::glm.control, control))
  stop("`control` must be a list with elements ", toString(known), ", not ",
       if (is.list(control)) odd[[1L]] else describe(control), call. = FALSE)
}

# Copies the functions of a family without the rows. A family such as binomial(link = logit) refers
# to the environment where it was made, which may have the rows.
glm_small_family <- function(family) {
  functions <- vapply(family, is.function, NA)
  family[functions] <- lapply(family[functions], scope_function)
  family
}

glm_check_settings <- function(comm, rows, family, control, start) {
  model_check_settings(comm, list(
    response = rows$response, family = c(family$family, family$link, family$varfun),
    control = unlist(control), start = start, contrasts = rows$contrasts,
    offset = if (rows$has_offset) "one" else "none"
  ))
}

# The rows of this rank in the form that the family needs.
glm_rows <- function(comm, rows, family) {
  make <- warn_once(function(part) glm_part(part, family))
  list(
    parts = parts_keep(agree(comm, parts_map(rows$parts, make))),
    columns = rows$columns, has_offset = rows$has_offset,
    intercept = attr(rows$terms, "intercept") > 0L
  )
}

# The rows of a part: y as numbers, weights, starting means and offsets.
glm_part <- function(part, family) {
  count <- nrow(part$x)
  absent <- function(x, default) if (is.null(x)) rep(default, count) else as.double(x)
  prior <- absent(part$weights, 1)
  if (any(prior < 0)) stop("negative weights not allowed", call. = FALSE)
  glm_check_response(part$y, family$family)
  ready <- glm_initialise(part$y, prior, family)
  if (length(ready$y) != count) {
    stop("the response of a ", family$family, " model must be one vector, not ", describe(part$y),
         call. = FALSE)
  }
  list(x = part$x, y = ready$y, n = ready$n, weights = ready$weights, means = ready$mustart,
       offset = absent(part$offset, 0), count = count)
}

# The codes of a factor, and the numbers of times, are not a response of glm().
glm_check_response <- function(y, family) {
  if (is.factor(y) && !family %in% c("binomial", "quasibinomial")) {
    stop("the response of a ", family, " model must be numbers: classes are for \"binomial\"",
         call. = FALSE)
  }
  if (inherits(y, c("difftime", "Date", "POSIXt"))) {
    stop("the response of a ", family, " model must be numbers, not ", describe(y), ": convert it ",
         "with as.numeric()", call. = FALSE)
  }
}

# Evaluates the family's own expression, which reads and sets these variables.
glm_initialise <- function(y, weights, family) {
  none <- double()
  if (length(weights) == 0L) return(list(y = none, n = none, weights = none, mustart = none))
  scope <- list2env(list(
    y = y, weights = weights, nobs = NROW(y), n = NULL,
    start = NULL, etastart = NULL, mustart = NULL
  ))
  eval(family$initialize, scope)
  list(y = as.double(scope$y), n = scope$n, weights = as.double(scope$weights),
       mustart = as.double(scope$mustart))
}

# ---- Fitting ------------------------------------------------------------------------------------

glm_fit <- function(comm, rows, start, family, control) {
  family <- native_family(family)
  fit <- if (length(rows$columns) > 0L) glm_iterate(comm, rows, start, family, control)
         else glm_empty(comm, rows, family)
  sums <- glm_sums(comm, rows, fit, family)
  rest <- glm_rest(comm, rows, fit, sums, family, control)
  glm_warn(fit)
  if (sums$extreme > 0) {
    what <- if (family$family == "poisson") "rates numerically 0" else
      "probabilities numerically 0 or 1"
    warning("ring_glm: fitted ", what, " occurred", call. = FALSE)
  }
  residual <- sums$ok - fit$rank
  list(
    coefficients = fit$coefficients, rank = fit$rank, covariance = fit$covariance,
    previous = fit$previous, pivot = fit$pivot, effects = fit$effects, root = fit$root,
    means = sums$means, quantiles = glm_quantiles(comm, rows, fit, family),
    dispersion = if (glm_known(family)) 1 else if (residual > 0) sums$pearson / residual else NaN,
    deviance = fit$deviance, null.deviance = rest[[1L]], aic = rest[[2L]] + 2 * fit$rank,
    df.residual = as.integer(residual), df.null = as.integer(sums$ok - rows$intercept),
    iter = fit$iterations, converged = fit$converged, boundary = fit$boundary,
    nobs = as.integer(sums$ok)
  )
}

glm_warn <- function(fit) {
  if (!fit$converged) warning("ring_glm did not converge: see `control`", call. = FALSE)
  if (fit$boundary) warning("ring_glm stopped at the boundary of valid values", call. = FALSE)
}

# The fit of a model without columns.
glm_empty <- function(comm, rows, family) {
  list(
    coefficients = double(), previous = double(),
    deviance = glm_look(comm, rows, double(), family)$deviance, iterations = 0L, converged = TRUE,
    boundary = FALSE, rank = 0L, covariance = matrix(0, 0L, 0L), pivot = integer(),
    effects = double(), root = matrix(0, 0L, 0L)
  )
}

# Fits the columns of the rows by iteration.
glm_iterate <- function(comm, rows, start, family, control) {
  family <- native_family(family)
  if (!is.null(start) && length(start) != length(rows$columns)) {
    ring_stop("INVALID", call = NULL, paste0("`start` must have ", length(rows$columns),
                                             " values, one for each coefficient"))
  }
  look <- glm_look(comm, rows, start, family)
  coefficients <- if (!is.null(start)) as.double(start)
  converged <- boundary <- FALSE
  for (iteration in seq_len(control$maxit)) {
    solved <- glm_solve(comm, rows, look, min(1e-7, control$epsilon / 1000))
    before <- coefficients
    previous <- look$deviance
    coefficients <- solved$coefficients
    look <- glm_look(comm, rows, coefficients, family)
    if (!is.finite(look$deviance)) {
      halved <- glm_halve(comm, rows, coefficients, before, family, control)
      coefficients <- halved$coefficients
      look <- halved$look
      boundary <- TRUE
    }
    converged <- abs(look$deviance - previous) / (abs(look$deviance) + 0.1) < control$epsilon
    if (control$trace && ring_rank(comm) == 0) {
      message("ring_glm: deviance ", format(look$deviance), " in iteration ", iteration)
    }
    if (converged) break
  }
  names(coefficients) <- rows$columns
  coefficients[solved$aliased] <- NA
  c(list(coefficients = coefficients, previous = before, deviance = look$deviance,
         iterations = iteration, converged = converged, boundary = boundary),
    solved[c("rank", "covariance", "pivot", "effects", "root")])
}

# The linear predictors and means of a part at these coefficients, where aliased ones are NA or 0;
# at the start of the family without coefficients.
glm_state <- function(part, coefficients, family) {
  if (part$count == 0L) return(list(eta = double(), mu = double(), valid = TRUE))
  if (is.null(coefficients)) {
    eta <- if (is.null(part$etastart)) family$linkfun(part$means) else part$etastart
    return(list(eta = eta, mu = family$linkinv(eta), valid = TRUE))
  }
  coefficients[is.na(coefficients)] <- 0
  eta <- .Call(C_glm_predict, part$x, as.double(coefficients), part$offset)
  mu <- family$linkinv(eta)
  holds <- function(check, x) is.null(check) || isTRUE(check(x))
  list(eta = eta, mu = mu, valid = holds(family$valideta, eta) && holds(family$validmu, mu))
}

# Visits all rows: the deviance of all ranks, and a function that returns the state of tsqr() for
# this rank's rows of the next step. The deviance is not finite if the coefficients lead to invalid
# values on any rank. Rows in chunks are decomposed at once, so a step visits them once.
glm_look <- function(comm, rows, coefficients, family) {
  held <- !is.null(rows$parts$held)
  step <- list()
  sum <- exact_sum()
  visit <- function(part) {
    state <- glm_state(part, coefficients, family)
    add <- function(above) {
      do.call(tsqr_rows, c(glm_working(part, state, family),
                           list(above = above, centered = tsqr_has_ones(rows$columns))))
    }
    if (held) step <<- add
    else if (state$valid && is.null(step$error)) step <<- attempt(add(step$value))
    sum(glm_deviance(part, state, family))
  }
  deviance <- agree_total(comm, empty = 0, attempt({
    rows$parts$each(visit)
    sum()
  }))
  list(deviance = deviance, state = function() {
    if (held) return(step(NULL))
    if (is.null(step$error)) step$value else stop(step$error)
  })
}

# The deviances of a part.
glm_deviance <- function(part, state, family) {
  if (!state$valid) Inf
  else if (part$count > 0L) family$dev.resids(part$y, state$mu, part$weights)
}

# Halves the step from the coefficients `before`, until the deviance is finite.
glm_halve <- function(comm, rows, coefficients, before, family, control) {
  if (is.null(before)) {
    ring_stop("INVALID", "no valid set of coefficients has been found: give `start`", call = NULL)
  }
  for (i in seq_len(control$maxit)) {
    coefficients <- (coefficients + before) / 2
    look <- glm_look(comm, rows, coefficients, family)
    if (is.finite(look$deviance)) return(list(coefficients = coefficients, look = look))
  }
  ring_stop("INVALID", "no step is small enough to be valid: give another `start`", call = NULL)
}

# ---- One step -----------------------------------------------------------------------------------

# Weighted least squares on all ranks. Aliased coefficients are 0.
glm_solve <- function(comm, rows, look, tolerance) {
  triangle <- tsqr(comm, look$state(), c(rows$columns, "(response)"))
  solved <- lead(comm, c("rank", "coefficients", "pivot", "unscaled", "effects", "root"),
                 tsqr_solve(triangle, tolerance))
  kept <- solved$pivot[seq_len(solved$rank)]
  covariance <- solved$unscaled
  dimnames(covariance) <- list(rows$columns[kept], rows$columns[kept])
  order <- order(kept)
  aliased <- is.na(solved$coefficients)
  coefficients <- ifelse(aliased, 0, solved$coefficients)
  list(rank = as.integer(solved$rank), coefficients = coefficients, aliased = aliased,
       covariance = covariance[order, order, drop = FALSE], pivot = as.integer(solved$pivot),
       effects = solved$effects, root = solved$root)
}

# The columns, the working response, and the factors of the rows of a part.
glm_working <- function(part, state, family) {
  if (part$count == 0L) return(list(part$x, double(), double()))
  weights <- glm_weights(part, state, family)
  response <- state$eta - part$offset + (part$y - state$mu) / family$mu.eta(state$eta)
  list(part$x, response, sqrt(weights))
}

# The working weights; 0 for a row that does not count.
glm_weights <- function(part, state, family) {
  counts <- part$weights > 0
  variance <- family$variance(state$mu)
  slope <- family$mu.eta(state$eta)
  if (anyNA(variance[counts])) stop("the variance of a mean is NA", call. = FALSE)
  if (any(variance[counts] == 0)) stop("the variance of a mean is 0", call. = FALSE)
  if (anyNA(slope[counts])) stop("the slope of the link is NA", call. = FALSE)
  weights <- part$weights * slope^2 / variance
  weights[!(counts & slope != 0)] <- 0
  weights
}
