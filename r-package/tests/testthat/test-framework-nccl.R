# SPDX-License-Identifier: Apache-2.0
#
# The unique id of NCCL, of a library that stands in for it.

stub <- "
static int calls;
int ncclGetUniqueId(char *id) {
  for (int i = 0; i < 128; i++) id[i] = (char)(i * 7 + calls);
  return calls++;
}
"

test_that("all ranks get the id of rank 0, or the reason why there is none", {
  folder <- tempfile("nccl")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  writeLines(stub, file.path(folder, "nccl.c"))
  library <- file.path(folder, paste0("nccl", .Platform$dynlib.ext))
  r <- file.path(R.home("bin"), "R")
  source <- shQuote(file.path(folder, "nccl.c"))
  log <- system2(r, c("CMD", "SHLIB", source), stdout = TRUE, stderr = TRUE)
  expect_true(file.exists(library), info = log)
  results <- run_ring(2, {
    result <- function(...) tryCatch(ring_nccl_id(comm, ...), ring_error = identity)
    wrong <- if (rank == 1) 3 else library
    list(result(library), result(library), result("/no/such/library"), result(wrong))
  }, library = library)
  for (rank in 0:1) {
    expect_identical(results[[rank + 1]][[1]], as.raw((0:127 * 7) %% 256))
    texts <- vapply(results[[rank + 1]][-1], conditionMessage, "")
    expect_match(texts[[1]], "^rank 0 .* has no unique id of NCCL: ncclGetUniqueId failed with 1")
    expect_match(texts[[2]], "/no/such/library")
    expect_match(texts[[3]], "`library` must be one string, not 3")
    expect_s3_class(results[[rank + 1]][[3]], "ring_error_unsupported")
  }
})
