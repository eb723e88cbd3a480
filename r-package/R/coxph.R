# SPDX-License-Identifier: Apache-2.0
#
# Proportional hazards on rows that are spread over the ranks. The ranks sort the rows by stratum
# and time once, so that each rank has an interval of the times: see coxph-records.R. Sums over the
# rows at risk are then cumulative sums on each rank (src/coxph.h), plus the sums of the ranks with
# later times.

#' Distributed Cox regression: fit a proportional hazards model to data on many ranks
#'
#' `ring_coxph()` fits the model of `survival::coxph()` to the rows of all ranks. All ranks call it,
#' each with its own rows. Every rank gets the result that `coxph()` would return for all rows. It
#' needs package survival, which defines [survival::Surv()].
#'
#' @details
#' The ranks exchange their rows once, so that each rank has an interval of the times. In each
#' iteration they send a matrix with as many rows and columns as there are coefficients.
#'
#' Times count as equal only if they are identical: `coxph()` makes nearly identical times equal,
#' by its `timefix`. Round the times first, if they result from arithmetic. Concordance is not
#' computed.
#'
#' @inheritParams ring_glm
#' @param formula As for `survival::coxph()`: the left side is a `Surv()` object of right-censored
#'   or `(start, stop]` times. The right side may have `strata()`, `cluster()` and `offset()`, but
#'   no `ridge()`, `pspline()`, `frailty()` or `tt()`.
#' @param data,weights,subset,na.action As for `survival::coxph()`. `data`, `weights` and `subset`
#'   are those of the rows of this rank, which may be none.
#' @param ties The treatment of equal times, a string: `"efron"` or `"breslow"`.
#' @param robust Whether to compute the robust variance, `TRUE` or `FALSE`. By default it is with
#'   `cluster()`, and with weights that are not whole numbers.
#' @param init The initial coefficients, numbers. `NULL`: zeros.
#' @param control A list of the largest number of iterations, `iter.max`, and of the relative change
#'   of the likelihood that ends them, `eps`.
#' @param baseline Whether to keep the baseline hazard, for `survfit()`: `TRUE` or `FALSE`. It has a
#'   row for each different time.
#' @param ... Arguments of [ring_apply()], such as `num_proc`, if `comm` is a Spark table.
#' @returns An object of the classes `ring_coxph` and `coxph`, the same on all ranks. It holds no
#'   rows. It has the methods of `coxph()` that need no rows: `print()`, `summary()`, `coef()`,
#'   `vcov()`, `confint()`, `logLik()`, `AIC()`, `anova()` of several models; `predict()` of new
#'   rows, of type `"lp"` or `"risk"`; `survfit()`, also with `newdata`; `update()`; and `tidy()`,
#'   `glance()` and `augment()` of package broom. Predictions are relative to the means of all rows,
#'   as with `reference = "sample"`. With `strata()`, `survfit(fit, newdata)` returns the curve of
#'   its stratum for each row of `newdata`, or the curves of all strata if `newdata` lacks the
#'   variables of the strata.
#' @inheritSection ring_glm Levels
#' @inheritSection ring_glm Terms
#' @inheritSection ring_glm Spark tables
#' @inheritSection ring_glm Errors
#' @references B. Efron (1977). The efficiency of Cox's likelihood function for censored data.
#'   *Journal of the American Statistical Association* 72(359).
#'
#'   N. Breslow (1974). Covariance analysis of censored survival data. *Biometrics* 30(1).
#' @seealso [ring_glm()], [ring_lm()]
#' @examples
#' if (requireNamespace("survival", quietly = TRUE)) {
#'   comm <- ring_init()
#'   lung <- survival::lung
#'   # Each rank has its own rows:
#'   rows <- seq_len(nrow(lung)) %% ring_size(comm) == ring_rank(comm)
#'   fit <- ring_coxph(comm, Surv(time, status) ~ age + strata(sex), data = lung[rows, ])
#'   print(summary(fit))
#'   ring_close(comm)
#' }
#' @export
ring_coxph <- function(comm, formula, data, weights, subset,
                       na.action, # nolint: object_name_linter. As in coxph().
                       ties = c("efron", "breslow"), robust = NULL, init = NULL, control = list(),
                       baseline = TRUE, ...) {
  if (is_table(comm)) return(table_fit("ring_coxph", match.call(), parent.frame()))
  check_no_dots(...)
  call <- match.call()
  env <- parent.frame()
  ties <- agree(comm, match.arg(ties))
  baseline <- agree(comm, check_flag(baseline, "baseline"))
  control <- agree(comm, coxph_control(control))
  data <- agree(comm, if (!missing(data)) data)
  if (chunks_agree(comm, data)) chunks_refuse()
  with_specials <- call
  agree(comm, coxph_need_survival())
  with_specials$formula <- coxph_formula(comm, formula, data)
  rows <- rows_of_call(comm, with_specials, env, data)
  own <- agree(comm, coxph_own(rows, robust))
  robust <- ring_allreduce(comm, as.double(own$robust)) > 0
  model_check_settings(comm, list(response = rows$response, ties = ties, init = init,
                                  control = control, robust = robust, baseline = baseline))
  records <- records_make(comm, own)
  fit <- coxph_fit(comm, records, colnames(own$x), init, ties == "efron", control)
  if (robust) fit <- coxph_robust(comm, records, fit)
  if (baseline) fit$baseline <- coxph_baseline(comm, records, fit, own$levels)
  fit <- c(coxph_tests(fit), list(method = ties, strata = own$levels))
  fit <- model_make(c("ring_coxph", "coxph"), rows, call, env, fit)
  fit$na.action <- if (fit$omitted > 0) structure(seq_len(fit$omitted), class = "omit")
  fit$offset <- NULL
  fit
}

