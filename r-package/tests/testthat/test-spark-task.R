# SPDX-License-Identifier: Apache-2.0
#
# The process that supervises a rank: what the rank prints, and how it ends when it does not end
# itself. play() runs what is shipped to Spark's workers.

skip_on_cran() # starts and kills processes

test_that("the last lines of a rank come with its error", {
  f <- of_script(function(df, comm) {
    cat(paste("line", 1:30), sep = "\n")
    message("a message")
    warning("a warning")
    system("echo a child")
    cat("not ended")
    if (nrow(df) == 1) stop("rank one has had enough")
    ring_barrier(comm)
  })
  rank_results <- play(3L, f)
  error <- rank_result_judge(rank_results, 3L, 0L)
  expect_identical(error$rank, 1L)
  lines <- c(paste("line", 15:30), "a message", "Warning in f(rows, comm) : a warning", "a child",
             "not ended")
  expect_identical(error$log, lines)
  expect_match(conditionMessage(error), "\n\nThe last lines of its log:\n  line 15\n", fixed = TRUE)
  expect_match(conditionMessage(error), "\n  a child\n  not ended$")
  expect_identical(rank_results[[1]]$log, lines)
})

test_that("a rank that goes on computing is ended when another has failed", {
  began <- proc.time()[["elapsed"]]
  file <- tempfile("left")
  f <- of_script(function(df, comm, file) {
    ring_barrier(comm)
    if (nrow(df) == 1) {
      while (!file.exists(file) || length(readLines(file)) < 2) Sys.sleep(0.01)
      stop("rank one has had enough")
    }
    cat("has left the barrier\n", file = file, append = TRUE) # where the others would get its error
    cat(Sys.getpid(), "\n")
    if (nrow(df) == 2) system("sleep 500") else repeat sqrt(2)
  })
  rank_results <- play(3L, f, file)
  unlink(file)
  error <- rank_result_judge(rank_results, 3L, 0L)
  expect_match(conditionMessage(error), "^rank 1 on .* failed: rank one has had enough")
  expect_gt(proc.time()[["elapsed"]] - began, exit_barrier_grace)
  expect_lt(proc.time()[["elapsed"]] - began, 60)
  for (rank_result in rank_results[-2]) {
    expect_identical(rank_result$failure$what, "was ended before it had finished")
    expect_false(is_running(rank_result$log))
  }
})

test_that("a rank that is killed, or calls quit(), is reported with its output", {
  ends <- list(
    killed = function(df, comm) {
      cat("I am to be killed\n")
      if (nrow(df) == 1) tools::pskill(Sys.getpid(), tools::SIGKILL)
      ring_barrier(comm)
    },
    quit = function(df, comm) {
      cat("I am to quit\n")
      if (nrow(df) == 1) quit("no", status = 3L)
      ring_barrier(comm)
    }
  )
  texts <- c(
    killed = "killed by SIGKILL \\(probably out of memory: raise spark.executor.memoryOverhead\\)",
    quit = "failed with exit code 3"
  )
  for (name in names(ends)) {
    error <- rank_result_judge(play(2L, of_script(ends[[name]])), 2L, 0L)
    expect_s3_class(error, "ring_error_remote")
    expect_identical(error$rank, 1L)
    expect_match(conditionMessage(error), paste0("^rank 1 on .* was lost: its R .*", texts[[name]]))
    expect_match(error$log, "^I am to ")
  }
})

