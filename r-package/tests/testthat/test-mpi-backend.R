# SPDX-License-Identifier: Apache-2.0
#
# ring_init(backend = "mpi"): MPI carries the collectives of ranks that mpiexec has started.

skip_on_cran() # starts MPI

# nolint start: object_usage_linter. Names that testthat defines.
# Runs R code on ranks of MPICH, and returns what they print, sorted.
mpiexec <- function(size, code, ...) {
  launcher <- Sys.which("mpiexec.mpich")
  installs <- nzchar(Sys.getenv("SPARKRING_PYTHON")) # in the tests of this repository
  skip_if(launcher == "" && !installs, "there is no mpiexec of MPICH")
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c(sprintf(".libPaths(%s)", deparse1(.libPaths())), "library(sparkring)", code), script)
  rscript <- file.path(R.home("bin"), "Rscript")
  sort(system2(
    launcher, c("-n", size, shQuote(rscript), shQuote(script)), stdout = TRUE, stderr = TRUE,
    env = c("SPARKRING_TOKEN=0123456789abcdef0123456789abcdef", ...)
  ))
}

test_that("MPI carries collectives", {
  lines <- mpiexec(3, '
    comm <- ring_init(backend = "mpi")
    stopifnot(
      ring_comm_explain(comm, "allreduce", 4096)$backend == "mpi",
      identical(ring_allreduce(comm, c(a = 1, b = ring_rank(comm))), c(a = 3, b = 3)),
      identical(ring_allreduce(comm, ring_rank(comm) + 0:2, op = "max"), 2:4),
      identical(ring_broadcast(comm, c(TRUE, FALSE, NA)), c(TRUE, FALSE, NA)),
      identical(ring_scan(comm, 1L), ring_rank(comm) + 1L)
    )
    child <- ring_comm_split(comm, ring_rank(comm) %% 2)
    stopifnot(ring_allreduce(child, 1) == ring_size(child))
    ring_close(child)
    ring_close(comm)
    cat("done\n")')
  expect_identical(lines, rep("done", 3))
})

test_that("a rank that is late is named", {
  lines <- mpiexec(2, '
    comm <- ring_init(backend = "mpi", call_timeout = 1)
    ring_barrier(comm)
    if (ring_rank(comm) == 1) {
      Sys.sleep(3)
    } else {
      error <- tryCatch(ring_allreduce(comm, 1), ring_error_timeout = identity)
      cat(error$rank, conditionMessage(error), "\n")
    }')
  expect_match(lines, "^1 rank 0 waited .* for rank 1 \\(.*; not waiting\\)", all = FALSE)
})

test_that("a rank without an MPI library is an error on all ranks", {
  lines <- mpiexec(2, '
    error <- tryCatch(ring_init(backend = "mpi"), ring_error_unsupported = identity)
    cat(paste0(conditionMessage(error), "\n"))', "SPARKRING_MPI_LIBRARY=/no/such/library")
  expect_length(lines, 2)
  expect_match(lines, "^rank 0 has no MPI library: /no/such/library: ")
})

test_that("another backend is an error", {
  expect_error(
    ring_init(backend = "gloo"), "it must be native or mpi",
    class = "ring_error_invalid"
  )
  expect_error(ring_init(backend = 1), "`backend` must be one string", class = "ring_error_invalid")
})
# nolint end
