# SPDX-License-Identifier: Apache-2.0
#
# Numbers of 64 bits that R stores in the bits of doubles: integer64 of package bit64, and nanotime.
# Functions that take them for doubles compute with other numbers. So integer64 becomes doubles,
# where doubles hold the numbers exactly. Other numbers are an error.

integer64_classes <- c("integer64", "nanotime", "nanoduration", "nanoperiod", "nanoival")

is_integer64 <- function(x) is.double(x) && inherits(x, integer64_classes)

# `x` as numbers that R computes with. `name` is for errors.
integer64_numbers <- function(x, name) {
  if (!is_integer64(x)) return(x)
  if (inherits(x, integer64_classes[-1L])) {
    stop("`", name, "` is of class ", class(x)[[1L]], ", and doubles do not hold nanoseconds: ",
         "convert it first, such as by as.POSIXct()", call. = FALSE)
  }
  found <- .Call(C_columns_integer64, unclass(x))
  odd <- attr(found, "inexact")
  if (!is.null(odd)) {
    stop("`", name, "` is of class integer64, and doubles do not hold its value ", odd,
         " exactly: subtract a constant first, or make it strings", call. = FALSE)
  }
  attributes(found) <- attributes(x)[intersect(names(attributes(x)), c("dim", "dimnames", "names"))]
  found
}

# The rows with such numbers in the columns of `data`. What is not a list is returned as it is.
integer64_rows <- function(data) {
  if (!is.list(data)) return(data)
  wide <- which(vapply(data, is_integer64, NA))
  if (length(wide) == 0L) return(data)
  data[wide] <- Map(integer64_numbers, as.list(data)[wide], names(data)[wide])
  data
}
