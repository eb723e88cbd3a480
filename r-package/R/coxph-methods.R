# SPDX-License-Identifier: Apache-2.0
#
# Methods of a proportional hazards model. Most are those of coxph(), which need no rows.

# The hazard of each stratum at each time, for rows at the means of the covariates: a list with
# `table`, a matrix with a row for each time, and the number of rows of each stratum.
coxph_baseline <- function(comm, records, fit, levels) {
  pass <- coxph_pass(comm, records, fit$beta, fit$efron, details = TRUE)
  field <- function(name) records_field(records, name)
  stratum <- field("stratum")
  time <- field("time")
  count <- length(time)
  begins <- c(TRUE, stratum[-1L] != stratum[-count] | time[-1L] != time[-count])
  first <- which(begins[seq_len(count)])
  group <- findInterval(seq_len(count), first)
  stop <- field("sign") > 0
  lost <- field("weight") * (stop & field("event") == 0)
  sums <- rowsum(cbind(lost, stop), group, reorder = FALSE)
  events <- matrix(0, 3L + records$width, length(first))
  events[, match(pass$rows[1L, ] + 1, first)] <-
    pass$rows[c(3L, 6L, 5L, 6L + seq_len(records$width)), ]
  table <- rbind(stratum[first] + 1, time[first], coxph_at_risk(comm, records)[first],
                 events[1L, ], sums[, 1L], events[-1L, , drop = FALSE])
  table[-(1:7), ] <- table[-(1:7), ] * records$scale
  table <- t(ring_allgatherv(comm, unname(table[, sums[, 2L] > 0, drop = FALSE])))
  colnames(table) <- c("stratum", "time", "n.risk", "n.event", "n.censor", "hazard", "variance",
                       names(fit$coefficients))
  strata <- max(1L, length(levels))
  rows <- ring_allreduce(comm, as.double(tabulate(stratum[stop] + 1, strata)))
  list(table = table, rows = rows)
}

# The weight of the rows at risk at each record: of the records from there on in its stratum.
coxph_at_risk <- function(comm, records) {
  strata <- records_field(records, "stratum")
  parts <- split(records_field(records, "sign") * records_field(records, "weight"), strata)
  sums <- unlist(lapply(unname(parts), function(part) rev(cumsum(rev(part)))))
  ends <- if (length(strata) == 0L) c(-1, -1) else strata[c(1L, length(strata))]
  carried <- records_carry(comm, 1L, TRUE, c(ends, if (length(strata) == 0L) 0 else sums[[1L]]))
  sums + carried * (strata == ends[[2L]])
}

#' @export
print.ring_coxph <- function(x, digits = max(1L, getOption("digits") - 3L), ...) {
  check_print_dots(..., known = "signif.stars")
  loadNamespace("survival")
  NextMethod()
  model_print_unconverged(x)
  invisible(x)
}

#' @export
summary.ring_coxph <- function(object, ...) {
  check_method_dots(..., known = c("conf.int", "scale"))
  loadNamespace("survival")
  found <- NextMethod()
  found$converged <- object$converged
  class(found) <- c("summary.ring_coxph", class(found))
  found
}

#' @export
print.summary.ring_coxph <- function(x, digits = max(getOption("digits") - 3, 3), ...) {
  check_print_dots(..., known = c("signif.stars", "expand"))
  loadNamespace("survival")
  NextMethod()
  model_print_unconverged(x)
  invisible(x)
}

#' @export
nobs.ring_coxph <- function(object, ...) {
  check_method_dots(..., known = "use.fallback") # of step()
  object$nevent
}

# The last of the log likelihoods; a null model has one.
coxph_likelihood <- function(object) object$loglik[[length(object$loglik)]]

#' @export
logLik.ring_coxph <- function(object, ...) {
  check_method_dots(...)
  freedom <- sum(!is.na(object$coefficients))
  structure(coxph_likelihood(object), df = freedom, nobs = object$nevent, class = "logLik")
}

#' @export
vcov.ring_coxph <- function(object, complete = TRUE, ...) {
  check_method_dots(...)
  names <- names(object$coefficients)
  known <- !is.na(object$coefficients)
  found <- object$var
  dimnames(found) <- list(names, names)
  if (!complete) return(found[known, known, drop = FALSE])
  found[!known, ] <- NA
  found[, !known] <- NA
  found
}

#' @export
extractAIC.ring_coxph <- function(fit, scale, k = 2, ...) {
  check_method_dots(...)
  likelihood <- logLik.ring_coxph(fit)
  freedom <- attr(likelihood, "df")
  c(freedom, k * freedom - 2 * as.numeric(likelihood))
}

