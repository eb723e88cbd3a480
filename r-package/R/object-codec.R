# SPDX-License-Identifier: Apache-2.0
#
# A parcel is a value on its way to another rank, as bytes: what serialize() makes of it, in the
# byte order of this machine, and a trailer that says what it is and how long; at the end, as
# unserialize() does not look there. Python's parcels end in the same trailer, so neither language
# takes the other's for its own, nor does a machine of another byte order. A rank that cannot
# serialise sends a parcel that says why: the calls of all ranks stay in step, and who would have
# got the value gets an error instead.

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

# `count` parcels behind each other and their lengths; where one cannot be made, as many that say
# why, and the error.
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

# Where `count` parcels begin, with one more number for where the last ends; from the last to the
# first, as each tells its length at its end.
codec_starts <- function(bytes, count, call) {
  starts <- c(double(count), length(bytes) + 1)
  for (i in rev(seq_len(count))) starts[[i]] <- codec_start(bytes, starts[[i + 1L]] - 1)
  if (isTRUE(starts[[1L]] == 1)) return(starts)
  ring_stop(
    "INVALID", "what other ranks sent is not all objects: all ranks must call the same function",
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

# The value in the parcel of `rank`, or an error that names it.
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
      "vectors or arrays instead, which can go everywhere"
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

# The values of these ranks; or the error with which this rank has not packed its own.
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