coxph_control <- function(control) {
  all <- utils::modifyList(list(iter.max = 20, eps = 1e-9), as.list(control))
  odd <- setdiff(names(all), c("iter.max", "eps"))
  if (length(odd) == 0L) return(all)
  stop("`control` has no ", odd[[1L]], ": it is a list of `iter.max` and `eps`", call. = FALSE)
}

coxph_need_survival <- function() {
  if (requireNamespace("survival", quietly = TRUE)) return()
  stop("package survival is not installed: install.packages(\"survival\")", call. = FALSE)
}

# The terms of the formula, with the functions of survival that it needs.
coxph_formula <- function(comm, formula, data) {
  response <- if (inherits(formula, "formula") && length(formula) == 3L) formula[[2L]]
  is_surv <- is.call(response) && deparse(response[[1L]])[[1L]] %in% c("Surv", "survival::Surv")
  highest <- agree(comm, if (is_surv) coxph_highest(response, data, environment(formula)) else 0)
  highest <- ring_allreduce(comm, highest, "max")
  agree(comm, {
    if (!is_surv) stop("the response must be a call of Surv()", call. = FALSE)
    functions <- mget(c("strata", "cluster"), asNamespace("survival"))
    functions$Surv <- coxph_surv(highest)
    environment(formula) <- list2env(functions, parent = environment(formula))
    formula[[2L]][[1L]] <- quote(Surv)
    formula[[3L]] <- coxph_bare(formula[[3L]])
    terms <- stats::terms(formula, specials = c("strata", "cluster"), data = data)
    coxph_check_terms(terms)
    attr(terms, "intercept") <- 1L # the coding of factors is that of a model with an intercept
    terms
  })
}

# The expression with the bare names of the functions of survival that are no covariates.
coxph_bare <- function(expr) {
  if (!is.call(expr)) return(expr)
  bare <- list(quote(survival::strata), quote(survival::cluster))
  if (any(vapply(bare, identical, NA, expr[[1L]]))) expr[[1L]] <- expr[[1L]][[3L]]
  for (i in seq_along(expr)[-1L]) {
    if (is.call(expr[[i]])) expr[[i]] <- coxph_bare(expr[[i]])
  }
  expr
}