#' @export
anova.ring_coxph <- function(object, ..., test = "Chisq") {
  check_method_dots(..., models = "ring_coxph")
  if (...length() == 0L) {
    stop("anova() of one ring_coxph would need the rows: pass several models", call. = FALSE)
  }
  fits <- unname(list(object, ...))
  coxph_comparable(fits)
  model_check_size(vapply(fits, `[[`, 1L, "n"))
  likelihood <- vapply(fits, coxph_likelihood, 1)
  freedom <- vapply(fits, function(fit) sum(!is.na(fit$coefficients)), 1L)
  change <- c(NA, abs(diff(freedom)))
  value <- c(NA, abs(2 * diff(likelihood)))
  table <- data.frame(loglik = likelihood, Chisq = value, Df = change)
  if (identical(test, "Chisq")) table$"Pr(>|Chi|)" <- model_tail(stats::pchisq, value, change)
  rownames(table) <- seq_along(fits)
  models <- vapply(fits, function(fit) paste(deparse(fit$formula[-2L]), collapse = "\n"), "")
  heading <- c(paste0("Analysis of Deviance Table\n Cox model: response is  ",
                      deparse(object$formula[[2L]])),
               paste0(" Model ", seq_along(fits), ": ", models, collapse = "\n"))
  structure(table, heading = heading, class = c("anova", "data.frame"))
}

# Likelihood ratios are for models of one response, with the same ties and without robust variances.
coxph_comparable <- function(fits) {
  if (any(vapply(fits, function(fit) !is.null(fit$rscore), NA))) {
    stop("anova() is not for models with robust variances", call. = FALSE)
  }
  same <- function(of) length(unique(vapply(fits, of, ""))) == 1L
  if (!same(function(fit) fit$method)) {
    stop("the models must have the same `ties`", call. = FALSE)
  }
  if (!same(function(fit) deparse1(fit$formula[[2L]]))) {
    stop("the models must have the same response", call. = FALSE)
  }
}

#' @export
residuals.ring_coxph <- function(object, ...) {
  model_no_rows(object, "residuals() are not available")
}

#' @export
fitted.ring_coxph <- function(object, ...) {
  model_no_rows(object, "call predict(fit, rows) with the rows of a rank")
}

# The covariates of new rows, around the means of the fit.
coxph_predictors <- function(object, newdata) {
  if (missing(newdata) || !is.list(newdata)) {
    stop("predict() needs `newdata`, a data frame: the model holds no rows", call. = FALSE)
  }
  covariates <- object
  covariates$terms <- rows_covariates(object$terms)
  rows <- rows_predict(covariates, newdata)
  x <- rows$x[, colnames(rows$x) != "(Intercept)", drop = FALSE]
  offset <- stats::model.offset(rows$frame)
  list(x = sweep(x, 2L, object$means), offset = if (is.null(offset)) 0 else offset)
}

# The covariates around the means of their strata, or of all rows, or as they are.
coxph_refer <- function(object, newdata, x, reference) {
  if (reference == "zero") return(sweep(x, 2L, object$means, `+`))
  if (reference == "sample" || is.null(object$strata)) return(x)
  of <- coxph_strata(object, newdata)
  if (is.null(of)) {
    stop("`newdata` has not the variables of the strata: pass them, or reference = \"sample\"",
         call. = FALSE)
  }
  x - object$stratum_means[of, , drop = FALSE]
}

# The means of the covariates of each stratum around those of all rows: a matrix.
coxph_stratum_means <- function(comm, own, means) {
  strata <- seq_along(own$levels)
  sums <- matrix(0, length(strata), 1L + length(means))
  found <- rowsum(cbind(1, sweep(own$x, 2L, means)) * own$weights, own$stratum)
  sums[as.integer(rownames(found)), ] <- found
  sums <- matrix(ring_allreduce(comm, sums), length(strata))
  sums[, -1L, drop = FALSE] / sums[, 1L]
}

#' @export
predict.ring_coxph <- function(object, newdata, type = c("lp", "risk"),
                               se.fit = FALSE, # nolint: object_name_linter. As in predict.coxph().
                               reference = c("strata", "sample", "zero"), ...) {
  check_method_dots(...)
  type <- check_choice(type)
  reference <- check_choice(reference)
  if (!missing(newdata) && is_table(newdata)) {
    return(table_predict(object, newdata, type = type, se.fit = se.fit,
                         reference = reference))
  }
  rows <- coxph_predictors(object, newdata)
  rows$x <- coxph_refer(object, newdata, rows$x, reference)
  known <- !is.na(object$coefficients)
  x <- rows$x[, known, drop = FALSE]
  fit <- drop(x %*% object$coefficients[known]) + rows$offset
  if (type == "risk") fit <- exp(fit)
  if (!se.fit) return(fit)
  error <- sqrt(rowSums((x %*% object$var[known, known, drop = FALSE]) * x))
  list(fit = fit, se.fit = if (type == "risk") error * sqrt(fit) else error)
}

