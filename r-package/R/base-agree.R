# SPDX-License-Identifier: Apache-2.0
#
# Agreement of all ranks on success. Ranks must make the same calls, so the ranks exchange an error
# before any of them raises it. Then every rank raises an error, no rank blocks, and the
# communicator stays usable.
#
# Strings travel as bytes, not as objects. They need no token, and R and Python read them alike:
# Python's `agree` has the same.

attempt <- function(expr) tryCatch(list(value = expr), error = function(error) list(error = error))

# Evaluates `expr` and returns its value. An error on any rank is an error on all ranks. The value
# may differ from rank to rank; `expr` must not call `comm`.
agree <- function(comm, expr) {
  attempted <- attempt(expr)
  if (ring_allreduce(comm, as.double(!is.null(attempted$error))) > 0) agree_fail(comm, attempted)
  attempted$value
}

# Sums one vector over all ranks, with a flag for an error before it. Cheaper than agree() for a
# value that is needed many times.
agree_total <- function(comm, attempted, empty) {
  value <- if (is.null(attempted$error)) attempted$value else empty
  total <- ring_allreduce(comm, c(as.double(!is.null(attempted$error)), unname(value)))
  if (total[[1L]] > 0) agree_fail(comm, attempted)
  total[-1L]
}

# Raises the error of the first rank that has failed. All ranks call it when at least one has
# failed.
agree_fail <- function(comm, attempted) {
  own <- if (is.null(attempted$error)) character() else conditionMessage(attempted$error)
  texts <- allgather_strings(comm, own)
  if (!is.null(attempted$error)) stop(attempted$error)
  rank <- which(lengths(texts) > 0L)[[1L]] - 1L
  message <- paste0("rank ", rank, " (", ring_hosts(comm)[[rank + 1L]], ") failed: ",
                    texts[[rank + 1L]])
  ring_stop("INVALID", message, rank = rank, call = NULL)
}

# Gathers the character vectors of all ranks; returns a list in rank order.
allgather_strings <- function(comm, text) {
  text <- enc2utf8(text)
  counts <- ring_allgather(comm, length(text))
  sizes <- ring_allgatherv(comm, nchar(text, "bytes"))
  bytes <- ring_allgatherv(comm, charToRaw(paste(text, collapse = "")))
  texts <- split_strings(bytes, sizes)
  unname(split(texts, factor(rep(seq_along(counts), counts), seq_along(counts))))
}

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