# Terms that coxph() fits with a penalty, or at each time, would be plain covariates here.
coxph_check_terms <- function(terms) {
  heads <- vapply(as.list(attr(terms, "variables"))[-1L], FUN.VALUE = "", function(variable) {
    if (is.call(variable)) sub("^survival::", "", deparse(variable[[1L]])[[1L]]) else ""
  })
  odd <- grep("^(ridge|pspline|tt|frailty([.](gamma|gaussian|t))?)$", heads, value = TRUE)
  if (length(odd) > 0L) {
    stop(odd[[1L]], "() is not supported: ring_coxph() has no penalties and no time transforms",
         call. = FALSE)
  }
}

# The highest status on this rank. In a status of 1 and 2, Surv() takes the highest as the event,
# which a rank may lack.
coxph_highest <- function(response, data, env) {
  given <- match.call(survival::Surv, response)
  status <- if (is.null(given$event)) given$time2 else given$event
  status <- eval(status, data, env)
  max(0, if (is.numeric(status)) as.double(status), na.rm = TRUE)
}

# Surv() of survival, for a status whose highest value on all ranks is `highest`.
coxph_surv <- function(highest) {
  mark <- function(status) if (is.numeric(status) && highest == 2) status == 2 else status
  make <- function(time, ...) { # which warns of the maximum of no rows
    if (length(time) > 0L) return(survival::Surv(time, ...))
    suppressWarnings(survival::Surv(time, ...))
  }
  function(time, time2, event, ...) {
    if (missing(event) && missing(time2)) return(make(time, ...))
    if (missing(event)) return(make(time, mark(time2), ...))
    if (missing(time2)) return(make(time, mark(event), ...))
    make(time, time2, mark(event), ...)
  }
}

# The rows of this rank: times and covariates as numbers.
coxph_own <- function(rows, robust) {
  y <- rows$y
  kinds <- c("right", "counting")
  if (!inherits(y, "Surv") || !attr(y, "type") %in% kinds) {
    stop("the response must be a Surv object of right-censored or (start, stop] times, not ",
         describe(y), call. = FALSE)
  }
  counting <- attr(y, "type") == "counting"
  weights <- if (is.null(rows$weights)) rep(1, nrow(y)) else as.double(rows$weights)
  if (any(weights < 0)) stop("negative weights not allowed", call. = FALSE)
  y <- unclass(y)
  keep <- weights > 0
  strata <- rows$special[grepl("^strata[(]", names(rows$special))]
  strata <- if (length(strata) > 0L) interaction(strata, drop = FALSE, lex.order = TRUE)
  cluster <- rows$special[grepl("^cluster[(]", names(rows$special))]
  if (is.null(robust)) robust <- length(cluster) > 0L || any(weights != trunc(weights))
  list(
    x = rows$x[keep, colnames(rows$x) != "(Intercept)", drop = FALSE], weights = weights[keep],
    start = if (counting) as.double(y[keep, 1L]), stop = as.double(y[keep, 1L + counting]),
    event = y[keep, 2L + counting] == 1, levels = levels(strata),
    stratum = if (is.null(strata)) rep(1, sum(keep)) else as.double(strata)[keep],
    cluster = if (length(cluster) > 0L) as.double(cluster[[1L]])[keep], # levels of all ranks
    offset = if (is.null(rows$offset)) double(sum(keep)) else as.double(rows$offset)[keep],
    robust = check_flag(robust, "robust")
  )
}

# ---- Newton's iterations -------------------------------------------------------------------------

coxph_fit <- function(comm, records, names, init, efron, control) {
  width <- length(names)
  if (!is.null(init) && length(init) != width) {
    check_stop("`init` must have ", width, " values, one for each coefficient", call = NULL)
  }
  beta <- if (is.null(init)) double(width) else as.double(init)
  first <- coxph_pass(comm, records, beta, efron)
  if (!all(is.finite(unlist(first[c("loglik", "score", "information")])))) {
    check_stop("the likelihood or its derivatives are not finite at the start: make the scale of ",
               "covariates, offsets or weights less wide", call = NULL)
  }
  fit <- coxph_iterate(comm, records, beta, first, efron, control)
  kept <- seq_len(width) %in% fit$kept
  if (!fit$converged) warning("ring_coxph did not converge: see `control`", call. = FALSE)
  list(
    coefficients = stats::setNames(replace(fit$beta, !kept, NA), names), var = fit$variance,
    loglik = c(first$loglik, fit$loglik), score = coxph_score(first), iter = fit$iterations,
    n = records$rows, nevent = records$events, means = stats::setNames(records$means, names),
    mean_offset = records$mean_offset, converged = fit$converged, efron = efron,
    start = replace(beta, !kept, 0)
  )
}

