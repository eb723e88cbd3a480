# SPDX-License-Identifier: Apache-2.0
#
# Splits of a data set between ranks, for the tests of models. Tests send the functions to the
# ranks.

# Every third row, so that ranks have different ones.
dealt <- function(data, rank, size) data[seq_len(nrow(data)) %% size == rank, , drop = FALSE]

# Rank 1 has none.
one_empty <- function(data, rank, size) {
  rows <- seq_len(nrow(data)) %% (size - 1) == rank %/% 2 & rank != 1
  data[rows, , drop = FALSE]
}

in_blocks <- function(data, rank, size) {
  data[(seq_len(nrow(data)) - 1) %/% ceiling(nrow(data) / size) == rank, , drop = FALSE]
}

# The largest relative difference of numbers.
difference <- function(found, expected) {
  found <- as.double(unlist(found))
  expected <- as.double(unlist(expected))
  stopifnot(identical(is.na(found), is.na(expected)))
  known <- !is.na(expected)
  max(0, abs(found - expected)[known] / max(abs(expected[known]), 1e-300))
}
