# SPDX-License-Identifier: Apache-2.0

test_that("a process by itself is a world of one", {
  comm <- local_world()
  expect_s3_class(comm, "ring_comm")
  expect_identical(ring_rank(comm), 0L)
  expect_identical(ring_size(comm), 1L)
  expect_identical(ring_local_rank(comm), 0L)
  expect_identical(ring_local_size(comm), 1L)
  expect_length(ring_hosts(comm), 1)
})

test_that("ranks know their place, whatever shape sparklyr's barrier has", {
  results <- run_ranks(4, {
    address <- rep("127.0.0.1:40001", size)
    if (rank %% 2 == 0) address <- as.list(address)
    partition <- if (rank < 2) rank else as.double(rank)
    comm <- ring_init(list(partition = partition, address = address), token = token, timeout = 30)
    place <- c(ring_rank(comm), ring_size(comm), ring_local_rank(comm), ring_local_size(comm))
    shown <- capture.output(print(comm))
    hosts <- ring_hosts(comm)
    ring_close(comm)
    list(place = place, shown = shown, hosts = hosts)
  }, token = fresh_token())
  for (rank in 0:3) {
    result <- results[[rank + 1]]
    expect_identical(result$place, c(rank, 4L, rank, 4L))
    expect_identical(result$hosts, rep("127.0.0.1", 4))
    expect_identical(
      result$shown, sprintf("<ring_comm> rank %d of 4 on 127.0.0.1, authenticated, open", rank)
    )
  }
})

test_that("rank 0's address is enough, and a ring without a token warns", {
  shown <- run_ranks(2, {
    comm <- ring_init(
      rank = rank, size = size, root_address = "127.0.0.1", job = job, ports = c(22000, 30000),
      timeout = 30
    )
    shown <- format(comm)
    ring_close(comm)
    c(shown, format(comm))
  }, job = fresh_token())
  expect_match(shown[[2]][[1]], "rank 1 of 2 on .*, NOT authenticated \\(no token\\), open")
  expect_match(shown[[2]][[2]], "closed$")
})

test_that("the environment of sparkring-run is understood", {
  results <- run_ranks(3, {
    Sys.setenv(
      SPARKRING_RANK = rank, SPARKRING_SIZE = size, SPARKRING_TOKEN = token,
      SPARKRING_ADDRESSES = paste(rep("127.0.0.1", size), collapse = ","), SPARKRING_TIMEOUT = 30
    )
    comm <- ring_init()
    sum <- ring_allreduce(comm, rank)
    ring_close(comm)
    sum
  }, token = fresh_token())
  expect_identical(results, list(3L, 3L, 3L))
})

test_that("a token of bytes is the same as its string", {
  results <- run_ranks(2, {
    comm <- open(token = if (rank == 0) token else charToRaw(token))
    ring_close(comm)
    format(comm)
  }, token = fresh_token())
  expect_match(results[[1]], ", authenticated, closed$")
})

test_that("a process has one communicator at a time", {
  comm <- ring_init()
  expect_error(ring_init(), "open communicator already.*next", class = "ring_error_invalid")
  ring_close(comm)
  comm <- ring_init()
  ring_abort(comm)
  comm <- ring_init()
  expect_identical(ring_allreduce(comm, 2), 2)
  ring_close(comm)
})

test_that("one that nobody can reach any more is no obstacle", {
  ring_init()
  comm <- ring_init()
  expect_match(format(comm), "open")
  ring_close(comm)
})

test_that("closing and aborting twice does nothing more", {
  comm <- ring_init()
  expect_null(ring_close(comm))
  expect_null(ring_close(comm))
  expect_null(ring_abort(comm))
  expect_identical(ring_rank(comm), 0L)
  expect_identical(ring_size(comm), 1L)
})

test_that("a call after close is an error", {
  comm <- ring_init()
  ring_close(comm)
  expect_error(ring_barrier(comm), "the communicator is closed", class = "ring_error_invalid")
  expect_error(ring_allreduce(comm, 1), "the communicator is closed", class = "ring_error_invalid")
  expect_error(ring_broadcast(comm, 1), "the communicator is closed", class = "ring_error_invalid")
  expect_error(ring_allgather(comm, 1), "the communicator is closed", class = "ring_error_invalid")
})

test_that("a communicator does not survive a file", {
  comm <- local_world()
  file <- tempfile()
  saveRDS(comm, file)
  loaded <- readRDS(file)
  unlink(file)
  expect_error(ring_rank(loaded), "saved and loaded.*ring_init", class = "ring_error_invalid")
  expect_error(print(loaded), "saved and loaded", class = "ring_error_invalid")
})

test_that("a forked child opens one of its own", {
  comm <- local_world()
  job <- parallel::mcparallel({
    refused <- tryCatch(ring_barrier(comm), ring_error_invalid = conditionMessage)
    own <- ring_init()
    sum <- ring_allreduce(own, 3)
    ring_close(own)
    list(refused = refused, sum = sum)
  })
  result <- parallel::mccollect(job)[[1]]
  expect_match(result$refused, "forked")
  expect_identical(result$sum, 3)
  expect_null(ring_barrier(comm))
})

