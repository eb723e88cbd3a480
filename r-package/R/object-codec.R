# SPDX-License-Identifier: Apache-2.0
#
# The codec of objects. An encoded object is the bytes of serialize(), in the byte order of this
# machine, and a trailer with the kind and the length. The trailer stands at the end because
# unserialize() does not look there.
#
# Objects of Python end in the same trailer, so neither language takes the other's objects for its
# own, and no machine those of another byte order. A rank that cannot serialise a value sends the
# text of its error instead. The calls of all ranks stay in step, and the receiver of the value
# raises the error.

codec_trailer_bytes <- 16

codec_kind <- function() if (.Platform$endian == "little") "ring-R3<" else "ring-R3>"

codec_end <- function(bytes, kind) {
  length <- length(bytes) + codec_trailer_bytes
  c(bytes, charToRaw(kind), writeBin(length, raw(), endian = "little"))
}

codec_of_value <- function(x) {
  codec_end(serialize(x, NULL, xdr = FALSE, version = 3L), codec_kind())
}

codec_of_failure <- function(error) {
  text <- substr(enc2utf8(conditionMessage(error)), 1L, 500L)
  codec_end(charToRaw(text), "ring-err")
}

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

# Finds where each of `count` objects begins, and where the last one ends. Goes from the last to the
# first, because each object has its length at its end.
codec_starts <- function(bytes, count, call) {
  starts <- c(double(count), length(bytes) + 1)
  for (i in rev(seq_len(count))) starts[[i]] <- codec_start(bytes, starts[[i + 1L]] - 1)
  if (isTRUE(starts[[1L]] == 1)) return(starts)
  ring_stop(
    "INVALID", "other ranks sent bytes that are no objects: all ranks must call the same function",
    call = call
  )
}

codec_start <- function(bytes, end) {
  if (is.na(end) || end < codec_trailer_bytes) return(NA)
  trailer <- bytes[end - codec_trailer_bytes + seq_len(codec_trailer_bytes)]
  length <- readBin(trailer[9:16], "double", endian = "little")
  known <- identical(trailer[1:5], charToRaw("ring-")) && !is.na(length)
  if (known && length >= codec_trailer_bytes && length <= end) end - length + 1 else NA
}

# Decodes the object of `rank`. An error names the rank.
codec_open <- function(encoded, rank, call) {
  body <- length(encoded) - codec_trailer_bytes
  kind <- encoded[body + 1:8]
  fail <- function(...) ring_stop("INVALID", paste0(...), rank = as.integer(rank), call = call)
  if (identical(kind, charToRaw("ring-err"))) {
    fail("rank ", rank, " could not send its object: ", codec_text(encoded[seq_len(body)]))
  }
  if (!identical(kind, charToRaw(codec_kind()))) {
    from <- "another version of sparkring, or a machine of another byte order"
    if (identical(kind[6:7], charToRaw("py"))) from <- "Python"
    fail(
      "the object of rank ", rank, " comes from ", from, ", and R cannot read it here: send ",
      "vectors or arrays instead, which every rank can read"
    )
  }
  tryCatch(unserialize(encoded), error = function(error) {
    fail("the object of rank ", rank, " cannot be read here: ", conditionMessage(error))
  })
}

codec_text <- function(bytes) {
  text <- rawToChar(bytes[bytes != 0L])
  Encoding(text) <- "UTF-8"
  text
}

# Decodes the objects of `ranks`. Raises `failure`, the error with which this rank could not encode
# its own value.
codec_unpack <- function(bytes, ranks, call, failure = NULL) {
  force(bytes)
  if (!is.null(failure)) stop(failure)
  starts <- codec_starts(bytes, length(ranks), call)
  if (length(ranks) == 1L) return(list(codec_open(bytes, ranks, call)))
  lapply(seq_along(ranks), function(i) {
    encoded <- bytes[seq(starts[[i]], starts[[i + 1L]] - 1)]
    codec_open(encoded, ranks[[i]], call)
  })
}
