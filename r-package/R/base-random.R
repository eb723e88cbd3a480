# SPDX-License-Identifier: Apache-2.0

# Bytes for keys, tokens and names that nobody can guess. The generator of R stays as it is.
random_bytes <- function(length) {
  random <- file("/dev/urandom", "rb", raw = TRUE)
  on.exit(close(random))
  readBin(random, "raw", length)
}
