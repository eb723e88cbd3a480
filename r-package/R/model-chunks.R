# SPDX-License-Identifier: Apache-2.0
#
# The rows of a model that do not fit into memory: `data` is a function that returns them in chunks.
# One pass over the chunks finds the levels of all rows. Each further pass makes the columns of one
# chunk after another, as model-rows.R makes those of all rows.

#' Chunks of rows, for models of more rows than fit into memory
#'
#' `ring_chunks()` makes a function that returns one data frame after another. [ring_glm()] and
#' [ring_lm()] take such a function as `data`, and hold one chunk at a time if all take much memory.
#'
#' @details
#' Any function of one argument `reset` will do, such as the first argument of a function of
#' [ring_apply()] with `rows = "batches"`, or one for `biglm::bigglm()`. Called with `reset = TRUE`
#' it begins again. Otherwise it returns a data frame with the next rows, and `NULL` after the last.
#' The chunks have columns of the same names and types, and are the same in each pass: a fit reads
#' them once to find levels, and once in each iteration.
#'
#' For files of Parquet pass `arrow::read_parquet` as `read`, and for parts of one large file a
#' function that reads a group of its rows.
#'
#' @param x A vector or list, with an element for each chunk, such as the names of files. It may be
#'   empty. The ranks have different elements.
#' @param read A function that returns the chunk of an element of `x`: a data frame, or a table that
#'   [as.data.frame()] takes.
#' @returns A function with the argument `reset`.
#' @seealso [ring_glm()], [ring_lm()]
#' @examples
#' # Each rank has its own files:
#' files <- file.path(tempdir(), c("cars1.csv", "cars2.csv"))
#' write.csv(cars[1:25, ], files[[1]], row.names = FALSE)
#' write.csv(cars[26:50, ], files[[2]], row.names = FALSE)
#' comm <- ring_init()
#' fit <- ring_lm(comm, dist ~ speed, data = ring_chunks(files, read.csv))
#' coef(fit)
#' ring_close(comm)
#' unlink(files)
#' @export
ring_chunks <- function(x, read = identity) {
  check_given(x)
  if (!is.function(read)) check_stop("`read` must be a function, not ", describe(read))
  at <- 0L
  function(reset = FALSE) {
    if (reset) {
      at <<- 0L
      return(invisible())
    }
    if (at == length(x)) return(NULL)
    at <<- at + 1L
    read(x[[at]])
  }
}

# Calls f(chunk) for each chunk.
chunks_each <- function(read, f) {
  read(reset = TRUE)
  while (!is.null(chunk <- read())) f(chunks_check(chunk))
}

chunks_check <- function(chunk) {
  if (!is.data.frame(chunk)) chunk <- attempt(as.data.frame(chunk))$value
  if (is.data.frame(chunk)) return(integer64_rows(chunk))
  stop("`data` must return data frames", call. = FALSE)
}

# Whether `data` is a function on all ranks. The function is called with `reset`.
chunks_agree <- function(comm, data) {
  chunked <- agree(comm, chunks_given(data))
  kinds <- unlist(allgather_strings(comm, if (chunked) "chunks" else "rows"))
  odd <- which(kinds != kinds[[1L]])
  if (length(odd) == 0L) return(chunked)
  ring_stop("INVALID", rank = odd[[1L]] - 1L, call = NULL, paste0(
    "`data` is a function on some ranks only, such as rank ", which(kinds == "chunks")[[1L]] - 1L,
    ": pass one on all ranks, or on none"
  ))
}

chunks_given <- function(data) {
  if (!is.function(data)) return(FALSE)
  if (any(c("reset", "...") %in% names(formals(args(data))))) return(TRUE)
  stop("`data` is a function without the argument `reset`, so it returns no chunks: see ",
       "ring_chunks()", call. = FALSE)
}

chunks_refuse <- function() {
  ring_stop("INVALID", call = NULL, paste0(
    "`data` is a function, and this model needs all rows: pass a data frame, or fit ring_glm() or ",
    "ring_lm(), which take chunks"
  ))
}

# ---- The columns of a chunk ----------------------------------------------------------------------

# The first chunk. A rank without chunks makes one without rows, with the columns that another rank
# has.
chunks_first <- function(comm, read) {
  first <- agree(comm, {
    read(reset = TRUE)
    chunk <- read()
    if (!is.null(chunk)) chunks_check(chunk)
  })
  columns <- allgather_strings(comm, c(rbind(names(first), vapply(first, chunks_type, ""))))
  columns <- Find(length, columns)
  if (is.null(columns)) {
    ring_stop("INVALID", "there are no rows on any rank: `data` has no chunk", call = NULL)
  }
  if (!is.null(first)) return(first)
  types <- columns[c(FALSE, TRUE)]
  as_table(stats::setNames(lapply(types, chunks_empty), columns[c(TRUE, FALSE)]))
}

