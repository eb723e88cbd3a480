# SPDX-License-Identifier: Apache-2.0

test_that("both ranks receive and send at any size", {
  results <- run_ring(2, {
    messages <- ring_messages(comm)
    peer <- 1 - rank
    sizes <- c(0, 1, 1000, 1e6)
    same <- vapply(sizes, function(n) {
      receive <- ring_message_recv_start(messages, peer, 5)
      send <- ring_message_send_start(messages, rep(rank + 0.5, n), peer, 5)
      if (rank == 0) ring_transfer_wait(send)
      got <- ring_transfer_wait(receive)
      ring_transfer_wait(send)
      stopifnot(ring_transfer_test(send), ring_transfer_test(receive))
      identical(got, rep(peer + 0.5, n))
    }, NA)
    ring_messages_close(messages)
    all(same)
  })
  expect_identical(results, list(TRUE, TRUE))
})

test_that("tags and sources select messages", {
  results <- run_ring(3, {
    messages <- ring_messages(comm)
    result <- NULL
    if (rank > 0) {
      ring_message_send(messages, rep(as.integer(rank), rank), 0, tag = rank)
      ring_message_send_object(messages, list(rank = rank), 0, tag = 9)
    } else {
      none <- ring_message_probe(messages, tag = 77, wait = FALSE)
      found <- ring_message_probe(messages, tag = 2)
      second <- ring_message_recv(messages, found$source, found$tag, return_status = TRUE)
      first <- ring_message_recv(messages, tag = 1)
      objects <- lapply(1:2, function(i) ring_message_recv_object(messages, tag = 9)$rank)
      result <- list(none, found, second, first, sort(unlist(objects)))
    }
    ring_messages_close(messages)
    result
  })
  found <- list(source = 2L, tag = 2L, dtype = "int32", count = 2)
  expect_identical(
    results[[1]], list(NULL, found, c(list(value = c(2L, 2L)), found), 1L, c(1L, 2L))
  )
})

test_that("every type arrives", {
  sent <- list(c(1.5, NA), c(3L, NA), as.raw(1:3), c(1 + 2i, -1i), matrix(1:4, 2), TRUE)
  results <- run_ring(2, {
    messages <- ring_messages(comm)
    got <- lapply(sent, function(x) {
      ring_message_sendrecv(messages, x, 1 - rank, source = 1 - rank)
    })
    ring_messages_close(messages)
    got
  }, sent = sent)
  expected <- list(c(1.5, NA), c(3L, NA), as.raw(1:3), c(1 + 2i, -1i), 1:4, 1L)
  expect_identical(results, list(expected, expected))
})

test_that("bad arguments and forgotten messages are errors", {
  results <- run_ring(2, {
    messages <- ring_messages(comm)
    caught <- function(code) tryCatch(code, ring_error = conditionMessage)
    texts <- c(
      caught(ring_message_send(messages, 1, 2)), caught(ring_message_send(messages, 1, 0, -1)),
      caught(ring_message_recv(messages, "a")), caught(ring_message_recv(comm))
    )
    if (rank == 1) ring_message_send(messages, 1, 0, 4)
    c(texts, caught(ring_messages_close(messages)))
  })
  expect_match(results[[1]][[1]], "peer 2 is not in 0 to 1")
  expect_match(results[[1]][[2]], "`tag` is -1")
  expect_match(results[[1]][[3]], "`source` must be one whole number or NULL")
  expect_match(results[[1]][[4]], "`messages` must be messages")
  expect_match(results[[1]][[5]], "never received the message from rank 1")
})