# nolint start: object_name_linter. The arguments are those of survfit().
#' @exportS3Method survival::survfit
survfit.ring_coxph <- function(formula, newdata, se.fit = TRUE, conf.int = 0.95, ...) {
  check_method_dots(...)
  object <- formula
  if (is.null(object$baseline)) {
    stop("the model has no baseline hazard: fit it with `baseline = TRUE`", call. = FALSE)
  }
  rows <- if (missing(newdata)) {
    list(x = matrix(0, 1L, length(object$means)), offset = object$mean_offset)
  } else {
    coxph_predictors(object, newdata)
  }
  of <- if (!missing(newdata)) coxph_strata(object, newdata)
  curves <- coxph_place(object, coxph_curves(object, rows), of)
  table <- object$baseline$table[curves$at, , drop = FALSE]
  found <- list(
    n = curves$n, time = table[, "time"], n.risk = table[, "n.risk"],
    n.event = table[, "n.event"], n.censor = table[, "n.censor"], surv = exp(-curves$cumhaz),
    cumhaz = curves$cumhaz, std.err = curves$error, logse = TRUE, type = "right",
    conf.int = conf.int, conf.type = "log", call = object$call
  )
  found$strata <- curves$strata
  if (se.fit) {
    reach <- stats::qnorm(1 - (1 - conf.int) / 2) * found$std.err
    found$lower <- found$surv * exp(-reach)
    found$upper <- pmin(found$surv * exp(reach), 1)
  } else {
    found$std.err <- NULL
  }
  structure(class = c("survfitcox", "survfit"), found)
}
# nolint end

# The stratum of each new row, by number; NULL if the model has no strata, or `newdata` has not the
# variables of the strata: then each row gets the curves of all strata.
coxph_strata <- function(object, newdata) {
  terms <- attr(object$terms, "variables")[1L + attr(object$terms, "specials")$strata]
  terms <- as.list(terms)
  if (length(terms) == 0L || !all(unlist(lapply(terms, all.vars)) %in% names(newdata))) return()
  env <- list2env(list(strata = coxph_labels), parent = environment(object$terms))
  labels <- lapply(terms, function(term) trimws(as.character(eval(term, newdata, env))))
  labels <- do.call(paste, c(labels, sep = ", "))
  found <- match(labels, trimws(object$strata))
  odd <- labels[is.na(found)]
  if (length(odd) > 0L) stop("the model has no stratum ", odd[[1L]], call. = FALSE)
  found
}

# Puts the curves into the places of survfit(): one after another with the strata `of` of the rows,
# and else side by side. `at` are the rows of the table of the baseline.
coxph_place <- function(object, curves, of) {
  stratum <- object$baseline$table[, "stratum"]
  counts <- tabulate(stratum, length(object$strata))
  if (is.null(of)) {
    strata <- if (length(object$strata) > 1L) stats::setNames(counts, object$strata)
    if (ncol(curves$cumhaz) == 1L) curves <- lapply(curves, as.vector)
    return(c(curves, list(at = seq_along(stratum), n = object$baseline$rows, strata = strata)))
  }
  places <- lapply(of, function(of) which(stratum == of))
  at <- cbind(unlist(places), rep(seq_along(of), lengths(places)))
  list(cumhaz = curves$cumhaz[at], error = curves$error[at], at = at[, 1L],
       n = object$baseline$rows[of],
       strata = stats::setNames(lengths(places), colnames(curves$cumhaz)))
}

# The cumulative hazard of each row at each time, and its standard error: matrices.
coxph_curves <- function(object, rows) {
  table <- object$baseline$table
  known <- which(!is.na(object$coefficients))
  cumulate <- function(column) stats::ave(table[, column], table[, "stratum"], FUN = cumsum)
  hazard <- cumulate("hazard")
  variance <- cumulate("variance")
  means <- vapply(7L + known, cumulate, hazard)
  means <- matrix(means, length(hazard))
  found <- lapply(seq_len(nrow(rows$x)), function(i) {
    x <- rows$x[i, known]
    risk <- exp(sum(x * object$coefficients[known]) + rep_len(rows$offset, nrow(rows$x))[[i]])
    gap <- outer(hazard, x) - means
    drift <- rowSums((gap %*% object$var[known, known, drop = FALSE]) * gap)
    list(cumhaz = hazard * risk, error = risk * sqrt(variance + drift))
  })
  bind <- function(name) {
    columns <- matrix(vapply(found, `[[`, hazard, name), length(hazard))
    colnames(columns) <- rownames(rows$x)
    columns
  }
  list(cumhaz = bind("cumhaz"), error = bind("error"))
}