test_that("a link has as many connections as the option sets", {
  skip_if_not(dir.exists("/proc/self/fd"), "there is no directory of open files")
  links <- function(connections) {
    results <- run_ranks(2, connections = connections, {
      sockets <- function() {
        files <- Sys.readlink(dir("/proc/self/fd", full.names = TRUE))
        length(grep("^socket", files))
      }
      before <- sockets()
      comm <- open(shared_memory = FALSE, connections = connections)
      on.exit(ring_close(comm))
      total <- ring_allreduce(comm, seq_len(1e5) + rank)
      list(right = all(total == 2 * seq_len(1e5) + 1), sockets = sockets() - before)
    })
    for (result in results) expect_true(result$right)
    results[[1]]$sockets
  }
  expect_identical(links(3) - links(1), 2L)
})

test_that("connections that cannot be, or that differ, are errors", {
  expect_error(ring_init(connections = 0), "`connections` is 0: it must be 1 or more",
    class = "ring_error_invalid"
  )
  expect_error(ring_init(connections = 17), "connections is 17: it must be from 1 to 16",
    class = "ring_error_invalid"
  )
  results <- run_ranks(2, {
    tryCatch(open(connections = 2 + rank), ring_error_mismatch = conditionMessage)
  })
  for (result in results) expect_match(result, "the same connections")
})

test_that("encryption", {
  shown <- function(encryption, variable = NA) {
    results <- run_ranks(2, encryption = encryption, variable = variable, {
      if (!is.na(variable)) Sys.setenv(SPARKRING_ENCRYPTION = variable)
      comm <- open(shared_memory = FALSE, encryption = encryption)
      on.exit(ring_close(comm))
      total <- ring_allreduce(comm, seq_len(1e5) + rank)
      child <- ring_comm_split(comm, 0)
      shown <- c(format(comm), format(child))
      ring_close(child)
      list(right = all(total == 2 * seq_len(1e5) + 1), shown = shown)
    })
    for (result in results) expect_true(result$right)
    unique(sub(".* on 127.0.0.1, ", "", unlist(lapply(results, `[[`, "shown"))))
  }
  expect_identical(shown(TRUE), "authenticated, encrypted, open")
  expect_identical(shown(NULL), "authenticated, open")
  expect_identical(shown(NULL, "1"), "authenticated, encrypted, open")
  expect_identical(shown(NULL, "0"), "authenticated, open")
  expect_identical(shown(FALSE, "1"), "authenticated, open")
})

test_that("encryption that cannot be is an error", {
  expect_refused <- function(text, ...) {
    expect_error(ring_init(rank = 0, addresses = rep("127.0.0.1", 2), ...), text,
      class = "ring_error_invalid"
    )
  }
  on.exit(Sys.unsetenv("SPARKRING_ENCRYPTION"))
  needs <- "encryption needs a token: give all ranks the same one, of at least 16 random bytes"
  expect_refused(needs, encryption = TRUE)
  expect_refused("`encryption` must be TRUE or FALSE, not \"no\"", encryption = "no")
  Sys.setenv(SPARKRING_ENCRYPTION = 1)
  expect_refused(needs)
  Sys.setenv(SPARKRING_ENCRYPTION = "yes")
  expect_refused("is \"yes\", which is neither 1 nor 0")
})

test_that("encryption that differs is an error", {
  results <- run_ranks(2, {
    tryCatch(open(encryption = rank == 1), ring_error = function(error) {
      c(class(error)[[1]], conditionMessage(error))
    })
  })
  for (result in results) {
    expect_identical(result[[1]], "ring_error_mismatch")
    expect_match(
      result[[2]], "^rank 1.* wants encryption, and rank 0 \\(127\\.0\\.0\\.1\\) wants none: "
    )
  }
})

test_that("counters count what ranks share", {
  results <- run_ranks(2, {
    comm <- open()
    on.exit(ring_close(comm))
    before <- ring_counters(comm)
    ring_allreduce(comm, double(1e4))
    after <- ring_counters(comm)
    list(
      shared = after$bytes_shared - before$bytes_shared,
      sent = after$bytes_sent - before$bytes_sent,
      link = ring_counters(comm, peer = 1 - rank)$bytes_shared
    )
  })
  for (result in results) expect_identical(result, list(shared = 80000, sent = 0, link = 0))
})

test_that("counters count", {
  results <- run_ranks(2, {
    comm <- open(shared_memory = FALSE)
    on.exit(ring_close(comm))
    before <- ring_counters(comm)
    ring_allreduce(comm, double(1e4))
    after <- ring_counters(comm)
    list(
      calls = after$calls - before$calls, sent = after$bytes_sent - before$bytes_sent,
      link = ring_counters(comm, peer = 1 - rank)$bytes_sent, total = after$bytes_sent
    )
  })
  for (result in results) {
    expect_identical(result$calls, 1)
    expect_gte(result$sent, 80000)
    expect_lt(result$sent, 81000)
    expect_identical(result$link, result$total)
  }
  expect_error(ring_counters(local_world(), 1), "`peer` is 1: ranks go from 0 to 0")
})