# `now` is the pass at `beta`.
coxph_iterate <- function(comm, records, beta, now, efron, control) {
  solved <- coxph_step(comm, now, seq_along(beta))
  kept <- solved$kept
  converged <- length(beta) == 0L || control$iter.max == 0
  iteration <- 0L
  while (!converged && iteration < control$iter.max) {
    iteration <- iteration + 1L
    new <- beta + solved$step
    next_one <- coxph_pass(comm, records, new, efron)
    # A likelihood of 0, of strata of one row each, has no ratio.
    change <- if (identical(now$loglik, next_one$loglik)) 0 else
      abs(1 - now$loglik / next_one$loglik)
    if (!is.finite(next_one$loglik) || next_one$loglik < now$loglik && change > control$eps) {
      solved$step <- solved$step / 2
      next
    }
    beta <- new
    now <- next_one
    solved <- coxph_step(comm, now, kept)
    converged <- change <= control$eps
  }
  list(beta = beta, variance = solved$variance, loglik = now$loglik, kept = kept,
       iterations = iteration, converged = converged)
}

# The score statistic.
coxph_score <- function(pass) {
  kept <- coxph_kept(pass$information)
  score <- pass$score[kept]
  if (length(kept) == 0L) return(0)
  sum(score * solve(pass$information[kept, kept, drop = FALSE], score))
}

# Columns that do not depend on columns before them, by the information.
coxph_kept <- function(information) {
  scale <- sqrt(pmax(diag(information), .Machine$double.xmin))
  decomposed <- qr(information / outer(scale, scale), tol = 1e-9)
  sort(decomposed$pivot[seq_len(decomposed$rank)])
}

# Rank 0 computes the step and the variance, in which dependent columns are 0.
coxph_step <- function(comm, pass, kept) {
  width <- length(pass$score)
  solved <- lead(comm, c("kept", "step", "variance"), {
    kept <- intersect(kept, coxph_kept(pass$information))
    variance <- matrix(0, width, width)
    variance[kept, kept] <- if (length(kept) > 0L) {
      solve(pass$information[kept, kept, drop = FALSE])
    } else {
      0
    }
    list(kept = kept, step = drop(variance %*% pass$score), variance = variance)
  })
  solved$variance <- matrix(solved$variance, width)
  solved
}

# ---- Robust variance and tests -------------------------------------------------------------------

# The sum of the squared influences of the rows or clusters. A cluster may have rows on many ranks,
# so its sum goes to one rank.
coxph_robust <- function(comm, records, fit) {
  beta <- ifelse(is.na(fit$coefficients), 0, fit$coefficients)
  residuals <- t(coxph_residuals(comm, records, beta, fit$efron)) * records$weights
  codes <- unique(records$cluster)
  sums <- rowsum(residuals, match(records$cluster, codes))
  owner <- abs(trunc(codes)) %% ring_size(comm)
  order <- order(owner)
  packed <- t(cbind(codes, sums)[order, , drop = FALSE])
  received <- ring_alltoallv(comm, unname(packed), tabulate(owner + 1, ring_size(comm)))
  whole <- rowsum(t(received[-1L, , drop = FALSE]), received[1L, ])
  influence <- whole %*% fit$var
  meat <- ring_allreduce(comm, unname(crossprod(influence)))
  fit$naive.var <- fit$var
  fit$var <- meat
  fit
}

# Wald's test; robust, if the variance is.
coxph_tests <- function(fit) {
  kept <- which(!is.na(fit$coefficients))
  fit$wald.test <- 0
  if (length(kept) > 0L) {
    change <- (fit$coefficients - fit$start)[kept]
    fit$wald.test <- sum(change * solve(fit$var[kept, kept, drop = FALSE], change))
  }
  fit[setdiff(names(fit), c("start", "efron"))]
}
