# SPDX-License-Identifier: Apache-2.0
#
# States that outlive an attempt: whole or not there, the same on every rank.

fresh_folder <- function() file.path(tempfile("checkpoint"), "new", "folder")

test_that("the last two states stay, and their numbers go on", {
  comm <- local_world()
  folder <- fresh_folder()
  checkpoint <- ring_checkpoint(comm, folder)
  expect_null(ring_restore(checkpoint))
  expect_identical(ring_restore(checkpoint, default = 3), 3)
  for (number in 0:3) expect_invisible(ring_save(checkpoint, list(number = number)))
  files <- sprintf("state-00000000000%d", 2:3)
  expect_identical(list.files(folder), files)
  expect_identical(ring_restore(ring_checkpoint(comm, folder)), list(number = 3L))
  expect_identical(readRDS(file.path(folder, files[[1L]])), list(number = 2L))
  ring_save(ring_checkpoint(comm, folder), NULL) # without a look at what there is
  expect_null(ring_restore(ring_checkpoint(comm, folder), default = 3))
  expect_length(list.files(folder), 2)
})

test_that("the state before counts when the last one is not whole", {
  comm <- local_world()
  folder <- fresh_folder()
  checkpoint <- ring_checkpoint(comm, folder)
  for (state in c("whole", "torn")) ring_save(checkpoint, state)
  last <- file.path(folder, "state-000000000001")
  bytes <- readBin(last, "raw", file.size(last))
  for (length in c(0, 9, length(bytes) - 1)) {
    writeBin(bytes[seq_len(length)], last)
    again <- ring_checkpoint(comm, folder)
    expect_identical(ring_restore(again), "whole")
  }
  ring_save(again, "next")
  expect_identical(ring_restore(ring_checkpoint(comm, folder)), "next")
  expect_identical(list.files(folder), sprintf("state-00000000000%d", 0:1))
})

test_that("what cannot be written, or found again, is an error", {
  comm <- local_world()
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  invalid(ring_checkpoint(comm, ""), "`path` must be the directory of the checkpoint")
  invalid(ring_checkpoint(comm, "s3://bucket/job"), "is the URL s3://bucket/job: pass the path")
  invalid(ring_save("folder", 1), "`checkpoint` must be what ring_checkpoint\\(\\) returns")
  invalid(ring_restore(NULL), "`checkpoint` must be what ring_checkpoint\\(\\) returns")
  folder <- tempfile("checkpoint")
  file.create(folder) # a file where the folder is to be
  expect_error(
    ring_save(ring_checkpoint(comm, folder), 1), "state-000000000000 cannot be written: ",
    class = "ring_error_system"
  )
  unlink(folder)
  ring_save(ring_checkpoint(comm, folder), 1)
  dir.create(file.path(folder, "new-state-000000000001"))
  expect_error(ring_save(ring_checkpoint(comm, folder), 2), class = "ring_error_system")
  expect_identical(ring_restore(ring_checkpoint(comm, folder)), 1)
  expect_identical(ring_allreduce(comm, 1), 1)
  # An executor's folder is no place that is found again.
  rank_results <- play(1L, of_script(function(df, comm) ring_checkpoint(comm, "here")))
  expect_match(rank_results[[1L]]$failure$message, "relative, and each executor has a working")
  rank_results <- play(1L, attempt = 1L, of_script(function(df, comm) {
    tryCatch(ring_restore(ring_checkpoint(comm, tempfile())), warning = conditionMessage)
  }))
  expect_match(unserialize(rank_results[[1L]]$value), "attempt 1 found no state")
})

test_that("hosts may have folders of their own, of which one has the newest state", {
  folder <- tempfile("checkpoint")
  results <- run_ring(3, folder = folder, code = {
    mine <- file.path(folder, rank)
    dir.create(mine, recursive = TRUE)
    for (number in seq_len(rank)) { # rank 0 has none
      .Call(C_checkpoint_write, mine, number, codec_of_value(c(number, pi)))
    }
    unlink(file.path(mine, "state-000000000001"))
    checkpoint <- ring_checkpoint(comm, mine)
    state <- ring_restore(checkpoint)
    ring_save(checkpoint, "next")
    list(state, list.files(mine))
  })
  expect_identical(lapply(results, `[[`, 1L), rep(list(c(2, pi)), 3))
  files <- list("state-000000000003", character(), "state-000000000002")
  expect_identical(lapply(results, `[[`, 2L), files)
  # One that cannot be read is an error everywhere, and the ranks stay in step.
  results <- run_ring(2, folder = folder, code = {
    dir.create(file.path(folder, "one", "state-000000000001"), recursive = TRUE)
    checkpoint <- ring_checkpoint(comm, file.path(folder, if (rank == 1) "one" else "none"))
    message <- tryCatch(ring_restore(checkpoint), error = conditionMessage)
    c(message, ring_allreduce(comm, 1L))
  })
  expect_match(results[[1L]][[1L]], "rank 1 .* failed: ")
  expect_match(results[[2L]][[1L]], "state-000000000001")
  expect_identical(vapply(results, `[[`, "", 2L), c("2", "2"))
  unlink(folder, recursive = TRUE)
})

test_that("ranks without a token cannot restore", {
  alone <- list(timeout = 30, job = fresh_token()) # others without a token may be at work here, too
  results <- run_ring(2, options = alone, code = {
    tryCatch(ring_restore(ring_checkpoint(comm, tempfile())), error = function(error) class(error))
  })
  for (classes in results) expect_identical(classes[[1L]], "ring_error_invalid")
})

test_that("with a rank killed on the way, the final weights are those of an undisturbed run", {
  train <- of_script(function(comm, path, dies) {
    rows <- datasets::iris[seq_len(150) %% ring_size(comm) == ring_rank(comm), ]
    x <- cbind(1, as.matrix(rows[, 2:4]))
    checkpoint <- ring_checkpoint(comm, path)
    state <- ring_restore(checkpoint, default = list(epoch = 0, weights = numeric(4)))
    begin <- state$epoch
    while (state$epoch < 20) {
      error <- rows$Sepal.Length - drop(x %*% state$weights)
      weights <- state$weights + 2e-4 * ring_allreduce(comm, drop(crossprod(x, error)))
      state <- list(epoch = state$epoch + 1, weights = weights)
      ring_save(checkpoint, state)
      now <- c(ring_rank(comm), as.integer(state$epoch))
      if (ring_attempt(comm) == 0L && identical(now, dies)) {
        tools::pskill(Sys.getpid(), tools::SIGKILL)
      }
    }
    list(begin, state$weights)
  })
  run <- function(dies) {
    path <- tempfile("checkpoint")
    on.exit(unlink(path, recursive = TRUE))
    ring_run(NULL, train, path = path, dies = dies, num_proc = -2, max_restarts = 1)
  }
  undisturbed <- run(integer())
  expect_identical(undisturbed[[1L]], undisturbed[[2L]])
  for (rank in 0:1) {
    expect_message(disturbed <- run(c(rank, 11L)), paste("rank", rank, "on .* was lost"))
    for (result in disturbed) {
      expect_true(result[[1L]] %in% 10:11) # of rank 0, when rank 1 was killed
      expect_identical(result[[2L]], undisturbed[[1L]][[2L]])
    }
  }
})
