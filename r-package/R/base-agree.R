# SPDX-License-Identifier: Apache-2.0
#
# Agreement of all ranks on success (core/bindings/agree.h). Ranks must make the same calls. So a
# rank reports its error to all ranks before it raises it. Then every rank raises an error, no rank
# blocks, and the communicator stays usable. Python's _agree.py does the same.

attempt <- function(expr) tryCatch(list(value = expr), error = function(error) list(error = error))

# Evaluates `expr` and returns its value. An error on any rank is an error on all ranks. The value
# may differ from rank to rank; `expr` must not call `comm`.
agree <- function(comm, expr) {
  attempted <- attempt(expr)
  agree_stop(attempted, .Call(C_agree_call, comm, agree_text(attempted), FALSE))
  attempted$value
}

# Sums a vector over all ranks. Its first element is a flag for an error, so that one call does the
# work of agree() and of the sum.
agree_total <- function(comm, attempted, empty) {
  value <- if (is.null(attempted$error)) attempted$value else empty
  total <- ring_allreduce(comm, c(as.double(!is.null(attempted$error)), unname(value)))
  if (total[[1L]] > 0) {
    agree_stop(attempted, .Call(C_agree_call, comm, agree_text(attempted), TRUE))
  }
  total[-1L]
}

agree_text <- function(attempted) {
  if (!is.null(attempted$error)) conditionMessage(attempted$error)
}

# Raises the error of this rank, or else the error of the first rank that has failed. All are
# ring_error_invalid, unless they have a class of ours already.
agree_stop <- function(attempted, failed) {
  force(failed) # the argument is a collective call
  error <- attempted$error
  if (!is.null(error) && !inherits(error, "ring_error")) {
    error[c("status", "rank", "errno")] <- list("INVALID", failed[[1L]], NA_integer_)
    class(error) <- c("ring_error_invalid", "ring_error", class(error))
  }
  if (!is.null(error)) stop(error)
  if (!is.null(failed)) ring_stop("INVALID", failed[[2L]], rank = failed[[1L]], call = NULL)
}

# Gathers the character vectors of all ranks; returns a list in rank order.
allgather_strings <- function(comm, text) .Call(C_agree_strings, comm, text)

# Broadcasts the character vector of rank 0.
broadcast_strings <- function(comm, text) {
  text <- enc2utf8(if (ring_rank(comm) == 0) text else character())
  count <- ring_broadcast(comm, length(text))
  sizes <- ring_broadcast(comm, if (ring_rank(comm) == 0) nchar(text, "bytes") else integer(count))
  bytes <- charToRaw(paste(text, collapse = ""))
  split_strings(ring_broadcast(comm, if (ring_rank(comm) == 0) bytes else raw(sum(sizes))), sizes)
}

split_strings <- function(bytes, sizes) {
  ends <- cumsum(sizes)
  texts <- vapply(seq_along(sizes), FUN.VALUE = "", function(i) {
    rawToChar(bytes[ends[[i]] - sizes[[i]] + seq_len(sizes[[i]])])
  })
  Encoding(texts) <- "UTF-8"
  texts
}
