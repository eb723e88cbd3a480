# SPDX-License-Identifier: Apache-2.0

cluster <- function(master = "yarn", slots = 8L, cores = c(8L, 8L), task_cpus = 2L, expected = NA,
                    dynamic = FALSE, gpus = 0, age = 0) {
  list(
    master = master, slots = slots, cores = cores, task_cpus = task_cpus, expected = expected,
    dynamic = dynamic, gpus = gpus, age = age
  )
}

test_that("too few slots are explained with the arithmetic", {
  expect_identical(slots_explain(cluster(), 9L), paste(
    "9 ranks need as many free task slots at the same time, but yarn has 8: 2 executors x (8 cores",
    "/ 2 per task). To go on, pass num_proc = 8 or less, or start more or larger executors",
    "(spark.executor.instances, spark.executor.cores)"
  ))
  local <- slots_explain(cluster("local[3]", 3L, 3L, 1L), 4L)
  expect_match(local, "local[3] has 3: 3 cores / 1 per task.", fixed = TRUE)
  expect_match(local, "connect to local[4]", fixed = TRUE)
  expect_match(slots_explain(cluster(slots = 0L, cores = integer()), 1L), paste(
    "^1 rank needs .*no executor has registered. Wait for executors"
  ))
  uneven <- slots_arithmetic(cluster(cores = c(8L, 3L)))
  expect_identical(uneven, "executors with 8 + 3 cores / 2 per task, each rounded down")
  missing <- slots_arithmetic(cluster(cores = 8L, expected = 3L))
  expect_identical(missing, "1 executor x (8 cores / 2 per task), and 2 executors are missing")
})

test_that("slots that other tasks hold are waited for, with a message", {
  at_look <- function(running) c(cluster("local[4]", 4L, 4L, 1L), running = running)
  looks <- 0
  look <- function() {
    looks <<- looks + 1
    at_look(if (looks < 2) 2L else 1L)
  }
  expect_silent(slots_wait_free(at_look(1L), 3L, 30, look))
  expect_identical(looks, 0)
  expect_silent(slots_wait_free(at_look(2L), 3L, 30, look))
  expect_identical(looks, 2)
  expect_message(
    slots_wait_free(at_look(3L), 3L, 30, look, report_after = -1),
    "local\\[4\\] has 4 slots \\(4 cores / 1 per task\\), of which .* hold 3. .*; still waiting"
  )
  expect_error(
    slots_wait_free(at_look(4L), 3L, -1, look),
    "the 3 tasks of the ranks have not all started after 0 s",
    class = "ring_error_timeout"
  )
})

test_that("it is known how many executors there should be", {
  expect_identical(slots_expected(cluster("local-cluster[2, 3,1024]")), 2L)
  expect_identical(slots_expected(cluster(expected = 4L)), 4L)
  expect_identical(slots_expected(cluster(expected = 0L)), NA_integer_)
  expect_identical(slots_local(c("local", "local[*]", "local[4]", "local-cluster[1,1,1]")), c(
    TRUE, TRUE, TRUE, FALSE
  ))
})

test_that("missing executors get time to register", {
  patience <- function(..., attempt = 0L) slots_patience(cluster(...), attempt)
  expect_identical(patience("local[4]"), 0)
  expect_identical(patience(expected = 2L), 0)
  expect_identical(patience(expected = 3L), 60)
  expect_identical(patience(cores = integer()), 60)
  expect_identical(patience(age = 10), 20)
  expect_identical(patience(age = 1000), 2)
  expect_identical(patience(expected = 3L, attempt = 1L), Inf)
  expect_identical(slots_age(NULL), 0)
  expect_equal(slots_age(1000 * (as.numeric(Sys.time()) - 7)), 7, tolerance = 0.1)
})

test_that("dynamic allocation is refused, with the way out", {
  expect_error(
    slots_check_settings(cluster(dynamic = TRUE)), "Set it to false",
    class = "ring_error_unsupported"
  )
  expect_null(slots_check_settings(cluster("local[2]", dynamic = TRUE)))
})

test_that("GPUs that a local master cannot assign are refused, with the remedy", {
  expect_error(
    slots_check_settings(cluster("local[2]", gpus = 0.5)), "call ring_gpus\\(comm, 1\\)",
    class = "ring_error_unsupported"
  )
  expect_null(slots_check_settings(cluster("local-cluster[1,1,1]", gpus = 1)))
  expect_null(slots_check_settings(cluster("local[2]")))
})
