# SPDX-License-Identifier: Apache-2.0
#
# Splits the output of a process into lines. The last lines are kept for the error of a rank that
# fails. Lines that are reports of progress are removed. Bytes become a string when a line is
# complete, because a rank may print any bytes.

lines_kept <- 20L
lines_longest <- 4096L # bytes; a longer line is cut
lines_mark <- "\x1esparkring " # begins a report of progress

# Makes a reader of lines. feed() takes bytes, and finish() ends a line that has not ended. The
# reader calls `take` with complete lines, and `report` with a report of progress.
lines_reader <- function(take = function(lines) NULL, report = function(progress) NULL) {
  begun <- raw()
  last <- character()
  handle <- function(lines) {
    marks <- regexpr(lines_mark, lines, fixed = TRUE)
    for (i in which(marks > 0L)) {
      parsed <- progress_read(substring(lines[[i]], marks[[i]] + nchar(lines_mark)))
      if (!is.null(parsed)) report(parsed)
      lines[[i]] <- substr(lines[[i]], 1L, marks[[i]] - 1L) # a line that had not ended before
    }
    lines <- lines[marks < 0L | nzchar(lines)]
    if (length(lines) == 0L) return()
    last <<- utils::tail(c(last, lines), lines_kept)
    take(lines)
  }
  feed <- function(bytes) {
    bytes <- c(begun, bytes[bytes != 0L])
    ends <- which(bytes == 0x0aL)
    whole <- if (length(ends) > 0L) ends[[length(ends)]] else 0L
    begun <<- bytes[seq_along(bytes) > whole]
    if (whole > 0L) handle(lines_split(bytes[seq_len(whole)]))
    if (length(begun) > lines_longest) finish()
  }
  finish <- function() {
    if (length(begun) > 0L) handle(lines_split(begun))
    begun <<- raw()
  }
  list(feed = feed, finish = finish, last = function() last)
}

# Splits bytes into short lines, without the ends of lines of Windows.
lines_split <- function(bytes) sub("\r$", "", substr(lines_text(bytes), 1L, lines_longest))

# Splits bytes into lines, as valid text whatever the bytes are.
lines_text <- function(bytes) {
  lines <- strsplit(rawToChar(bytes), "\n", fixed = TRUE, useBytes = TRUE)[[1L]]
  lines <- iconv(lines, "UTF-8", "UTF-8", sub = "byte")
  Encoding(lines) <- "UTF-8"
  lines
}
