# SPDX-License-Identifier: Apache-2.0

# Random bytes for keys, tokens and names that cannot be guessed. The state of R's generator does
# not change.
random_bytes <- function(length) {
  random <- file("/dev/urandom", "rb", raw = TRUE)
  on.exit(close(random))
  readBin(random, "raw", length)
}

# `length` random bytes as a string of hexadecimal digits.
random_hex <- function(length) paste(random_bytes(length), collapse = "")
