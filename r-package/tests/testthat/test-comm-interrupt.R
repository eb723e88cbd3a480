# SPDX-License-Identifier: Apache-2.0

skip_on_cran() # interrupts processes

test_that("an interrupt ends ring_init, and is an interrupt to R", {
  # This process plays a rank 0 that never answers, and interrupts rank 1 once that has come.
  server <- listen()
  file <- tempfile("process")
  interrupt_guest <- function() {
    guest <- socketAccept(server$socket, timeout = 30)
    tools::pskill(readRDS(file), tools::SIGINT)
    guest
  }
  results <- run_ranks(1, {
    saveRDS(Sys.getpid(), file)
    caught <- tryCatch(
      ring_init(rank = 1, size = 2, root_address = "127.0.0.1", ports = c(port, port)),
      interrupt = class
    )
    gc()
    live <- comm_live()
    ring_close(ring_init())
    list(caught = caught, live = live)
  }, port = server$port, file = file, meanwhile = guest <- interrupt_guest())
  close(guest)
  close(server$socket)
  unlink(file)
  expect_identical(results[[1]], list(caught = c("interrupt", "condition"), live = 0L))
})

test_that("an interrupt ends a collective, and all ranks learn it", {
  results <- run_ranks(2, {
    comm <- open()
    server <- if (rank == 1) listen() else list(port = 0L)
    port <- ring_broadcast(comm, server$port, root = 1)
    if (rank == 0) {
      # The signal may come while the broadcast still runs; then the sum notices it.
      caught <- tryCatch(
        {
          ring_broadcast(comm, Sys.getpid())
          ring_allreduce(comm, c(1, 2))
        },
        interrupt = class
      )
      close(socketConnection(port = port, timeout = 30))
    } else {
      tools::pskill(ring_broadcast(comm, 0L), tools::SIGINT)
      close(socketAccept(server$socket, timeout = 30)) # comes after the interrupt
      caught <- NULL
    }
    # Rank 0 gave its numbers before it was interrupted, so rank 1 may still learn their sum.
    after <- tryCatch(
      {
        ring_allreduce(comm, c(1, 2))
        ring_barrier(comm)
      },
      ring_error = identity
    )
    list(caught = caught, after = after, shown = format(comm))
  }, listen = listen)
  expect_identical(results[[1]]$caught, c("interrupt", "condition"))
  for (result in results) {
    expect_s3_class(result$after, "ring_error_aborted")
    expect_match(result$shown, "broken$")
  }
  expect_match(conditionMessage(results[[2]]$after), "interrupted")
})

test_that("a time limit of R ends a wait, and leaves nothing open", {
  gc() # those of other tests
  before <- comm_live()
  limited <- function() {
    setTimeLimit(elapsed = 0.3)
    on.exit(setTimeLimit())
    ring_init(rank = 0, addresses = rep("127.0.0.1", 2), token = fresh_token(), timeout = 60)
  }
  started <- proc.time()[["elapsed"]]
  expect_error(limited(), "time limit")
  expect_lt(proc.time()[["elapsed"]] - started, 30)
  gc()
  expect_identical(comm_live(), before)
  ring_close(ring_init())
})
