# SPDX-License-Identifier: Apache-2.0
#
# The rows of a model that do not fit into memory: `data` is a function that returns them in chunks.
# One pass over the chunks finds the levels of all rows. Each further pass makes the columns of one
# chunk after another, as glm-rows.R makes those of all rows.

#' Chunks of rows, for models of more rows than fit into memory
#'
#' `ring_chunks()` makes a function that returns one data frame after another. [ring_glm()] and
#' [ring_lm()] take such a function as `data`, and hold one chunk at a time if all take much memory.
#'
#' @details
#' Any function of one argument `reset` will do, such as the first argument of a function of
#' [ring_apply()] with `rows = "batches"`, or one for `biglm::bigglm()`. Called with `reset = TRUE`
#' it begins again. Otherwise it returns a data frame with the next rows, and `NULL` after the last.
#' The chunks have the same columns, and are the same in each pass: a fit reads them once to find
#' levels, and once in each iteration.
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
  if (is.data.frame(chunk)) return(chunk)
  stop("`data` must return data frames", call. = FALSE)
}

# Whether `data` is a function on all ranks. The function is called with `reset`.
chunks_agree <- function(comm, data) {
  kinds <- unlist(allgather_strings(comm, if (is.function(data)) "chunks" else "rows"))
  odd <- which(kinds != kinds[[1L]])
  if (length(odd) == 0L) return(is.function(data))
  ring_stop("INVALID", rank = odd[[1L]] - 1L, call = NULL, paste0(
    "`data` is a function on some ranks only, such as rank ", which(kinds == "chunks")[[1L]] - 1L,
    ": pass one on all ranks, or on none"
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
  if (is.null(columns)) ring_stop("INVALID", "`data` has no chunk on any rank", call = NULL)
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
  call$formula <- reduce_terms(comm, agree(comm, eval(call$formula, env)), first, read)
  make <- function(chunk) {
    call$data <- chunk
    rows_frame(call, env)
  }
  found <- agree(comm, chunks_look(read, first, make))
  terms <- attr(found$frame, "terms")
  further <- as.list(call)[c("offset", "weights", "subset")]
  source <- agree(comm, rows_check(found$frame, terms, found$chunk, further))
  shared <- rows_shared(comm, found$frame, found$parts, source, c(found$count, found$omitted),
                        contrasts)
  rows <- shared$rows
  rows$parts <- parts_streamed(function(visit) {
    chunks_each(read, function(chunk) {
      frame <- levels_set(make(chunk), shared$agreed)
      visit(rows_part(frame, stats::model.matrix(rows_covariates(terms), frame, contrasts)))
    })
  })
  rows
}

# The levels and the number of rows of all chunks. Terms are checked by the first chunk.
chunks_look <- function(read, first, make) {
  frame <- make(first)
  found <- list(frame = frame, chunk = first, parts = levels_parts(frame), count = 0, omitted = 0)
  chunks_each(read, function(chunk) {
    frame <- make(chunk)
    found$parts <<- Map(levels_join, found$parts, levels_parts(frame))
    found$count <<- found$count + nrow(frame)
    found$omitted <<- found$omitted + length(attr(frame, "na.action"))
  })
  found
}
