# SPDX-License-Identifier: Apache-2.0

test_that("the library exports its init function and nothing else", {
  library <- getLoadedDLLs()[["sparkring"]][["path"]]
  skip_if(Sys.which("nm") == "", "there is no nm to list symbols with")
  options <- if (Sys.info()[["sysname"]] == "Darwin") "-gU" else c("-D", "--defined-only")
  symbols <- system2("nm", c(options, shQuote(library)), stdout = TRUE)
  symbols <- sub("^_?", "", sub(".* ", "", symbols))
  expect_identical(symbols, "R_init_sparkring")
})

test_that("routines are reached by registration only", {
  routines <- names(getDLLRegisteredRoutines("sparkring")[[".Call"]])
  expect_true(all(c("comm_open", "collective_allreduce") %in% routines))
  expect_false(is.loaded("ring_comm_open", "sparkring"))
  expect_false(is.loaded("comm_of", "sparkring"))
})

test_that("everything exported is documented, and starts with ring_ or ml_ring_", {
  exported <- getNamespaceExports("sparkring")
  expect_true(all(grepl("^(ml_)?ring_", exported)))
  index <- system.file("help", "aliases.rds", package = "sparkring")
  skip_if(index == "", "the package was installed without its documentation")
  expect_identical(setdiff(exported, names(readRDS(index))), character())
})
