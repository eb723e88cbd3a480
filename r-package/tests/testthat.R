# SPDX-License-Identifier: Apache-2.0

library(testthat)
library(sparkring)

test_check("sparkring")
