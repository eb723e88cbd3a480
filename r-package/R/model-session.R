# SPDX-License-Identifier: Apache-2.0
#
# A fitted model is fitted again by its call, in the environment of the call, where the communicator
# and the rows are. A model holds no rows, so it has a weak reference to both. They live as long as
# the model. The reference is empty in a model from another process or from a file.

session_open <- function(call, env) {
  key <- new.env(parent = emptyenv())
  list(key = key, reference = .Call(C_session_refer, key, list(call = call, env = env)))
}

# The call and the environment of `object`. `what` is the function that needs them.
session_of <- function(object, what) {
  session <- .Call(C_session_value, object$session$reference)
  if (!is.null(session)) return(session)
  stop(what, " needs the rows, and a ", class(object)[[1L]], " holds none: call it on all ranks ",
       "where the model was fitted, before the function of the ranks ends", call. = FALSE)
}

# Whether the model was fitted to a Spark table, from the driver: see table_method().
session_is_table <- function(object, what) {
  session <- session_of(object, what)
  is_table(eval(session$call$comm, session$env))
}

# The rows of the model on this rank, which may be in chunks if `chunked`. With `formula` they have
# its columns. All ranks call it.
session_rows <- function(object, what, chunked = FALSE, formula = NULL) {
  session <- session_of(object, what)
  call <- session$call
  comm <- eval(call$comm, session$env)
  if (!inherits(comm, "ring_comm")) {
    stop(what, " needs the rows on the ranks: fit the model in a function of ring_apply(), and ",
         "call ", what, " there", call. = FALSE)
  }
  data <- agree(comm, if (!is.null(call$data)) eval(call$data, session$env))
  if (is.function(data) && !chunked) {
    ring_stop("INVALID", call = NULL, paste0(
      what, " needs all rows, and the model was fitted to chunks: call predict() with a chunk"
    ))
  }
  if (!is.null(formula)) {
    # The environment of the formula of a model has only what its own terms need.
    environment(formula) <- environment(eval(call$formula, session$env))
    call$formula <- formula
  }
  rows <- rows_of_call(comm, call, session$env, data, object$contrasts, chunked)
  if (is.null(formula) && rows$count != object$count) {
    ring_stop("INVALID", call = NULL, paste0(
      what, " needs the rows of the fit, which had ", object$count, " on all ranks, and there are ",
      rows$count, " now: fit the model again"
    ))
  }
  c(rows, list(comm = comm))
}

# ---- Methods of all models -----------------------------------------------------------------------

# The common elements of a model.
model_make <- function(class, rows, call, env, fit) {
  structure(class = class, c(fit, list(
    call = scope_call(call), formula = stats::formula(rows$terms), terms = rows$terms,
    xlevels = rows$levels, contrasts = rows$contrasts, assign = rows$assign,
    offset = scope_call(call)$offset, count = rows$count, omitted = rows$omitted,
    session = session_open(call, env)
  )))
}

# As print.lm() and print.glm() print them.
model_print_coefficients <- function(x, digits) {
  if (length(x$coefficients) > 0L) {
    cat("Coefficients:\n")
    print.default(format(x$coefficients, digits = digits), print.gap = 2L, quote = FALSE)
  } else {
    cat("No coefficients\n")
  }
}

# The last line of print() for a fit whose iterations have ended too early.
model_print_unconverged <- function(x) {
  if (isFALSE(x$converged)) cat("\nThe fit has not converged: see `control`\n")
}

# Checks that settings are the same on all ranks. Otherwise each rank would fit another model.
model_check_settings <- function(comm, settings) {
  texts <- allgather_strings(comm, vapply(settings, FUN.VALUE = "", function(setting) {
    text <- if (is.character(setting)) setting else deparse(setting, control = "niceNames")
    paste(text, collapse = " ")
  }))
  for (rank in seq_along(texts)) {
    odd <- which(texts[[rank]] != texts[[1L]])
    if (length(odd) == 0L) next
    ring_stop("INVALID", rank = rank - 1L, call = NULL, paste0(
      "rank ", rank - 1L, " has another ", names(settings)[[odd[[1L]]]], " than rank 0: ",
      texts[[rank]][[odd[[1L]]]], ", and not ", texts[[1L]][[odd[[1L]]]], ": pass the same on all ",
      "ranks"
    ))
  }
}

# A matrix with NA for aliased coefficients.
model_complete <- function(covariance, names) {
  all <- matrix(NA_real_, length(names), length(names), dimnames = list(names, names))
  all[rownames(covariance), colnames(covariance)] <- covariance
  all
}

# Models that are compared must have the same rows. Without rows, only their numbers can be
# compared.
model_check_size <- function(counts) {
  if (length(unique(counts)) == 1L) return()
  stop("models were not all fitted to the same size of dataset", call. = FALSE)
}

model_no_rows <- function(object, what) {
  stop("a ", class(object)[[1L]], " holds no rows: ", what, call. = FALSE)
}