test_that("a rank that is killed is reported at once, and its children end with it", {
  file <- tempfile("child")
  f <- of_script(function(df, comm, file) {
    if (nrow(df) == 1) {
      writeLines(as.character(parallel::mcparallel(Sys.sleep(50))$pid), file)
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    Sys.sleep(50) # no rank is in a call, which would fail
  })
  took <- system.time(rank_results <- play(2L, f, file))[["elapsed"]]
  expect_lt(took, 40)
  expect_match(rank_results[[2]]$failure$message, "its R process was killed by SIGKILL")
  expect_ended(readLines(file), 5)
  unlink(file)
})

test_that("ranks end with the call on the driver, whatever they compute", {
  server <- log_server_start("127.0.0.1", shows = FALSE)
  file <- tempfile("pids")
  f <- of_script(function(df, comm, file, driver) {
    cat(sprintf("%d\n", Sys.getpid()), file = file, append = TRUE) # in one piece
    ring_barrier(comm)
    Sys.sleep(5) # the link to the driver is open
    if (nrow(df) == 0) tools::pskill(driver, tools::SIGKILL) # as when the call ends
    repeat sqrt(2)
  })
  begin <- proc.time()[["elapsed"]]
  rank_results <- play(3L, f, file, server$child$process$pid, log_server = server$endpoint)
  expect_lt(proc.time()[["elapsed"]] - begin, 60)
  log_server_stop(server)
  pids <- readLines(file)
  expect_length(pids, 3)
  expect_false(any(vapply(pids, is_running, NA)))
  for (each in rank_results) expect_identical(each$failure$what, "was ended before it had finished")
  error <- rank_result_judge(rank_results, 3L, 0L)
  expect_match(conditionMessage(error), "the call on the driver has ended")
})

test_that("ranks that start after the call has ended end soon", {
  server <- log_server_start("127.0.0.1", shows = FALSE)
  Sys.sleep(1) # it waits for them
  log_server_stop(server, over = FALSE)
  begin <- proc.time()[["elapsed"]]
  f <- of_script(function(df, comm) repeat sqrt(2))
  rank_results <- play(2L, f, log_server = server$endpoint)
  expect_lt(proc.time()[["elapsed"]] - begin, 60)
  error <- rank_result_judge(rank_results, 2L, 0L)
  expect_match(conditionMessage(error), "the call on the driver has ended")
  while (!child_ended(server$child)) Sys.sleep(0.01)
  log_server_sweep()
  expect_length(log_server_left$children, 0)
})

test_that("ranks that cannot connect to the driver go on without it", {
  f <- of_script(function(df, comm) {
    Sys.sleep(3)
    ring_allreduce(comm, 1)
  })
  rank_results <- play(2L, f, log_server = list(host = "127.0.0.1", token = as.raw(1:32)))
  expect_identical(rank_result_values(rank_results), list(2, 2))
})

test_that("a rank ends with its task, and that with who has started it", {
  folder <- tempfile("orphan")
  dir.create(folder)
  job <- list(
    work = serialize(list(f = of_script(function(comm, file) {
      writeLines(as.character(c(Sys.getpid(), sparkring:::child_parent())), file)
      repeat sqrt(2)
    }), args = list(file.path(folder, "pids"))), NULL),
    size = 1L, attempt = 0L, token = charToRaw(fresh_token()), options = list(timeout = 30)
  )
  saveRDS(job, file.path(folder, "job.rds"))
  script <- file.path(folder, "worker.R")
  writeLines(deparse(bquote({
    .libPaths(.(.libPaths()))
    sparkring:::local_main(.(c(folder, "0")))
  })), script)
  log <- file.path(folder, "log")
  rscript <- file.path(R.home("bin"), "Rscript")
  parent <- file.path(folder, "parent.sh")
  writeLines(sprintf("'%s' '%s' >'%s' 2>&1 &\nwait", rscript, script, log), parent)
  system(sprintf("sh '%s' & echo $! >'%s'", parent, file.path(folder, "parent")))
  wait_for_file(file.path(folder, "pids"))
  Sys.sleep(0.1)
  pids <- readLines(file.path(folder, "pids"))
  expect_true(all(vapply(pids, is_running, NA)))
  tools::pskill(as.integer(readLines(file.path(folder, "parent"))), tools::SIGKILL)
  expect_ended(pids, seconds = 30)
  unlink(folder, recursive = TRUE)
})

test_that("a time limit of this process does not end a child with an error", {
  on.exit(setTimeLimit())
  setTimeLimit(elapsed = 3)
  child <- child_start(function() {
    for (i in 1:35) Sys.sleep(0.1)
    "the end"
  }, captured = FALSE)
  setTimeLimit()
  while (!child_ended(child)) Sys.sleep(0.05)
  expect_identical(child$value, "the end")
})
