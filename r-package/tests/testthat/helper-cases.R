# SPDX-License-Identifier: Apache-2.0
#
# Vectors and arrays of every type that the collectives take.

# The input of a rank, of every type: `count` steps along the last dimension, and three rows in a
# matrix. Tests send the function to the ranks.
cases_of <- function(rank, count) {
  whole <- (seq_len(count) * 3L + 7L * rank) %% 11L
  wide <- matrix((seq_len(3L * count) + 5L * rank) %% 7L, 3)
  list(
    double = whole / 4, integer = whole, logical = whole > 5L, raw = as.raw(whole),
    complex = complex(real = whole, imaginary = rank - whole),
    matrix = wide, flags = wide > 3L, array = array(wide / 2, c(3, 1, count)),
    hollow = matrix(double(), 0, count), none = whole[0], nothing = wide[, 0]
  )
}

# Whether `op` is for vectors of the type of `x`.
has_op <- function(x, op) {
  if (is.complex(x)) return(op %in% c("sum", "prod", "avg"))
  !is.double(x) || op %in% c("sum", "prod", "min", "max", "avg")
}

# The steps `which` along the last dimension.
steps <- function(x, which) {
  if (is.null(dim(x))) return(x[which])
  if (is.matrix(x)) x[, which, drop = FALSE] else x[, , which, drop = FALSE]
}

# The arrays `xs`, concatenated along the last dimension.
concatenated <- function(xs) {
  x <- do.call(c, lapply(xs, c))
  rest <- dim(xs[[1]])[-length(dim(xs[[1]]))]
  if (!is.null(dim(xs[[1]]))) dim(x) <- c(rest, sum(vapply(xs, extent, 1)))
  x
}
