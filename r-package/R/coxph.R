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
#' Times that differ by rounding alone count as equal, as in `coxph()`. Concordance is not
#' computed.
#'
#' A coefficient that still grows when the likelihood does not has a warning, as in `coxph()`: it
#' may be infinite.
#'
#' @inheritParams ring_glm
#' @param formula As for `survival::coxph()`: the left side is a `Surv()` object of right-censored
#'   or `(start, stop]` times. In the formula, a status of 1 and 2 is judged by all ranks; a column
#'   that `Surv()` has made on each rank is taken as it is. The right side may have `strata()`,
#'   `cluster()` and `offset()`, but no `ridge()`, `pspline()`, `frailty()` or `tt()`.
#' @param data,weights,subset,na.action As for `survival::coxph()`. `data`, `weights` and `subset`
#'   are those of the rows of this rank, which may be none.
#' @param ties The treatment of equal times, a string: `"efron"` or `"breslow"`.
#' @param robust Whether to compute the robust variance, `TRUE` or `FALSE`. By default it is with
#'   `cluster()`, and with weights that are not whole numbers.
#' @param init The initial coefficients, numbers. `NULL`: zeros.
#' @param control A list with elements of `survival::coxph.control()`: the largest number of
#'   iterations, `iter.max`; the relative change of the likelihood that ends them, `eps`; the
#'   tolerances for columns that depend on columns before them, `toler.chol`, and for infinite
#'   coefficients, `toler.inf`; and whether times that differ by rounding are equal, `timefix`.
#' @param baseline Whether to keep the baseline hazard, for `survfit()`: `TRUE` or `FALSE`. It has a
#'   row for each different time.
#' @param ... Arguments of [ring_apply()], such as `num_proc`, if `comm` is a Spark table.
#' @returns An object of the classes `ring_coxph` and `coxph`, the same on all ranks. It holds no
#'   rows. It has the methods of `coxph()` that need no rows: `print()`, `summary()`, `coef()`,
#'   `vcov()`, `confint()`, `logLik()`, `AIC()`, `anova()` of several models; `predict()` of new
#'   rows, of type `"lp"` or `"risk"`; `survfit()`, also with `newdata`; `update()`; and `tidy()`,
#'   `glance()` and `augment()` of package broom. Predictions are relative to the means of the
#'   strata, or as `reference` says, as in `coxph()`. With `strata()`, `survfit(fit, newdata)`
#'   returns the curve of its stratum for each row of `newdata`, or the curves of all strata if
#'   `newdata` lacks the variables of the strata.
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
  check_given(comm)
  coxph_check_dots(...)
  if (is_table(comm)) return(table_fit("ring_coxph", match.call(), parent.frame()))
  call <- match.call()
  env <- parent.frame()
  ties <- agree(comm, {
    check_no_dots(...)
    check_choice(ties)
  })
  baseline <- agree(comm, check_flag(baseline, "baseline"))
  agree(comm, coxph_need_survival())
  control <- agree(comm, coxph_control(control))
  data <- agree(comm, integer64_rows(if (!missing(data)) data))
  agree(comm, rows_check_call(call, env, data))
  if (chunks_agree(comm, data)) chunks_refuse()
  with_specials <- call
  with_specials$formula <- coxph_formula(comm, formula, data)
  rows <- rows_of_call(comm, with_specials, env, data)
  own <- agree(comm, coxph_own(rows, robust))
  robust <- ring_allreduce(comm, as.double(own$robust)) > 0
  model_check_settings(comm, list(response = rows$response, ties = ties, init = init,
                                  control = control, robust = robust, baseline = baseline))
  if (control$timefix) own <- times_fix(comm, own)
  records <- records_make(comm, own)
  fit <- coxph_fit(comm, records, colnames(own$x), init, ties == "efron", control)
  if (robust) fit <- coxph_robust(comm, records, fit)
  if (length(own$levels) > 0L) fit$stratum_means <- coxph_stratum_means(comm, own, records$means)
  if (baseline) fit$baseline <- coxph_baseline(comm, records, fit, own$levels)
  fit <- c(coxph_tests(fit), list(method = ties, strata = own$levels))
  null <- length(fit$coefficients) == 0L
  if (null) fit$loglik <- fit$loglik[[1L]]
  fit <- model_make(c("ring_coxph", if (null) "coxph.null", "coxph"), rows, call, env, fit)
  fit$na.action <- if (fit$omitted > 0) structure(seq_len(fit$omitted), class = "omit")
  fit$offset <- NULL
  fit
}

# coxph() has arguments for what is a term here.
coxph_check_dots <- function(...) {
  odd <- intersect(c("cluster", "id"), names(substitute(list(...))))
  if (length(odd) == 0L) return(invisible())
  check_stop("there is no argument `", odd[[1L]], "`: add a term to the formula, such as ",
             "cluster(group), for the robust variance of clusters")
}

