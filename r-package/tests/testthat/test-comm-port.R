# SPDX-License-Identifier: Apache-2.0

# R's own server sockets set SO_REUSEADDR.
test_that("a server that asks for it shares a port", {
  comm <- local_world()
  port <- ring_port_reserve(comm)
  socket <- serverSocket(port)
  client <- socketConnection(port = port, open = "r+b", timeout = 5)
  close(client)
  close(socket)
  expect_invisible(ring_port_release(comm, port))
  expect_error(
    ring_port_release(comm, port), "is not one that this communicator holds",
    class = "ring_error_invalid"
  )
  expect_error(ring_port_release(comm, 0), "it must be 1 or more", class = "ring_error_invalid")
})

test_that("ranks of a host hold different ports", {
  ports <- run_ring(3, {
    ports <- ring_allgather(comm, ring_port_reserve(comm))
    ring_barrier(comm)
    ports
  })
  expect_identical(ports[[1]], ports[[2]])
  expect_identical(anyDuplicated(ports[[3]]), 0L)
})

test_that("a range of ports is kept to, and closing keeps ports", {
  comm <- ring_init()
  first <- ring_port_reserve(comm)
  ring_abort(comm)
  only <- function() ring_init(rank = 0, addresses = "127.0.0.1", ports = c(first, first))
  expect_held <- function(comm) {
    expect_error(ring_port_reserve(comm), "found no free port from", class = "ring_error_system")
  }
  comm <- only()
  expect_identical(ring_port_reserve(comm), first)
  expect_held(comm)
  ring_close(comm)
  other <- only()
  expect_held(other)
  ring_port_release(comm)
  expect_identical(ring_port_reserve(other), first)
  ring_close(other)
  expect_error(ring_port_reserve(other), "communicator is closed", class = "ring_error_invalid")
  rm(comm, other)
  gc()
  comm <- only()
  expect_identical(ring_port_reserve(comm), first)
  ring_close(comm)
})
