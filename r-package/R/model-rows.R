# SPDX-License-Identifier: Apache-2.0
#
# The rows of a model on this rank, with the same columns on every rank. The columns are those that
# stats::model.frame() and stats::model.matrix() would make from all rows. For that the ranks agree
# on the levels of factors and strings, and on constants of terms such as poly(x, 2): see
# model-reducers.R. Other terms that depend on rows of other ranks, such as x - mean(x), are
# refused. A rank may have no rows.

# Evaluates `call`, of stats::model.frame(), in `env`. When a term fails, the error names the term.
rows_frame <- function(call, env) {
  tryCatch(eval(call, env), error = function(error) {
    term <- attempt(rows_failed_term(eval(call$formula, env), eval(call$data, env)))$value
    if (is.null(term)) stop(error)
    stop(term, " cannot be computed from the rows of this rank: ", conditionMessage(error),
         ": if it needs rows of other ranks, as relevel() does, make the column before the call, ",
         "such as by factor() with the same `levels` on all ranks", call. = FALSE)
  })
}

# The rows of a model that is fitted by `call`, such as ring_glm(comm, formula, data), in `env`.
# `chunked` is whether `data` may be a function: see model-chunks.R.
rows_of_call <- function(comm, call, env, data, contrasts = NULL, chunked = FALSE) {
  agree(comm, rows_check_call(call, env, data))
  chunks <- chunks_agree(comm, data)
  if (chunks && !chunked) chunks_refuse()
  wanted <- c("formula", "data", "subset", "weights", "na.action", "offset")
  frame <- call[c(1L, match(wanted, names(call), 0L))]
  frame[[1L]] <- quote(stats::model.frame)
  if (chunks) return(chunks_of_call(comm, frame, env, data, contrasts))
  data <- agree(comm, integer64_rows(data))
  if (!is.null(data)) frame$data <- data
  frame$formula <- reduce_terms(comm, agree(comm, eval(call$formula, env)), data)
  frame <- agree(comm, rows_frame_or_none(frame, env, data))
  rows_of_model(comm, frame, data, contrasts, as.list(call)[c("offset", "weights", "subset")])
}

# Whether `x` is a formula, or one as a string, which lm() takes, too.
is_formula <- function(x) {
  inherits(x, "formula") || is_string(x) && is.null(attempt(stats::as.formula(x))$error)
}

# Raises an error unless `formula`, `data` and `na.action` are what stats::model.frame() takes.
rows_check_call <- function(call, env, data) {
  formula <- eval(call$formula, env)
  if (!is_formula(formula)) {
    stop("`formula` must be a formula, such as mpg ~ wt, not ", describe(formula), call. = FALSE)
  }
  if (!any(is.null(data), is.list(data), is.environment(data), is.function(data))) {
    stop("`data` must be a data frame, not ", describe(data), call. = FALSE)
  }
  rows_check_action(eval(call$na.action, env), env)
}

rows_check_action <- function(action, env) {
  if (is.null(action) || is.function(action)) return()
  if (is_string(action) && exists(action, env, mode = "function")) return()
  stop("`na.action` must be a function, such as na.omit, not ", describe(action), call. = FALSE)
}

# A rank without rows takes the variables that it cannot compute from the other ranks.
rows_frame_or_none <- function(call, env, data) {
  if (is.data.frame(data) && nrow(data) == 0L) {
    frame <- suppressWarnings(attempt(rows_frame(call, env)))
    return(if (is.null(frame$error)) frame$value else kinds_frame(call, env))
  }
  rows_frame(call, env)
}

# The first term of the formula that cannot be evaluated although its variables exist, as a string.
rows_failed_term <- function(formula, data) {
  terms <- stats::terms(formula, data = data)
  for (expr in as.list(attr(terms, "variables"))[-1L]) {
    known <- is.null(attempt(lapply(all.vars(expr), function(name) {
      eval(as.name(name), data, environment(terms))
    }))$error)
    if (!known) return(NULL)
    failed <- !is.null(attempt(eval(expr, data, environment(terms)))$error)
    if (is.call(expr) && failed) return(deparse(expr)[[1L]])
  }
}

# Returns x, y, weights and offset of this rank, and what rows_shared() returns. `data` and
# `further`: see source_of().
rows_of_model <- function(comm, frame, data, contrasts = NULL, further = list()) {
  source <- agree(comm, rows_check(frame, attr(frame, "terms"), data, further))
  counts <- c(nrow(frame), length(attr(frame, "na.action")))
  frame <- rows_of_kinds(comm, frame, agree(comm, source_kinds(frame, source)))
  shared <- rows_shared(comm, frame, levels_parts(frame), source, counts, contrasts)
  part <- rows_part(shared$frame, shared$x)
  c(part, shared$rows, list(parts = parts_held(part)))
}

# The frame, whose variables have the same kinds on all ranks.
rows_of_kinds <- function(comm, frame, kinds) {
  kinds <- kinds_agree(comm, kinds)
  agree(comm, kinds_set(frame, kinds))
}

# The rows of a model frame that has all levels.
rows_part <- function(frame, x) {
  list(x = x, y = stats::model.response(frame, "any"), weights = stats::model.weights(frame),
       offset = stats::model.offset(frame))
}

