# SPDX-License-Identifier: Apache-2.0

#' Wait for an asynchronous collective, or test it
#'
#' A collective that was started, such as with [ring_allreduce_start()], runs while R does other
#' things. `ring_wait()` blocks until it is done and returns its result; calling it again returns
#' the same result. `ring_test()` returns at once whether it is done.
#'
#' A request keeps what it needs from being collected. A request that is dropped still runs. When it
#' is done, its vectors are collected once another call is started on the same communicator, or the
#' communicator itself is collected. Requests belong to the process that made them.
#'
#' @param request A request, from [ring_allreduce_start()] and its kin.
#' @returns `ring_wait()` returns what the blocking call returns, such as [ring_allreduce()].
#'   `ring_test()` returns `TRUE` or `FALSE`.
#' @section Errors:
#' The errors of the blocking call. `ring_wait()` raises them, and so does `ring_test()` once the
#' request has failed. The communicator is broken then, and all requests that were started later
#' fail with the same error. `ring_wait()` can be interrupted; that breaks the communicator. See
#' [ring_error].
#' @examples
#' comm <- ring_init()
#' request <- ring_allreduce_start(comm, c(height = 1.5, width = 2))
#' request
#' ring_test(request)
#' ring_wait(request)
#' ring_close(comm)
#' @export
ring_wait <- function(request) {
  result <- .Call(C_request_wait, request)
  if (is.null(result)) invisible(result) else result
}

#' @rdname ring_wait
#' @export
ring_test <- function(request) .Call(C_request_test, request)

#' @export
format.ring_request <- function(x, ...) {
  words <- .Call(C_request_describe, x)
  sprintf("<ring_request> %s, %s", words[[1L]], words[[2L]])
}

#' @export
print.ring_request <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

# The number of requests of this process that are not freed yet.
request_live <- function() .Call(C_request_live)