chunks_type <- function(x) if (is.object(x)) class(x)[[1L]] else typeof(x)

chunks_empty <- function(type) {
  switch(type,
    character = character(), factor = , ordered = factor(), logical = logical(),
    Date = as.Date(double(), origin = "1970-01-01"),
    POSIXct = as.POSIXct(double(), origin = "1970-01-01"), double()
  )
}

# ---- The rows of a model -------------------------------------------------------------------------

# As rows_of_call(), but in place of `x`, `y`, `weights` and `offset` there are `parts` with them.
chunks_of_call <- function(comm, call, env, read, contrasts) {
  first <- chunks_first(comm, read)
  # A `.` stands for the same columns in all chunks.
  formula <- agree(comm, {
    stats::terms(stats::as.formula(eval(call$formula, env), env), data = first)
  })
  call$formula <- reduce_terms(comm, formula, first, read)
  scope <- environment(call$formula)
  make <- function(chunk) {
    call$data <- chunk
    call$subset <- chunks_subset(eval(call$subset, chunk, scope), nrow(chunk))
    rows_frame(call, env)
  }
  further <- as.list(call)[c("offset", "weights", "subset")]
  exprs <- c(as.list(attr(formula, "variables"))[-1L], Filter(Negate(is.null), further))
  agree(comm, chunks_check_outside(exprs, first, scope))
  used <- intersect(unlist(lapply(exprs, all.vars)), names(first))
  found <- agree(comm, chunks_look(read, first, make, used, further))
  frame <- rows_of_kinds(comm, found$frame, lapply(found$kinds, `[[`, "kind"))
  source <- agree(comm, rows_check(frame, attr(frame, "terms"), found$sample, further))
  shared <- rows_shared(comm, frame, found$parts, source, c(found$count, found$omitted), contrasts)
  c(shared$rows, list(parts = chunks_parts(read, make, shared, contrasts, found$count)))
}

chunks_subset <- function(subset, count) {
  if (is.null(subset) || is.logical(subset) && length(subset) %in% c(1L, count)) return(subset)
  stop("`subset` must be logical, with a value for each row of a chunk, not ", describe(subset),
       call. = FALSE)
}

# Raises an error for an expression that has values of rows, and none from the chunks: each chunk
# would get the same values.
chunks_check_outside <- function(exprs, first, env) {
  outside <- function(expr) {
    !any(all.vars(expr) %in% names(first)) && NROW(eval(expr, first, env)) != 1L
  }
  odd <- Find(outside, exprs)
  if (is.null(odd)) return()
  stop(deparse(odd)[[1L]], " has no column of the chunks, so each chunk would get the same ",
       "values: make it a column of the chunks", call. = FALSE)
}

chunks_sample <- 100L # rows at least, by which terms are checked

# One pass over the chunks: levels, kinds and numbers of rows, the frame of the first chunk that has
# rows without missing values, and the variables `used` of some rows.
chunks_look <- function(read, first, make, used, further) {
  frame <- make(first)
  found <- list(frame = frame, parts = levels_parts(frame), kinds = list(), count = 0, omitted = 0,
                sample = as.data.frame(first)[0L, used, drop = FALSE])
  number <- 0L
  chunks_each(read, function(chunk) {
    number <<- number + 1L
    frame <- make(chunk)
    found$omitted <<- found$omitted + length(attr(frame, "na.action"))
    if (nrow(frame) == 0L) return()
    if (found$count == 0) found$frame <<- frame
    kinds <- source_kinds(frame, source_of(attr(frame, "terms"), chunk, further))
    found$kinds <<- kinds_merge(found$kinds, kinds, paste("in chunk", number))
    found$parts <<- Map(levels_join, found$parts, levels_parts(frame))
    found$count <<- found$count + nrow(frame)
    if (nrow(found$sample) >= chunks_sample) return()
    found$sample <<- rbind(found$sample, as.data.frame(chunk)[used])
  })
  found
}

# The parts of further passes, which must return the `count` rows of the first one.
chunks_parts <- function(read, make, shared, contrasts, count) {
  terms <- rows_covariates(shared$rows$terms)
  parts_streamed(function(visit) {
    seen <- 0
    chunks_each(read, function(chunk) {
      frame <- make(chunk)
      if (nrow(frame) == 0L) return()
      frame <- levels_set(frame, shared$agreed)
      x <- stats::model.matrix(terms, frame, contrasts)
      if (!identical(colnames(x), shared$rows$columns)) {
        stop("the columns of a chunk are not those of the first pass: return the same chunks in ",
             "each pass", call. = FALSE)
      }
      seen <<- seen + nrow(frame)
      visit(rows_part(frame, x))
    })
    if (seen == count) return()
    stop("`data` has returned ", count, " rows in the first pass and ", seen, " in another: it ",
         "must begin again when it is called with `reset = TRUE`, and return the same chunks",
         call. = FALSE)
  })
}
