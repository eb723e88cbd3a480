# SPDX-License-Identifier: Apache-2.0
#
# The codec of objects. An encoded object has two parts: the bytes of serialize(), in the byte order
# of this machine, and the trailer of core/bindings/envelope.h, which Python's objects have, too.
# unserialize() ignores the trailer.

codec_of_value <- function(x) {
  bytes <- serialize(x, NULL, xdr = FALSE, version = 3L)
  c(bytes, .Call(C_envelope_trailer, length(bytes)))
}

codec_of_failure <- function(error) .Call(C_envelope_failure, conditionMessage(error))

# Encodes and concatenates `count` values; returns the bytes and their lengths. When a value cannot
# be encoded, all `count` objects hold the text of the error, and `failure` is the error.
codec_pack <- function(xs, count, call) {
  force(xs)
  failure <- NULL
  encoded <- tryCatch({
    codec_check_values(xs, count, call)
    lapply(xs, codec_of_value)
  }, error = function(error) {
    failure <<- error
    rep(list(codec_of_failure(error)), count)
  })
  list(
    bytes = if (count == 1L) encoded[[1L]] else unlist(encoded, use.names = FALSE),
    counts = as.double(lengths(encoded)),
    failure = failure
  )
}

codec_check_values <- function(xs, count, call) {
  if (!is.list(xs)) {
    check_stop("`xs` must be a list, with one value for each rank, not ", describe(xs), call = call)
  }
  if (length(xs) != count) {
    check_stop(
      "`xs` has ", length(xs), " values and there are ", count, " ranks: pass one for each rank",
      call = call
    )
  }
}

# Finds where each of `count` objects begins, counted from 0, and where the last one ends.
codec_starts <- function(bytes, count, call) {
  starts <- .Call(C_envelope_split, bytes, count)
  if (!is.null(starts)) return(starts)
  ring_stop(
    "INVALID", "other ranks sent bytes that are no objects: all ranks must call the same function",
    call = call
  )
}

# Decodes the object of `rank`. An error names the rank.
codec_open <- function(encoded, rank, call) {
  fail <- function(...) ring_stop("INVALID", paste0(...), rank = as.integer(rank), call = call)
  refusal <- .Call(C_envelope_check, encoded, rank)
  if (!is.null(refusal)) fail(refusal)
  tryCatch(unserialize(encoded), error = function(error) {
    fail("the object of rank ", rank, " cannot be read here: ", conditionMessage(error))
  })
}

# Decodes the objects of `ranks`. Raises `failure`, the error with which this rank could not encode
# its own value.
codec_unpack <- function(bytes, ranks, call, failure = NULL) {
  force(bytes)
  if (!is.null(failure)) stop(failure)
  starts <- codec_starts(bytes, length(ranks), call)
  if (length(ranks) == 1L) return(list(codec_open(bytes, ranks, call)))
  lapply(seq_along(ranks), function(i) {
    encoded <- bytes[seq(starts[[i]] + 1, starts[[i + 1L]])]
    codec_open(encoded, ranks[[i]], call)
  })
}
