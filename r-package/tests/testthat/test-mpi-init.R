# SPDX-License-Identifier: Apache-2.0
#
# ring_mpi_init(), with a library of MPICH or Open MPI in the processes of the ranks.

skip_on_cran() # starts MPI

# nolint start: object_usage_linter. Names that testthat defines.
mpi_library <- function(name = "mpich") {
  compiler <- Sys.which(paste0("mpicc.", name))
  skip_if(compiler == "", paste("there is no", name, "to compile a library with"))
  library <- tempfile("mpi_library", fileext = ".so")
  source <- test_path("mpi_library.c")
  expect_identical(system2(compiler, shQuote(c("-shared", "-fPIC", source, "-o", library))), 0L)
  library
}

expect_world <- function(library, ...) {
  for (size in c(1L, 3L)) {
    results <- run_ring(size, {
      if (rank == 0) Sys.setenv(OMPI_COMM_WORLD_RANK = "5")
      before <- Sys.getenv()
      value <- ring_mpi_init(comm, pmix = pmix, {
        mpi <- dyn.load(library, local = FALSE) # Open MPI's plugins look for its symbols
        world <- .C(mpi$mpi_begin, rank = 0L, size = 0L)
        both <- ring_allreduce(comm, .C(mpi$mpi_sum, c(1, rank), 2L)[[1L]], op = "max")
        .C(mpi$mpi_end)
        list(world = world, both = both)
      })
      new <- setdiff(names(Sys.getenv()), names(before)) # Open MPI leaves settings of fabrics
      stopifnot(identical(Sys.getenv()[names(before)], before), !grepl("^(PMI|OMPI|MPI)", new))
      stopifnot(ring_allreduce(comm, 1) == size)
      value
    }, library = library, ...)
    for (rank in seq_len(size) - 1L) {
      expect_identical(results[[rank + 1L]], list(
        world = list(rank = rank, size = size), both = c(size, size * (size - 1) / 2)
      ))
    }
  }
}
# nolint end

test_that("the world of MPICH has the ranks, beside the ring", {
  expect_world(mpi_library(), pmix = NULL)
})

test_that("the world of Open MPI has the ranks, beside the ring", {
  skip_if_not(file.exists(system.file("bin", "sparkring-pmix", package = "sparkring")),
              "sparkring was installed without PMIx")
  expect_world(mpi_library("openmpi"), pmix = TRUE)
})

test_that("code that fails, or does not finalize MPI, fails on all ranks", {
  results <- run_ring(2, {
    failed <- tryCatch(
      ring_mpi_init(comm, if (rank == 1) stop("not today") else Sys.sleep(2)),
      error = identity
    )
    left <- tryCatch(
      ring_mpi_init(comm, {
        mpi <- dyn.load(library)
        .C(mpi$mpi_begin, 0L, 0L)
      }),
      error = identity
    )
    list(failed = failed, left = left)
  }, library = mpi_library(), lost = 0:1)
  expect_s3_class(results[[2L]]$failed, "simpleError")
  expect_s3_class(results[[1L]]$failed, "ring_error_aborted")
  expect_identical(conditionMessage(results[[1L]]$failed), "rank 1 (127.0.0.1): not today")
  for (result in results) expect_s3_class(result$left, "ring_error_aborted")
})

test_that("communicators that encrypt refuse", {
  results <- run_ring(2, {
    refused <- tryCatch(ring_mpi_init(comm, 1), error = identity)
    list(refused, tryCatch(ring_mpi_init(comm, 1, allow_plain = TRUE), error = identity))
  }, options = list(token = fresh_token(), timeout = 30, encryption = TRUE))
  for (result in results) {
    expect_s3_class(result[[1L]], "ring_error_unsupported")
    expect_match(conditionMessage(result[[1L]]), "pass allow_plain = TRUE")
    expect_match(conditionMessage(result[[2L]]), "has not initialized MPI over PMI-1 or PMIx")
  }
})
