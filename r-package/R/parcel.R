# SPDX-License-Identifier: Apache-2.0
#
# A parcel is a value on its way to another rank, as bytes: what serialize() makes of it, in the
# byte order of this machine, and a trailer that says what it is and how long; at the end, as
# unserialize() does not look there. Python's parcels end in the same trailer, so neither language
# takes the other's for its own, nor does a machine of another byte order. A rank that cannot
# serialise sends a parcel that says why: the calls of all ranks stay in step, and who would have
# got the value gets an error instead.

parcel_trailer_bytes <- 16

parcel_kind <- function() if (.Platform$endian == "little") "ring-R3<" else "ring-R3>"

parcel_end <- function(bytes, kind) {
  length <- length(bytes) + parcel_trailer_bytes
  c(bytes, charToRaw(kind), writeBin(length, raw(), endian = "little"))
}

parcel_of_value <- function(x) {
  parcel_end(serialize(x, NULL, xdr = FALSE, version = 3L), parcel_kind())
}

parcel_of_failure <- function(error) {
  text <- substr(enc2utf8(conditionMessage(error)), 1L, 500L)
  parcel_end(charToRaw(text), "ring-err")
}

# `count` parcels behind each other and their lengths; where one cannot be made, as many that say
# why, and the error.
parcel_pack <- function(xs, count, call) {
  force(xs)
  failure <- NULL
  parcels <- tryCatch({
    parcel_check_values(xs, count, call)
    lapply(xs, parcel_of_value)
  }, error = function(error) {
    failure <<- error
    rep(list(parcel_of_failure(error)), count)
  })
  list(
    bytes = if (count == 1L) parcels[[1L]] else unlist(parcels, use.names = FALSE),
    counts = as.double(lengths(parcels)),
    failure = failure
  )
}

parcel_check_values <- function(xs, count, call) {
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
parcel_starts <- function(bytes, count, call) {
  starts <- c(double(count), length(bytes) + 1)
  for (i in rev(seq_len(count))) starts[[i]] <- parcel_start(bytes, starts[[i + 1L]] - 1)
  if (isTRUE(starts[[1L]] == 1)) return(starts)
  ring_stop(
    "INVALID", "what other ranks sent is not all objects: all ranks must call the same function",
    call = call
  )
}

parcel_start <- function(bytes, end) {
  if (is.na(end) || end < parcel_trailer_bytes) return(NA)
  trailer <- bytes[end - parcel_trailer_bytes + seq_len(parcel_trailer_bytes)]
  length <- readBin(trailer[9:16], "double", endian = "little")
  known <- identical(trailer[1:5], charToRaw("ring-")) && !is.na(length)
  if (known && length >= parcel_trailer_bytes && length <= end) end - length + 1 else NA
}

# The value in the parcel of `rank`, or an error that names it.
parcel_open <- function(parcel, rank, call) {
  body <- length(parcel) - parcel_trailer_bytes
  kind <- parcel[body + 1:8]
  fail <- function(...) ring_stop("INVALID", paste0(...), rank = as.integer(rank), call = call)
  if (identical(kind, charToRaw("ring-err"))) {
    fail("rank ", rank, " could not send its object: ", parcel_text(parcel[seq_len(body)]))
  }
  if (!identical(kind, charToRaw(parcel_kind()))) {
    from <- "another version of sparkring, or a machine of another byte order"
    if (identical(kind[6:7], charToRaw("py"))) from <- "Python"
    fail(
      "the object of rank ", rank, " comes from ", from, ", and R cannot read it here: send ",
      "vectors or arrays instead, which can go everywhere"
    )
  }
  tryCatch(unserialize(parcel), error = function(error) {
    fail("the object of rank ", rank, " cannot be read here: ", conditionMessage(error))
  })
}

parcel_text <- function(bytes) {
  text <- rawToChar(bytes[bytes != 0L])
  Encoding(text) <- "UTF-8"
  text
}

# The values of these ranks; or the error with which this rank has not packed its own.
parcel_unpack <- function(bytes, ranks, call, failure = NULL) {
  force(bytes)
  if (!is.null(failure)) stop(failure)
  starts <- parcel_starts(bytes, length(ranks), call)
  if (length(ranks) == 1L) return(list(parcel_open(bytes, ranks, call)))
  lapply(seq_along(ranks), function(i) {
    parcel <- bytes[seq(starts[[i]], starts[[i + 1L]] - 1)]
    parcel_open(parcel, ranks[[i]], call)
  })
}
