# SPDX-License-Identifier: Apache-2.0
#
# The real thing: sparklyr hands its barrier argument to closures in R workers of a Spark stage. A
# connection takes long to make, so a test checks many things.

# nolint start: object_usage_linter. testthat provides these functions.
# The results of the tasks of a stage of three.
spark_ring <- function(sc, ...) {
  ring <- sparklyr::spark_apply(
    sparklyr::sdf_len(sc, 6, repartition = 3),
    function(df, context, barrier) {
      comm <- do.call(sparkring::ring_init, c(list(barrier, timeout = 60), context))
      total <- sparkring::ring_allreduce(comm, as.double(sum(df$id)))
      ranks <- sparkring::ring_allgather(comm, sparkring::ring_rank(comm))
      shown <- format(comm)
      sparkring::ring_close(comm)
      data.frame(
        total = total, rank = sparkring::ring_rank(comm), ranks = paste(ranks, collapse = " "),
        shown = shown, stringsAsFactors = FALSE
      )
    },
    context = list(...), barrier = TRUE, packages = FALSE,
    columns = c(total = "double", rank = "integer", ranks = "character", shown = "character")
  )
  as.data.frame(sparklyr::collect(ring))
}

expect_ring <- function(ring, secured) {
  expect_identical(ring$total, c(21, 21, 21))
  expect_identical(sort(ring$rank), 0:2)
  expect_identical(unique(ring$ranks), "0 1 2")
  expect_match(ring$shown, paste0("rank [0-2] of 3 on .*, ", secured, ", open$"))
}

# The errors of closures that cannot form a ring.
expect_refusals <- function(sc) {
  text <- function(f, columns = c(text = "character"), ...) {
    rows <- sparklyr::spark_apply(
      sparklyr::sdf_len(sc, 2, repartition = 2), of_script(f), columns, ..., barrier = TRUE,
      packages = FALSE
    )
    unique(as.data.frame(sparklyr::collect(rows))$text)
  }
  alone <- text(function(df) {
    comm <- tryCatch(sparkring::ring_init(), ring_error_invalid = conditionMessage)
    data.frame(text = format(comm), stringsAsFactors = FALSE)
  })
  expect_length(alone, 1)
  expect_match(alone, "give the closure the argument, function(df, barrier)", fixed = TRUE)
  grouped <- text(function(df, barrier) {
    comm <- tryCatch(sparkring::ring_init(barrier), ring_error_invalid = conditionMessage)
    data.frame(text = format(comm), stringsAsFactors = FALSE)
  }, c(id = "integer", text = "character"), group_by = "id")
  expect_length(grouped, 1)
  expect_match(grouped, "once for each group of id, .* leave out `group_by`")
}

# Programs of all ranks, one of which fails; without MPI, which may be absent.
expect_programs <- function(sc) {
  folder <- tempfile("programs")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  write <- "echo $PMI_RANK of $PMI_SIZE $MINE >$PMI_RANK; exit $((PMI_RANK == CULPRIT))"
  run <- function(culprit) {
    ring_mpi(sc, "sh", c("-c", write), num_proc = 2, wd = folder,
             env = c(MINE = "yes", CULPRIT = culprit))
  }
  expect_null(run("9"))
  for (rank in 0:1) expect_identical(readLines(file.path(folder, rank)), paste(rank, "of 2 yes"))
  error <- tryCatch(run("1"), ring_error_aborted = identity)
  expect_identical(error$rank, 1L)
  expect_match(conditionMessage(error), "the program 'sh' failed with exit code 1; it has printed")
}

# R starts without dplyr and without its compiler, which is on again for the function.
expect_lean <- function(sc) {
  found <- ring_run(sc, of_script(function(comm) {
    list("dplyr" %in% loadedNamespaces(), compiler::enableJIT(-1L), Sys.getenv("R_ENABLE_JIT"))
  }), num_proc = 2)
  expect_identical(found, rep(list(list(FALSE, 3L, "")), 2))
}

# The driver is a process of its own, so that one can read what it shows.
expect_bar <- function(sc) {
  driver <- child_start(function() {
    options(cli.dynamic = TRUE, cli.progress_show_after = 0, cli.num_colors = 1L)
    ring_run(sc, of_script(function(comm) {
      for (step in 1:4) {
        ring_progress(comm, step, 4, loss = 1 / step)
        ring_barrier(comm)
        Sys.sleep(0.3)
      }
      ring_rank(comm)
    }), num_proc = 2, progress = TRUE)
  })
  shown <- raw()
  while (!is.null(bytes <- child_output(driver, 60))) shown <- c(shown, bytes)
  while (!child_ended(driver)) Sys.sleep(0.01)
  expect_identical(driver$value, list(0L, 1L))
  expect_match(rawToChar(shown), "[1-4]/4 loss (1|0[.][235]+)")
}
# nolint end

test_that("the tasks of spark_apply(barrier = TRUE) form a ring", {
  sc <- spark_connection("local[3]")
  expect_ring(spark_ring(sc, token = fresh_token()), "authenticated")
  ring <- spark_ring(sc, token = fresh_token(), encryption = TRUE, shared_memory = FALSE)
  expect_ring(ring, "authenticated, encrypted")
  expect_refusals(sc)
  expect_programs(sc)
  expect_lean(sc)
  expect_bar(sc)
})

test_that("ring_run() works on two executors", {
  sc <- spark_connection("local-cluster[2,2,1024]")
  expect_programs(sc)
})