# Agrees on what is the same on all ranks: the terms, levels, contrasts and columns, and the number
# of rows that were omitted because of missing values. `parts` is from levels_parts(). `counts` has
# the rows of this rank, and the omitted ones. Returns the frame with these levels and its columns.
rows_shared <- function(comm, frame, parts, source, counts, contrasts) {
  terms <- attr(frame, "terms")
  counts <- ring_allreduce(comm, as.double(counts))
  if (counts[[1L]] == 0) {
    ring_stop("INVALID", "there are no rows without missing values on any rank", call = NULL)
  }
  agreed <- coding_set(comm, terms, levels_agree(comm, parts))
  levels <- lapply(agreed, `[[`, "levels")
  response <- names(frame)[attr(terms, "response")]
  special <- names(frame)[unlist(attr(terms, "specials"))]
  frame <- agree(comm, levels_set(frame, agreed))
  x <- rows_matrix(comm, frame, rows_covariates(terms), contrasts)
  environment(terms) <- source_scope(comm, source)
  rows <- list(
    response = response, terms = terms,
    levels = levels[setdiff(names(levels), c(response, special))], contrasts = attr(x, "contrasts"),
    assign = attr(x, "assign"), columns = colnames(x), response_levels = levels[[response]],
    count = counts[[1L]], omitted = counts[[2L]], special = frame[special],
    has_offset = !is.null(stats::model.offset(frame)),
    has_weights = !is.null(stats::model.weights(frame))
  )
  list(rows = rows, frame = frame, x = x, agreed = agreed)
}

rows_check <- function(frame, terms, data, further) {
  if (attr(terms, "response") == 0L) stop("the formula has no response", call. = FALSE)
  fixed <- as.character(attr(terms, "variables"))
  reduced <- seq_along(fixed) %in% (attr(terms, "reduced") + 1L)
  moving <- fixed[as.character(attr(terms, "predvars")) != fixed & !reduced]
  source <- source_of(terms, data, further)
  wide <- Find(function(name) is_integer64(source$rows[[name]]), names(source$rows))
  if (!is.null(wide)) {
    stop("`", wide, "` is of class ", class(source$rows[[wide]])[[1L]], " outside of `data`: make ",
         "it a column of `data`, or numbers by as.double()", call. = FALSE)
  }
  moving <- c(moving, source_moving(source))
  if (length(moving) == 0L) return(source)
  stop(moving[[1L]], " depends on all rows, and each rank has only its own: compute the numbers ",
       "that it needs on all ranks first, such as by ring_allreduce()", call. = FALSE)
}

# The terms without those that are no covariates, such as strata(): the specials of the terms.
rows_covariates <- function(terms) {
  special <- unlist(attr(terms, "specials"))
  if (length(special) == 0L) return(terms)
  all <- attributes(terms)
  drop <- which(colSums(all$factors[special, , drop = FALSE] > 0) > 0)
  if (any(all$order[drop] > 1L)) {
    stop("an interaction with ", rownames(all$factors)[special[[1L]]], " is not supported",
         call. = FALSE)
  }
  keep <- setdiff(seq_along(all$variables[-1L]), special)
  all$variables <- all$variables[c(1L, keep + 1L)]
  if (!is.null(all$predvars)) all$predvars <- all$predvars[c(1L, keep + 1L)]
  all$term.labels <- all$term.labels[-drop]
  all$order <- all$order[-drop]
  more <- length(all$term.labels) > 0L
  all$factors <- if (more) all$factors[keep, -drop, drop = FALSE] else integer()
  if (!is.null(all$offset)) all$offset <- match(all$offset, keep)
  all$specials <- NULL
  attributes(terms) <- all
  terms
}

# Makes the matrix and checks that its columns are the same on all ranks.
rows_matrix <- function(comm, frame, terms, contrasts) {
  x <- agree(comm, stats::model.matrix(terms, frame, contrasts))
  labels <- allgather_strings(comm, as.character(colnames(x)))
  agree(comm, rows_check_labels(labels))
  x
}

rows_check_labels <- function(labels) {
  other <- which(!vapply(labels, identical, NA, labels[[1L]]))
  if (length(other) == 0L) return()
  theirs <- labels[[other[[1L]]]]
  odd <- c(setdiff(theirs, labels[[1L]]), setdiff(labels[[1L]], theirs))
  what <- if (length(odd) == 0L) "the same columns in different orders"
          else paste("different columns, such as", paste(utils::head(odd, 3L), collapse = ", "))
  stop("ranks 0 and ", other[[1L]] - 1L, " have ", what, ": pass data of the same types on all ",
       "ranks", call. = FALSE)
}

# Raises an error unless `newdata` has the variables of the model. Returns the terms.
rows_check_new <- function(object, newdata, offset = NULL) {
  if (missing(newdata) || !is.list(newdata)) {
    stop("predict() needs `newdata`, a data frame: the model holds no rows", call. = FALSE)
  }
  terms <- stats::delete.response(object$terms)
  evaluated <- or_default(attr(terms, "predvars"), attr(terms, "variables"))
  exprs <- c(as.list(evaluated)[-1L], offset)
  names <- setdiff(as.character(unlist(lapply(exprs, scope_vars))), names(newdata))
  there <- vapply(names, scope_has, NA, environment(terms))
  if (!all(there)) stop("`newdata` has no column ", names[!there][[1L]], call. = FALSE)
  terms
}

# The columns of `x` for the prediction of any rows, and their model frame.
rows_predict <- function(object, newdata, offset = NULL) {
  if (!missing(newdata)) newdata <- integer64_rows(newdata)
  terms <- rows_check_new(object, newdata, offset)
  frame <- stats::model.frame(terms, newdata, na.action = stats::na.pass, xlev = object$xlevels)
  x <- stats::model.matrix(terms, frame, contrasts.arg = object$contrasts)
  list(frame = frame, x = x)
}