coxph_control <- function(control) {
  known <- names(formals(survival::coxph.control))
  odd <- setdiff(or_default(names(control), as.character(seq_along(control))), known)
  if (length(odd) == 0L) return(do.call(survival::coxph.control, as.list(control)))
  stop("`control` has no ", odd[[1L]], ": it is a list with ", toString(known), call. = FALSE)
}

coxph_need_survival <- function() {
  tryCatch(invisible(loadNamespace("survival")), packageNotFoundError = function(error) {
    stop("package survival is not installed: install.packages(\"survival\")", call. = FALSE)
  }, error = function(error) {
    stop("package survival cannot be loaded: ", conditionMessage(error), call. = FALSE)
  })
}

# The terms of the formula, with the functions of survival that it needs.
coxph_formula <- function(comm, formula, data) {
  response <- if (inherits(formula, "formula") && length(formula) == 3L) formula[[2L]]
  is_surv <- is.call(response) && deparse(response[[1L]])[[1L]] %in% c("Surv", "survival::Surv")
  highest <- agree(comm, if (is_surv) coxph_highest(response, data, environment(formula)) else 0)
  highest <- ring_allreduce(comm, highest, "max")
  agree(comm, {
    column <- if (!is_surv) attempt(eval(response, data, environment(formula)))$value
    if (!is_surv && !inherits(column, "Surv")) {
      stop("the response must be a call of Surv(), or a column that it has made", call. = FALSE)
    }
    functions <- list(strata = coxph_labels, cluster = survival::cluster,
                      Surv = coxph_surv(highest))
    environment(formula) <- list2env(functions, parent = environment(formula))
    if (is_surv) formula[[2L]][[1L]] <- quote(Surv)
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

# strata() of survival, without the blanks that it appends to labels: a rank may lack the longest
# label.
coxph_labels <- function(..., shortlabel, sep = ", ") {
  call <- match.call()
  call[[1L]] <- survival::strata
  found <- eval(call, parent.frame())
  bare <- gsub(paste0(" +(\\Q", sep, "\\E|$)"), "\\1", levels(found), perl = TRUE)
  if (anyDuplicated(bare) == 0L) levels(found) <- bare
  found
}

# Surv() of survival, for a status whose highest value on all ranks is `highest`: with 2, the status
# is 1 or 2. Surv() of one rank may not see the 2.
coxph_surv <- function(highest) {
  mark <- function(status) {
    if (!is.numeric(status)) return(status)
    status <- as.double(status) - (highest == 2)
    odd <- !is.na(status) & status != 0 & status != 1
    if (any(odd)) warning("Invalid status value, converted to NA", call. = FALSE)
    replace(status, odd, NA) == 1
  }
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
  strata <- if (length(strata) > 0L) interaction(strata, drop = FALSE, lex.order = TRUE, sep = ", ")
  cluster <- rows$special[grepl("^cluster[(]", names(rows$special))]
  if (is.null(robust)) robust <- length(cluster) > 0L || any(weights != trunc(weights))
  list(
    x = rows$x[keep, colnames(rows$x) != "(Intercept)", drop = FALSE], weights = weights[keep],
    start = if (counting) as.double(y[keep, 1L]), stop = as.double(y[keep, 1L + counting]),
    event = y[keep, 2L + counting] == 1, levels = levels(strata),
    stratum = if (is.null(strata)) rep(1, sum(keep)) else as.double(strata)[keep],
    cluster = if (length(cluster) > 0L) as.double(cluster[[1L]])[keep] - 1, # levels of all ranks
    offset = if (is.null(rows$offset)) double(sum(keep)) else as.double(rows$offset)[keep],
    robust = check_flag(robust, "robust")
  )
}

# ---- Robust variance and tests -------------------------------------------------------------------

# The sum of the squared influences of the rows or clusters. A cluster may have rows on many ranks,
# so its sum goes to one rank.
coxph_robust <- function(comm, records, fit) {
  width <- records$width
  influence <- function(records, beta, matrix) {
    clusters <- coxph_clusters(comm, records, beta, fit$efron)
    ring_allreduce(comm, .Call(C_coxph_influence, clusters, matrix))
  }
  fit$naive.var <- fit$var
  fit$variance <- matrix(influence(records, fit$beta, fit$variance)[-seq_len(width)],
                         width)
  fit$var <- fit$variance / outer(records$scale, records$scale)
  # As in coxph(), the test at the start is without offsets.
  records$all[match("offset", records_fields), ] <- 0
  first <- influence(records, fit$start, NULL)
  fit$rscore <- coxph_wald(first[-seq_len(width)], first[seq_len(width)])
  fit
}

# Wald's test; robust, if the variance is.
coxph_tests <- function(fit) {
  fit$wald.test <- coxph_wald(fit$variance, fit$beta - fit$start)
  fit[setdiff(names(fit), c("start", "beta", "variance", "efron"))]
}

# The statistic of values with this covariance, which is singular if there are fewer clusters than
# columns. Columns of variance 0 do not count.
coxph_wald <- function(covariance, values) .Call(C_coxph_wald, covariance, values, 1e-9)
