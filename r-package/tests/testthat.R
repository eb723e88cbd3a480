# SPDX-License-Identifier: Apache-2.0

library(testthat)
library(sparkring)

# scripts/sections/r names the files that it has not run before, by an expression of Perl.
test_check("sparkring", filter = Sys.getenv("SPARKRING_R_TESTS", "."), perl = TRUE)
