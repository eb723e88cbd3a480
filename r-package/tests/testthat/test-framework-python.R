# SPDX-License-Identifier: Apache-2.0

skip_on_cran() # starts Python

# nolint start: object_usage_linter. testthat provides these functions.
skip_without_python <- function() {
  skip_if_not_installed("reticulate")
  python <- Sys.getenv("SPARKRING_PYTHON", Sys.which("python3"))
  skip_if(!nzchar(python), "there is no Python")
  import <- c("-c", shQuote("import sparkring"))
  found <- system2(python, import, stdout = FALSE, stderr = FALSE) == 0
  skip_if(!found, paste(python, "has no package sparkring"))
  python
}
# nolint end

test_that("Python in the process of R is the same rank", {
  python <- skip_without_python()
  results <- run_ring(2, python = python, code = {
    Sys.setenv(RETICULATE_PYTHON = python)
    ring <- ring_python(comm)
    sum <- as.numeric(ring$allreduce(reticulate::import("numpy")$full(2L, rank + 1)))
    again <- identical(ring_python(comm), ring)
    reticulate::py_run_string("import sparkring; rank = sparkring.init().rank")
    result <- list(
      rank = reticulate::py$rank, size = ring$size, sum = sum, again = again,
      of_r = ring_allreduce(comm, 1)
    )
    ring$close()
    result
  })
  for (rank in 0:1) {
    expect_identical(results[[rank + 1]]$rank, rank)
    expect_identical(results[[rank + 1]]$size, 2L)
    expect_identical(results[[rank + 1]]$sum, c(3, 3))
    expect_true(results[[rank + 1]]$again)
    expect_identical(results[[rank + 1]]$of_r, 2)
  }
})

test_that("without Python's sparkring all ranks get an error, and the communicator goes on", {
  python <- skip_without_python()
  errors <- run_ring(2, python = python, code = {
    Sys.setenv(RETICULATE_PYTHON = python)
    if (rank == 1) reticulate::py_run_string("import sys; sys.modules['sparkring'] = None")
    error <- tryCatch(ring_python(comm), ring_error = identity)
    ring_barrier(comm)
    error
  })
  expect_s3_class(errors[[2]], "ring_error_unsupported")
  expect_match(conditionMessage(errors[[2]]), "cannot import it .*RETICULATE_PYTHON")
  expect_match(conditionMessage(errors[[1]]), "^rank 1 .*failed: .*cannot import it")
})
