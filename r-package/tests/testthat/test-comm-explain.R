# SPDX-License-Identifier: Apache-2.0
#
# Choosing algorithms: rules, and the communicator's explanation of its choice.

alone <- function(...) ring_init(rank = 0, addresses = "localhost", ...)

test_that("explain returns what the call moves", {
  for (algorithm in c("direct", "doubling", "halving", "ring")) {
    results <- run_ranks(3, {
      comm <- open(algorithms = paste0("allreduce:", algorithm), shared_memory = FALSE)
      plan <- ring_comm_explain(comm, "allreduce", 8 * 5000)
      before <- ring_counters(comm)
      ring_allreduce(comm, double(5000))
      after <- ring_counters(comm)
      ring_close(comm)
      list(plan = plan, moved = Map(`-`, after, before))
    }, algorithm = algorithm)
    for (rank in 0:2) {
      plan <- results[[rank + 1]]$plan
      moved <- results[[rank + 1]]$moved
      expect_identical(unlist(plan[c("algorithm", "reason", "tier", "dtype")], use.names = FALSE),
                       c(algorithm, "rule", "loopback", "float64"))
      expect_identical(plan$backend, "native")
      expect_identical(c(plan$bytes, plan$count), c(40000, 5000))
      expect_false(plan$runner_up == algorithm)
      expect_gt(plan$seconds, 0)
      expect_gt(plan$runner_up_seconds, 0)
      names <- c("messages_sent", "messages_received", "bytes_sent", "bytes_received")
      expect_identical(unclass(plan)[names], moved[names])
      expect_match(format(plan), sprintf(
        paste0("^allreduce of 40000 bytes \\(count 5000, float64\\) on 3 ranks over loopback: ",
               "%s \\(rule\\), about .*\nrank %d: %d steps, %d links; "),
        algorithm, rank, plan$steps, plan$links
      ))
    }
  }
})

test_that("nothing moves over links in shared memory", {
  plan <- run_ranks(2, {
    comm <- open()
    plan <- lapply(c(8, 2^20), ring_comm_explain, comm = comm, collective = "allreduce")
    ring_close(comm)
    plan
  })[[1]]
  expect_identical(vapply(plan, `[[`, "", "algorithm"), c("slots", "arena"))
  expect_identical(plan[[1]]$reason, "shared memory")
  expect_identical(c(plan[[2]]$links, plan[[2]]$bytes_sent), c(0, 0))
})

test_that("ranges and defaults", {
  comm <- alone(algorithms = "allreduce:doubling:-1KiB, allgather:ring:1025-")
  on.exit(ring_close(comm))
  expect_identical(ring_comm_explain(comm, "allreduce", 1024)$algorithm, "doubling")
  expect_identical(ring_comm_explain(comm, "allreduce", 1025)$reason, "least cost")
  expect_identical(ring_comm_explain(comm, "allreduce", 1025)$bytes, 1032)
  expect_identical(ring_comm_explain(comm, "allgather", 1032)$algorithm, "ring")
  barrier <- ring_comm_explain(comm, "barrier", 0)
  expect_identical(barrier$reason, "only one")
  expect_identical(barrier$runner_up, NA_character_)
  expect_identical(barrier$runner_up_seconds, NA_real_)
  expect_output(print(barrier), "^barrier on 1 ranks over loopback: dissemination \\(only one\\)")
})

test_that("a rule may not fit a dtype", {
  comm <- alone(algorithms = "allreduce:halving")
  on.exit(ring_close(comm))
  expect_identical(ring_comm_explain(comm, "allreduce", 8)$algorithm, "halving")
  plan <- ring_comm_explain(comm, "allreduce", 8, dtype = "float16")
  expect_false(plan$algorithm == "halving")
  expect_match(plan$text, "the rule cannot serve it")
})

test_that("bad questions", {
  comm <- alone()
  bad <- function(text, ...) {
    expect_error(ring_comm_explain(comm, ...), text, class = "ring_error_invalid")
  }
  bad("all_reduce is no collective; there are allreduce", "all_reduce", 8)
  bad("`collective` must be one string, not NULL", NULL, 8)
  bad("`bytes` must be one whole number, 0 or more, not -1", "allreduce", -1)
  bad("`dtype` is \"float\", which is no element type", "allreduce", 8, "float")
  bad("`dtype` must be one string, not 3", "allreduce", 8, 3)
  bad("root 1 is no rank", "reduce", 8, root = 1)
  ring_close(comm)
  bad("the communicator is closed", "allreduce", 8)
})

test_that("bad rules", {
  bad <- function(algorithms, text) {
    expect_error(alone(algorithms = algorithms), text, class = "ring_error_invalid")
  }
  bad("allreduce", "^algorithms: \"allreduce\" is no rule: write collective:algorithm")
  bad("sum:ring", "^algorithms: \"sum:ring\" does not begin with a collective; there are allreduce")
  bad("reduce:ring", "^algorithms: \"reduce:ring\" names no algorithm .* are tree, chain$")
  bad("reduce:tree:1KB-", "^algorithms: \"reduce:tree:1KB-\" ends in no range of sizes: write")
  bad(7, "`algorithms` must be one string, not 7")
})

test_that("the variable counts where the argument is not given", {
  on.exit(Sys.unsetenv("SPARKRING_ALGORITHM"))
  Sys.setenv(SPARKRING_ALGORITHM = "allreduce:doubling")
  comm <- alone()
  expect_identical(ring_comm_explain(comm, "allreduce", 8)$reason, "rule")
  ring_close(comm)
  comm <- alone(algorithms = "")
  expect_identical(ring_comm_explain(comm, "allreduce", 8)$reason, "least cost")
  ring_close(comm)
  Sys.setenv(SPARKRING_ALGORITHM = "allreduce:tree")
  expect_error(alone(), "^SPARKRING_ALGORITHM: ", class = "ring_error_invalid")
})

test_that("ranks with other rules do not open", {
  errors <- run_ranks(3, {
    algorithms <- if (rank == 1) "allreduce:ring"
    tryCatch(open(algorithms = algorithms), ring_error_mismatch = conditionMessage)
  })
  for (error in errors) {
    expect_match(error, "rank 1 called open\\(\\) with algorithms #")
    expect_match(error, "give all ranks the same algorithm rules")
  }
})
